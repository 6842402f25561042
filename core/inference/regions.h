// Models as the methods of this room see them: the user's graph and flat tables, nothing compiled.
#pragma once
#include <cstdint>
#include <numeric>
#include <vector>

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
};

// For every variable the regions that contain it, increasing, as compressed rows.
struct RegionsOfVariable {
    std::vector<int64_t> start;   // [V + 1]
    std::vector<int32_t> region;  // [region_offsets[R]]
    explicit RegionsOfVariable(const RegionArrays& a) : start(a.variables + 1, 0), region(a.region_offsets[a.regions]) {
        for (int64_t k = 0; k < a.region_offsets[a.regions]; ++k) ++start[a.region_variables[k] + 1];
        std::partial_sum(start.begin(), start.end(), start.begin());
        std::vector<int64_t> fill(start.begin(), start.end() - 1);
        for (int64_t r = 0; r < a.regions; ++r)
            for (int64_t k = a.region_offsets[r]; k < a.region_offsets[r + 1]; ++k)
                region[fill[a.region_variables[k]]++] = static_cast<int32_t>(r);
    }
};

}  // namespace blendfield
