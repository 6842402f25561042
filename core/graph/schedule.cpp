#include "graph/schedule.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <unordered_map>

namespace blendfield {

namespace {

// The children of every region: the edges themselves, which are sorted by parent.
class Children {
  public:
    Children(int32_t num_regions, EdgeView edges)
        : offsets_(static_cast<size_t>(num_regions) + 1, 0), items_(edges.children) {
        for (const int32_t parent : edges.parents) ++offsets_[parent + 1];
        std::partial_sum(offsets_.begin(), offsets_.end(), offsets_.begin());
    }
    std::span<const int32_t> operator[](int32_t region) const {
        return items_.subspan(offsets_[region], offsets_[region + 1] - offsets_[region]);
    }

  private:
    std::vector<uint32_t> offsets_;
    std::span<const int32_t> items_;
};

// Both directions of the edges.
struct Neighbours {
    Adjacency parents;
    Children children;

    Neighbours(int32_t num_regions, EdgeView edges)
        : parents(num_regions, edges.children, edges.parents), children(num_regions, edges) {}
    bool sends(int32_t r) const { return !parents.empty(r); }
};

// For every region x the set of classes of the senders that touch x. Nearly always below 16, hence a few bits each and
// the rest in a map.
class UsedClasses {
  public:
    explicit UsedClasses(int32_t num_regions) : first_(static_cast<size_t>(num_regions), 0) {}

    void add(int32_t x, int32_t colour) {
        if (colour < few)
            first_[x] |= static_cast<uint16_t>(1u << colour);
        else {
            auto& words = more_[x];
            const size_t word = static_cast<size_t>(colour - few) / 64;
            if (words.size() <= word) words.resize(word + 1, 0);
            words[word] |= uint64_t{1} << (colour - few) % 64;
        }
    }
    // The 64 classes from begin(word) on; of word 0 those below `few` only, the others count as used.
    static int32_t begin(int32_t word) { return word == 0 ? 0 : few + 64 * (word - 1); }
    uint64_t word(int32_t x, int32_t word) const {
        if (word == 0) return first_[x] | ~uint64_t{0} << few;
        const auto found = more_.find(x);
        if (found == more_.end() || static_cast<int32_t>(found->second.size()) < word) return 0;
        return found->second[word - 1];
    }

  private:
    static constexpr int32_t few = 16;
    std::vector<uint16_t> first_;
    std::unordered_map<int32_t, std::vector<uint64_t>> more_;
};

void number_by_increasing_edges(std::vector<int32_t>& classes, const Neighbours& graph) {
    const int32_t count = classes.empty() ? 0 : *std::ranges::max_element(classes) + 1;
    std::vector<int64_t> edges(static_cast<size_t>(count), 0);
    for (size_t r = 0; r < classes.size(); ++r)
        if (classes[r] >= 0) edges[classes[r]] += static_cast<int64_t>(graph.parents[static_cast<int32_t>(r)].size());
    std::vector<int32_t> order(edges.size()), rank(edges.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int32_t colour) { return edges[colour]; });
    for (int32_t k = 0; k < count; ++k) rank[order[k]] = k;
    for (int32_t& colour : classes)
        if (colour >= 0) colour = rank[colour];
}

}  // namespace

std::vector<int32_t> colour_classes(int32_t num_regions, EdgeView edges) {
    const Neighbours graph(num_regions, edges);
    std::vector<int32_t> classes(static_cast<size_t>(num_regions), -1);
    UsedClasses used(num_regions);
    std::vector<char> queued(static_cast<size_t>(num_regions), 0), expanded(static_cast<size_t>(num_regions), 0);
    std::vector<int32_t> queue;
    const auto push = [&](int32_t r) {
        if (!queued[r] && graph.sends(r)) {
            queued[r] = 1;
            queue.push_back(r);
        }
    };
    const auto push_all_touching = [&](int32_t x) {  // once per region: the breadth-first order costs O(edges)
        if (expanded[x]) return;
        expanded[x] = 1;
        push(x);
        for (const int32_t child : graph.children[x]) push(child);
    };
    for (int32_t start = 0; start < num_regions; ++start) {
        queue.clear();
        push(start);
        for (size_t head = 0; head < queue.size(); ++head) {
            const int32_t r = queue[head];
            for (int32_t word = 0; classes[r] < 0; ++word) {
                uint64_t taken = used.word(r, word);
                for (const int32_t p : graph.parents[r]) taken |= used.word(p, word);
                if (~taken) classes[r] = UsedClasses::begin(word) + std::countr_one(taken);
            }
            used.add(r, classes[r]);
            for (const int32_t p : graph.parents[r]) used.add(p, classes[r]);
            push_all_touching(r);
            for (const int32_t p : graph.parents[r]) push_all_touching(p);
        }
    }
    number_by_increasing_edges(classes, graph);
    return classes;
}

std::pair<std::vector<int32_t>, int32_t> components(int32_t num_regions, EdgeView edges) {
    std::vector<int32_t> leader(static_cast<size_t>(num_regions));  // a region of the same component that is no later
    std::iota(leader.begin(), leader.end(), 0);
    const auto first = [&](int32_t r) {
        while (leader[r] != r) r = leader[r] = leader[leader[r]];
        return r;
    };
    for (size_t e = 0; e < edges.count(); ++e) {
        const int32_t a = first(edges.parents[e]), b = first(edges.children[e]);
        leader[std::max(a, b)] = std::min(a, b);
    }
    std::vector<int32_t> component(static_cast<size_t>(num_regions));
    int32_t count = 0;
    for (int32_t r = 0; r < num_regions; ++r) component[r] = leader[r] == r ? count++ : component[first(r)];
    return {std::move(component), count};
}

namespace {

// Assigns the classes of one tree at a time.
class ForestClasses {
  public:
    ForestClasses(int32_t num_regions, EdgeView edges)
        : graph_(num_regions, edges),
          above_(static_cast<size_t>(num_regions), kUnseen),
          level_(static_cast<size_t>(num_regions), -1) {}

    std::vector<int32_t> operator()() {
        const int32_t count = static_cast<int32_t>(level_.size());
        for (int32_t r = 0; r < count; ++r)
            if (above_[r] == kUnseen) {
                hang_from(centre(r));
                for (size_t k = order_.size(); k-- > 0;) assign_below(order_[k]);
            }
        for (int32_t r = 0; r < count; ++r)
            if (!graph_.sends(r)) level_[r] = -1;
        return std::move(level_);
    }

  private:
    static constexpr int32_t kUnseen = -2, kRoot = -1;

    // Breadth-first from the root: above_ = next region towards the root, order_ = the tree's regions, root first.
    void hang_from(int32_t root) {
        order_.assign(1, root);
        above_[root] = kRoot;
        for (size_t head = 0; head < order_.size(); ++head) {
            const int32_t x = order_[head];
            for (const std::span<const int32_t> neighbours : {graph_.parents[x], graph_.children[x]})
                for (const int32_t y : neighbours)
                    if (y != above_[x]) {
                        above_[y] = x;
                        order_.push_back(y);
                    }
        }
    }

    // The middle of a longest path.
    int32_t centre(int32_t anywhere) {
        hang_from(anywhere);
        hang_from(order_.back());
        int32_t length = 0, middle = order_.back();
        for (int32_t x = middle; above_[x] != kRoot; x = above_[x]) ++length;
        for (int32_t step = 0; step < length / 2; ++step) middle = above_[middle];
        return middle;
    }

    // Fixes the classes of the regions hanging from x. Until then level_ of a sender is the smallest class it may
    // have; level_ of a region that sends nothing is the largest class below it.
    void assign_below(int32_t x) {
        int32_t largest = -1;
        for (const int32_t p : graph_.parents[x])
            if (p != above_[x]) largest = std::max(largest, level_[p]);
        siblings_.clear();
        for (const int32_t c : graph_.children[x])
            if (c != above_[x]) siblings_.push_back(c);
        // Children of the same parent conflict: different classes, the earliest first.
        std::ranges::stable_sort(siblings_, {}, [&](int32_t c) { return level_[c]; });
        int32_t previous = -1;
        for (const int32_t c : siblings_) previous = level_[c] = std::max(level_[c], previous + 1);
        largest = std::max(largest, previous);
        level_[x] = graph_.sends(x) ? largest + 1 : largest;
    }

    Neighbours graph_;
    std::vector<int32_t> above_, level_, order_, siblings_;
};

}  // namespace

std::optional<std::vector<int32_t>> forest_classes(int32_t num_regions, EdgeView edges) {
    const int64_t trees = components(num_regions, edges).second;
    if (static_cast<int64_t>(edges.count()) != num_regions - trees) return std::nullopt;
    return ForestClasses(num_regions, edges)();
}

}  // namespace blendfield
