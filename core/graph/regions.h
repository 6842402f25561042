// Regions as flat arrays, and the questions asked of them by their sets of variables.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace blendfield {

// A region's position bitmask within a larger region must fit 32 bits; a table of that order would be huge anyway.
inline constexpr int64_t kMaxOrder = 32;

// A view of R regions: region r holds variables[offsets[r] .. offsets[r+1]).   offsets [R+1], variables [offsets[R]]
struct Regions {
    std::span<const int64_t> offsets;
    std::span<const int32_t> variables;

    int32_t count() const { return static_cast<int32_t>(offsets.size()) - 1; }
    int32_t order(int32_t r) const { return static_cast<int32_t>(offsets[r + 1] - offsets[r]); }
    std::span<const int32_t> operator[](int32_t r) const {
        return variables.subspan(static_cast<size_t>(offsets[r]), static_cast<size_t>(offsets[r + 1] - offsets[r]));
    }
};

// The same regions, each with its variables in increasing order, so that equal sets are equal sequences.
std::vector<int32_t> sorted_variables(const Regions& regions);

// Looks regions up by their set of variables. Open addressing; part of the hash is kept next to the index, so that most
// failing lookups touch nothing but the table. 12 to 24 bytes per region.
class RegionIndex {
  public:
    explicit RegionIndex(const Regions& sorted_regions);
    // Adds region r unless a region with the same variables is there; returns the one that is there afterwards.
    int32_t insert(int32_t r);
    // The region with exactly these (sorted) variables, or -1.
    int32_t find(std::span<const int32_t> key) const;

  private:
    struct Slot {
        int32_t region = -1;
        uint32_t tag = 0;
    };
    // The slot that holds this key, or the empty one where it belongs, and its tag.
    std::pair<size_t, uint32_t> locate(std::span<const int32_t> key) const;
    Regions regions_;
    std::vector<Slot> slots_;
};

// Throws std::invalid_argument naming the first region that is empty (unless it may be), too large, repeats a
// variable or has an unknown one.
void check_regions(const Regions& regions, int32_t num_variables, const std::string& subject, bool may_be_empty);

// For every region the first region with the same set of variables (itself if there is none before).   [R]
std::vector<int32_t> first_with_same_variables(const Regions& regions);

// "(3, 5)"
std::string describe(std::span<const int32_t> variables);

}  // namespace blendfield
