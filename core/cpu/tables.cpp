// Potentials, beliefs and messages of the CPU problem on their way in and out: flat arrays outside, lane blocks inside.
#include "cpu/tables.h"

#include <cmath>
#include <limits>

#include "cpu/problem.h"
#include "cpu/thread_pool.h"

namespace blendfield {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int64_t flat_part = 1 << 14;  // of a flat array, for one thread
}  // namespace

// ---------------------------------------------------------------------------------------------------- potentials

// Into the lane blocks; entries without support, -inf there, stay as they are once the support is known.
template <class T>
void Problem<T>::load_tables(const T* tables) {
    parallel_for(threads_, layout_.all_items.size(), all_cost_, [&](int64_t begin, int64_t end, int) {
        for (int64_t k = begin; k < end; ++k) {
            const ValueItem& item = layout_.all_items[k];
            const Group& g = layout_.groups[item.group];
            T* block = tables_.data() + g.tables + item.block * g.entries * g.width;
            if (g.forbidden)
                for_block_entries(program_, layout_, item, [&](int64_t flat, int64_t at) {
                    block[at] = block[at] == -infinity ? block[at] : tables[flat];
                });
            else
                for_block_entries(program_, layout_, item, [&](int64_t flat, int64_t at) { block[at] = tables[flat]; });
        }
    });
}

template <class T>
int64_t Problem<T>::set_potentials(const T* tables) {
    const int64_t bad = first_unusable(tables);
    if (bad >= 0) return bad;
    load_tables(tables);
    update_base();
    return -1;
}

// Position of the first entry that has support but is not finite, -1 when there is none.
template <class T>
int64_t Problem<T>::first_unusable(const T* tables) const {
    const int64_t size = program_.table_offsets[program_.regions], parts = (size + flat_part - 1) / flat_part;
    std::vector<uint8_t> finite(parts);
    parallel_for(threads_, parts, size, [&](int64_t begin, int64_t end, int) {
        for (int64_t k = begin; k < end; ++k)
            finite[k] = kernels_->finite(tables, k * flat_part, std::min(size, (k + 1) * flat_part));
    });
    if (std::count(finite.begin(), finite.end(), 0) == 0) return -1;
    std::vector<int64_t> first(layout_.all_items.size(), size);
    parallel_for(threads_, layout_.all_items.size(), all_cost_, [&](int64_t begin, int64_t end, int) {
        for (int64_t k = begin; k < end; ++k) {
            const ValueItem& item = layout_.all_items[k];
            const Group& g = layout_.groups[item.group];
            const T* block = tables_.data() + g.tables + item.block * g.entries * g.width;
            for_block_entries(program_, layout_, item, [&](int64_t flat, int64_t at) {
                if (!std::isfinite(tables[flat]) && block[at] != -infinity) first[k] = std::min(first[k], flat);
            });
        }
    });
    const int64_t least = *std::min_element(first.begin(), first.end());
    return least < size ? least : -1;
}

// ---------------------------------------------------------------------------------------------------- beliefs

template <class T>
std::vector<double> Problem<T>::value_and_beliefs(double epsilon, T* out) {
    const ProblemView<T> view = with_epsilon(epsilon);
    const auto& items = layout_.all_items;
    std::vector<double> values(items.size());
    Buffer<double> lanes(mixed_items_ ? layout_.lanes : 0);
    parallel_for(threads_, items.size(), all_cost_, [&](int64_t begin, int64_t end, int t) {
        Scratch& work = scratch(t, true);
        for (int64_t k = begin; k < end; ++k) {
            const Sink sink{values.data(), item_segment_[k] < 0 ? lanes.data() : nullptr};
            const Group& g = layout_.groups[items[k].group];
            const int64_t lane = g.first_lane + static_cast<int64_t>(items[k].block) * g.width;
            if constexpr (sizeof(T) == 8)
                if (g.in_pieces && !layout_.is_permuted(lane)) {  // straight to where they belong
                    T* to = out + program_.table_offsets[layout_.region_of_lane[lane]];
                    kernels_->beliefs(view, items[k], k, work, to, sink);
                    continue;
                }
            Buffer<double> large(g.in_pieces ? g.entries : 0);
            double* const block = g.in_pieces ? large.data() : work.block[1];
            kernels_->beliefs(view, items[k], k, work, block, sink);
            for_block_entries(program_, layout_, items[k],
                              [&](int64_t flat, int64_t at) { out[flat] = static_cast<T>(block[at]); });
        }
    });
    marginals_of_parents(out);
    return sum_by_segment(values, lanes.data());
}

// A region with parents and c_r = 0 has no softmax of its own: marginal of the first parent (which has c_p > 0 after
// relinking).
template <class T>
void Problem<T>::marginals_of_parents(T* out) const {
    parallel_for(threads_, zero_edges_.size(), all_cost_, [&](int64_t begin, int64_t end, int) {
        for (int64_t k = begin; k < end; ++k) marginal_of_parent(zero_edges_[k], out);
    });
}

template <class T>
void Problem<T>::marginal_of_parent(int64_t edge, T* out) const {
    const int32_t child = program_.edge_children[edge], parent = program_.edge_parents[edge];
    const int64_t size = program_.table_offsets[child + 1] - program_.table_offsets[child];
    std::vector<double> marginal(size, 0.0);
    int64_t child_stride[32] = {}, stride = 1;
    const int32_t* pv = program_.region_variables + program_.region_offsets[parent];
    const int order = static_cast<int>(program_.region_offsets[parent + 1] - program_.region_offsets[parent]);
    for (int64_t k = program_.region_offsets[child + 1] - 1; k >= program_.region_offsets[child]; --k) {
        for (int a = 0; a < order; ++a)
            if (pv[a] == program_.region_variables[k]) child_stride[a] = stride;
        stride *= program_.cardinalities[program_.region_variables[k]];
    }
    const T* table = out + program_.table_offsets[parent];
    const int64_t entries = program_.table_offsets[parent + 1] - program_.table_offsets[parent];
    int digit[32] = {};
    int64_t label = 0;
    for (int64_t y = 0; y < entries; ++y) {
        marginal[label] += static_cast<double>(table[y]);
        for (int a = order - 1; a >= 0; --a) {
            label += child_stride[a];
            if (++digit[a] < program_.cardinalities[pv[a]]) break;
            label -= child_stride[a] * program_.cardinalities[pv[a]];
            digit[a] = 0;
        }
    }
    T* to = out + program_.table_offsets[child];
    for (int64_t y = 0; y < size; ++y) to[y] = static_cast<T>(marginal[y]);
}

// ---------------------------------------------------------------------------------------------------- messages

template <class T>
void Problem<T>::copy_messages(T* flat, bool out) {
    const LaneOfRegion places(layout_);
    for_edges([&](int64_t e, int64_t at, int stride, int) {
        const int32_t child = program_.edge_children[e];
        for_user_entries(program_, child, [&](int64_t user, int64_t entry) {
            if (out)
                flat[user] = messages_[at + entry * stride];
            else
                messages_[at + entry * stride] = flat[user];
        });
        flat += program_.table_offsets[child + 1] - program_.table_offsets[child];
    });
}

template <class T>
void Problem<T>::messages(T* out) const {
    const_cast<Problem*>(this)->copy_messages(out, true);
}

template <class T>
void Problem<T>::set_messages(const T* in) {
    const LaneOfRegion places(layout_);
    copy_messages(const_cast<T*>(in), false);
    if (forbidden_) {  // labels without support carry no message
        for_edges([&](int64_t e, int64_t at, int stride, int) {
            const Layout::Place child = layout_.place(program_.edge_children[e]);
            const Group& g = layout_.groups[child.group];
            const int64_t table = table_at(child);
            for (int64_t y = 0; y < g.entries; ++y)
                if (tables_[table + y * g.width] == -infinity) messages_[at + y * stride] = 0;
        });
    }
    update_base();
}

#define BF_INSTANTIATE(T)                                                   \
    template void Problem<T>::load_tables(const T*);                        \
    template int64_t Problem<T>::set_potentials(const T*);                  \
    template int64_t Problem<T>::first_unusable(const T*) const;            \
    template std::vector<double> Problem<T>::value_and_beliefs(double, T*); \
    template void Problem<T>::marginals_of_parents(T*) const;               \
    template void Problem<T>::marginal_of_parent(int64_t, T*) const;        \
    template void Problem<T>::copy_messages(T*, bool);                      \
    template void Problem<T>::messages(T*) const;                           \
    template void Problem<T>::set_messages(const T*);
BF_INSTANTIATE(double)
BF_INSTANTIATE(float)
#undef BF_INSTANTIATE

}  // namespace blendfield
