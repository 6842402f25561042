// Which regions may send their messages at the same time.
//
// Region r sends to all its parents at once, and touches {r} + P(r). Two senders conflict when what they touch meets:
// one is the other's parent, or they share a parent. A class is a set of senders without conflicts.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "graph/edges.h"

namespace blendfield {

// Class of every region that has parents, -1 for the others: greedy in breadth-first order of the conflict graph (a
// bipartite conflict graph gets two classes). Classes are numbered by increasing number of edges to parents.   [R]
std::vector<int32_t> colour_classes(int32_t num_regions, EdgeView edges);

// Classes of an exact upward pass (leaves first) when regions and edges form a forest, else nothing: a region's class
// is larger than the classes of all senders below it, seen from a root near the centre of its tree.   [R]
std::optional<std::vector<int32_t>> forest_classes(int32_t num_regions, EdgeView edges);

// Connected component of every region, numbered by first region, and their count.   [R]
std::pair<std::vector<int32_t>, int32_t> components(int32_t num_regions, EdgeView edges);

}  // namespace blendfield
