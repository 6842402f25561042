// Labellings of the CPU problem: score, rounding, local search.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cpu/problem.h"
#include "cpu/rank.h"
#include "cpu/thread_pool.h"

namespace blendfield {

namespace {

// For every variable the regions that contain it, as compressed rows.
struct Incidence {
    std::vector<int64_t> start;
    std::vector<int32_t> region;
    explicit Incidence(const ProgramArrays& p) : start(p.variables + 1, 0), region(p.region_offsets[p.regions]) {
        for (int64_t k = 0; k < p.region_offsets[p.regions]; ++k) ++start[p.region_variables[k] + 1];
        std::partial_sum(start.begin(), start.end(), start.begin());
        std::vector<int64_t> fill(start.begin(), start.end() - 1);
        for (int64_t r = 0; r < p.regions; ++r)
            for (int64_t k = p.region_offsets[r]; k < p.region_offsets[r + 1]; ++k)
                region[fill[p.region_variables[k]]++] = static_cast<int32_t>(r);
    }
};

}  // namespace

template <class T>
std::vector<double> Problem<T>::score(const int64_t* labels) const {
    std::vector<double> out(program_.segments, 0.0);
    int axes[32];
    for (int64_t r = 0; r < layout_.regions; ++r) {
        const Group& g = layout_.groups[layout_.place(r).group];
        Layout::core_axes(program_, r, axes);
        int64_t entry = 0;
        for (size_t a = 0; a < g.extents.size(); ++a)
            entry = entry * g.extents[a] + labels[program_.region_variables[program_.region_offsets[r] + axes[a]]];
        out[program_.segment[r]] += static_cast<double>(tables_[table_at(layout_.place(r)) + entry * g.width]);
    }
    return out;
}

// Variable after variable takes its best label given the others, ties to the label it has, then to the lowest. After
// the first pass only those are looked at again of which a neighbour has changed.
template <class T>
void Problem<T>::local_search(int64_t* labels, int64_t max_passes) const {
    const Incidence incidence(program_);
    std::vector<uint8_t> due(program_.variables, 1);
    std::vector<Rank> ranks;
    int axes[32];
    auto better_label = [&](int64_t v) {
        const int count = program_.cardinalities[v];
        ranks.assign(count, Rank{});
        for (int64_t k = incidence.start[v]; k < incidence.start[v + 1]; ++k) {
            const int32_t r = incidence.region[k];
            const Layout::Place place = layout_.place(r);
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
            for (int64_t k = incidence.start[v]; k < incidence.start[v + 1]; ++k) {
                const int64_t first = program_.region_offsets[incidence.region[k]];
                const int64_t last = program_.region_offsets[incidence.region[k] + 1];
                for (int64_t i = first; i < last; ++i)
                    if (program_.region_variables[i] != v) due[program_.region_variables[i]] = 1;
            }
        }
    }
}

// Table of hat_r in core order (mathematics: theta + messages of the children - messages to the parents).
template <class T>
void Problem<T>::hat_of(int64_t region, std::vector<double>& out) const {
    const Layout::Place place = layout_.place(region);
    const Group& g = layout_.groups[place.group];
    const int axes = static_cast<int>(g.extents.size());
    const int64_t block = place.lane / g.width, lane = place.lane % g.width;
    out.resize(g.entries);
    const T* source = g.base >= 0 ? base_.data() + g.base : tables_.data() + g.tables;
    for (int64_t e = 0; e < g.entries; ++e)
        out[e] = static_cast<double>(source[(block * g.entries + e) * g.width + lane]);
    for (size_t s = 0; s < g.slots.size(); ++s) {
        const T* message = messages_.data() + g.slots[s].messages + block * g.slots[s].labels * g.width + lane;
        int digit[32] = {};
        int64_t label = 0;
        for (int64_t e = 0; e < g.entries; ++e) {
            out[e] += static_cast<double>(message[label * g.width]);
            for (int a = axes - 1; a >= 0; --a) {
                label += g.strides[s][a];
                if (++digit[a] < g.extents[a]) break;
                label -= static_cast<int64_t>(g.strides[s][a]) * g.extents[a];
                digit[a] = 0;
            }
        }
    }
    if (!g.sends || g.base >= 0) return;
    for (const LightBlock& light : layout_.lights_of(place.group, static_cast<int>(block))) {
        if (!(light.mask >> lane & 1)) continue;
        for (int j = 0; j < light.degree; ++j) {
            const unsigned at = layout_.index[light.index + static_cast<int64_t>(j) * g.width + lane];
            if (at == no_edge) continue;
            for (int64_t e = 0; e < g.entries; ++e)
                out[e] -= static_cast<double>(messages_[at + e * layout_.edges[light.edge + j].stride]);
        }
    }
}

template <class T>
void Problem<T>::belief_labels(int64_t* labels) const {
    std::vector<int32_t> first_parent(layout_.regions, -1);  // needed where c = 0: hat is flat there
    for (int64_t e = program_.edges - 1; e >= 0; --e)
        first_parent[program_.edge_children[e]] = program_.edge_parents[e];
    std::vector<double> hat, best;
    for (int64_t r = 0; r < layout_.regions; ++r) {
        if (program_.region_offsets[r + 1] - program_.region_offsets[r] != 1) continue;
        const int32_t variable = program_.region_variables[program_.region_offsets[r]];
        if (program_.counting[r] == 0 && first_parent[r] >= 0) {
            hat_of(first_parent[r], hat);
            int axes[32], digit[32] = {}, own = 0;
            Layout::core_axes(program_, first_parent[r], axes);
            const std::vector<int>& extents = layout_.groups[layout_.place(first_parent[r]).group].extents;
            const int64_t start = program_.region_offsets[first_parent[r]];
            const int n = static_cast<int>(extents.size());
            for (int a = 0; a < n; ++a)
                if (program_.region_variables[start + axes[a]] == variable) own = a;
            best.assign(extents[own], -std::numeric_limits<double>::infinity());
            for (double entry : hat) {
                best[digit[own]] = std::max(best[digit[own]], entry);
                for (int a = n - 1; a >= 0; --a) {
                    if (++digit[a] < extents[a]) break;
                    digit[a] = 0;
                }
            }
        } else {
            hat_of(r, best);
            if (program_.counting[r] < 0)
                for (double& entry : best) entry = std::isinf(entry) ? entry : -entry;
        }
        labels[variable] = std::max_element(best.begin(), best.end()) - best.begin();
    }
}

// The label of v with the largest sum over its regions of the best completion, given the labels fixed before. Ties go
// to the lowest label.
template <class T>
int Problem<T>::best_label(int32_t v, const int32_t* regions, int64_t count, const uint8_t* fixed,
                           const int64_t* labels, std::vector<double>& hat) const {
    std::vector<Rank> ranks(program_.cardinalities[v]);
    std::vector<double> best;
    int axes[32];
    for (int64_t k = 0; k < count; ++k) {
        const int32_t r = regions[k];
        const Group& g = layout_.groups[layout_.place(r).group];
        const int n = static_cast<int>(g.extents.size());
        hat_of(r, hat);
        Layout::core_axes(program_, r, axes);
        int32_t variable[32];
        int digit[32] = {}, own = 0;
        for (int a = 0; a < n; ++a) {
            variable[a] = program_.region_variables[program_.region_offsets[r] + axes[a]];
            if (variable[a] == v) own = a;
        }
        best.assign(ranks.size(), -std::numeric_limits<double>::infinity());
        for (int64_t e = 0; e < g.entries; ++e) {
            bool agrees = true;
            for (int a = 0; a < n && agrees; ++a) agrees = !fixed[variable[a]] || labels[variable[a]] == digit[a];
            if (agrees) best[digit[own]] = std::max(best[digit[own]], hat[e]);
            for (int a = n - 1; a >= 0; --a) {
                if (++digit[a] < g.extents[a]) break;
                digit[a] = 0;
            }
        }
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
void Problem<T>::decode(int64_t* labels) const {
    const Incidence incidence(program_);
    std::vector<int32_t> order(program_.variables), rank(program_.variables, -1);
    std::iota(order.begin(), order.end(), 0);
    for (int64_t r = 0; r < layout_.regions; ++r)
        if (program_.region_offsets[r + 1] - program_.region_offsets[r] == 1)
            rank[program_.region_variables[program_.region_offsets[r]]] = program_.region_class[r];
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return rank[a] > rank[b]; });
    std::vector<uint8_t> fixed(program_.variables, 0);
    std::vector<size_t> last_class(layout_.regions, order.size());
    for (size_t first = 0, end; first < order.size(); first = end) {
        bool apart = true;
        int64_t cost = 0;
        for (end = first; end < order.size() && rank[order[end]] == rank[order[first]]; ++end)
            for (int64_t k = incidence.start[order[end]]; k < incidence.start[order[end] + 1]; ++k) {
                const int32_t r = incidence.region[k];
                apart = apart && last_class[r] != first;
                last_class[r] = first;
                cost += layout_.groups[layout_.place(r).group].entries;
            }
        parallel_for(apart ? threads_ : 1, end - first, cost, [&](int64_t from, int64_t to, int) {
            std::vector<double> hat;
            for (int64_t k = from; k < to; ++k) {
                const int32_t v = order[first + k];
                const int64_t start = incidence.start[v];
                labels[v] = best_label(v, incidence.region.data() + start, incidence.start[v + 1] - start, fixed.data(),
                                       labels, hat);
                fixed[v] = 1;
            }
        });
    }
}

template std::vector<double> Problem<double>::score(const int64_t*) const;
template std::vector<double> Problem<float>::score(const int64_t*) const;
template void Problem<double>::belief_labels(int64_t*) const;
template void Problem<float>::belief_labels(int64_t*) const;
template void Problem<double>::local_search(int64_t*, int64_t) const;
template void Problem<float>::local_search(int64_t*, int64_t) const;
template void Problem<double>::hat_of(int64_t, std::vector<double>&) const;
template void Problem<float>::hat_of(int64_t, std::vector<double>&) const;
template int Problem<double>::best_label(int32_t, const int32_t*, int64_t, const uint8_t*, const int64_t*,
                                         std::vector<double>&) const;
template void Problem<double>::decode(int64_t*) const;
template int Problem<float>::best_label(int32_t, const int32_t*, int64_t, const uint8_t*, const int64_t*,
                                        std::vector<double>&) const;
template void Problem<float>::decode(int64_t*) const;

}  // namespace blendfield
