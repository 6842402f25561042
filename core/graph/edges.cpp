#include "graph/edges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

namespace blendfield {

Adjacency::Adjacency(int32_t num_nodes, std::span<const int32_t> from, std::span<const int32_t> to)
    : offsets_(static_cast<size_t>(num_nodes) + 2, 0), items_(to.size()) {
    // Counting sort; offsets are kept one place to the right while filling, so no second cursor array is needed.
    for (const int32_t node : from) ++offsets_[node + 2];
    for (size_t n = 2; n < offsets_.size(); ++n) offsets_[n] += offsets_[n - 1];
    for (size_t e = 0; e < to.size(); ++e) items_[offsets_[from[e] + 1]++] = to[e];
    offsets_.pop_back();
}

std::vector<int32_t> largest_first(std::span<const int64_t> region_offsets) {
    const int32_t count = static_cast<int32_t>(region_offsets.size()) - 1;
    std::array<int32_t, kMaxOrder + 2> start{};
    const auto rank = [&](int32_t r) { return kMaxOrder - (region_offsets[r + 1] - region_offsets[r]); };
    for (int32_t r = 0; r < count; ++r) ++start[rank(r) + 1];
    for (size_t k = 1; k < start.size(); ++k) start[k] += start[k - 1];
    std::vector<int32_t> regions(static_cast<size_t>(count));
    for (int32_t r = 0; r < count; ++r) regions[start[rank(r)]++] = r;
    return regions;
}

namespace {

std::vector<int32_t> single_regions(const Regions& regions, int32_t num_variables) {
    std::vector<int32_t> single(static_cast<size_t>(num_variables), -1);
    for (int32_t r = 0; r < regions.count(); ++r)
        if (regions.order(r) == 1) single[regions[r][0]] = r;
    return single;
}

// Larger regions (two variables and more) filed under the one of their variables that is rarest: a subset of p is
// always filed under a variable of p, and hubs that occur in many regions have short lists. Smallest regions first.
class Candidates {
  public:
    Candidates(const Regions& sorted, int32_t num_variables) : lists_(build(sorted, num_variables)) {}
    std::span<const int32_t> operator[](int32_t variable) const { return lists_[variable]; }

  private:
    static Adjacency build(const Regions& sorted, int32_t num_variables) {
        std::vector<int32_t> occurrences(static_cast<size_t>(num_variables), 0);
        for (const int32_t variable : sorted.variables) ++occurrences[variable];
        std::vector<int32_t> regions = largest_first(sorted.offsets);
        std::reverse(regions.begin(), regions.end());
        std::erase_if(regions, [&](int32_t r) { return sorted.order(r) < 2; });
        std::vector<int32_t> rarest(regions.size());
        for (size_t k = 0; k < regions.size(); ++k)
            rarest[k] = *std::ranges::min_element(sorted[regions[k]], {}, [&](int32_t i) { return occurrences[i]; });
        return Adjacency(num_variables, rarest, regions);
    }
    Adjacency lists_;
};

// A subset of the region at hand: bit k of the mask is set when it contains the region's k-th variable.
struct Subset {
    uint32_t mask;
    int32_t region;
};

bool is_covered(uint32_t mask, const std::vector<Subset>& maximal) {
    return std::ranges::any_of(maximal, [mask](const Subset& other) { return (mask & ~other.mask) == 0; });
}

// Mask of `small` within `large` (both sorted), or 0 when it is no subset.
uint32_t mask_within(std::span<const int32_t> small, std::span<const int32_t> large) {
    uint32_t mask = 0;
    size_t k = 0;
    for (const int32_t variable : small) {
        while (k < large.size() && large[k] < variable) ++k;
        if (k == large.size() || large[k] != variable) return 0;
        mask |= uint32_t{1} << k++;
    }
    return mask;
}

class HasseSearch {
  public:
    HasseSearch(const Regions& sorted, int32_t num_variables)
        : sorted_(sorted), index_(sorted), candidates_(sorted, num_variables) {
        for (int32_t r = 0; r < sorted.count(); ++r) {
            index_.insert(r);
            ++regions_of_order_[sorted.order(r)];
        }
    }

    // The maximal strict subsets of region p that have at least two variables.
    const std::vector<Subset>& operator()(int32_t p) {
        maximal_.clear();
        const int32_t order = sorted_.order(p);
        if (order > 2) {
            // A lookup and a subset test cost about the same.
            double lookups = 0, tests = 0;
            double binomial = 1;
            for (int32_t size = 0; size < order; ++size) {
                if (size >= 2 && regions_of_order_[size] > 0) lookups += binomial;
                binomial *= static_cast<double>(order - size) / (size + 1);
            }
            for (const int32_t variable : sorted_[p]) tests += static_cast<double>(candidates_[variable].size());
            if (lookups <= tests)
                look_up_subsets(p);
            else
                test_candidates(p);
        }
        return maximal_;
    }

  private:
    void look_up_subsets(int32_t p) {
        const auto variables = sorted_[p];
        const uint64_t end = uint64_t{1} << variables.size();
        for (int32_t size = sorted_.order(p) - 1; size >= 2; --size) {
            if (regions_of_order_[size] == 0) continue;
            // All masks with `size` bits in increasing order (Gosper's hack).
            for (uint64_t mask = (uint64_t{1} << size) - 1; mask < end;) {
                if (!is_covered(static_cast<uint32_t>(mask), maximal_)) {
                    int32_t key[kMaxOrder];
                    int32_t count = 0;
                    for (uint64_t rest = mask; rest; rest &= rest - 1) key[count++] = variables[std::countr_zero(rest)];
                    const int32_t child = index_.find({key, static_cast<size_t>(count)});
                    if (child >= 0) maximal_.push_back({static_cast<uint32_t>(mask), child});
                }
                const uint64_t next = mask + (mask & (~mask + 1));
                mask = next | ((mask ^ next) >> (2 + std::countr_zero(mask)));
            }
        }
    }

    void test_candidates(int32_t p) {
        found_.clear();
        for (const int32_t variable : sorted_[p])
            for (const int32_t c : candidates_[variable]) {
                if (sorted_.order(c) >= sorted_.order(p)) break;
                if (const uint32_t mask = mask_within(sorted_[c], sorted_[p])) found_.push_back({mask, c});
            }
        std::ranges::stable_sort(found_, std::ranges::greater{}, [](const Subset& s) { return std::popcount(s.mask); });
        for (const Subset& subset : found_)
            if (!is_covered(subset.mask, maximal_)) maximal_.push_back(subset);
    }

    Regions sorted_;
    RegionIndex index_;
    Candidates candidates_;
    std::array<int32_t, kMaxOrder + 1> regions_of_order_{};
    std::vector<Subset> found_, maximal_;
};

}  // namespace

EdgeList hasse_edges(const Regions& regions, int32_t num_variables) {
    const std::vector<int32_t> variables = sorted_variables(regions);
    const Regions sorted{regions.offsets, variables};
    const std::vector<int32_t> single = single_regions(sorted, num_variables);
    HasseSearch larger_children(sorted, num_variables);
    EdgeList edges;
    std::vector<int32_t> children;
    for (int32_t p = 0; p < sorted.count(); ++p) {
        if (sorted.order(p) == 1) continue;
        children.clear();
        uint32_t covered = 0;
        for (const Subset& subset : larger_children(p)) {
            covered |= subset.mask;
            children.push_back(subset.region);
        }
        // A single variable is a child exactly when no larger child contains it.
        for (size_t k = 0; k < sorted[p].size(); ++k)
            if (!(covered >> k & 1)) children.push_back(single[sorted[p][k]]);
        std::ranges::sort(children);
        for (const int32_t c : children) edges.add(p, c);
    }
    return edges;
}

EdgeList variable_edges(const Regions& regions, int32_t num_variables) {
    const std::vector<int32_t> single = single_regions(regions, num_variables);
    EdgeList edges;
    std::vector<int32_t> children;
    for (int32_t p = 0; p < regions.count(); ++p) {
        if (regions.order(p) == 1) continue;
        children.clear();
        for (const int32_t variable : regions[p]) children.push_back(single[variable]);
        std::ranges::sort(children);
        for (const int32_t c : children) edges.add(p, c);
    }
    return edges;
}

EdgeList sorted_edges(std::vector<uint64_t> packed) {
    std::ranges::sort(packed);
    packed.erase(std::unique(packed.begin(), packed.end()), packed.end());
    EdgeList edges;
    edges.parents.reserve(packed.size());
    edges.children.reserve(packed.size());
    for (const uint64_t edge : packed) edges.add(static_cast<int32_t>(edge >> 32), static_cast<int32_t>(edge));
    return edges;
}

EdgeList checked_edges(const Regions& regions, EdgeView edges) {
    const std::vector<int32_t> variables = sorted_variables(regions);
    const Regions sorted{regions.offsets, variables};
    const auto describe_edge = [&](int32_t p, int32_t c) {
        return "(" + std::to_string(p) + ", " + std::to_string(c) + ")";
    };
    std::vector<uint64_t> packed(edges.count());
    for (size_t e = 0; e < edges.count(); ++e) {
        const int32_t p = edges.parents[e], c = edges.children[e];
        const auto name = [&] { return "edge " + std::to_string(e) + " " + describe_edge(p, c); };
        for (const int32_t r : {p, c})
            if (r < 0 || r >= regions.count())
                throw std::invalid_argument(name() + " names region " + std::to_string(r) +
                                            "; expected regions from 0 to " + std::to_string(regions.count() - 1));
        if (sorted.order(c) >= sorted.order(p) || mask_within(sorted[c], sorted[p]) == 0)
            throw std::invalid_argument(
                name() + ": expected (parent, child) with the child's variables a strict subset " +
                "of the parent's, got " + describe(regions[p]) + " and " + describe(regions[c]));
        packed[e] = pack_edge(p, c);
    }
    const EdgeList result = sorted_edges(packed);
    if (result.parents.size() < packed.size()) {
        std::ranges::sort(packed);
        const uint64_t twice = *std::ranges::adjacent_find(packed);
        throw std::invalid_argument("edge " +
                                    describe_edge(static_cast<int32_t>(twice >> 32), static_cast<int32_t>(twice)) +
                                    " is given twice; expected every edge once");
    }
    return result;
}

}  // namespace blendfield
