#include "cpu/problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/memory.h"
#include "cpu/tables.h"
#include "cpu/thread_pool.h"
#include "kernels/messages.h"

namespace blendfield {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Kernels read rows in whole vectors: so many values beyond the end of the arrays exist and are 0.
constexpr int overread = 16;

}  // namespace

template <class T>
Problem<T>::Problem(const ProgramArrays& program, const T* tables, double epsilon, int threads)
    : program_(program),
      layout_(compile_layout(program, sizeof(T))),
      kernels_(nullptr),
      threads_(threads > 0 ? threads : default_threads()) {
    if constexpr (sizeof(T) == 8)
        kernels_ = instruction_set().float64;
    else
        kernels_ = instruction_set().float32;

    tables_.reset(layout_.table_entries, overread);
    base_.reset(layout_.base_entries, overread);
    messages_.reset(layout_.message_entries, overread);
    messages_.zero();
    weights_.reset(static_cast<int64_t>(layout_.weights.size()));
    std::copy(layout_.weights.begin(), layout_.weights.end(), weights_.data());
    std::vector<double>().swap(layout_.weights);

    view_ = {layout_.views.data(), layout_.lights.data(), layout_.edges.data(),
             layout_.index.data(), weights_.data(),       tables_.data(),
             base_.data(),         messages_.data(),      epsilon};
    for (const ValueItem& item : layout_.all_items)
        all_cost_ += layout_.groups[item.group].entries * layout_.groups[item.group].width;
    for (const ValueItem& item : layout_.rest_items)
        rest_cost_ += layout_.groups[item.group].entries * layout_.groups[item.group].width;
    for (const Group& g : layout_.groups)  // what no region fills
        if (g.lanes < g.blocks * g.width) {
            T* block = tables_.data() + g.tables + (g.blocks - 1) * g.entries * g.width;
            std::fill_n(block, g.entries * g.width, T(0));
        }
    load_tables(tables);
    find_support();
    update_base();

    heavy_cost_.assign(layout_.heavy.size(), 0);
    light_cost_.assign(layout_.heavy.size(), 0);
    for (size_t c = 0; c < layout_.heavy.size(); ++c) {
        for (const HeavyItem& item : layout_.heavy[c])
            heavy_cost_[c] += layout_.groups[item.group].entries * layout_.groups[item.group].width;
        for (int k : layout_.light[c]) {
            const LightBlock& light = layout_.lights[k];
            light_cost_[c] += layout_.groups[light.group].entries * layout_.groups[light.group].width * light.degree;
        }
    }
    const double* counting_end = program_.counting + (program_.same_counting ? 1 : program_.regions);
    if (program_.regions > 0 && std::find(program_.counting, counting_end, 0.0) != counting_end) {
        std::vector<uint8_t> done(layout_.regions, 0);
        for (int64_t e = 0; e < program_.edges; ++e) {
            const int32_t child = program_.edge_children[e];
            if (program_.counting_of(child) == 0 && !done[child]) zero_edges_.push_back(static_cast<int32_t>(e));
            done[child] = 1;
        }
        zero_edges_.shrink_to_fit();
    }
    item_segment_.reserve(layout_.all_items.size());
    for (const ValueItem& item : layout_.all_items) {
        const int32_t* region = layout_.region_of_lane.data() + layout_.groups[item.group].first_lane +
                                static_cast<int64_t>(item.block) * layout_.groups[item.group].width;
        const int32_t segment = program_.segment_of(region[__builtin_ctz(item.mask)]);
        bool mixed = false;
        for (uint32_t rest = item.mask; rest; rest &= rest - 1)
            mixed |= program_.segment_of(region[__builtin_ctz(rest)]) != segment;
        item_segment_.push_back(mixed ? -1 : segment);
        mixed_items_ |= mixed;
    }
    for (int64_t e = 0; e < program_.edges; ++e)
        message_size_ +=
            program_.table_offsets[program_.edge_children[e] + 1] - program_.table_offsets[program_.edge_children[e]];

    scratch_memory_.resize(threads_);
    block_memory_.resize(threads_);
    scratch_.resize(threads_);
}

template <class T>
Scratch& Problem<T>::scratch(int thread, bool blocks) {
    const auto rounded = [](int64_t n) { return (n + 7) / 8 * 8; };  // keeps every part aligned
    Scratch& s = scratch_[thread];
    if (!scratch_memory_[thread].size()) {
        const int64_t light = rounded(layout_.largest_light), marginal = rounded(4 * layout_.largest_marginal),
                      sums = rounded(16 * layout_.largest_child + 4 * overread),
                      weights = rounded(8 * (layout_.most_parents + 1)), slots = rounded(4 * (layout_.most_slots + 1)),
                      partial = rounded(layout_.largest_slot);
        static_assert(sizeof(scalar::Incoming<double>) <= 4 * sizeof(double));
        scratch_memory_[thread].reset(light + marginal + sums + weights + slots + partial);
        double* p = scratch_memory_[thread].data();
        s.light = p, p += light;
        s.marginal = p, p += marginal;
        s.sums = p, p += sums;
        s.weights = p, p += weights;
        s.slots = p, p += slots;
        s.partial = p;
    }
    if (blocks && !s.block[0]) {
        const int64_t block = rounded(layout_.largest_block);
        block_memory_[thread].reset(std::max<int64_t>(3 * block, 1));
        for (int k = 0; k < 3; ++k) s.block[k] = block_memory_[thread].data() + k * block;
    }
    return s;
}

// ------------------------------------------------------------------------------------------------------- sweeps

template <class T>
void Problem<T>::run_class(int c, double* values) {
    const std::vector<HeavyItem>& heavy = layout_.heavy[c];
    const std::vector<int>&blocks = layout_.heavy_blocks[c], &light = layout_.light[c];
    parallel_for(threads_, blocks.size() - 1, heavy_cost_[c], [&](int64_t begin, int64_t end, int t) {
        kernels_->heavy(view_, heavy.data(), blocks[begin], blocks[end], scratch(t, false));
    });
    parallel_for(threads_, light.size(), light_cost_[c], [&](int64_t begin, int64_t end, int t) {
        kernels_->light(view_, light.data(), begin, end, scratch(t, false), values);
    });
}

template <class T>
void Problem<T>::sweep(int64_t count) {
    for (int64_t k = 0; k < count; ++k)
        for (int c : layout_.schedule) run_class(c, nullptr);
}

// After the last class, the value of {r} + P(r) of every region r in it follows from its block optimum
// (sum = eps c_hat logsumexp(B / (eps c_hat))); only the other regions need a pass of their own.
template <class T>
double Problem<T>::sweep_value() {
    double total = 0;
    if (layout_.schedule.empty() || !layout_.positive_hats || !(view_.epsilon > 0)) {
        sweep(1);
        for (double v : value(view_.epsilon)) total += v;
        return total;
    }
    std::vector<double> block_values(layout_.light[layout_.schedule.back()].size()), rest(layout_.rest_items.size());
    for (size_t step = 0; step < layout_.schedule.size(); ++step)
        run_class(layout_.schedule[step], step + 1 == layout_.schedule.size() ? block_values.data() : nullptr);
    parallel_for(threads_, rest.size(), rest_cost_, [&](int64_t begin, int64_t end, int t) {
        kernels_->values(view_, layout_.rest_items.data(), begin, end, scratch(t, true), {rest.data(), nullptr});
    });
    for (double v : block_values) total += v;
    for (double v : rest) total += v;
    return total;
}

// Sums over the items; where the lanes of one belong to several segments, over its lanes.
template <class T>
std::vector<double> Problem<T>::sum_by_segment(const std::vector<double>& items, const double* lanes) const {
    std::vector<double> out(program_.segments, 0.0);
    for (size_t k = 0; k < items.size(); ++k) {
        if (item_segment_[k] >= 0) {
            out[item_segment_[k]] += items[k];
            continue;
        }
        const ValueItem& item = layout_.all_items[k];
        const Group& g = layout_.groups[item.group];
        const int64_t first = g.first_lane + static_cast<int64_t>(item.block) * g.width;
        for (uint32_t rest = item.mask; rest; rest &= rest - 1) {
            const int64_t lane = first + __builtin_ctz(rest);
            out[program_.segment_of(layout_.region_of_lane[lane])] += lanes[lane];
        }
    }
    return out;
}

template <class T>
ProblemView<T> Problem<T>::with_epsilon(double epsilon) const {
    ProblemView<T> view = view_;
    view.epsilon = epsilon;
    return view;
}

template <class T>
std::vector<double> Problem<T>::value(double epsilon) {
    const ProblemView<T> view = with_epsilon(epsilon);
    std::vector<double> items(layout_.all_items.size());
    Buffer<double> lanes(mixed_items_ ? layout_.lanes : 0);
    parallel_for(threads_, items.size(), all_cost_, [&](int64_t begin, int64_t end, int t) {
        for (int64_t k = begin; k < end; ++k)
            kernels_->values(view, layout_.all_items.data(), k, k + 1, scratch(t, true),
                             {items.data(), item_segment_[k] < 0 ? lanes.data() : nullptr});
    });
    return sum_by_segment(items, lanes.data());
}

template <class T>
void Problem<T>::line(const T* direction, const double* steps, int count, double (*out)[3]) {
    const auto& items = layout_.all_items;
    Buffer<double> terms(static_cast<int64_t>(items.size()) * count * 3);
    auto* sums = reinterpret_cast<double (*)[3]>(terms.data());
    parallel_for(threads_, items.size(), all_cost_ * count, [&](int64_t begin, int64_t end, int t) {
        for (int64_t k = begin; k < end; ++k) {
            Scratch work = scratch(t, true);
            Buffer<double> large;  // the whole of a table that is not worked on in pieces here
            if (const Group& g = layout_.groups[items[k].group]; g.in_pieces) {
                large.reset(2 * g.entries);
                work.block[0] = large.data(), work.block[2] = large.data() + g.entries;
            }
            for_block_entries(program_, layout_, items[k], [&](int64_t flat, int64_t at) {
                work.block[2][at] = static_cast<double>(direction[flat]);
            });
            double (*of_item)[3] = sums + k * count;
            std::fill_n(of_item[0], 3 * count, 0.0);
            kernels_->line(view_, items[k], work.block[2], steps, count, work, of_item);
        }
    });
    std::fill_n(out[0], 3 * count, 0.0);
    for (size_t k = 0; k < items.size(); ++k)
        for (int step = 0; step < count; ++step)
            for (int i = 0; i < 3; ++i) out[step][i] += sums[k * count + step][i];
}

// ------------------------------------------------------------------------------------------------------- places

template <class T>
int64_t Problem<T>::table_at(Layout::Place place) const {
    const Group& g = layout_.groups[place.group];
    return g.tables + static_cast<int64_t>(place.lane / g.width) * g.entries * g.width + place.lane % g.width;
}

template <class T>
void Problem<T>::update_base(const std::vector<int>& lights) {
    int64_t cost = 0;
    for (int k : lights) cost += layout_.groups[layout_.lights[k].group].entries * layout_.lights[k].degree;
    parallel_for(threads_, lights.size(), cost,
                 [&](int64_t begin, int64_t end, int) { kernels_->refresh_base(view_, lights.data(), begin, end); });
}

template <class T>
void Problem<T>::update_base() {
    if (!layout_.base_entries) return;
    for (const auto& lights : layout_.light) update_base(lights);
}

// ------------------------------------------------------------------------------------------------------- support

// Generalised arc consistency: a joint label stays while its restriction is supported in every child and every parent
// extends it. Pruned entries become -inf in the tables.
template <class T>
void Problem<T>::find_support() {
    for (int64_t k = 0; k < tables_.size() && !forbidden_; ++k) forbidden_ = tables_[k] == -infinity;
    if (!forbidden_) return;
    const LaneOfRegion places(layout_);
    struct Link {
        int32_t parent, child;
        int32_t slot;
    };
    std::vector<Link> links(program_.edges);
    std::vector<std::vector<int32_t>> of_region(layout_.regions);
    for_edges([&](int64_t e, int64_t, int, int slot) {
        links[e] = {program_.edge_parents[e], program_.edge_children[e], slot};
        of_region[links[e].parent].push_back(static_cast<int32_t>(e));
        of_region[links[e].child].push_back(static_cast<int32_t>(e));
    });
    const T lowest = -std::numeric_limits<T>::infinity();
    auto empty = [&](int32_t r) {
        const Group& g = layout_.groups[layout_.place(r).group];
        const int64_t at = table_at(layout_.place(r));
        for (int64_t e = 0; e < g.entries; ++e)
            if (tables_[at + e * g.width] != lowest) return false;
        return true;
    };
    for (int64_t r = 0; r < layout_.regions; ++r)
        if (empty(static_cast<int32_t>(r))) throw EmptyRegion(r);
    std::vector<int32_t> queue(program_.edges);
    std::vector<uint8_t> queued(program_.edges, 1);
    for (int64_t e = 0; e < program_.edges; ++e) queue[e] = static_cast<int32_t>(e);
    std::vector<uint8_t> extends;
    for (size_t head = 0; head < queue.size(); ++head) {
        if (head > (size_t{1} << 20) && head > queue.size() / 2) {
            queue.erase(queue.begin(), queue.begin() + static_cast<int64_t>(head));
            head = 0;
        }
        const int32_t e = queue[head];
        queued[e] = 0;
        const Link& link = links[e];
        const Group& pg = layout_.groups[layout_.place(link.parent).group];
        const Group& cg = layout_.groups[layout_.place(link.child).group];
        const int64_t parent = table_at(layout_.place(link.parent)), child = table_at(layout_.place(link.child));
        const std::vector<int>& strides = pg.strides[link.slot];
        const int axes = static_cast<int>(pg.extents.size());
        extends.assign(cg.entries, 0);
        bool parent_changed = false, child_changed = false;
        int digit[32] = {};
        int64_t label = 0;
        for (int64_t y = 0; y < pg.entries; ++y) {
            T& entry = tables_[parent + y * pg.width];
            if (entry != lowest) {
                if (tables_[child + label * cg.width] == lowest)
                    entry = lowest, parent_changed = true;
                else
                    extends[label] = 1;
            }
            for (int a = axes - 1; a >= 0; --a) {
                label += strides[a];
                if (++digit[a] < pg.extents[a]) break;
                label -= static_cast<int64_t>(strides[a]) * pg.extents[a];
                digit[a] = 0;
            }
        }
        for (int64_t y = 0; y < cg.entries; ++y)
            if (!extends[y] && tables_[child + y * cg.width] != lowest)
                tables_[child + y * cg.width] = lowest, child_changed = true;
        auto wake = [&](int32_t region) {
            if (empty(region)) throw EmptyRegion(region);
            for (int32_t other : of_region[region])
                if (other != e && !queued[other]) queued[other] = 1, queue.push_back(other);
        };
        if (parent_changed) wake(link.parent);
        if (child_changed) wake(link.child);
    }
    for (size_t k = 0; k < layout_.groups.size(); ++k) {
        Group& g = layout_.groups[k];
        const int64_t size = static_cast<int64_t>(g.blocks) * g.width * g.entries;
        for (int64_t e = 0; e < size && !g.forbidden; ++e) g.forbidden = tables_[g.tables + e] == lowest;
        layout_.views[k].forbidden = g.forbidden;
    }
}

// ------------------------------------------------------------------------------------------------------- mixing

template <class T>
void Problem<T>::allocate_history(int64_t slots) {
    residuals_.clear();
    images_.clear();
    saved_.reset(slots ? messages_.size() : 0);
    for (int64_t k = 0; k < slots; ++k) {
        residuals_.emplace_back(messages_.size());
        images_.emplace_back(messages_.size());
    }
    pushed_.assign(slots, 0);
}

template <class T>
void Problem<T>::clear_history() {
    std::fill(pushed_.begin(), pushed_.end(), 0);
}

namespace {
constexpr int64_t vector_part = 1 << 14;    // inner products are summed part by part, in order
constexpr int64_t beyond_caches = 8 << 20;  // a history of more bytes than this stays in no cache
int64_t parts(int64_t size) { return (size + vector_part - 1) / vector_part; }
}  // namespace

template <class T>
void Problem<T>::save_point() {
    if (!saved_.size()) saved_.reset(messages_.size());
    parallel_for(threads_, parts(messages_.size()), messages_.size() / 4, [&](int64_t begin, int64_t end, int) {
        std::copy(messages_.data() + begin * vector_part,
                  messages_.data() + std::min(end * vector_part, messages_.size()),
                  saved_.data() + begin * vector_part);
    });
}

template <class T>
void Problem<T>::push(int64_t slot, double* products) {
    const int64_t slots = history_slots(), size = messages_.size();
    pushed_[slot] = 1;
    std::vector<const T*> used;
    for (int64_t k = 0; k < slots; ++k)
        if (pushed_[k]) used.push_back(residuals_[k].data());
    const bool streamed = 2 * slots * messages_.bytes() > beyond_caches;
    std::vector<double> partial(static_cast<size_t>(parts(size) * slots), 0.0);
    parallel_for(threads_, parts(size), size * slots / 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t part = begin; part < end; ++part) {
            const int64_t from = part * vector_part, to = std::min(from + vector_part, size);
            kernels_->record(messages_.data(), saved_.data(), residuals_[slot].data(), images_[slot].data(), streamed,
                             from, to);
            kernels_->products(residuals_[slot].data(), used.data(), static_cast<int>(used.size()), from, to,
                               partial.data() + part * slots);
        }
    });
    for (int64_t k = 0, j = 0; k < slots; ++k) {
        products[k] = 0;
        if (!pushed_[k]) continue;
        for (int64_t part = 0; part < parts(size); ++part) products[k] += partial[part * slots + j];
        ++j;
    }
}

template <class T>
void Problem<T>::mix(const double* weights) {
    std::vector<const T*> vectors;
    std::vector<double> used;
    for (int64_t k = 0; k < history_slots(); ++k)
        if (pushed_[k]) {
            vectors.push_back(images_[k].data());
            used.push_back(weights[k]);
        }
    if (vectors.empty()) return;
    const int64_t size = messages_.size();
    parallel_for(threads_, parts(size), size * static_cast<int64_t>(used.size()) / 4,
                 [&](int64_t begin, int64_t end, int) {
                     kernels_->combine(vectors.data(), used.data(), static_cast<int>(used.size()), messages_.data(),
                                       begin * vector_part, std::min(end * vector_part, size));
                 });
    update_base();
}

template <class T>
void Problem<T>::restore(int64_t slot) {
    std::copy_n(images_[slot].data(), messages_.size(), messages_.data());
    update_base();
}

template <class T>
int64_t Problem<T>::bytes() const {
    int64_t total = layout_.bytes() + tables_.bytes() + base_.bytes() + messages_.bytes() + weights_.bytes() +
                    saved_.bytes() + child_beliefs_.bytes();
    for (const auto& b : residuals_) total += 2 * b.bytes();
    for (const auto& s : scratch_memory_) total += s.bytes();
    for (const auto& s : block_memory_) total += s.bytes();
    total += static_cast<int64_t>(child_q_.capacity() * sizeof(unsigned) + fixed_.capacity());
    total += static_cast<int64_t>((item_segment_.capacity() + zero_edges_.capacity()) * sizeof(int32_t));
    total += static_cast<int64_t>((child_items_.capacity() + parent_items_.capacity()) * sizeof(ValueItem));
    return total;
}

template class Problem<double>;
template class Problem<float>;

}  // namespace blendfield
