#include "graph/regions.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace blendfield {

std::vector<int32_t> sorted_variables(const Regions& regions) {
    std::vector<int32_t> sorted(regions.variables.begin(), regions.variables.end());
    for (int32_t r = 0; r < regions.count(); ++r)
        std::sort(sorted.begin() + regions.offsets[r], sorted.begin() + regions.offsets[r + 1]);
    return sorted;
}

RegionIndex::RegionIndex(const Regions& sorted_regions) : regions_(sorted_regions) {
    // At most two thirds full.
    const size_t wanted = static_cast<size_t>(regions_.count()) * 3 / 2 + 1;
    slots_.resize(std::bit_ceil(wanted));
}

std::pair<size_t, uint32_t> RegionIndex::locate(std::span<const int32_t> key) const {
    uint64_t hash = key.size();
    for (const int32_t variable : key) {
        hash = (hash ^ static_cast<uint32_t>(variable)) * 0x9E3779B97F4A7C15ULL;
        hash ^= hash >> 32;
    }
    const size_t mask = slots_.size() - 1;
    const auto tag = static_cast<uint32_t>(hash >> 32);
    size_t slot = hash & mask;
    while (slots_[slot].region >= 0 &&
           (slots_[slot].tag != tag || !std::ranges::equal(regions_[slots_[slot].region], key)))
        slot = (slot + 1) & mask;
    return {slot, tag};
}

int32_t RegionIndex::insert(int32_t r) {
    const auto [slot, tag] = locate(regions_[r]);
    if (slots_[slot].region < 0) slots_[slot] = {r, tag};
    return slots_[slot].region;
}

int32_t RegionIndex::find(std::span<const int32_t> key) const { return slots_[locate(key).first].region; }

std::string describe(std::span<const int32_t> variables) {
    std::string text = "(";
    for (size_t k = 0; k < variables.size(); ++k) text += (k ? ", " : "") + std::to_string(variables[k]);
    return text + (variables.size() == 1 ? ",)" : ")");
}

void check_regions(const Regions& regions, int32_t num_variables, const std::string& subject, bool may_be_empty) {
    int32_t sorted[kMaxOrder];
    for (int32_t r = 0; r < regions.count(); ++r) {
        const auto region = regions[r];
        const auto name = [&] { return subject + " " + std::to_string(r) + " "; };
        if (region.empty() && !may_be_empty)
            throw std::invalid_argument(name() + "is empty; expected at least one variable");
        if (region.size() > static_cast<size_t>(kMaxOrder))
            throw std::invalid_argument(name() + "has " + std::to_string(region.size()) +
                                        " variables; expected at most " + std::to_string(kMaxOrder));
        for (const int32_t variable : region)
            if (variable < 0 || variable >= num_variables)
                throw std::invalid_argument(name() + describe(region) + " names variable " + std::to_string(variable) +
                                            "; expected variables from 0 to " + std::to_string(num_variables - 1) +
                                            " (the graph has " + std::to_string(num_variables) + ")");
        const auto end = std::copy(region.begin(), region.end(), sorted);
        std::sort(sorted, end);
        if (const auto twice = std::adjacent_find(sorted, end); twice != end)
            throw std::invalid_argument(name() + describe(region) + " repeats variable " + std::to_string(*twice) +
                                        "; expected every variable at most once");
    }
}

std::vector<int32_t> first_with_same_variables(const Regions& regions) {
    const std::vector<int32_t> sorted = sorted_variables(regions);
    RegionIndex index({regions.offsets, sorted});
    std::vector<int32_t> first(static_cast<size_t>(regions.count()));
    for (int32_t r = 0; r < regions.count(); ++r) first[r] = index.insert(r);
    return first;
}

}  // namespace blendfield
