#include "inference/elimination.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/thread_pool.h"

namespace blendfield {

namespace baseline {
extern const EliminationKernels elimination;
}
#if defined(BF_X86_ISAS)
namespace avx2 {
extern const EliminationKernels elimination;
}
namespace avx512 {
extern const EliminationKernels elimination;
}
#endif

const EliminationKernels& elimination_kernels() {
    const char* name = instruction_set().name;
#if defined(BF_X86_ISAS)
    if (std::strcmp(name, avx512::elimination.name) == 0) return avx512::elimination;
    if (std::strcmp(name, avx2::elimination.name) == 0) return avx2::elimination;
#endif
    (void)name;
    return baseline::elimination;
}

namespace {

constexpr int64_t least_pieces = 16;  // of a large table; their number never depends on the threads
constexpr double tie = 1e-12;         // values this close are equal when labels are chosen

struct Sum {  // Neumaier's: the order of magnitude of the terms does not matter
    double total = 0, rest = 0;
    void add(double x) {
        const double t = total + x;
        rest += std::abs(total) >= std::abs(x) ? (total - t) + x : (x - t) + total;
        total = t;
    }
    double value() const { return total + rest; }
};

}  // namespace

// ---- One bucket: its axes, and how every table runs along with them -------------------------------------------------

const int32_t* Elimination::scope_of(const Term& term, int64_t& size) const {
    if (term.child) {
        size = order_.scope_offsets[term.id + 1] - order_.scope_offsets[term.id];
        return order_.scopes.data() + order_.scope_offsets[term.id];
    }
    size = region_scope_start_[term.id + 1] - region_scope_start_[term.id];
    return region_scope_.data() + region_scope_start_[term.id];
}

void Elimination::set_axes(int64_t bucket, Plan& plan) const {
    const int64_t first = order_.scope_offsets[bucket];
    const auto axes = static_cast<int>(order_.scope_offsets[bucket + 1] - first);
    plan.labels = extent_[bucket];
    plan.extents.resize(axes);
    for (int a = 0; a < axes; ++a) plan.extents[a] = extent_[order_.scopes[first + a]];
    plan.inner = 1;
    plan.inner_from = axes;
    while (plan.inner_from > 0 && (plan.inner == 1 || plan.inner * plan.extents[plan.inner_from - 1] <= inner_entries))
        plan.inner *= plan.extents[--plan.inner_from];
    plan.outer = 1;
    for (int a = 0; a < plan.inner_from; ++a) plan.outer *= plan.extents[a];
    plan.pieces = 1;
    plan.piece_axes = 0;
    if (plan.outer * plan.inner * plan.labels >= large_entries)
        while (plan.piece_axes < plan.inner_from && plan.pieces < least_pieces)
            plan.pieces *= plan.extents[plan.piece_axes++];
    plan.strides.clear();
    plan.index.clear();
}

Elimination::Access Elimination::access(int64_t bucket, const Term& term, Plan& plan) const {
    int64_t count = 0;
    const int32_t* scope = scope_of(term, count);
    const int32_t* axes = order_.scopes.data() + order_.scope_offsets[bucket];
    const auto all = static_cast<int>(plan.extents.size());
    Access out{};
    out.term = term;
    out.source = -1;
    out.copies = 1;
    out.mask = 1;
    // Both scopes increase; the first of `scope` is the bucket's own variable. From the last axis on:
    int64_t step = 1, at = count - 1;
    int64_t stride[64];
    for (int a = all - 1; a >= 0; --a) {
        stride[a] = 0;
        if (at > 0 && scope[at] == axes[a]) {
            stride[a] = step;
            step *= plan.extents[a];
            out.mask |= uint64_t{2} << a;
            --at;
        }
    }
    out.label_stride = step;
    out.size = step * plan.labels;
    out.outer = static_cast<int64_t>(plan.strides.size());
    plan.strides.insert(plan.strides.end(), stride, stride + plan.inner_from);
    bool contiguous = true, constant = true;
    int64_t natural = 1;
    for (int a = all - 1; a >= plan.inner_from; --a) {
        contiguous &= stride[a] == natural;
        constant &= stride[a] == 0;
        natural *= plan.extents[a];
    }
    out.index = contiguous ? -1 : constant ? -2 : static_cast<int>(plan.index.size());
    if (!contiguous && !constant) {  // grown axis by axis
        const size_t first = plan.index.size();
        plan.index.push_back(0);
        for (int a = plan.inner_from; a < all; ++a) {
            const size_t have = plan.index.size() - first;
            plan.index.resize(first + have * plan.extents[a]);
            for (int64_t k = static_cast<int64_t>(have) - 1; k >= 0; --k)
                for (int y = plan.extents[a] - 1; y >= 0; --y)
                    plan.index[first + k * plan.extents[a] + y] =
                        plan.index[first + k] + static_cast<int32_t>(y * stride[a]);
        }
    }
    return out;
}

void Elimination::lay_out(int64_t bucket, Plan& plan, bool down) const {
    set_axes(bucket, plan);
    plan.terms.clear();
    plan.targets.clear();
    for (int64_t t = term_start_[bucket]; t < term_start_[bucket + 1]; ++t) {
        const Term& term = terms_[t];
        Access access_ = access(bucket, term, plan);
        if (down) plan.targets.push_back(access_);
        if (!term.child && !zero_.empty() && zero_[term.id]) continue;
        access_.values = (term.child ? separators_.data() + (separators_.size() ? separator_start_[term.id] : 0)
                                     : compact_.data() + (compact_.size() ? compact_start_[term.id] : 0));
        if (term.child && weights_.size()) access_.weights = weights_.data() + separator_start_[term.id];
        plan.terms.push_back(access_);
    }
    if (!down) return;
    // A target inside another is summed from the smallest such.
    std::stable_sort(plan.targets.begin(), plan.targets.end(),
                     [](const Access& a, const Access& b) { return a.size > b.size; });
    for (size_t k = 0; k < plan.targets.size(); ++k) {
        Access& target = plan.targets[k];
        for (size_t other = k; other-- > 0;)
            if ((target.mask & ~plan.targets[other].mask) == 0) {
                target.source = static_cast<int>(other);
                break;
            }
        if (target.source >= 0) continue;
        // Pieces that would meet in the target keep partial sums: along piece axes it lacks, further copies.
        const auto own = static_cast<int64_t>(plan.strides.size());
        for (int a = 0; a < plan.inner_from; ++a) plan.strides.push_back(plan.strides[target.outer + a]);
        target.outer = own;  // the term keeps its strides
        for (int a = plan.piece_axes - 1; a >= 0; --a)
            if (!(target.mask >> (a + 1) & 1)) {
                plan.strides[target.outer + a] = target.size * target.copies;
                target.copies *= plan.extents[a];
            }
    }
}

// Entries of all sums of a bucket; says where each begins.
int64_t Elimination::sums_needed(Plan& plan) const {
    int64_t needed = 0;
    for (Access& target : plan.targets) {
        target.position = needed;
        needed += target.size * target.copies;
    }
    return needed;
}

// Calls f(offset into S) for the outer positions begin .. end - 1, the accesses in scratch moved along.
template <class F>
void Elimination::walk(Plan& plan, Scratch& scratch, int64_t begin, int64_t end, bool down, F f) const {
    std::vector<Access>& accesses = scratch.accesses;
    accesses.assign(plan.terms.begin(), plan.terms.end());
    for (Access& a : accesses) a.position = 0;
    if (down)
        for (const Access& target : plan.targets)
            if (target.source < 0) accesses.push_back(target);
    std::vector<int32_t>& digits = scratch.digits;
    digits.assign(plan.inner_from, 0);
    int64_t rest = begin;
    for (int a = plan.inner_from - 1; a >= 0; --a) {
        digits[a] = static_cast<int32_t>(rest % plan.extents[a]);
        rest /= plan.extents[a];
        for (Access& access_ : accesses) access_.position += digits[a] * plan.strides[access_.outer + a];
    }
    for (int64_t o = begin; o < end; ++o) {
        f(o * plan.inner);
        for (int a = plan.inner_from - 1; a >= 0; --a) {
            const bool more = ++digits[a] < plan.extents[a];
            const int64_t moved = more ? 1 : 1 - plan.extents[a];
            for (Access& access_ : accesses) access_.position += moved * plan.strides[access_.outer + a];
            if (more) break;
            digits[a] = 0;
        }
    }
}

// T (or the sum of the children's w) for n inner positions from `offset`, one row per label.
void Elimination::fill_rows(const Plan& plan, const Access* terms, int64_t offset, int64_t n, Scratch& scratch,
                            bool weights) const {
    const int64_t stride = rows_stride(plan.labels, plan.inner);
    std::vector<double>& rows = weights ? scratch.weights : scratch.rows;
    if (static_cast<int64_t>(rows.size()) < stride * plan.labels) rows.assign(stride * plan.labels, 0.0);
    for (int y = 0; y < plan.labels; ++y) {
        double* row = rows.data() + y * stride;
        bool first = true;
        for (size_t k = 0; k < plan.terms.size(); ++k) {
            const Access& term = terms[k];
            const double* source = weights ? term.weights : term.values;
            if (!source) continue;
            const double* values = source + term.position + y * term.label_stride;
            if (term.index == -1)
                kernels_.add(row, values + offset, n, first);
            else if (term.index == -2)
                kernels_.add_constant(row, *values, n, first);
            else
                kernels_.add_gathered(row, values, plan.index.data() + term.index + offset, n, first);
            first = false;
        }
        if (first) kernels_.add_constant(row, 0.0, n, true);
    }
}

// ---- Upwards --------------------------------------------------------------------------------------------------------

void Elimination::up_piece(int64_t bucket, Plan& plan, Scratch& scratch, int64_t begin, int64_t end) {
    const bool root = separator_start_[bucket] == separator_start_[bucket + 1];
    double value = 0, count = 0;
    double* out = root ? &value : separators_.data() + separator_start_[bucket];
    double* out_weights = root || !weights_.size() ? &count : weights_.data() + separator_start_[bucket];
    const int64_t stride = rows_stride(plan.labels, plan.inner);
    walk(plan, scratch, begin, end, false, [&](int64_t at) {
        for (int64_t j = 0; j < plan.inner; j += stride) {
            const int64_t n = std::min(stride, plan.inner - j);
            fill_rows(plan, scratch.accesses.data(), j, n, scratch, false);
            if (epsilon_ > 0) {
                kernels_.soft(scratch.rows.data(), plan.labels, stride, n, out + at + j);
                continue;
            }
            kernels_.hard(scratch.rows.data(), plan.labels, stride, n, out + at + j);
            fill_rows(plan, scratch.accesses.data(), j, n, scratch, true);
            kernels_.keep_best(scratch.rows.data(), scratch.weights.data(), plan.labels, stride, n);
            kernels_.soft(scratch.weights.data(), plan.labels, stride, n, out_weights + at + j);
        }
    });
    if (root) constant_[bucket] = value;
}

// The largest value of u becomes 0, so that large models lose no digits.
void Elimination::centre(int64_t bucket) {
    const int64_t begin = separator_start_[bucket], size = separator_start_[bucket + 1] - begin;
    double* u = separators_.data() + begin;
    double highest = size ? -HUGE_VAL : constant_[bucket];
    if (size < large_entries) {
        for (int64_t k = 0; k < size; ++k) highest = std::max(highest, u[k]);
        if (highest != 0 && highest > -HUGE_VAL)
            for (int64_t k = 0; k < size; ++k) u[k] -= highest;
    } else {
        constexpr int64_t part = 1 << 15;
        const int64_t parts = (size + part - 1) / part;
        std::vector<double> found(parts);
        parallel_for(threads_, parts, size, [&](int64_t from, int64_t to, int) {
            for (int64_t p = from; p < to; ++p)
                found[p] = *std::max_element(u + p * part, u + std::min(size, (p + 1) * part));
        });
        highest = *std::max_element(found.begin(), found.end());
        if (highest != 0 && highest > -HUGE_VAL)
            parallel_for(threads_, parts, size, [&](int64_t from, int64_t to, int) {
                for (int64_t k = from * part; k < std::min(size, to * part); ++k) u[k] -= highest;
            });
    }
    constant_[bucket] = highest;
}

template <class F>
bool Elimination::run(std::vector<Job>& jobs, const std::vector<int32_t>& buckets, size_t& next, double work,
                      F bucket) {
    while (next < jobs.size() && work > 0) {
        const Job& job = jobs[next++];
        work -= job.work + static_cast<double>(job.end - job.begin);
        if (job.large) {
            bucket(buckets[job.begin], scratch_[0], threads_);
            continue;
        }
        const auto cost = static_cast<int64_t>(4 * job.work) + 256 * (job.end - job.begin);
        parallel_for(threads_, job.end - job.begin, cost, [&](int64_t begin, int64_t end, int thread) {
            for (int64_t b = begin; b < end; ++b) bucket(buckets[job.begin + b], scratch_[thread], 1);
        });
    }
    return next == jobs.size();
}

bool Elimination::up(double work) {
    return run(up_jobs_, up_buckets_, next_up_, work, [&](int32_t bucket, Scratch& scratch, int threads) {
        Plan& plan = scratch.plan;
        lay_out(bucket, plan, false);
        const int64_t part = plan.outer / plan.pieces;
        if (threads == 1 || plan.pieces == 1) {
            up_piece(bucket, plan, scratch, 0, plan.outer);
        } else {
            Plan shared = std::move(plan);
            parallel_for(threads, plan.pieces, shared.outer * shared.inner * shared.labels,
                         [&](int64_t begin, int64_t end, int thread) {
                             up_piece(bucket, shared, scratch_[thread], begin * part, end * part);
                         });
            plan = std::move(shared);
        }
        centre(bucket);
    });
}

int64_t Elimination::infeasible() const {
    if (empty_region_ >= 0 || constant_.empty()) return empty_region_;
    for (int64_t r = 0; r < arrays_.regions; ++r)
        for (int64_t e = region_scope_start_[r]; e < region_scope_start_[r + 1]; ++e)
            if (constant_[region_scope_[e]] == -HUGE_VAL) return r;
    return -1;
}

std::vector<double> Elimination::values() const {
    std::vector<Sum> sums(models_count_);
    for (size_t k = 0; k < constant_.size(); ++k) sums[models_[variable_at_[k]]].add(constant_[k]);
    for (int64_t r = 0; r < arrays_.regions; ++r)
        if (region_scope_start_[r] == region_scope_start_[r + 1])
            sums[models_[arrays_.scope(r)[0]]].add(compact_[compact_start_[r]]);
    std::vector<double> out;
    for (const Sum& sum : sums) out.push_back(sum.value() * (epsilon_ > 0 ? epsilon_ : 1.0));
    return out;
}

void Elimination::labels(int64_t* out) const {
    std::vector<int32_t> chosen(extent_.size(), 0);  // by rank, positions in the domains
    std::vector<double> value;
    for (auto k = static_cast<int64_t>(extent_.size()) - 1; k >= 0; --k) {
        value.assign(extent_[k], 0.0);
        for (int64_t t = term_start_[k]; t < term_start_[k + 1]; ++t) {
            const Term& term = terms_[t];
            if (!term.child && zero_[term.id]) continue;
            int64_t count = 0, at = 0, step = 1;
            const int32_t* scope = scope_of(term, count);
            for (int64_t a = count - 1; a > 0; --a) {
                at += step * chosen[scope[a]];
                step *= extent_[scope[a]];
            }
            const double* table =
                term.child ? separators_.data() + separator_start_[term.id] : compact_.data() + compact_start_[term.id];
            for (int y = 0; y < extent_[k]; ++y) value[y] += table[at + y * step];
        }
        const double best = *std::max_element(value.begin(), value.end());
        const double least = best - tie * (1 + std::abs(best));
        while (value[chosen[k]] < least) ++chosen[k];
    }
    for (int64_t v = 0; v < arrays_.variables; ++v)
        out[v] = domain_[domain_start_[v] + (rank_[v] < 0 ? 0 : chosen[rank_[v]])];
}

// ---- Downwards ------------------------------------------------------------------------------------------------------

void Elimination::down_piece(int64_t bucket, Plan& plan, Scratch& scratch, int64_t begin, int64_t end) {
    const bool root = separator_start_[bucket] == separator_start_[bucket + 1];
    const Buffer<double>& mass_of = epsilon_ > 0 ? separators_ : weights_;
    const double one = 1.0;
    const double* mass = root ? &one : mass_of.data() + separator_start_[bucket];
    const int64_t stride = rows_stride(plan.labels, plan.inner);
    const size_t terms = plan.terms.size();
    walk(plan, scratch, begin, end, true, [&](int64_t at) {
        for (int64_t j = 0; j < plan.inner; j += stride) {
            const int64_t n = std::min(stride, plan.inner - j);
            fill_rows(plan, scratch.accesses.data(), j, n, scratch, false);
            double* rows = scratch.rows.data();
            if (!(epsilon_ > 0)) {
                fill_rows(plan, scratch.accesses.data(), j, n, scratch, true);
                kernels_.keep_best(rows, scratch.weights.data(), plan.labels, stride, n);
                rows = scratch.weights.data();
            }
            kernels_.conditional(rows, plan.labels, stride, n, mass + at + j);
            for (size_t k = terms; k < scratch.accesses.size(); ++k) {
                const Access& target = scratch.accesses[k];
                for (int y = 0; y < plan.labels; ++y) {
                    double* sums = plan.sums.data() + target.position + y * target.label_stride;
                    const double* row = rows + y * stride;
                    if (target.index == -1)
                        kernels_.collect(sums + j, row, n);
                    else if (target.index == -2)
                        *sums += kernels_.collect_sum(row, n);
                    else
                        kernels_.collect_gathered(sums, row, plan.index.data() + target.index + j, n);
                }
            }
        }
    });
}

// Adds up a target from one that contains it.
void Elimination::sum_from(const Access& source, const Access& target, int64_t bucket, double* sums) const {
    const int32_t* axes = order_.scopes.data() + order_.scope_offsets[bucket];
    const auto all = static_cast<int>(order_.scope_offsets[bucket + 1] - order_.scope_offsets[bucket]);
    int extents[65], digit[65] = {}, count = 0;
    int64_t strides[65];
    int64_t step = 1;
    for (int a = all; a >= 0; --a) {  // from the last axis back; axis 0 is the bucket's variable
        if (!(source.mask >> a & 1)) continue;
        const int extent = a == 0 ? extent_[bucket] : extent_[axes[a - 1]];
        extents[count] = extent;
        strides[count] = target.mask >> a & 1 ? step : 0;
        if (strides[count]) step *= extent;
        ++count;
    }
    const double* from = sums + source.position;
    double* to = sums + target.position;
    const int64_t rows = source.size / extents[0];
    int64_t at = 0;
    for (int64_t row = 0; row < rows; ++row, from += extents[0]) {
        if (strides[0])
            kernels_.collect(to + at, from, extents[0]);
        else
            to[at] += kernels_.collect_sum(from, extents[0]);
        for (int a = 1; a < count; ++a) {
            at += strides[a];
            if (++digit[a] < extents[a]) break;
            at -= strides[a] * extents[a];
            digit[a] = 0;
        }
    }
}

void Elimination::finish_down(int64_t bucket, Plan& plan) {
    double* sums = plan.sums.data();
    Buffer<double>& mass_of = epsilon_ > 0 ? separators_ : weights_;
    for (const Access& target : plan.targets) {
        double* own = sums + target.position;
        for (int64_t copy = 1; copy < target.copies; ++copy)
            kernels_.add(own, own + copy * target.size, target.size, false);
        if (target.source >= 0) sum_from(plan.targets[target.source], target, bucket, sums);
    }
    for (const Access& target : plan.targets)
        std::copy_n(sums + target.position, target.size,
                    target.term.child ? mass_of.data() + separator_start_[target.term.id]
                                      : compact_.data() + compact_start_[target.term.id]);
}

bool Elimination::down(double work) {
    return run(down_jobs_, down_buckets_, next_down_, work, [&](int32_t bucket, Scratch& scratch, int threads) {
        Plan& plan = scratch.plan;
        lay_out(bucket, plan, true);
        if (plan.targets.empty()) return;
        plan.sums.assign(sums_needed(plan), 0.0);
        const int64_t part = plan.outer / plan.pieces;
        if (plan.pieces == 1) {
            down_piece(bucket, plan, scratch, 0, plan.outer);
        } else {
            Plan shared = std::move(plan);
            parallel_for(threads, shared.pieces, shared.outer * shared.inner * shared.labels,
                         [&](int64_t begin, int64_t end, int thread) {
                             for (int64_t p = begin; p < end; ++p)
                                 down_piece(bucket, shared, scratch_[thread], p * part, (p + 1) * part);
                         });
            plan = std::move(shared);
        }
        finish_down(bucket, plan);
        if (plan.sums.size() > (1u << 16)) std::vector<double>().swap(plan.sums);
    });
}

template <class T>
void Elimination::beliefs(T* out) const {
    parallel_for(threads_, arrays_.regions, arrays_.table_offsets[arrays_.regions],
                 [&](int64_t begin, int64_t end, int) {
                     for (int64_t r = begin; r < end; ++r) {
                         const int32_t* scope = arrays_.scope(r);
                         const int order = arrays_.order(r);
                         T* table = out + arrays_.table_offsets[r];
                         std::fill(table, out + arrays_.table_offsets[r + 1], T(0));
                         int64_t stride[32], offset = 0, step = 1;
                         for (int a = order - 1; a >= 0; --a) {
                             stride[a] = step;
                             step *= arrays_.cardinalities[scope[a]];
                             if (rank_[scope[a]] < 0) offset += stride[a] * domain_[domain_start_[scope[a]]];
                         }
                         const int64_t first = region_scope_start_[r];
                         const int axes = static_cast<int>(region_scope_start_[r + 1] - first);
                         if (axes == 0) {
                             table[offset] = T(1);
                             continue;
                         }
                         int64_t own[32], position = offset;
                         const int32_t* labels[32];
                         int extents[32], digit[32] = {};
                         for (int a = 0; a < axes; ++a) {
                             const int32_t variable = variable_at_[region_scope_[first + a]];
                             own[a] = stride[std::find(scope, scope + order, variable) - scope];
                             labels[a] = domain_.data() + domain_start_[variable];
                             extents[a] = extent_[region_scope_[first + a]];
                             position += own[a] * labels[a][0];
                         }
                         const double* marginal = compact_.data() + compact_start_[r];
                         for (int64_t e = 0; e < compact_start_[r + 1] - compact_start_[r]; ++e) {
                             table[position] = static_cast<T>(marginal[e]);
                             for (int a = axes - 1; a >= 0; --a) {
                                 position -= own[a] * labels[a][digit[a]];
                                 const bool more = ++digit[a] < extents[a];
                                 if (!more) digit[a] = 0;
                                 position += own[a] * labels[a][digit[a]];
                                 if (more) break;
                             }
                         }
                     }
                 });
}

template void Elimination::beliefs<double>(double*) const;
template void Elimination::beliefs<float>(float*) const;

}  // namespace blendfield
