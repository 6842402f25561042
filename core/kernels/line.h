// One lane along a line in the potentials (float64): with u = hat + t d and b = softmax(u / (eps c)),
//
//   value = eps c log sum exp(u / (eps c)),    slope = sum b d,    curvature = sum b (d - slope)^2 / (eps c)
//
// At eps c = 0 the value is the maximum (for c < 0 the minimum), b is uniform on the entries within 1e-9 (1 + |value|)
// of it, and the curvature is 0.
#pragma once
#include "kernels/beliefs.h"

namespace blendfield::BF_ISA {

// Centres d, which keeps its square small: on entries with support its mean is taken out, elsewhere it becomes 0.
// Returns the mean.
template <class V, int W>
BF_FN V centre_direction(long long entries, const ScalarOf<V>* hat, ScalarOf<V>* direction) {
    const V zero = fill<V>(0), one = fill<V>(1), lowest = minus_infinity<V>();
    V sum = zero, count = zero;
    for (long long e = 0; e < entries; ++e) {
        const V h = Lanes<V>::load(hat + e * W);
        sum += h > lowest ? Lanes<V>::load(direction + e * W) : zero;
        count += h > lowest ? one : zero;
    }
    const V mean = sum / maximum(count, one);
    for (long long e = 0; e < entries; ++e)
        Lanes<V>::store(direction + e * W,
                        Lanes<V>::load(hat + e * W) > lowest ? Lanes<V>::load(direction + e * W) - mean : zero);
    return mean;
}

template <class V>
struct LinePoint {
    V value, slope, curvature;
};

// `direction` is centred, `mean` what was taken out of it. SOFT: no lane has temperature 0.
template <class V, int W, bool SOFT>
BF_FN LinePoint<V> point_on_line(long long entries, const ScalarOf<V>* hat, const ScalarOf<V>* direction, V mean,
                                 ScalarOf<V> step, V signed_temperature, V counting) {
    const V zero = fill<V>(0), one = fill<V>(1);
    const V sign = counting < zero ? -one : one;
    const V temperature = signed_temperature < zero ? -signed_temperature : signed_temperature;
    const V inverse = temperature > zero ? one / temperature : fill<V>(1e300);
    V largest = minus_infinity<V>();
    for (long long e = 0; e < entries; ++e)
        largest = maximum(largest,
                          signed_entry(Lanes<V>::load(hat + e * W) + Lanes<V>::load(direction + e * W) * step, sign));
    const V shift = maximum(largest, fill<V>(Limits<ScalarOf<V>>::lowest));
    const V best = largest + sign * mean * step;  // the tie rule is stated without centring
    const V tie = largest - 1e-9 * (one + (best < zero ? -best : best));
    V sum = zero, first = zero, second = zero;
    for (long long e = 0; e < entries; ++e) {
        const V d = Lanes<V>::load(direction + e * W);
        const V u = signed_entry(Lanes<V>::load(hat + e * W) + d * step, sign);
        V weight = exponential((u - shift) * inverse);
        if constexpr (!SOFT) weight = temperature > zero ? weight : (u >= tie ? one : zero);
        sum += weight;
        first += weight * d;
        second += weight * d * d;
    }
    const V scale = one / sum, slope = first * scale, variance = second * scale - slope * slope;
    LinePoint<V> point;
    point.value = sign * (largest + (temperature > zero ? temperature * logarithm(sum) : zero)) + mean * step;
    point.slope = slope + mean;
    point.curvature = temperature > zero ? sign * (variance > zero ? variance : zero) / temperature : zero;
    return point;
}

}  // namespace blendfield::BF_ISA
