// The parts of the counting numbers that need a walk over the graph.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/edges.h"

namespace blendfield {

// Moebius numbers c_r = 1 - sum of c_a over ALL ancestors a of r.   region_offsets [R+1] -> [R]
std::vector<double> moebius_numbers(std::span<const int64_t> region_offsets, EdgeView edges);

// Draws spanning trees (forests, when the graph is not connected) that prefer the links used least so far, at random
// among equals, until every link was used at least `at_least` times.
// Links may not be loops. Returns the uses of every link [L] and the number of trees; uses / trees is the edge
// appearance probability of the uniform distribution over the trees drawn.
std::pair<std::vector<int32_t>, int32_t> spanning_tree_uses(int32_t num_nodes, EdgeView links, int32_t at_least,
                                                            uint64_t seed);

}  // namespace blendfield
