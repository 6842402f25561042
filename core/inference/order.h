// In which order to sum variables out, so that the tables on the way stay small.
#pragma once
#include <cstdint>
#include <vector>

namespace blendfield {

// n variables, the first eliminated first. Eliminating order[k] makes a table over it and scope k, the neighbours it
// has then, all of them eliminated later.
struct EliminationOrder {
    std::vector<int32_t> order;          // [n]
    std::vector<int64_t> scope_offsets;  // [n + 1]
    std::vector<int32_t> scopes;         // [scope_offsets[n]]
    double entries = 0;                  // of all tables together
    double separators = 0;               // entries of all tables without the eliminated variable
    double largest = 0;                  // entries of the largest table
    int width = -1;                      // variables of the largest scope: no smaller than the treewidth
    bool complete = true;                // false: given up, entries and the rest are infinite, order is empty
};

// Greedy orders by several rules (fewest new neighbours, smallest table, ...), ties by index, and then with ties
// broken at random from fixed seeds as long as the search costs little against the elimination itself; the one with
// the fewest entries is kept, component by component. The same for the same input, whatever the machine does.
//
// neighbours [n]: sorted, symmetric, without loops; labels [n].
EliminationOrder elimination_order(std::vector<std::vector<int32_t>> neighbours, const std::vector<double>& labels);

}  // namespace blendfield
