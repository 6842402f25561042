// Edges around regions that must not send messages downwards.
#pragma once
#include <cstdint>
#include <span>

#include "graph/edges.h"

namespace blendfield {

// Replaces every edge (p, r) whose parent has parents itself and c_p <= 0 by the edges (p', r) for all parents p' of
// p, until every parent is an outer region or has c > 0. Sorted by (parent, child), duplicates merged.
// region_offsets [R+1], counting_numbers [R]
EdgeList relink(std::span<const int64_t> region_offsets, std::span<const double> counting_numbers, EdgeView edges);

}  // namespace blendfield
