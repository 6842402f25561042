// The gap of one lane: how far its belief is from a consistent q (float64).
//
//   gap_r = eps c_r sum ( q log(q / b) - q + b ),  every term >= 0;   at eps c_r = 0:  value_r - <q, hat_r>
//
// b = softmax(hat / (eps c)) is rebuilt in the logarithm, so that entries whose belief underflows still count.
#pragma once
#include "kernels/beliefs.h"

namespace blendfield::BF_ISA {

// One entry: q log(q / b) - q + b >= 0, clipped at 0 against rounding.
template <class V>
BF_FN V divergence_of_entry(V q, V b, V hat, const Normaliser<V>& n) {
    const V zero = fill<V>(0), one = fill<V>(1), tiny = fill<V>(1e-290);
    const V ratio = q / (b > tiny ? b : one);
    const V log_b = b > tiny ? zero : (signed_entry(hat, n.sign) - n.largest) * n.inverse - n.log_sum;
    const V term = (q > tiny ? q * (logarithm(ratio > tiny ? ratio : one) - log_b) : zero) - q + b;
    return term > zero ? term : zero;
}

// `belief`: b of the problem's temperature ([entries], any values where the temperature is 0).
template <class V, int W>
BF_FN V gap_of_lane(long long entries, const ScalarOf<V>* hat, const ScalarOf<V>* belief, const ScalarOf<V>* q,
                    const Normaliser<V>& n, bool all_soft) {
    const V zero = fill<V>(0);
    V divergence = zero, distance = zero;
    for (long long e = 0; e < entries; ++e)
        divergence += divergence_of_entry(Lanes<V>::load(q + e * W), Lanes<V>::load(belief + e * W),
                                          Lanes<V>::load(hat + e * W), n);
    if (all_soft) return n.sign * n.temperature * divergence;
    for (long long e = 0; e < entries; ++e) {
        const V weight = Lanes<V>::load(q + e * W), u = signed_entry(Lanes<V>::load(hat + e * W), n.sign);
        distance += weight > zero ? weight * (n.largest - u) : zero;
    }
    return n.sign * (n.temperature > zero ? n.temperature * divergence : distance);
}

// Makes q consistent with the q of two children, the axes of a table [L0, L1], and returns the gap, all in one go; with
// WRITE q is kept. The belief b is given; rows are scaled by f0, then columns by f1, so that no marginal exceeds its
// target; what is missing, r0 and r1 (each of mass delta), is filled in by r0 r1 / delta.
template <class V, int W, bool WRITE = false>
BF_FN V pair_gap(int l0, int l1, const ScalarOf<V>* hat, const ScalarOf<V>* belief, const ScalarOf<V>* target0,
                 const ScalarOf<V>* target1, ScalarOf<V>* work0, ScalarOf<V>* work1, const Normaliser<V>& n,
                 ScalarOf<V>* candidate = nullptr) {
    const V zero = fill<V>(0), one = fill<V>(1);
    ScalarOf<V>*f0 = work0, *r0 = work0 + (long long)l0 * W, *f1 = work1, *r1 = work1 + (long long)l1 * W;
    for (int j = 0; j < l1; ++j) Lanes<V>::store(r1 + j * W, zero);
    const ScalarOf<V>* row = belief;
    for (int i = 0; i < l0; ++i, row += l1 * W) {
        V marginal = zero;
        for (int j = 0; j < l1; ++j) marginal += Lanes<V>::load(row + j * W);
        const V want = Lanes<V>::load(target0 + i * W), f = marginal > want ? want / marginal : one;
        Lanes<V>::store(f0 + i * W, f);
        for (int j = 0; j < l1; ++j)
            Lanes<V>::store(r1 + j * W, Lanes<V>::load(r1 + j * W) + Lanes<V>::load(row + j * W) * f);
    }
    V mass1 = zero;
    for (int j = 0; j < l1; ++j) {
        const V marginal = Lanes<V>::load(r1 + j * W), want = Lanes<V>::load(target1 + j * W);
        Lanes<V>::store(f1 + j * W, marginal > want ? want / marginal : one);
        const V missing = marginal < want ? want - marginal : zero;
        mass1 += missing;
        Lanes<V>::store(r1 + j * W, missing);
    }
    V mass0 = zero;
    row = belief;
    for (int i = 0; i < l0; ++i, row += l1 * W) {
        V marginal = zero;
        for (int j = 0; j < l1; ++j) marginal += Lanes<V>::load(row + j * W) * Lanes<V>::load(f1 + j * W);
        marginal *= Lanes<V>::load(f0 + i * W);
        const V want = Lanes<V>::load(target0 + i * W), missing = marginal < want ? want - marginal : zero;
        mass0 += missing;
        Lanes<V>::store(r0 + i * W, missing);
    }
    const V tiny = fill<V>(1e-290);  // 1 / mass must not overflow
    const V scale = mass0 > tiny ? (mass1 > tiny ? one / mass1 : zero) : zero;
    V divergence = zero;
    row = belief;
    for (int i = 0; i < l0; ++i, row += l1 * W, hat += l1 * W, candidate += WRITE ? l1 * W : 0) {
        const V f = Lanes<V>::load(f0 + i * W), r = Lanes<V>::load(r0 + i * W) * scale;
        for (int j = 0; j < l1; ++j) {
            const V b = Lanes<V>::load(row + j * W);
            const V q = b * f * Lanes<V>::load(f1 + j * W) + r * Lanes<V>::load(r1 + j * W);
            divergence += divergence_of_entry(q, b, Lanes<V>::load(hat + j * W), n);
            if constexpr (WRITE) Lanes<V>::store(candidate + j * W, q);
        }
    }
    return n.sign * n.temperature * divergence;
}

}  // namespace blendfield::BF_ISA
