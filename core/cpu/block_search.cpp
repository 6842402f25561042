// Block moves of the CPU problem: the labels of all variables of an induced forest at once, exactly.
//
// Given the labels of the others, the score of a forest is a sum over its variables and edges, however many variables
// the regions have; one pass up and one down finds its best labels. A round forces new labels upon a few variables,
// lets small forests around them adapt (now and then forests all over the model), and keeps what has not become worse,
// part by part.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cpu/problem.h"
#include "cpu/rank.h"
#include "graph/incidence.h"

namespace blendfield {

namespace {

constexpr int64_t variables_per_kick = 64;
constexpr int64_t entries_copied_per_round = 1 << 16;
constexpr int walk_length = 5, moves_around = 4, moves_of_all = 2;
constexpr uint64_t rounds_per_wide_one = 32, size_place = ~0ull;
constexpr int least_members = 4, doublings = 3;

// splitmix64 of (seed, place): numbers that depend on nothing else.
uint64_t hash(uint64_t seed, uint64_t place) {
    uint64_t z = seed + 0x9E3779B97F4A7C15ull * (place + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

struct Axis {
    int32_t variable;
    int64_t step;  // in the table, from one label to the next
};

// Tables as they lie in the problem, and the regions of every variable.
template <class T>
struct Tables {
    std::vector<const T*> table;  // [regions], entry 0
    std::vector<int64_t> first;   // [regions + 1], into `axes`
    std::vector<Axis> axes;       // [region_offsets[regions]]
    std::vector<uint32_t> start;  // [variables + 1], into `region`
    std::vector<int32_t> region;  // of the variables, in increasing order

    double entry(int32_t r, const int64_t* labels) const {
        int64_t at = 0;
        for (int64_t a = first[r]; a < first[r + 1]; ++a) at += labels[axes[a].variable] * axes[a].step;
        return static_cast<double>(table[r][at]);
    }
};

template <class T>
class BlockSearch {
  public:
    BlockSearch(const ProgramArrays& program, const Tables<T>& tables, int64_t* labels)
        : p_(program),
          t_(tables),
          labels_(labels),
          order_(p_.variables),
          in_forest_(p_.variables),
          root_(p_.variables),
          mark_(p_.variables, -1),
          parent_(p_.variables),
          blocked_(p_.variables),
          value_start_(p_.variables + 1) {
        for (int64_t v = 0; v < p_.variables; ++v) value_start_[v + 1] = value_start_[v] + p_.cardinalities[v];
        values_.resize(value_start_.back());
        region_mark_.assign(p_.regions, -1);
        is_movable_.assign(p_.variables, 0);
        seen_.assign(p_.variables, 0);
        for (int64_t r = 0; r < p_.regions; ++r) {
            if (t_.first[r + 1] - t_.first[r] != 1) continue;
            const Axis& axis = t_.axes[t_.first[r]];
            int allowed = 0;
            for (int y = 0; y < p_.cardinalities[axis.variable]; ++y)
                allowed += !std::isinf(t_.table[r][y * axis.step]);
            is_movable_[axis.variable] = allowed > 1;
        }
        for (int64_t v = 0; v < p_.variables; ++v)
            if (is_movable_[v]) movable_.push_back(static_cast<int32_t>(v));
    }

    void round(uint64_t seed) {
        if (movable_.empty()) return;
        before_.assign(labels_, labels_ + p_.variables);
        force(hash(seed, 0));
        const bool everywhere = seed % rounds_per_wide_one == 0;
        for (int k = 0; k < moves_around; ++k) move(hash(seed, 1 + k), everywhere);
        for (int32_t v : kicked_) blocked_[v] = 0;
        for (int k = 0; k < moves_of_all; ++k) move(hash(seed, 1 + moves_around + k), everywhere);
        keep_what_is_no_worse();
    }

  private:
    // New labels for some variables, each with perhaps a few on a walk from it.
    void force(uint64_t seed) {
        const int64_t count = static_cast<int64_t>(movable_.size()), kicks = 1 + count / variables_per_kick;
        kicked_.clear();
        for (int64_t k = 0; k < kicks; ++k) {
            int32_t v = movable_[hash(seed, walk_length * 3 * k) % count];
            for (int step = 0; step < walk_length; ++step) {
                const uint64_t place = walk_length * 3 * k + 3 * step;
                const uint64_t shift = hash(seed, place + 1) % (p_.cardinalities[v] - 1);
                labels_[v] = (labels_[v] + 1 + static_cast<int64_t>(shift)) % p_.cardinalities[v];
                blocked_[v] = 1;
                kicked_.push_back(v);
                neighbours_.clear();
                for_neighbours(v, [&](int32_t u) {
                    if (is_movable_[u] && !blocked_[u]) neighbours_.push_back(u);
                });
                const uint64_t number = hash(seed, place + 2);
                if (number % 2 == 0 || neighbours_.empty()) break;
                v = neighbours_[(number >> 1) % neighbours_.size()];
            }
        }
    }

    // The best labels of the variables of a random induced forest, given all others.
    void move(uint64_t seed, bool everywhere) {
        members_.clear();
        if (everywhere)
            scatter(seed);
        else
            grow(seed);
        walk();
        for (auto v = visited_.rbegin(); v != visited_.rend(); ++v) up(*v);
        for (int32_t v : visited_) {
            if (parent_[v] >= 0)
                labels_[v] = choice_[choice_start_[v] + labels_[parent_[v]]];
            else
                labels_[v] = best_of(v);
        }
        for (int32_t v : members_) in_forest_[v] = 0;
    }

    // Variables from all over the model.
    void scatter(uint64_t seed) {
        order_.assign(movable_.begin(), movable_.end());
        for (size_t k = order_.size(); k > 1; --k) std::swap(order_[k - 1], order_[hash(seed, k) % k]);
        for (int32_t v : order_)
            if (!blocked_[v]) try_to_add(v);
    }

    // From the forced variables, or around them: some more for each of them, neighbours of those taken.
    void grow(uint64_t seed) {
        order_.clear();
        const auto reach = [&](int32_t u) {
            if (!is_movable_[u] || blocked_[u] || seen_[u]) return;
            seen_[u] = 1;
            order_.push_back(u);
        };
        for (int32_t v : kicked_) {
            reach(v);
            if (blocked_[v]) for_neighbours(v, reach);
        }
        const size_t kicks = 1 + movable_.size() / variables_per_kick;
        const size_t most = kicks * (least_members << hash(seed, size_place) % doublings);
        for (size_t k = 0; k < order_.size() && members_.size() < most; ++k) {
            std::swap(order_[k], order_[k + hash(seed, k) % (order_.size() - k)]);
            const int32_t v = order_[k];
            if (try_to_add(v)) for_neighbours(v, reach);
        }
        for (int32_t v : order_) seen_[v] = 0;
    }

    int32_t find(int32_t v) {
        while (root_[v] != v) v = root_[v] = root_[root_[v]];
        return v;
    }

    // A variable joins when its neighbours in the forest belong to different trees.
    bool try_to_add(int32_t v) {
        neighbours_.clear();
        for_neighbours(v, [&](int32_t u) {
            if (!in_forest_[u] || mark_[u] == v) return;
            mark_[u] = v;
            neighbours_.push_back(u);
        });
        for (int32_t u : neighbours_) mark_[u] = -1;
        bool tree = true;
        for (int32_t& u : neighbours_) {
            u = find(u);
            tree = tree && mark_[u] != v;
            mark_[u] = v;
        }
        for (int32_t u : neighbours_) mark_[u] = -1;
        if (!tree) return false;
        in_forest_[v] = 1;
        root_[v] = v;
        for (int32_t u : neighbours_) root_[u] = v;
        members_.push_back(v);
        return true;
    }

    template <class F>
    void for_neighbours(int32_t v, F f) const {
        for (int64_t k = t_.start[v]; k < t_.start[v + 1]; ++k)
            for (int64_t a = t_.first[t_.region[k]]; a < t_.first[t_.region[k] + 1]; ++a)
                if (t_.axes[a].variable != v) f(t_.axes[a].variable);
    }

    // Parents before children; in_forest_ becomes 2 where it has been.
    void walk() {
        visited_.clear();
        choice_start_.resize(p_.variables);
        int64_t choices = 0;
        for (int32_t start : members_) {
            if (in_forest_[start] == 2) continue;
            in_forest_[start] = 2;
            parent_[start] = -1;
            visited_.push_back(start);
            for (size_t k = visited_.size() - 1; k < visited_.size(); ++k) {
                const int32_t v = visited_[k];
                for_neighbours(v, [&](int32_t u) {
                    if (in_forest_[u] != 1) return;
                    in_forest_[u] = 2;
                    parent_[u] = v;
                    choice_start_[u] = choices;
                    choices += p_.cardinalities[v];
                    visited_.push_back(u);
                });
            }
        }
        choice_.resize(choices);
        for (int32_t v : members_)
            std::fill(values_.begin() + value_start_[v], values_.begin() + value_start_[v + 1], Rank{});
    }

    // values[v] has the messages of the children; adds the regions of v and sends the maximum to the parent.
    void up(int32_t v) {
        const int32_t parent = parent_[v];
        const int labels = p_.cardinalities[v], above = parent >= 0 ? p_.cardinalities[parent] : 0;
        Rank* own = values_.data() + value_start_[v];
        pair_.assign(static_cast<size_t>(labels) * above, Rank{});
        for (int64_t k = t_.start[v]; k < t_.start[v + 1]; ++k) {
            const int32_t r = t_.region[k];
            int64_t at = 0, step = 0, parent_step = 0;
            bool with_child = false, with_parent = false;
            for (int64_t a = t_.first[r]; a < t_.first[r + 1]; ++a) {
                const Axis& axis = t_.axes[a];
                if (axis.variable == v)
                    step = axis.step;
                else if (axis.variable == parent)
                    with_parent = true, parent_step = axis.step;
                else if (in_forest_[axis.variable])
                    with_child = true;
                else
                    at += labels_[axis.variable] * axis.step;
            }
            if (with_child) continue;
            const T* table = t_.table[r] + at;
            if (with_parent)
                for (int y = 0; y < labels; ++y)
                    for (int z = 0; z < above; ++z)
                        pair_[y * above + z].add(static_cast<double>(table[y * step + z * parent_step]));
            else
                for (int y = 0; y < labels; ++y) own[y].add(static_cast<double>(table[y * step]));
        }
        if (parent < 0) return;
        Rank* theirs = values_.data() + value_start_[parent];
        int32_t* choice = choice_.data() + choice_start_[v];
        for (int y = 0; y < labels; ++y)
            for (int z = 0; z < above; ++z) {
                Rank sum = pair_[y * above + z];
                sum.add(own[y]);
                if (y > 0 && !sum.better_than(pair_[z])) continue;
                pair_[z] = sum;  // the best so far: row 0 is not needed any more
                choice[z] = y;
            }
        for (int z = 0; z < above; ++z) theirs[z].add(pair_[z]);
    }

    int64_t best_of(int32_t v) const {
        const Rank* own = values_.data() + value_start_[v];
        int best = 0;
        for (int y = 1; y < p_.cardinalities[v]; ++y)
            if (own[y].better_than(own[best])) best = y;
        return best;
    }

    // Variables with new labels hang together where a region has two of them; each such part is judged by itself.
    void keep_what_is_no_worse() {
        for (int32_t start : movable_) {
            if (labels_[start] == before_[start] || mark_[start] == -2) continue;
            visited_.assign(1, start);
            mark_[start] = -2;
            Rank now, then;
            for (size_t k = 0; k < visited_.size(); ++k) {
                const int32_t v = visited_[k];
                for (int64_t i = t_.start[v]; i < t_.start[v + 1]; ++i) {
                    const int32_t r = t_.region[i];
                    if (region_mark_[r] == start) continue;
                    region_mark_[r] = start;
                    now.add(t_.entry(r, labels_));
                    then.add(t_.entry(r, before_.data()));
                    for (int64_t a = t_.first[r]; a < t_.first[r + 1]; ++a) {
                        const int32_t u = t_.axes[a].variable;
                        if (labels_[u] == before_[u] || mark_[u] == -2) continue;
                        mark_[u] = -2;
                        visited_.push_back(u);
                    }
                }
            }
            if (then.better_than(now)) rejected_.insert(rejected_.end(), visited_.begin(), visited_.end());
            judged_.insert(judged_.end(), visited_.begin(), visited_.end());
        }
        for (int32_t v : rejected_) labels_[v] = before_[v];
        for (int32_t v : judged_) {
            mark_[v] = -1;
            for (int64_t i = t_.start[v]; i < t_.start[v + 1]; ++i) region_mark_[t_.region[i]] = -1;
        }
        rejected_.clear();
        judged_.clear();
    }

    const ProgramArrays& p_;
    const Tables<T>& t_;
    int64_t* labels_;
    std::vector<int32_t> movable_, order_, members_, visited_, kicked_, neighbours_, rejected_, judged_;
    std::vector<uint8_t> in_forest_, seen_;
    std::vector<int32_t> root_, mark_, parent_, region_mark_;
    std::vector<uint8_t> blocked_, is_movable_;  // no label but one may be forbidden: those stay
    std::vector<int64_t> before_, value_start_, choice_start_;
    std::vector<Rank> values_, pair_;  // per variable and label; per label of a variable and label of its parent
    std::vector<int32_t> choice_;      // the best label of a variable for every label of its parent
};

}  // namespace

template <class T>
void Problem<T>::block_search(int64_t* labels, int64_t rounds, uint64_t seed) const {
    Tables<T> tables;
    const LaneOfRegion places(layout_);
    tables.first.assign(program_.region_offsets, program_.region_offsets + program_.regions + 1);
    tables.axes.resize(program_.region_offsets[program_.regions]);
    // Lanes lie side by side: many rounds are worth a copy in which the entries of a table do.
    const bool copied = program_.table_offsets[program_.regions] <= rounds * entries_copied_per_round;
    std::vector<T> copy(copied ? program_.table_offsets[program_.regions] : 0);
    int axes[32];
    for (int64_t r = 0; r < program_.regions; ++r) {
        const Layout::Place place = layout_.place(r);
        const Group& g = layout_.groups[place.group];
        const T* table = tables_.data() + table_at(place);
        T* own = copy.data() + program_.table_offsets[r];
        for (int64_t e = 0; copied && e < g.entries; ++e) own[e] = table[e * g.width];
        tables.table.push_back(copied ? own : table);
        Layout::core_axes(program_, r, axes);
        int64_t step = copied ? 1 : g.width;
        for (int a = static_cast<int>(g.extents.size()) - 1; a >= 0; --a) {
            const int32_t variable = program_.region_variables[tables.first[r] + axes[a]];
            tables.axes[tables.first[r] + a] = {variable, step};
            step *= g.extents[a];
        }
    }
    RegionsOfVariable incidence(program_.regions, program_.variables, program_.region_offsets,
                                program_.region_variables);
    tables.start = std::move(incidence.start);
    tables.region = std::move(incidence.region);
    BlockSearch<T> search(program_, tables, labels);
    for (int64_t k = 0; k < rounds; ++k) search.round(seed + static_cast<uint64_t>(k));
}

template void Problem<double>::block_search(int64_t*, int64_t, uint64_t) const;
template void Problem<float>::block_search(int64_t*, int64_t, uint64_t) const;

}  // namespace blendfield
