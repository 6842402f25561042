// What the parts of the certificate share; see certificate.cpp.
#pragma once
#include <algorithm>

#include "cpu/problem.h"

namespace blendfield {

// A table as seen from the smaller table over the axes in `mask`: how far each axis moves there, 0 for the other axes.
struct Projected {
    int axes = 0, extents[32] = {}, last = 1;
    int64_t strides[32] = {}, entries = 1, size = 1;  // of the table, of the smaller table
    Projected(const int* from, int count, uint32_t mask) : axes(count) {
        for (int a = axes - 1; a >= 0; --a) {
            extents[a] = from[a];
            entries *= from[a];
            strides[a] = mask >> a & 1 ? size : 0;
            if (mask >> a & 1) size *= from[a];
        }
        last = extents[axes - 1];
    }
    // Calls f(first entry, first label) for every row of the table; along a row the label moves by strides[axes - 1].
    template <class F>
    void for_rows(F f) const {
        int digit[32] = {};
        int64_t label = 0;
        for (int64_t e = 0; e < entries; e += last) {
            f(e, label);
            for (int a = axes - 2; a >= 0; --a) {
                label += strides[a];
                if (++digit[a] < extents[a]) break;
                label -= strides[a] * extents[a];
                digit[a] = 0;
            }
        }
    }
    void marginalise(const double* table, double* marginal) const {
        std::fill_n(marginal, size, 0.0);
        if (strides[axes - 1])
            for_rows([&](int64_t e, int64_t label) {
                for (int y = 0; y < last; ++y) marginal[label + y] += table[e + y];
            });
        else
            for_rows([&](int64_t e, int64_t label) {
                double sum = 0;
                for (int y = 0; y < last; ++y) sum += table[e + y];
                marginal[label] += sum;
            });
    }
    // table = f(table, small), entry by entry
    template <class F>
    void combine(const double* small, double* table, F f) const {
        if (strides[axes - 1])
            for_rows([&](int64_t e, int64_t label) {
                for (int y = 0; y < last; ++y) table[e + y] = f(table[e + y], small[label + y]);
            });
        else
            for_rows([&](int64_t e, int64_t label) {
                const double add = small[label];
                for (int y = 0; y < last; ++y) table[e + y] = f(table[e + y], add);
            });
    }
};

// What the projection and the scaling need to know of the graph; made at the first certificate.
template <class T>
struct Problem<T>::Deep {
    struct Region {
        int32_t region;
        int64_t table;  // offset of its q, core order
        int64_t first_node, last_node;
        int64_t first_child, last_child;
    };
    struct Node {  // a region and a subset of its axes on which it must agree with others
        uint32_t mask;
        int64_t size, marginal;  // of the subset's table; offset of the region's marginal
        int32_t component;
        int64_t source;  // an earlier node of the region whose subset contains this one, -1: the region itself
        uint32_t mask_in_source;
    };
    struct Child {
        int32_t deep;  // number of the child among `regions`
        uint32_t mask;
    };
    std::vector<Region> regions;
    std::vector<int32_t> number;  // [all regions] place in `regions`, -1
    std::vector<Node> nodes;
    std::vector<Child> children;
    std::vector<int64_t> component_start;
    std::vector<int32_t> component_nodes, node_region;
    std::vector<ValueItem> items;
    std::vector<int32_t> zero;  // regions with c = 0 and parents: b is the marginal of the first parent
    std::vector<Child> zero_parent;
    int64_t entries = 0, marginals = 0;
};

}  // namespace blendfield
