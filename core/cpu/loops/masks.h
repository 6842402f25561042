// Lanes of a block that take part, and what belongs to them. Like all of this folder included by kernels_isa.cpp only.
#pragma once
#include "cpu/kernels.h"
#include "cpu/pack.h"

namespace blendfield::BF_ISA {

namespace {

template <int W>
constexpr unsigned full_mask = W == 32 ? 0xffffffffu : (1u << W) - 1;

template <int P>
BF_FN unsigned pack_mask(unsigned mask, int pack) {
    return (mask >> (pack * P)) & (P == 32 ? 0xffffffffu : (1u << P) - 1);
}

// v in the lanes of the mask, 0 elsewhere.
template <class V>
BF_FN V among(V v, unsigned mask) {
    constexpr int P = Traits<V>::lanes;
    if (mask == (1u << P) - 1) return v;
    if constexpr (P > 1)
        for (int l = 0; l < P; ++l) v[l] = mask >> l & 1 ? v[l] : 0;
    return v;
}

template <class T, class V>
BF_FN V counting_of(const GroupView& g, int block, int lane) {
    return g.counting_uniform ? fill<V>(ScalarOf<V>(g.counting[0]))
                              : load_as<V>(g.counting + (long long)block * g.width + lane);
}

}  // namespace

}  // namespace blendfield::BF_ISA
