// Vectors of lanes by the vector extensions of GCC and clang: the CPU's value types for the kernels.
#pragma once
#include "kernels/portable.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace blendfield::BF_ISA {

#if defined(__AVX512F__)
constexpr int native_bytes = 64;
#elif defined(__AVX2__)
constexpr int native_bytes = 32;
#else
constexpr int native_bytes = 16;
#endif

template <class S, int N>
struct PackOf {
    typedef S type __attribute__((vector_size(N * sizeof(S))));
};
template <class S>
struct PackOf<S, 1> {
    typedef S type;
};
// N values of type S, or the scalar itself for N = 1.
template <class S, int N>
using Pack = typename PackOf<S, N>::type;

// The widest pack of S that divides a block of W lanes.
template <class S, int W>
using BlockPack = Pack<S, (W * (int)sizeof(S) < native_bytes ? W : native_bytes / (int)sizeof(S))>;
template <class S>
using NativePack = Pack<S, native_bytes / (int)sizeof(S)>;

// One instruction where there is one; the plain comparison elsewhere.
template <class V>
BF_FN V pack_maximum(V a, V b) {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64 && sizeof(a[0]) == 8) return (V)_mm512_max_pd((__m512d)a, (__m512d)b);
    if constexpr (sizeof(V) == 64 && sizeof(a[0]) == 4) return (V)_mm512_max_ps((__m512)a, (__m512)b);
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32 && sizeof(a[0]) == 8) return (V)_mm256_max_pd((__m256d)a, (__m256d)b);
    if constexpr (sizeof(V) == 32 && sizeof(a[0]) == 4) return (V)_mm256_max_ps((__m256)a, (__m256)b);
#endif
    return a > b ? a : b;
}

#define BF_PACK(S, I, U, N)                                                                             \
    template <>                                                                                         \
    struct Traits<Pack<S, N>> {                                                                         \
        using Scalar = S;                                                                               \
        using Integer = Pack<I, N>;                                                                     \
        using Unsigned = Pack<U, N>;                                                                    \
        static constexpr int lanes = N;                                                                 \
    };                                                                                                  \
    template <>                                                                                         \
    struct Lanes<Pack<S, N>> {                                                                          \
        typedef S Unaligned __attribute__((vector_size(N * sizeof(S)), aligned(sizeof(S)), may_alias)); \
        static BF_FN Pack<S, N> load(const S* p) { return *reinterpret_cast<const Unaligned*>(p); }     \
        static BF_FN void store(S* p, Pack<S, N> v) { *reinterpret_cast<Unaligned*>(p) = v; }           \
        static BF_FN Pack<S, N> fill(S s) { return Pack<S, N>{} + s; }                                  \
        static BF_FN Pack<S, N> maximum(Pack<S, N> a, Pack<S, N> b) { return pack_maximum(a, b); }      \
        static BF_FN Pack<U, N> bits(Pack<S, N> x) { return (Pack<U, N>)x; }                            \
        static BF_FN Pack<S, N> from_bits(Pack<U, N> x) { return (Pack<S, N>)x; }                       \
    };

BF_PACK(double, int64, uint64, 2)
BF_PACK(double, int64, uint64, 4)
BF_PACK(double, int64, uint64, 8)
BF_PACK(float, int, unsigned, 2)
BF_PACK(float, int, unsigned, 4)
BF_PACK(float, int, unsigned, 8)
BF_PACK(float, int, unsigned, 16)
#undef BF_PACK

// Conversion between float32 storage and float64 arithmetic, lane by lane.
template <class V, class S>
BF_FN V load_as(const S* p) {
    if constexpr (sizeof(S) == sizeof(ScalarOf<V>)) {
        return Lanes<V>::load(p);
    } else if constexpr (Traits<V>::lanes == 1) {
        return (V)*p;
    } else {
        return __builtin_convertvector((Lanes<Pack<S, Traits<V>::lanes>>::load(p)), V);
    }
}

template <class V>
BF_FN ScalarOf<V> lane_of(V v, int lane) {
    if constexpr (Traits<V>::lanes == 1) {
        return v;
    } else {
        return v[lane];
    }
}

// Reduction over the lanes, by halves: always the same order.
template <class V, class F>
BF_FN ScalarOf<V> reduce_lanes(V v, F f) {
    constexpr int P = Traits<V>::lanes;
    if constexpr (P == 16)
        v = f(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    if constexpr (P == 16) v = f(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3));
    if constexpr (P == 16) v = f(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1));
    if constexpr (P == 16) v = f(v, __builtin_shufflevector(v, v, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0));
    if constexpr (P == 8) v = f(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    if constexpr (P == 8) v = f(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 2, 3, 0, 1));
    if constexpr (P == 8) v = f(v, __builtin_shufflevector(v, v, 1, 0, 1, 0, 1, 0, 1, 0));
    if constexpr (P == 4) v = f(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
    if constexpr (P == 4) v = f(v, __builtin_shufflevector(v, v, 1, 0, 1, 0));
    if constexpr (P == 2) v = f(v, __builtin_shufflevector(v, v, 1, 0));
    return lane_of(v, 0);
}
template <class V>
BF_FN ScalarOf<V> sum_of_lanes(V v) {
    return reduce_lanes(v, [](V a, V b) { return a + b; });
}
template <class V>
BF_FN ScalarOf<V> max_of_lanes(V v) {
    return reduce_lanes(v, [](V a, V b) { return maximum(a, b); });
}

// v in the first `count` lanes, `other` in the rest.
template <class V>
BF_FN V first_lanes(V v, int count, V other) {
    constexpr int P = Traits<V>::lanes;
    if constexpr (P == 1) return v;
    typename Traits<V>::Integer numbers{};
    if constexpr (P > 1)
        for (int k = 0; k < P; ++k) numbers[k] = k;
    return numbers < count ? v : other;
}

}  // namespace blendfield::BF_ISA
