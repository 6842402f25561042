// What lets one kernel text serve every processor.
//
// A kernel is written for ONE lane, in terms of a value type V. On a GPU V is float or double and a lane is a thread;
// on a CPU V is a vector of lanes (cpu/pack.h) that supports the same operators and the functions declared here.
// No standard header is included, so that NVRTC takes the text as it is.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define BF_FN __host__ __device__ __forceinline__
#else
#define BF_FN inline __attribute__((always_inline))
#endif

#ifdef __CUDACC_RTC__
#define BF_INFINITY __builtin_bit_cast(double, 0x7ff0000000000000ull)
#else
#define BF_INFINITY __builtin_huge_val()
#endif

// Each instruction set has its own namespace: functions compiled for AVX-512 must never be merged with their baseline
// twins by the linker.
#ifndef BF_ISA
#define BF_ISA scalar
#endif

namespace blendfield::BF_ISA {

using int64 = long long;
using uint64 = unsigned long long;

// Scalar of a value type and the integers of the same width.
template <class V>
struct Traits;

template <>
struct Traits<double> {
    using Scalar = double;
    using Integer = int64;
    using Unsigned = uint64;
    static constexpr int lanes = 1;
};

template <>
struct Traits<float> {
    using Scalar = float;
    using Integer = int;
    using Unsigned = unsigned;
    static constexpr int lanes = 1;
};

template <class V>
using ScalarOf = typename Traits<V>::Scalar;
template <class V>
using UnsignedOf = typename Traits<V>::Unsigned;

// The primitive operations of a value type, one value per lane.
template <class V>
struct Lanes {
    using S = ScalarOf<V>;
    using U = UnsignedOf<V>;
    static BF_FN V load(const S* p) { return *p; }
    static BF_FN void store(S* p, V v) { *p = v; }
    static BF_FN V fill(S s) { return s; }
    static BF_FN V maximum(V a, V b) { return a > b ? a : b; }
    union Both {
        S value;
        U bits;
    };
    static BF_FN U bits(V x) {
        Both both;
        both.value = x;
        return both.bits;
    }
    static BF_FN V from_bits(U x) {
        Both both;
        both.bits = x;
        return both.value;
    }
};

template <class V>
BF_FN V maximum(V a, V b) {
    return Lanes<V>::maximum(a, b);
}
template <class V>
BF_FN V fill(ScalarOf<V> s) {
    return Lanes<V>::fill(s);
}

// Limits of the floating-point types, spelled out because <limits> is not available everywhere.
template <class S>
struct Limits;
template <>
struct Limits<double> {
    static constexpr double lowest = -1.7976931348623157e308;
    static constexpr double infinity = BF_INFINITY;
};
template <>
struct Limits<float> {
    static constexpr float lowest = -3.402823466e38f;
    static constexpr float infinity = float(BF_INFINITY);
};

template <class V>
BF_FN V minus_infinity() {
    return Lanes<V>::fill(-Limits<ScalarOf<V>>::infinity);
}

}  // namespace blendfield::BF_ISA
