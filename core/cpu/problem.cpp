#include "cpu/problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

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

#if defined(__GLIBC__)
    malloc_trim(0);  // compiling the layout needs more than it leaves; give that back before the tables come
#endif
    tables_.reset(layout_.table_entries, overread);
    base_.reset(layout_.base_entries, overread);
    messages_.reset(layout_.message_entries, overread);
    messages_.zero();
    weights_.reset(static_cast<int64_t>(layout_.weights.size()));
    std::copy(layout_.weights.begin(), layout_.weights.end(), weights_.data());
    std::vector<double>().swap(layout_.weights);

    // Tables into lane blocks, axes in core order.
    for (size_t k = 0; k < layout_.groups.size(); ++k) {
        const Group& g = layout_.groups[k];
        parallel_for(threads_, g.blocks, g.entries * g.width * g.blocks, [&](int64_t begin, int64_t end, int) {
            const int axes = static_cast<int>(g.extents.size());
            std::vector<int64_t> strides(axes);
            int order[32], digit[32];
            for (int64_t b = begin; b < end; ++b) {
                T* block = tables_.data() + g.tables + b * g.entries * g.width;
                for (int l = 0; l < g.width; ++l) {
                    const int32_t region = layout_.region_of_lane[g.first_lane + b * g.width + l];
                    if (region < 0) {
                        for (int64_t e = 0; e < g.entries; ++e) block[e * g.width + l] = 0;
                        continue;
                    }
                    Layout::core_axes(program_, region, order);
                    int64_t stride = 1;
                    std::vector<int64_t>& s = strides;
                    for (int user = axes - 1; user >= 0; --user)
                        for (int a = 0; a < axes; ++a)
                            if (order[a] == user) {
                                s[a] = stride;
                                stride *= g.extents[a];
                            }
                    const T* source = tables + program_.table_offsets[region];
                    std::fill_n(digit, axes, 0);
                    for (int64_t e = 0; e < g.entries; ++e) {
                        block[e * g.width + l] = *source;
                        for (int a = axes - 1; a >= 0; --a) {
                            source += s[a];
                            if (++digit[a] < g.extents[a]) break;
                            source -= s[a] * g.extents[a];
                            digit[a] = 0;
                        }
                    }
                }
            }
        });
    }

    view_ = {layout_.views.data(), layout_.lights.data(), layout_.edges.data(),
             layout_.index.data(), weights_.data(),       tables_.data(),
             base_.data(),         messages_.data(),      epsilon};
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
    auto cost = [&](const std::vector<ValueItem>& items) {
        int64_t total = 0;
        for (const ValueItem& item : items)
            total += layout_.groups[item.group].entries * layout_.groups[item.group].width;
        return total;
    };
    all_cost_ = cost(layout_.all_items);
    rest_cost_ = cost(layout_.rest_items);
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

template <class T>
std::vector<double> Problem<T>::sum_by_segment(const std::vector<double>& items, const double* lanes) const {
    std::vector<double> out(program_.segments, 0.0);
    if (lanes) {
        for (size_t lane = 0; lane < layout_.region_of_lane.size(); ++lane)
            if (layout_.region_of_lane[lane] >= 0) out[program_.segment[layout_.region_of_lane[lane]]] += lanes[lane];
    } else if (program_.segments) {
        for (double v : items) out[0] += v;
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
    Buffer<double> lanes(program_.segments > 1 ? layout_.lanes : 0);
    parallel_for(threads_, items.size(), all_cost_, [&](int64_t begin, int64_t end, int t) {
        kernels_->values(view, layout_.all_items.data(), begin, end, scratch(t, true), {items.data(), lanes.data()});
    });
    return sum_by_segment(items, lanes.data());
}

// ------------------------------------------------------------------------------- places, potentials, messages in and
// out

template <class T>
std::vector<typename Problem<T>::Place> Problem<T>::places() const {
    std::vector<Place> out(layout_.regions);
    for (size_t k = 0; k < layout_.groups.size(); ++k) {
        const Group& g = layout_.groups[k];
        for (int lane = 0; lane < g.lanes; ++lane)
            out[layout_.region_of_lane[g.first_lane + lane]] = {static_cast<int32_t>(k), lane};
    }
    return out;
}

template <class T>
int64_t Problem<T>::table_at(const Place& place) const {
    const Group& g = layout_.groups[place.group];
    return g.tables + static_cast<int64_t>(place.lane / g.width) * g.entries * g.width + place.lane % g.width;
}

namespace {

// Calls f(position in the user's table, entry in core order) for the entries of a region.
template <class F>
void for_user_entries(const ProgramArrays& program, int64_t region, F f) {
    int axes[32], digit[32] = {};
    int64_t strides[32];
    Layout::core_axes(program, region, axes);
    const int32_t* variables = program.region_variables + program.region_offsets[region];
    const int order = static_cast<int>(program.region_offsets[region + 1] - program.region_offsets[region]);
    int64_t user[32], stride = 1;
    for (int a = order - 1; a >= 0; --a) user[a] = stride, stride *= program.cardinalities[variables[a]];
    for (int a = 0; a < order; ++a) strides[a] = user[axes[a]];
    int64_t at = 0;
    for (int64_t e = 0; e < stride; ++e) {
        f(at, e);
        for (int a = order - 1; a >= 0; --a) {
            at += strides[a];
            if (++digit[a] < program.cardinalities[variables[axes[a]]]) break;
            at -= strides[a] * program.cardinalities[variables[axes[a]]];
            digit[a] = 0;
        }
    }
}

}  // namespace

template <class T>
void Problem<T>::copy_messages(T* flat, bool out) {
    const std::vector<Place> where = places();
    for_edges(where, [&](int64_t e, int64_t at, int stride, int) {
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
    copy_messages(const_cast<T*>(in), false);
    if (forbidden_) {  // labels without support carry no message
        const std::vector<Place> where = places();
        for_edges(where, [&](int64_t e, int64_t at, int stride, int) {
            const Place& child = where[program_.edge_children[e]];
            const Group& g = layout_.groups[child.group];
            const int64_t table = table_at(child);
            for (int64_t y = 0; y < g.entries; ++y)
                if (tables_[table + y * g.width] == -infinity) messages_[at + y * stride] = 0;
        });
    }
    update_base();
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
    const std::vector<Place> where = places();
    struct Link {
        int32_t parent, child;
        int32_t slot;
    };
    std::vector<Link> links(program_.edges);
    std::vector<std::vector<int32_t>> of_region(layout_.regions);
    for_edges(where, [&](int64_t e, int64_t, int, int slot) {
        links[e] = {program_.edge_parents[e], program_.edge_children[e], slot};
        of_region[links[e].parent].push_back(static_cast<int32_t>(e));
        of_region[links[e].child].push_back(static_cast<int32_t>(e));
    });
    const T lowest = -std::numeric_limits<T>::infinity();
    auto empty = [&](int32_t r) {
        const Group& g = layout_.groups[where[r].group];
        const int64_t at = table_at(where[r]);
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
        const Group& pg = layout_.groups[where[link.parent].group];
        const Group& cg = layout_.groups[where[link.child].group];
        const int64_t parent = table_at(where[link.parent]), child = table_at(where[link.child]);
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

// ------------------------------------------------------------------------------------------------------- beliefs

template <class T>
void Problem<T>::beliefs(double epsilon, T* out) {
    const ProblemView<T> view = with_epsilon(epsilon);
    const auto& items = layout_.all_items;
    parallel_for(threads_, items.size(), all_cost_, [&](int64_t begin, int64_t end, int t) {
        Scratch& work = scratch(t, true);
        for (int64_t k = begin; k < end; ++k) {
            const ValueItem& item = items[k];
            const Group& g = layout_.groups[item.group];
            kernels_->beliefs(view, item, work);
            for (int l = 0; l < g.width; ++l) {
                if (!(item.mask >> l & 1)) continue;
                const int32_t region =
                    layout_.region_of_lane[g.first_lane + static_cast<int64_t>(item.block) * g.width + l];
                T* table = out + program_.table_offsets[region];
                for_user_entries(program_, region, [&](int64_t user, int64_t entry) {
                    table[user] = static_cast<T>(work.block[1][entry * g.width + l]);
                });
            }
        }
    });
    // A region with parents and c_r = 0 has no softmax of its own: marginal of a parent (which has c_p > 0 after
    // relinking).
    std::vector<uint8_t> done(layout_.regions, 0);
    for (int64_t e = 0; e < program_.edges; ++e) {
        const int32_t child = program_.edge_children[e], parent = program_.edge_parents[e];
        if (program_.counting[child] != 0 || done[child]) continue;
        done[child] = 1;
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
constexpr int64_t vector_part = 1 << 14;  // inner products are summed part by part, in order
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
    std::vector<double> partial(static_cast<size_t>(parts(size) * slots), 0.0);
    parallel_for(threads_, parts(size), size * slots / 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t part = begin; part < end; ++part) {
            const int64_t from = part * vector_part, to = std::min(from + vector_part, size);
            kernels_->subtract(messages_.data(), saved_.data(), residuals_[slot].data(), from, to);
            std::copy(messages_.data() + from, messages_.data() + to, images_[slot].data() + from);
            for (int64_t k = 0; k < slots; ++k)
                if (pushed_[k])
                    partial[part * slots + k] = kernels_->dot(residuals_[slot].data(), residuals_[k].data(), from, to);
        }
    });
    for (int64_t k = 0; k < slots; ++k) {
        products[k] = 0;
        for (int64_t part = 0; part < parts(size); ++part) products[k] += partial[part * slots + k];
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
    total += static_cast<int64_t>((child_items_.capacity() + parent_items_.capacity()) * sizeof(ValueItem));
    return total;
}

template class Problem<double>;
template class Problem<float>;

}  // namespace blendfield
