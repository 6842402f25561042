// The same scores over larger regions: the join graph of mini-buckets.
//
// Variables are eliminated in an order that keeps tables small. The regions that meet in the bucket of a variable are
// joined, but only as far as the joint table has at most `most_entries` entries; what a joined region has left without
// the variable goes on to the bucket of its next variable. Both are regions of the join graph, as are the variables
// that joined regions of one bucket share. A relaxation over them is exact when no bucket was split.
#pragma once
#include <cstdint>
#include <vector>

#include "inference/regions.h"

namespace blendfield {

struct JoinGraph {
    std::vector<int64_t> offsets{0};  // [n + 1]
    std::vector<int32_t> variables;   // of every region, increasing
    std::vector<int32_t> holder;      // [R], the region of the join graph that takes over the table
    bool exact = true;                // no bucket was split
};

JoinGraph join_regions(const RegionArrays& arrays, double most_entries);

// Adds every table of the model to that of its holder: out [entries of the join graph's tables].
void join_tables(const RegionArrays& arrays, const double* tables, const RegionArrays& joined, const int32_t* holder,
                 double* out);

}  // namespace blendfield
