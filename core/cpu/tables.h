// How the flat tables outside (region after region, axes as the user wrote them) and the lane blocks inside correspond.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpu/layout.h"

namespace blendfield {

// Calls f(position in the user's table, entry in core order) for the entries of a region.
template <class F>
void for_user_entries(const ProgramArrays& program, int64_t region, F f) {
    int axes[32], digit[32] = {};
    int64_t strides[32];
    Layout::core_axes(program, region, axes);
    const int32_t* variables = program.region_variables + program.region_offsets[region];
    const int order = static_cast<int>(program.region_offsets[region + 1] - program.region_offsets[region]);
    int64_t user[32], stride = 1;
    for (int a = order - 1; a >= 0; --a) user[a] = stride, stride *= program.cardinalities[variables[a]];
    for (int a = 0; a < order; ++a) strides[a] = user[axes[a]];
    int64_t at = 0;
    for (int64_t e = 0; e < stride; ++e) {
        f(at, e);
        for (int a = order - 1; a >= 0; --a) {
            at += strides[a];
            if (++digit[a] < program.cardinalities[variables[axes[a]]]) break;
            at -= strides[a] * program.cardinalities[variables[axes[a]]];
            digit[a] = 0;
        }
    }
}

// Calls f(position in the flat tables, position in the block) for every entry of the lanes `mask` of a block.
template <class F>
void for_block_entries(const ProgramArrays& program, const Layout& layout, const ValueItem& item, F f) {
    const Group& g = layout.groups[item.group];
    const int64_t width = g.width, entries = g.entries, first = g.first_lane + item.block * width;
    int64_t start[32], lane[32];
    int count = 0;
    for (int l = 0; l < g.width; ++l) {
        if (!(item.mask >> l & 1)) continue;
        const int32_t region = layout.region_of_lane[first + l];
        const int64_t at = program.table_offsets[region];
        if (!layout.is_permuted(first + l)) {
            start[count] = at, lane[count++] = l;
        } else if (g.extents.size() == 2) {  // the transposed table
            const int64_t rows = g.extents[0], columns = g.extents[1];
            for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = 0; j < columns; ++j) f(at + j * rows + i, (i * columns + j) * width + l);
        } else {
            for_user_entries(program, region, [&](int64_t user, int64_t e) { f(at + user, e * width + l); });
        }
    }
    // A few entries of every lane at a time: what is touched stays in the first cache, on both sides.
    auto part = [&](int64_t from, auto size) {
        for (int k = 0; k < count; ++k)
            for (int64_t e = from; e < from + size; ++e) f(start[k] + e, e * width + lane[k]);
    };
    constexpr int64_t tile = 8;
    int64_t from = 0;
    if (width == 1)
        part(0, entries), from = entries;
    else if (entries == 2)
        part(0, std::integral_constant<int64_t, 2>()), from = 2;
    else if (entries == 4)
        part(0, std::integral_constant<int64_t, 4>()), from = 4;
    for (; from + tile <= entries; from += tile) part(from, std::integral_constant<int64_t, tile>());
    if (from < entries) part(from, entries - from);
}

}  // namespace blendfield
