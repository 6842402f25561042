// Models as the methods of this room see them: the user's graph and flat tables, nothing compiled.
#pragma once
#include <cstdint>

#include "graph/incidence.h"

namespace blendfield {

// R regions over V variables; see graph/region_graph.py. Tables lie one after the other, each in C order.
struct RegionArrays {
    int64_t regions = 0, variables = 0;
    const int32_t* cardinalities = nullptr;     // [V]
    const int64_t* region_offsets = nullptr;    // [R + 1]
    const int32_t* region_variables = nullptr;  // [region_offsets[R]]
    const int64_t* table_offsets = nullptr;     // [R + 1]

    int order(int64_t r) const { return static_cast<int>(region_offsets[r + 1] - region_offsets[r]); }
    const int32_t* scope(int64_t r) const { return region_variables + region_offsets[r]; }
    RegionsOfVariable regions_of_variable() const { return {regions, variables, region_offsets, region_variables}; }
};

}  // namespace blendfield
