// Labellings of the CPU problem: score, rounding, local search.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/memory.h"
#include "cpu/problem.h"
#include "cpu/rank.h"
#include "cpu/thread_pool.h"

namespace blendfield {

// For every variable the lanes of the regions that contain it, in the order of the regions.
template <class T>
RegionsOfVariable Problem<T>::lanes_of_variables() const {
    RegionsOfVariable rows(program_.regions, program_.variables, program_.region_offsets, program_.region_variables);
    // The places of all regions would take as much memory again: the rows are filled anew from the lanes, then sorted.
    const std::vector<int32_t>& region_of_lane = layout_.region_of_lane;
    for (size_t lane = 0; lane < region_of_lane.size(); ++lane) {
        const int32_t r = region_of_lane[lane];
        if (r < 0) continue;
        for (int64_t k = program_.region_offsets[r]; k < program_.region_offsets[r + 1]; ++k)
            rows.region[rows.start[program_.region_variables[k]]++] = static_cast<int32_t>(lane);
    }
    std::copy_backward(rows.start.begin(), rows.start.end() - 1, rows.start.end());
    rows.start[0] = 0;
    for (int64_t v = 0; v < program_.variables; ++v)
        std::sort(rows.region.begin() + rows.start[v], rows.region.begin() + rows.start[v + 1],
                  [&](int32_t a, int32_t b) { return region_of_lane[a] < region_of_lane[b]; });
    return rows;
}

template <class T>
std::vector<double> Problem<T>::score(const int64_t* labels) const {
    std::vector<double> out(program_.segments, 0.0);
    const LaneOfRegion places(layout_);
    int axes[32];
    for (int64_t r = 0; r < layout_.regions; ++r) {
        const Layout::Place place = layout_.place(r);
        const Group& g = layout_.groups[place.group];
        Layout::core_axes(program_, r, axes);
        int64_t entry = 0;
        for (size_t a = 0; a < g.extents.size(); ++a)
            entry = entry * g.extents[a] + labels[program_.region_variables[program_.region_offsets[r] + axes[a]]];
        out[program_.segment_of(r)] += static_cast<double>(tables_[table_at(place) + entry * g.width]);
    }
    return out;
}

// Variable after variable takes its best label given the others, ties to the label it has, then to the lowest. After
// the first pass only those are looked at again of which a neighbour has changed.
template <class T>
void Problem<T>::local_search(int64_t* labels, int64_t max_passes) {
    release_certificate();
    const GiveBack memory(8 * program_.region_offsets[program_.regions]);
    const RegionsOfVariable lanes = lanes_of_variables();
    std::vector<uint8_t> due(program_.variables, 1);
    std::vector<Rank> ranks;
    int axes[32];
    auto better_label = [&](int64_t v) {
        const int count = program_.cardinalities[v];
        ranks.assign(count, Rank{});
        for (int64_t k = lanes.start[v]; k < lanes.start[v + 1]; ++k) {
            const int32_t r = layout_.region_of_lane[lanes.region[k]];
            const Layout::Place place = layout_.place_of_lane(lanes.region[k]);
            const Group& g = layout_.groups[place.group];
            Layout::core_axes(program_, r, axes);
            int64_t entry = 0, step = 0;
            for (size_t a = 0; a < g.extents.size(); ++a) {
                const int32_t variable = program_.region_variables[program_.region_offsets[r] + axes[a]];
                entry *= g.extents[a];
                step *= g.extents[a];
                if (variable == v)
                    step = 1;
                else
                    entry += labels[variable];
            }
            const T* table = tables_.data() + table_at(place);
            for (int y = 0; y < count; ++y) ranks[y].add(static_cast<double>(table[(entry + y * step) * g.width]));
        }
        int best = static_cast<int>(labels[v]);
        for (int y = count - 1; y >= 0; --y)
            if (ranks[y].better_than(ranks[best]) || (best != labels[v] && !ranks[best].better_than(ranks[y])))
                best = y;
        return best;
    };
    bool changed = true;
    for (int64_t pass = 0; pass < max_passes && changed; ++pass) {
        changed = false;
        for (int64_t v = 0; v < program_.variables; ++v) {
            if (!due[v]) continue;
            due[v] = 0;
            const int best = better_label(v);
            if (best == labels[v]) continue;
            labels[v] = best;
            changed = true;
            for (int64_t k = lanes.start[v]; k < lanes.start[v + 1]; ++k) {
                const int32_t r = layout_.region_of_lane[lanes.region[k]];
                const int64_t first = program_.region_offsets[r], last = program_.region_offsets[r + 1];
                for (int64_t i = first; i < last; ++i)
                    if (program_.region_variables[i] != v) due[program_.region_variables[i]] = 1;
            }
        }
    }
}

template <class T>
void Problem<T>::belief_labels(int64_t* labels) const {
    const LaneOfRegion places(layout_);
    std::vector<int32_t> first_parent;  // where c = 0: hat is flat there
    if (!zero_edges_.empty()) {
        first_parent.assign(layout_.regions, -1);
        for (int32_t e : zero_edges_) first_parent[program_.edge_children[e]] = program_.edge_parents[e];
    }
    std::vector<double> best;
    for (int64_t r = 0; r < layout_.regions; ++r) {
        if (program_.region_offsets[r + 1] - program_.region_offsets[r] != 1) continue;
        const int32_t variable = program_.region_variables[program_.region_offsets[r]];
        best.assign(program_.cardinalities[variable], -std::numeric_limits<double>::infinity());
        if (!first_parent.empty() && first_parent[r] >= 0) {
            int axes[32], digit[32] = {}, own = 0;
            Layout::core_axes(program_, first_parent[r], axes);
            const Layout::Place place = layout_.place(first_parent[r]);
            const std::vector<int>& extents = layout_.groups[place.group].extents;
            const int64_t start = program_.region_offsets[first_parent[r]];
            const int n = static_cast<int>(extents.size());
            for (int a = 0; a < n; ++a)
                if (program_.region_variables[start + axes[a]] == variable) own = a;
            for_hat(place, [&](int64_t, double entry) {
                best[digit[own]] = std::max(best[digit[own]], entry);
                for (int a = n - 1; a >= 0; --a) {
                    if (++digit[a] < extents[a]) break;
                    digit[a] = 0;
                }
            });
        } else {
            for_hat(layout_.place(r), [&](int64_t y, double entry) { best[y] = entry; });
            if (program_.counting_of(r) < 0)
                for (double& entry : best) entry = std::isinf(entry) ? entry : -entry;
        }
        labels[variable] = std::max_element(best.begin(), best.end()) - best.begin();
    }
}

// The label of v with the largest sum over its regions of the best completion, given the labels fixed before. Ties go
// to the lowest label.
template <class T>
int Problem<T>::best_label(int32_t v, const int32_t* lanes, int64_t count, const uint8_t* fixed,
                           const int64_t* labels) const {
    std::vector<Rank> ranks(program_.cardinalities[v]);
    std::vector<double> best;
    int axes[32];
    for (int64_t k = 0; k < count; ++k) {
        const int32_t r = layout_.region_of_lane[lanes[k]];
        const Layout::Place place = layout_.place_of_lane(lanes[k]);
        const Group& g = layout_.groups[place.group];
        const int n = static_cast<int>(g.extents.size());
        Layout::core_axes(program_, r, axes);
        int32_t variable[32];
        int digit[32] = {}, own = 0;
        for (int a = 0; a < n; ++a) {
            variable[a] = program_.region_variables[program_.region_offsets[r] + axes[a]];
            if (variable[a] == v) own = a;
        }
        best.assign(ranks.size(), -std::numeric_limits<double>::infinity());
        for_hat(place, [&](int64_t, double hat) {
            bool agrees = true;
            for (int a = 0; a < n && agrees; ++a) agrees = !fixed[variable[a]] || labels[variable[a]] == digit[a];
            if (agrees) best[digit[own]] = std::max(best[digit[own]], hat);
            for (int a = n - 1; a >= 0; --a) {
                if (++digit[a] < g.extents[a]) break;
                digit[a] = 0;
            }
        });
        for (size_t y = 0; y < ranks.size(); ++y) ranks[y].add(best[y]);
    }
    int chosen = 0;
    for (size_t y = 1; y < ranks.size(); ++y)
        if (ranks[y].better_than(ranks[chosen])) chosen = static_cast<int>(y);
    return chosen;
}

// Variables in the order of the schedule backwards (the root of a tree first), those of one class at the same time
// where no region has two of them: their labels do not depend on each other.
template <class T>
void Problem<T>::decode(int64_t* labels) {
    release_certificate();
    const GiveBack memory(8 * program_.region_offsets[program_.regions]);
    const RegionsOfVariable lanes = lanes_of_variables();
    std::vector<size_t> ends;
    const std::vector<int32_t> order = last_first(ends);
    std::vector<uint8_t> fixed(program_.variables, 0), seen(layout_.lanes, 0);
    size_t first = 0;
    for (size_t end : ends) {
        bool apart = true;
        int64_t cost = 0;
        auto for_lanes = [&](auto f) {
            for (size_t i = first; i < end; ++i)
                for (int64_t k = lanes.start[order[i]]; k < lanes.start[order[i] + 1]; ++k) f(lanes.region[k]);
        };
        for_lanes([&](int32_t lane) {
            apart = apart && !seen[lane];
            seen[lane] = 1;
            cost += layout_.groups[layout_.place_of_lane(lane).group].entries;
        });
        for_lanes([&](int32_t lane) { seen[lane] = 0; });
        parallel_for(apart ? threads_ : 1, end - first, cost, [&](int64_t from, int64_t to, int) {
            for (int64_t k = from; k < to; ++k) {
                const int32_t v = order[first + k];
                const int64_t start = lanes.start[v];
                labels[v] =
                    best_label(v, lanes.region.data() + start, lanes.start[v + 1] - start, fixed.data(), labels);
                fixed[v] = 1;
            }
        });
        first = end;
    }
}

// The variables by decreasing class of their single-variable regions, those that send nothing last; then by index.
// `ends`: where the variables of a class end.
template <class T>
std::vector<int32_t> Problem<T>::last_first(std::vector<size_t>& ends) const {
    std::vector<int32_t> order;
    order.reserve(program_.variables);
    std::vector<uint8_t> found(program_.variables, 0);
    for (size_t c = layout_.light.size(); c-- > 0;) {
        const size_t first = order.size();
        for (int k : layout_.light[c]) {
            const LightBlock& light = layout_.lights[k];
            const Group& g = layout_.groups[light.group];
            if (g.extents.size() > 1) continue;
            const int32_t* region =
                layout_.region_of_lane.data() + g.first_lane + static_cast<int64_t>(light.block) * g.width;
            for (uint32_t rest = light.mask; rest; rest &= rest - 1) {
                const int32_t v = program_.region_variables[program_.region_offsets[region[__builtin_ctz(rest)]]];
                found[v] = 1;
                order.push_back(v);
            }
        }
        std::sort(order.begin() + static_cast<int64_t>(first), order.end());
        ends.push_back(order.size());
    }
    for (int32_t v = 0; v < program_.variables; ++v)
        if (!found[v]) order.push_back(v);
    ends.push_back(order.size());
    return order;
}

template std::vector<double> Problem<double>::score(const int64_t*) const;
template std::vector<double> Problem<float>::score(const int64_t*) const;
template void Problem<double>::belief_labels(int64_t*) const;
template void Problem<float>::belief_labels(int64_t*) const;
template void Problem<double>::local_search(int64_t*, int64_t);
template void Problem<float>::local_search(int64_t*, int64_t);
template RegionsOfVariable Problem<double>::lanes_of_variables() const;
template RegionsOfVariable Problem<float>::lanes_of_variables() const;
template std::vector<int32_t> Problem<double>::last_first(std::vector<size_t>&) const;
template std::vector<int32_t> Problem<float>::last_first(std::vector<size_t>&) const;
template void Problem<double>::decode(int64_t*);
template void Problem<float>::decode(int64_t*);
template int Problem<double>::best_label(int32_t, const int32_t*, int64_t, const uint8_t*, const int64_t*) const;
template int Problem<float>::best_label(int32_t, const int32_t*, int64_t, const uint8_t*, const int64_t*) const;

}  // namespace blendfield
