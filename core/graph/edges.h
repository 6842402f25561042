// Edges from larger regions (parents) to smaller ones (children).
#pragma once
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "graph/regions.h"

namespace blendfield {

// E edges, edge e from parents[e] to children[e].   parents [E], children [E]
struct EdgeList {
    std::vector<int32_t> parents, children;

    void add(int32_t parent, int32_t child) {
        if (parents.size() == INT32_MAX) throw std::invalid_argument("the graph has more than 2^31 - 1 edges");
        parents.push_back(parent);
        children.push_back(child);
    }
};

struct EdgeView {
    std::span<const int32_t> parents, children;
    size_t count() const { return parents.size(); }
};

// For every node the other ends of its edges: node n has items[offsets[n] .. offsets[n+1]).
// Keeps the order of the edges, so items of sorted edges are sorted.
class Adjacency {
  public:
    Adjacency(int32_t num_nodes, std::span<const int32_t> from, std::span<const int32_t> to);
    std::span<const int32_t> operator[](int32_t node) const {
        return std::span(items_).subspan(offsets_[node], offsets_[node + 1] - offsets_[node]);
    }
    bool empty(int32_t node) const { return offsets_[node] == offsets_[node + 1]; }

  private:
    std::vector<uint32_t> offsets_;
    std::vector<int32_t> items_;
};

// All edges (p, c) with c a strict subset of p and no region strictly between them, sorted by (parent, child).
// Expects valid regions (check_regions), all sets different, every variable with its own single-variable region.
EdgeList hasse_edges(const Regions& regions, int32_t num_variables);

// All edges from a larger region to the single-variable regions of its variables, sorted by (parent, child).
EdgeList variable_edges(const Regions& regions, int32_t num_variables);

// The given edges sorted by (parent, child). Throws std::invalid_argument naming the first edge that is out of
// range, no strict inclusion, or given twice.
EdgeList checked_edges(const Regions& regions, EdgeView edges);

// Sorts by (parent, child) and merges duplicates.
EdgeList sorted_edges(std::vector<uint64_t> packed);
inline uint64_t pack_edge(int32_t parent, int32_t child) {
    return static_cast<uint64_t>(parent) << 32 | static_cast<uint32_t>(child);
}

// Regions in order of decreasing number of variables: every parent before its children.   [R]
std::vector<int32_t> largest_first(std::span<const int64_t> region_offsets);

}  // namespace blendfield
