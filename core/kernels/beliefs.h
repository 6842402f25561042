// Values and beliefs of one lane from its reparametrised table hat_r (float64, entry e at hat[e * W]).
//
//   value_r = eps c_r log sum exp(hat_r / (eps c_r)),    b_r = softmax(hat_r / (eps c_r))
//
// With t = |eps c_r| and s = sign(c_r): value = s (m + t log sum exp((s hat - m) / t)), m = max s hat. The limit t = 0
// is the maximum (for c_r < 0 the minimum); b_r is then uniform on the entries within 1e-9 (1 + |m|) of it. Forbidden
// entries
// (-inf) take no part, whatever the sign.
#pragma once
#include "kernels/math.h"

namespace blendfield::BF_ISA {

// The two numbers that turn hat into beliefs, and the value itself.
template <class V>
struct Normaliser {
    V largest;      // m
    V sum;          // sum exp((s hat - m) / t)
    V log_sum;      // its logarithm; at t = 0: 0
    V inverse;      // 1 / t; at t = 0 a huge number
    V sign;         // s
    V temperature;  // t
    V value;
};

template <class V>
BF_FN V signed_entry(V hat, V sign) {
    const V lowest = minus_infinity<V>();
    return hat > lowest ? hat * sign : lowest;
}

// With WRITE the terms of the sum, b_r up to its normalisation, are kept in `belief`.
template <class V, int W, bool WRITE = false>
BF_FN Normaliser<V> normalise(long long entries, const ScalarOf<V>* hat, V signed_temperature, V counting,
                              ScalarOf<V>* belief = nullptr) {
    const V zero = fill<V>(0), one = fill<V>(1);
    Normaliser<V> n;
    n.sign = counting < zero ? -one : one;
    n.temperature = signed_temperature < zero ? -signed_temperature : signed_temperature;
    n.inverse = n.temperature > zero ? one / n.temperature : fill<V>(1e300);
    n.largest = minus_infinity<V>();
    for (long long e = 0; e < entries; ++e)
        n.largest = maximum(n.largest, signed_entry(Lanes<V>::load(hat + e * W), n.sign));
    const V shift = maximum(n.largest, fill<V>(Limits<ScalarOf<V>>::lowest));
    V sum = zero;
    for (long long e = 0; e < entries; ++e) {
        const V term = exponential((signed_entry(Lanes<V>::load(hat + e * W), n.sign) - shift) * n.inverse);
        sum += term;
        if constexpr (WRITE) Lanes<V>::store(belief + e * W, term);
    }
    n.sum = sum;
    n.log_sum = n.temperature > zero ? logarithm(sum) : zero;
    n.value = n.sign * (n.largest + n.temperature * n.log_sum);
    return n;
}

// b_r into `belief`, which holds the terms of the sum already.
template <class V, int W>
BF_FN void finish_beliefs(long long entries, const ScalarOf<V>* hat, const Normaliser<V>& n, bool all_soft,
                          ScalarOf<V>* belief) {
    const V zero = fill<V>(0), one = fill<V>(1);
    V scale = one / n.sum;
    if (!all_soft) {  // some lane has temperature 0: uniform on the entries next to the maximum
        const V tie = n.largest - 1e-9 * (one + (n.largest < zero ? -n.largest : n.largest));
        V sum = zero;
        for (long long e = 0; e < entries; ++e) {
            const V u = signed_entry(Lanes<V>::load(hat + e * W), n.sign);
            const V b = n.temperature > zero ? Lanes<V>::load(belief + e * W) : (u >= tie ? one : zero);
            sum += b;
            Lanes<V>::store(belief + e * W, b);
        }
        scale = one / sum;
    }
    for (long long e = 0; e < entries; ++e) Lanes<V>::store(belief + e * W, Lanes<V>::load(belief + e * W) * scale);
}

}  // namespace blendfield::BF_ISA
