// Exact inference: variables are summed (or maximised) out one after the other, and back down again.
//
// Everything is in units of eps: t = theta / eps. Eliminating variable k, with scope S_k of later variables, makes
//
//     u_k(S) = log sum_y exp( T_k(y, S) ),    T_k = sum of t_r, r with first variable k, + sum of u_c, children c
//
// whose parent is the first variable of S_k. Downwards, from the marginal p(S_k) that the parent left behind,
//
//     p(y, S) = p(S) exp(T_k(y, S)) / sum_y exp(T_k(y, S))
//
// and its sums are the marginals of the regions and children of k. At eps = 0 (t = theta) the sum is a maximum, and a
// second array w_k(S) = log of the number of best completions takes the place of u in the downward pass, over the best
// y only: the marginals of the uniform choice among the best labellings. Tables over (k, S_k) are never stored.
#pragma once
#include <cstdint>
#include <vector>

#include "cpu/problem.h"
#include "inference/elimination_kernels.h"
#include "inference/order.h"
#include "inference/regions.h"

namespace blendfield {

class Elimination {
  public:
    // Finds which labels are possible and the order; allocates little. `tables` [table_offsets[R]] must outlive
    // load(). `models` [V], `count` of them.
    Elimination(const RegionArrays& arrays, const double* tables, const int32_t* models, int64_t count, double epsilon,
                int threads);

    const EliminationOrder& order() const { return order_; }
    double bytes() const;  // about what load() and the passes will take
    void load();           // copies the tables
    // Upward, then downward: each call does about `work` table entries, and returns whether the pass is done.
    bool up(double work);
    bool down(double work);
    // Whether the tables are small enough for anything below.
    bool fits() const { return fits_; }
    // A region without allowed labels, -1: there is none, as far as is known (for certain after up()).
    int64_t infeasible() const;
    // After up(), before down(): eps log sum exp(score / eps) of each model, the best score at eps = 0; and labels [V]
    // from the last eliminated variable back, each the best given those before, ties to the lowest.
    std::vector<double> values() const;
    void labels(int64_t* out) const;
    // After down(): marginals of all regions, [table_offsets[R]].
    template <class T>
    void beliefs(T* out) const;

  private:
    struct Term {    // a region of a bucket, or a child of it
        int32_t id;  // region, or bucket
        bool child;
    };
    struct Access {  // how a table runs along with (y, S)
        double* values;
        const double* weights;  // eps = 0: w of a child, else null
        int64_t label_stride;
        int64_t outer;     // where its strides along the outer axes of S begin, in Plan::strides
        int64_t position;  // moved by the odometer
        int64_t size;
        int index;       // where its inner positions begin in Plan::index; -1 contiguous, -2 constant
        uint64_t mask;   // axes: bit 0 the eliminated variable, bit 1 + a axis a of S
        int source;      // targets: the target it is summed from, -1: from the table itself
        int64_t copies;  // targets: partial sums kept apart, see pieces
        Term term;
    };
    struct Plan {  // one bucket laid out; memory is used again
        int labels, inner_from, piece_axes;
        int64_t inner, outer, pieces;
        std::vector<int32_t> extents;
        std::vector<Access> terms, targets;
        std::vector<int64_t> strides;
        std::vector<int32_t> index;
        std::vector<double> sums;
    };
    struct Scratch {
        Plan plan;
        std::vector<double> rows, weights;
        std::vector<Access> accesses;
        std::vector<int32_t> digits;
    };
    struct Job {  // buckets of one level: small ones side by side, or one large one
        int64_t begin, end;
        bool large;
        double work;
    };

    static constexpr int64_t inner_entries = 1024;  // of S, run through at once
    static constexpr int64_t large_entries = 1 << 15;

    // elimination_plan.cpp
    void find_domains();
    void make_scopes();
    std::vector<Job> make_jobs(const std::vector<int32_t>& level, std::vector<int32_t>& buckets) const;
    int64_t rows_stride(int labels, int64_t inner) const;

    const int32_t* scope_of(const Term& term, int64_t& size) const;
    int64_t first_term(int64_t bucket) const { return term_start_[bucket]; }
    void set_axes(int64_t bucket, Plan& plan) const;
    Access access(int64_t bucket, const Term& term, Plan& plan) const;
    void lay_out(int64_t bucket, Plan& plan, bool down) const;
    int64_t sums_needed(Plan& plan) const;
    template <class F>
    void walk(Plan& plan, Scratch& scratch, int64_t begin, int64_t end, bool down, F f) const;
    void fill_rows(const Plan& plan, const Access* terms, int64_t offset, int64_t n, Scratch& scratch,
                   bool weights) const;
    void up_piece(int64_t bucket, Plan& plan, Scratch& scratch, int64_t begin, int64_t end);
    void down_piece(int64_t bucket, Plan& plan, Scratch& scratch, int64_t begin, int64_t end);
    void centre(int64_t bucket);
    void finish_down(int64_t bucket, Plan& plan);
    void sum_from(const Access& source, const Access& target, int64_t bucket, double* sums) const;
    template <class F>
    bool run(std::vector<Job>& jobs, const std::vector<int32_t>& buckets, size_t& next, double work, F large_or_small);

    RegionArrays arrays_;
    const double* tables_;
    const int32_t* models_;
    int64_t models_count_;
    double epsilon_;
    int threads_;
    const EliminationKernels& kernels_;

    std::vector<int64_t> label_start_;   // [V + 1]
    std::vector<uint8_t> allowed_;       // [sum of cardinalities]
    std::vector<int64_t> domain_start_;  // [V + 1]
    std::vector<int32_t> domain_;        // the allowed labels of each variable
    EliminationOrder order_;             // over variables with several labels, then turned into ranks
    std::vector<int32_t> variable_at_, rank_, extent_;
    std::vector<int64_t> region_scope_start_;  // [R + 1]
    std::vector<int32_t> region_scope_;        // ranks, increasing
    std::vector<int64_t> compact_start_;       // [R + 1]
    std::vector<int64_t> term_start_;
    std::vector<Term> terms_;
    std::vector<int64_t> separator_start_;  // [n + 1]
    std::vector<Job> up_jobs_, down_jobs_;
    std::vector<int32_t> up_buckets_, down_buckets_;
    size_t next_up_ = 0, next_down_ = 0;
    double most_sums_ = 0;

    Buffer<double> compact_;        // tables, then marginals, of the regions
    std::vector<uint8_t> zero_;     // [R] nothing to add
    Buffer<double> separators_;     // u, then p at eps > 0
    Buffer<double> weights_;        // eps = 0: w, then p
    std::vector<double> constant_;  // [n] taken out of u; the value at roots
    int64_t empty_region_ = -1;
    bool fits_ = false;
    std::vector<Scratch> scratch_;
};

}  // namespace blendfield
