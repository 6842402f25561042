// Compiles the structure of a program (regions, relinked edges, classes, counting numbers) into the flat arrays of
// views.h. Independent of the numbers in the tables and of their type, except for the weights c_p / c_hat.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/views.h"

namespace blendfield {

// The program as the caller holds it; see blendfield/backends/protocol.py.
struct ProgramArrays {
    int64_t regions = 0, edges = 0, variables = 0;
    const int32_t* cardinalities = nullptr;     // [variables]
    const int64_t* region_offsets = nullptr;    // [regions + 1]
    const int32_t* region_variables = nullptr;  // [region_offsets[regions]]
    const int64_t* table_offsets = nullptr;     // [regions + 1]
    const int32_t* edge_parents = nullptr;      // [edges], sorted by (parent, child)
    const int32_t* edge_children = nullptr;     // [edges]
    const double* counting = nullptr;           // [regions], or one for all: see counting_of
    const int32_t* region_class = nullptr;      // [regions], -1: sends nothing; or, null then,
    const int8_t* small_class = nullptr;        // the same in a byte each; needed while compiling only
    const int32_t* schedule = nullptr;          // [steps]
    int64_t steps = 0;
    const int32_t* segment = nullptr;  // [regions], or one for all: see segment_of
    int64_t segments = 0;
    bool same_counting = false, same_segment = false;

    int32_t class_of(int64_t region) const { return small_class ? small_class[region] : region_class[region]; }
    double counting_of(int64_t region) const { return counting[same_counting ? 0 : region]; }
    int32_t segment_of(int64_t region) const { return segment[same_segment ? 0 : region]; }
};

struct Group {
    std::vector<int> extents;
    std::vector<uint32_t> slot_masks;  // axes of the child, as bits
    std::vector<std::vector<int>> strides;
    std::vector<SlotView> slots;
    std::vector<double> counting;  // per padded lane, or one value
    int64_t entries = 1;
    int lanes = 0, width = 1, blocks = 0;
    int64_t tables = 0, base = -1, first_lane = 0;
    bool sends = false, uniform = true, forbidden = false, in_pieces = false;
};

struct Layout {
    int64_t regions = 0, variables = 0;
    std::vector<Group> groups;
    std::vector<GroupView> views;
    std::vector<int32_t> region_of_lane;  // [padded lanes], -1: padding
    std::vector<uint8_t> permuted;  // [padded lanes] the user's axes come in another order than the core's; empty: none
    std::vector<LightBlock> lights;
    std::vector<ParentEdge> edges;
    std::vector<unsigned> index;
    std::vector<double> weights;                // moved into the table type by the problem
    std::vector<std::vector<HeavyItem>> heavy;  // per class
    // Per class, where the items of a block begin, and the end: items of one block are never given to two threads,
    // since the vectors of one reach into lanes of the other.
    std::vector<std::vector<int>> heavy_blocks;
    std::vector<std::vector<int>> light;  // per class: light blocks
    std::vector<ValueItem> all_items;     // every region once
    std::vector<ValueItem> rest_items;    // regions outside {r} + P(r), r in the last class of the schedule
    std::vector<int> schedule;
    int64_t table_entries = 0, base_entries = 0, message_entries = 0, lanes = 0;
    int64_t largest_block = 0, largest_light = 0, largest_marginal = 0, largest_child = 0, largest_slot = 0;
    int most_slots = 0, most_parents = 0;
    bool positive_hats = true;  // every c_r + sum c_p > 0: the value after a sweep comes for free
    int64_t bytes() const;

    struct Place {  // of a region
        int32_t group, lane;
    };
    Place place_of_lane(int32_t padded_lane) const;
    // Only while a LaneOfRegion of this layout lives.
    int32_t lane(int64_t region) const { return lane_of_region[region]; }
    Place place(int64_t region) const { return place_of_lane(lane(region)); }

    bool is_permuted(int64_t padded_lane) const { return !permuted.empty() && permuted[padded_lane]; }

    // The light blocks that share one block of lanes (most often a single one).
    std::span<const LightBlock> lights_of(int group, int block) const;

    // Axes of a region in core order (ascending label count, then variable), as positions in the user's tuple.
    static void core_axes(const ProgramArrays& program, int64_t region, int* axes);

  private:
    friend class LaneOfRegion;
    friend Layout compile_layout(const ProgramArrays& program, int table_bytes);
    mutable std::vector<int32_t> lane_of_region;  // [regions], padded lane
};

// Lets `Layout::place` find regions. Sweeps and certificates go through lanes and need no such thing, so that the
// inverse of `region_of_lane` is made when asked for and let go afterwards.
class LaneOfRegion {
  public:
    explicit LaneOfRegion(const Layout& layout);
    ~LaneOfRegion();
    LaneOfRegion(const LaneOfRegion&) = delete;
    LaneOfRegion& operator=(const LaneOfRegion&) = delete;

  private:
    const Layout& layout_;
    bool outermost_;
};

// `table_bytes`: size of one table entry, for the choice of the block widths.
Layout compile_layout(const ProgramArrays& program, int table_bytes);

}  // namespace blendfield
