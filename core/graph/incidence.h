// Which regions contain a variable.
#pragma once
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace blendfield {

// For every variable the regions that contain it, increasing, as compressed rows: those of v are
// region[start[v]] .. region[start[v + 1] - 1].
struct RegionsOfVariable {
    std::vector<uint32_t> start;  // [variables + 1]
    std::vector<int32_t> region;  // [region_offsets[regions]]

    // region_offsets [regions + 1], region_variables [region_offsets[regions]]
    RegionsOfVariable(int64_t regions, int64_t variables, const int64_t* region_offsets,
                      const int32_t* region_variables)
        : start(variables + 2, 0), region(region_offsets[regions]) {
        if (region.size() > UINT32_MAX) throw std::length_error("the regions have more than 2^32 - 1 axes together");
        // A counting sort; starts are kept one place to the right while rows are filled.
        for (int64_t k = 0; k < region_offsets[regions]; ++k) ++start[region_variables[k] + 2];
        std::partial_sum(start.begin(), start.end(), start.begin());
        for (int64_t r = 0; r < regions; ++r)
            for (int64_t k = region_offsets[r]; k < region_offsets[r + 1]; ++k)
                region[start[region_variables[k] + 1]++] = static_cast<int32_t>(r);
        start.pop_back();
    }
};

}  // namespace blendfield
