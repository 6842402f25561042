// The gap of one lane: how far its belief is from a consistent q (float64).
//
//   gap_r = eps c_r sum ( q log(q / b) - q + b ),  every term >= 0;   at eps c_r = 0:  value_r - <q, hat_r>
//
// b = softmax(hat / (eps c)) is rebuilt in the logarithm, so that entries whose belief underflows still count.
#pragma once
#include "kernels/beliefs.h"

namespace blendfield::BF_ISA {

template <class V, int W>
BF_FN V gap_of_lane(long long entries, const ScalarOf<V>* hat, const ScalarOf<V>* q, const Normaliser<V>& n) {
    const V zero = fill<V>(0), one = fill<V>(1), tiny = fill<V>(1e-290);
    V divergence = zero, distance = zero;
    for (long long e = 0; e < entries; ++e) {
        const V u = signed_entry(Lanes<V>::load(hat + e * W), n.sign);
        const V weight = Lanes<V>::load(q + e * W);
        const V log_b = (u - n.largest) * n.inverse - n.log_sum;
        const V b = exponential(log_b);
        const V ratio = weight / (b > tiny ? b : one);
        const V safe = ratio > tiny ? ratio : one;
        const V difference = logarithm(safe) - (b > tiny ? zero : log_b);  // log(q / b)
        const V term = (weight > tiny ? weight * difference : zero) - weight + b;
        divergence += term > zero ? term : zero;
        const V missing = weight > zero ? weight * (n.largest - u) : zero;
        distance += missing;
    }
    return n.sign * (n.temperature > zero ? n.temperature * divergence : distance);
}

}  // namespace blendfield::BF_ISA
