// One compiled problem on the CPU: tables, messages and everything that is done with them. T is the type of tables and
// messages; sums over regions are float64 in a fixed order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/layout.h"
#include "graph/incidence.h"

namespace blendfield {

// All labels of a region are forbidden.
struct EmptyRegion : std::runtime_error {
    explicit EmptyRegion(int64_t region_) : std::runtime_error("all labels forbidden"), region(region_) {}
    int64_t region;
};

// Uninitialised memory aligned for vector loads.
template <class T>
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(int64_t size) { reset(size); }
    // `beyond`: values after the end that exist and are 0.
    void reset(int64_t size, int64_t beyond = 0) {
        size_ = size;
        data_.reset(size + beyond ? static_cast<T*>(::operator new(static_cast<size_t>(size + beyond) * sizeof(T),
                                                                   std::align_val_t{64}))
                                  : nullptr);
        std::fill_n(data_.get() + size, beyond, T(0));
    }
    T* data() const { return data_.get(); }
    int64_t size() const { return size_; }
    int64_t bytes() const { return size_ * static_cast<int64_t>(sizeof(T)); }
    T& operator[](int64_t k) const { return data_.get()[k]; }
    void zero() const { std::fill_n(data_.get(), size_, T(0)); }

  private:
    struct Free {
        void operator()(T* p) const { ::operator delete(p, std::align_val_t{64}); }
    };
    std::unique_ptr<T[], Free> data_;
    int64_t size_ = 0;
};

// Sums per segment; gap and spread are +inf where no consistent beliefs could be made.
struct CertificateSums {
    std::vector<double> value, gap, spread, region_gaps;
};

template <class T>
class Problem {
  public:
    // `program` must outlive the problem. `tables`: [table_offsets[regions]], finite or -inf.
    Problem(const ProgramArrays& program, const T* tables, double epsilon, int threads);

    double epsilon() const { return view_.epsilon; }
    void set_epsilon(double epsilon) { view_.epsilon = epsilon; }
    void sweep(int64_t count);
    double sweep_value();                       // one sweep, then F summed over everything
    std::vector<double> value(double epsilon);  // [segments]
    // Replaces the potentials, [table_offsets[regions]]; entries without support are ignored. Returns -1, or the
    // position of the first entry with support that is not finite: nothing has changed then.
    int64_t set_potentials(const T* tables);
    // Values [segments], and beliefs into `out`, [table_offsets[regions]].
    std::vector<double> value_and_beliefs(double epsilon, T* out);
    // Value, slope and curvature with the potentials moved by steps[k] times `direction`, [table_offsets[regions]].
    void line(const T* direction, const double* steps, int count, double (*out)[3]);
    void messages(T* out) const;  // [message_size()]
    void set_messages(const T* in);
    int64_t message_size() const { return message_size_; }
    // `candidate` (or null): where q goes, [table_offsets[regions]].
    CertificateSums certificate(double smoothing, bool region_gaps, double* candidate);
    std::vector<double> score(const int64_t* labels) const;  // [segments]
    void decode(int64_t* labels);
    void belief_labels(int64_t* labels) const;
    void local_search(int64_t* labels, int64_t max_passes);
    void block_search(int64_t* labels, int64_t rounds, uint64_t seed) const;

    // History of the mixing: see Problem in backends/protocol.py.
    void allocate_history(int64_t slots);
    void save_point();
    void push(int64_t slot, double* products);
    void mix(const double* weights);
    void restore(int64_t slot);
    void clear_history();
    int64_t history_slots() const { return static_cast<int64_t>(residuals_.size()); }

    int64_t bytes() const;

  private:
    void run_class(int c, double* values);  // `values`: per light block, see Kernels::light
    ProblemView<T> with_epsilon(double epsilon) const;
    // Calls f(edge, position of label 0 in the message array, stride, slot) over the program's edges.
    template <class F>
    void for_edges(F f) const {
        for_edges(nullptr, program_.edges, f);
    }
    template <class F>
    void for_edges(const int32_t* edges, int64_t count, F f) const;  // some of them only; null: all
    int64_t table_at(Layout::Place place) const;  // position of entry 0 of a region; entries are `width` apart
    RegionsOfVariable lanes_of_variables() const;
    std::vector<int32_t> last_first(std::vector<size_t>& ends) const;
    void load_tables(const T* tables);
    int64_t first_unusable(const T* tables) const;
    void marginals_of_parents(T* beliefs) const;
    void marginal_of_parent(int64_t edge, T* beliefs) const;
    void copy_messages(T* flat, bool out);
    void find_support();
    void update_base();
    void update_base(const std::vector<int>& lights);
    std::vector<double> sum_by_segment(const std::vector<double>& items, const double* lanes) const;
    void two_level_certificate(double smoothing, Sink child_values, Sink child_gaps, Sink values, Sink gaps,
                               double* candidate);
    void general_certificate(double smoothing, Sink values, Sink gaps, std::vector<uint8_t>& failed, double* candidate);
    void write_candidate(const ValueItem& item, const double* block, double* candidate) const;
    void prepare_certificate();
    void find_children();
    void release_certificate();
    // Calls f(entry, hat) over the table of a region, in core order.
    template <class F>
    void for_hat(Layout::Place place, F f) const;
    int best_label(int32_t v, const int32_t* lanes, int64_t count, const uint8_t* fixed, const int64_t* labels) const;

    ProgramArrays program_;
    Layout layout_;
    const Kernels<T>* kernels_;
    int threads_;
    Buffer<T> tables_, base_, messages_, weights_;
    ProblemView<T> view_;
    std::vector<int64_t> heavy_cost_, light_cost_;  // per class
    int64_t all_cost_ = 0, rest_cost_ = 0, message_size_ = 0;
    std::vector<int32_t> zero_edges_;    // the first edge to every child with c = 0
    std::vector<int32_t> item_segment_;  // of every item of layout_.all_items, -1: its lanes belong to several
    bool mixed_items_ = false;           // some belong to several
    // Working memory of a thread, made when the thread first needs it; `blocks`: the large part, not needed in sweeps.
    Scratch& scratch(int thread, bool blocks);
    std::vector<Buffer<double>> scratch_memory_, block_memory_;
    std::vector<Scratch> scratch_;
    bool forbidden_ = false;

    // Certificate: strategy per segment, and what the two-level one needs (made at first use).
    enum Strategy : uint8_t { two_level, projection, scaling };
    std::vector<Strategy> strategy_;
    std::vector<ValueItem> child_items_, parent_items_;  // of two-level segments
    Buffer<double> child_beliefs_;
    std::vector<long long> q_offset_, child_start_;
    std::vector<unsigned> child_q_;
    std::vector<std::vector<int>> child_width_;
    std::vector<const int*> child_width_pointers_;
    struct ZeroChild {  // c = 0, two-level segment: its q is the marginal of a parent
        int32_t child, parent, slot;
    };
    std::vector<ZeroChild> zero_children_;
    struct Deep;  // what the other segments need
    std::shared_ptr<Deep> deep_;
    std::vector<unsigned char> fixed_;
    bool prepared_ = false;

    Buffer<T> saved_;
    std::vector<Buffer<T>> residuals_, images_;  // f[slot], g[slot]
    std::vector<uint8_t> pushed_;
};

template <class T>
template <class F>
void Problem<T>::for_edges(const int32_t* edges, int64_t count, F f) const {
    int axes[32];
    int64_t current = -1;
    for (int64_t k = 0; k < count; ++k) {
        const int64_t e = edges ? edges[k] : k, parent = program_.edge_parents[e], child = program_.edge_children[e];
        if (parent != current) Layout::core_axes(program_, parent, axes);
        current = parent;
        const int32_t* variables = program_.region_variables + program_.region_offsets[parent];
        const int order = static_cast<int>(program_.region_offsets[parent + 1] - program_.region_offsets[parent]);
        uint32_t mask = 0;
        for (int64_t k = program_.region_offsets[child]; k < program_.region_offsets[child + 1]; ++k)
            for (int a = 0; a < order; ++a)
                if (variables[axes[a]] == program_.region_variables[k]) mask |= 1u << a;
        const Layout::Place place = layout_.place(parent);
        const Group& g = layout_.groups[place.group];
        const size_t s = std::lower_bound(g.slot_masks.begin(), g.slot_masks.end(), mask) - g.slot_masks.begin();
        const SlotView& slot = g.slots[s];
        f(e, slot.messages + static_cast<int64_t>(place.lane / g.width) * slot.labels * g.width + place.lane % g.width,
          g.width, static_cast<int>(s));
    }
}

template <class T>
template <class F>
void Problem<T>::for_hat(Layout::Place place, F f) const {
    const Group& g = layout_.groups[place.group];
    const int64_t block = place.lane / g.width, lane = place.lane % g.width, width = g.width;
    const T* source =
        (g.base >= 0 ? base_.data() + g.base : tables_.data() + g.tables) + block * g.entries * width + lane;
    if (g.sends && g.base < 0) {  // no children: messages to the parents have the entries of the table itself
        for (const LightBlock& light : layout_.lights_of(place.group, static_cast<int>(block))) {
            if (!(light.mask >> lane & 1)) continue;
            const ParentEdge* edges = layout_.edges.data() + light.edge;
            for (int64_t e = 0; e < g.entries; ++e) {
                double hat = static_cast<double>(source[e * width]);
                for (int j = 0; j < light.degree; ++j)
                    if (const unsigned at = position(layout_.index.data(), edges[j], static_cast<int>(lane));
                        at != no_edge)
                        hat -= static_cast<double>(messages_[at + e * edges[j].stride]);
                f(e, hat);
            }
        }
        return;
    }
    const size_t slots = g.slots.size();
    const int axes = static_cast<int>(g.extents.size());
    std::vector<const T*> message(slots);
    for (size_t s = 0; s < slots; ++s)
        message[s] = messages_.data() + g.slots[s].messages + block * g.slots[s].labels * width + lane;
    int digit[32] = {};
    for (int64_t e = 0; e < g.entries; ++e) {
        double hat = static_cast<double>(source[e * width]);
        for (size_t s = 0; s < slots; ++s) hat += static_cast<double>(*message[s]);
        f(e, hat);
        for (int a = axes - 1; a >= 0; --a) {
            const bool carries = ++digit[a] == g.extents[a];
            for (size_t s = 0; s < slots; ++s)
                message[s] += (carries ? 1 - g.extents[a] : 1) * static_cast<int64_t>(g.strides[s][a]) * width;
            if (!carries) break;
            digit[a] = 0;
        }
    }
}

extern template class Problem<double>;
extern template class Problem<float>;

}  // namespace blendfield
