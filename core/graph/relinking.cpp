#include "graph/relinking.h"

#include <algorithm>

namespace blendfield {

EdgeList relink(std::span<const int64_t> region_offsets, std::span<const double> counting_numbers, EdgeView edges) {
    const int32_t count = static_cast<int32_t>(region_offsets.size()) - 1;
    const Adjacency parents(count, edges.children, edges.parents);
    const auto is_passed_over = [&](int32_t p) { return !parents.empty(p) && !(counting_numbers[p] > 0); };
    // The final parents of the regions that are passed over; parents come before their children, so that those of p
    // are known when its children ask.
    std::vector<std::vector<int32_t>> final_parents;
    std::vector<int32_t> place(static_cast<size_t>(count), -1);
    std::vector<uint64_t> packed;
    packed.reserve(edges.count());
    std::vector<int32_t> found;
    for (const int32_t r : largest_first(region_offsets)) {
        found.clear();
        for (const int32_t p : parents[r])
            if (place[p] < 0)
                found.push_back(p);
            else
                found.insert(found.end(), final_parents[place[p]].begin(), final_parents[place[p]].end());
        std::ranges::sort(found);
        found.erase(std::unique(found.begin(), found.end()), found.end());
        for (const int32_t p : found) packed.push_back(pack_edge(p, r));
        if (is_passed_over(r)) {
            place[r] = static_cast<int32_t>(final_parents.size());
            final_parents.push_back(found);
        }
    }
    return sorted_edges(std::move(packed));
}

}  // namespace blendfield
