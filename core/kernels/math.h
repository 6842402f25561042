// Branch-free exp and log, the same text for scalars and vectors of lanes, for float64 and float32.
//
// exp: x = n log 2 + r, |r| <= log(2)/2; exp(r) = 1 + r + r^2 p(r) with p a Chebyshev fit (relative error 1e-17 / 1e-8
// before rounding); n is added to the exponent bits. Results below the normal range are exactly 0; exp(-inf) = 0.
// log: x = 2^k m, m in [sqrt(1/2), sqrt(2)); s = (m - 1)/(m + 1); log(m) = 2 s + s^3 q(s^2).
#pragma once
#include "kernels/portable.h"

namespace blendfield::BF_ISA {

template <class S>
struct MathConstants;

template <>
struct MathConstants<double> {
    static constexpr double exp_lowest = -707.0;  // exp below this is returned as 0
    static constexpr double exp_highest = 709.0;
    static constexpr double log2e = 1.4426950408889634074;
    static constexpr double ln2_high = 6.93147180369123816490e-01;  // trailing bits zero: n * ln2_high is exact
    static constexpr double ln2_low = 1.90821492927058770002e-10;
    static constexpr double round_magic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
    static constexpr int mantissa_bits = 52;
    static constexpr uint64 sqrt_half_offset = 0x3ff0000000000000ull - 0x3fe6a09e667f3bcdull;
    static constexpr uint64 integer_magic = 0x4330000000000000ull;  // bits of 2^52
    static constexpr double integer_magic_bias = 4503599627370496.0 + 1023.0;
    static constexpr uint64 exponent_bias = 1023ull;
};

template <>
struct MathConstants<float> {
    static constexpr float exp_lowest = -86.0f;
    static constexpr float exp_highest = 88.0f;
    static constexpr float log2e = 1.44269504f;
    static constexpr float ln2_high = 0.693359375f;
    static constexpr float ln2_low = -2.12194440e-4f;
    static constexpr float round_magic = 12582912.0f;  // 1.5 * 2^23
    static constexpr int mantissa_bits = 23;
    static constexpr unsigned sqrt_half_offset = 0x3f800000u - 0x3f3504f3u;
    static constexpr unsigned integer_magic = 0x4b000000u;  // bits of 2^23
    static constexpr float integer_magic_bias = 8388608.0f + 127.0f;
    static constexpr unsigned exponent_bias = 127u;
};

template <class V>
BF_FN V exp_polynomial(V r, double) {
    V p = r * 2.5100424157005066788e-8 + 2.7620138719733995569e-7;
    p = p * r + 2.7557268378684192873e-6;
    p = p * r + 2.4801521190217727651e-5;
    p = p * r + 1.9841269863105968748e-4;
    p = p * r + 1.3888888917281793308e-3;
    p = p * r + 8.3333333333300513464e-3;
    p = p * r + 4.1666666666623991516e-2;
    p = p * r + 1.6666666666666667456e-1;
    return p * r + 0.5;
}

template <class V>
BF_FN V exp_polynomial(V r, float) {
    V p = r * 1.3926213466332443037e-3f + 8.3632029715758549465e-3f;
    p = p * r + 4.1666554437685938899e-2f;
    p = p * r + 1.6666576845993976311e-1f;
    return p * r + 0.5f;
}

template <class V>
BF_FN V log_polynomial(V z, double) {
    V q = z * 1.461780749280384681e-1 + 1.5331611694570086597e-1;
    q = q * z + 1.8182892433364563543e-1;
    q = q * z + 2.2222211089368124648e-1;
    q = q * z + 2.8571428626253907338e-1;
    q = q * z + 3.999999999989889036e-1;
    return q * z + 6.6666666666666697077e-1;
}

template <class V>
BF_FN V log_polynomial(V z, float) {
    V q = z * 2.9580986189116104177e-1f + 3.9988757710889484819e-1f;
    return q * z + 6.6666685095443046356e-1f;
}

// exp(x) for x <= exp_highest; NaN stays NaN.
template <class V>
BF_FN V exponential(V x) {
    using S = ScalarOf<V>;
    using K = MathConstants<S>;
    const V magic = fill<V>(K::round_magic);
    const V lowest = fill<V>(K::exp_lowest);
    const V clamped = x < lowest ? lowest : x;
    const V t = clamped * K::log2e + magic;
    const V n = t - magic;
    V r = clamped - n * K::ln2_high;
    r = r - n * K::ln2_low;
    const V p = (exp_polynomial(r, S()) * r) * r + r + S(1);
    const V result = Lanes<V>::from_bits(Lanes<V>::bits(p) + (Lanes<V>::bits(t) << K::mantissa_bits));
    return x < lowest ? fill<V>(S(0)) : result;
}

// log(x) for normal x > 0; log(0) = -inf.
template <class V>
BF_FN V logarithm(V x) {
    using S = ScalarOf<V>;
    using K = MathConstants<S>;
    const auto bits = Lanes<V>::bits(x);
    const auto exponent = (bits + K::sqrt_half_offset) >> K::mantissa_bits;  // biased by exponent_bias
    const V k = Lanes<V>::from_bits(exponent + K::integer_magic) - K::integer_magic_bias;
    const V m = Lanes<V>::from_bits(bits - ((exponent - K::exponent_bias) << K::mantissa_bits));
    const V f = m - S(1);
    const V s = f / (m + S(1));
    const V z = s * s;
    const V tail = s * (z * log_polynomial(z, S())) + k * K::ln2_low;
    // 2 s = f - s f, so that the leading term is exact
    const V result = k * K::ln2_high + (f + (tail - s * f));
    return x <= S(0) ? minus_infinity<V>() : result;
}

}  // namespace blendfield::BF_ISA
