#include "graph/counting.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace blendfield {

std::vector<double> moebius_numbers(std::span<const int64_t> region_offsets, EdgeView edges) {
    const int32_t count = static_cast<int32_t>(region_offsets.size()) - 1;
    const Adjacency parents(count, edges.children, edges.parents);
    std::vector<double> numbers(static_cast<size_t>(count), 1.0);
    std::vector<int32_t> seen_by(static_cast<size_t>(count), -1), stack;
    for (const int32_t r : largest_first(region_offsets)) {
        stack.assign(1, r);
        while (!stack.empty()) {
            const int32_t s = stack.back();
            stack.pop_back();
            for (const int32_t p : parents[s])
                if (seen_by[p] != r) {
                    seen_by[p] = r;
                    numbers[r] -= numbers[p];
                    stack.push_back(p);
                }
        }
    }
    return numbers;
}

namespace {

class DisjointSets {
  public:
    explicit DisjointSets(int32_t count) : above_(static_cast<size_t>(count)) { reset(); }
    void reset() { std::iota(above_.begin(), above_.end(), 0); }
    int32_t root(int32_t node) {
        while (above_[node] != node) node = above_[node] = above_[above_[node]];
        return node;
    }
    bool join(int32_t a, int32_t b) {
        a = root(a);
        b = root(b);
        if (a == b) return false;
        above_[std::max(a, b)] = std::min(a, b);
        return true;
    }

  private:
    std::vector<int32_t> above_;
};

}  // namespace

std::pair<std::vector<int32_t>, int32_t> spanning_tree_uses(int32_t num_nodes, EdgeView links, int32_t at_least,
                                                            uint64_t seed) {
    std::vector<int32_t> uses(links.count(), 0), order(links.count());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 random(seed);
    DisjointSets sets(num_nodes);
    int32_t trees = 0;
    while (!uses.empty() && *std::ranges::min_element(uses) < at_least) {
        // Not std::shuffle: its result is left to the library, and the numbers should be the same everywhere.
        for (size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[random() % k]);
        std::ranges::stable_sort(order, {}, [&](int32_t link) { return uses[link]; });
        sets.reset();
        for (const int32_t link : order)
            if (sets.join(links.parents[link], links.children[link])) ++uses[link];
        ++trees;
    }
    return {std::move(uses), trees};
}

}  // namespace blendfield
