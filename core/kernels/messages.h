// Messages of the norm-product block update, for one lane.
//
//   mu_{p->r}(y_r)     = eps c_p log sum_{y_p \ y_r} exp[ (theta_p + sum_{c in C(p)\r} lambda_{c->p}
//                                                          - sum_{p'} lambda_{p->p'}) / (eps c_p) ]          (heavy
//                                                          phase)
//   lambda_{r->p}(y_r) = c_p / (c_r + sum_{p'} c_{p'}) (theta_r + sum_c lambda_{c->r} + sum_{p'} mu_{p'->r}) -
//   mu_{p->r}
//                                                                                                            (light
//                                                                                                            phase)
//
// `table` already holds theta_p minus the messages upwards. All arrays are strided by W: entry e of this lane is at
// table[e * W]. Forbidden entries are -inf and need no branch: exp(-inf) = 0, and mu of a label without support is
// -inf. With SOFT = false the sum is a maximum (eps c_p = 0).
#pragma once
#include "kernels/math.h"

namespace blendfield::BF_ISA {

// max + temperature * log(sum), where sum = sum exp((v - max) / temperature)
template <class V>
BF_FN V finish_message(V largest, V sum, V temperature) {
    return largest + temperature * logarithm(sum);
}

// A finite stand-in for the maximum of an all-forbidden set, so that (-inf) - (-inf) never happens.
template <class V>
BF_FN V finite(V largest) {
    return maximum(largest, fill<V>(Limits<ScalarOf<V>>::lowest));
}

// mu to the first axis of a table [L0, L1]; `other` are the messages of the second axis.
template <class V, int W, bool SOFT, int L0, int L1>
BF_FN void pair_message_first(int l0, int l1, const ScalarOf<V>* table, const ScalarOf<V>* other, ScalarOf<V>* out,
                              V temperature, V inverse) {
    const int rows = L0 ? L0 : l0, columns = L1 ? L1 : l1;
    for (int i = 0; i < rows; ++i, table += columns * W) {
        V largest = minus_infinity<V>();
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j)
            largest = maximum(largest, Lanes<V>::load(table + j * W) + Lanes<V>::load(other + j * W));
        if constexpr (SOFT) {
            const V shift = finite(largest);
            V sum = fill<V>(0);
#pragma GCC unroll 4
            for (int j = 0; j < columns; ++j)
                sum += exponential((Lanes<V>::load(table + j * W) + Lanes<V>::load(other + j * W) - shift) * inverse);
            largest = finish_message(largest, sum, temperature);
        }
        Lanes<V>::store(out + i * W, largest);
    }
}

// mu to the second axis. Rows are streamed; maxima collect in `out`, sums in `sums` ([L1] values of V).
template <class V, int W, bool SOFT, int L0, int L1>
BF_FN void pair_message_second(int l0, int l1, const ScalarOf<V>* table, const ScalarOf<V>* other, ScalarOf<V>* out,
                               ScalarOf<V>* sums, V temperature, V inverse) {
    const int rows = L0 ? L0 : l0, columns = L1 ? L1 : l1;
    constexpr int P = Traits<V>::lanes;
    for (int j = 0; j < columns; ++j) Lanes<V>::store(out + j * W, minus_infinity<V>());
    const ScalarOf<V>* row = table;
    for (int i = 0; i < rows; ++i, row += columns * W) {
        const V add = Lanes<V>::load(other + i * W);
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j)
            Lanes<V>::store(out + j * W, maximum(Lanes<V>::load(out + j * W), Lanes<V>::load(row + j * W) + add));
    }
    if constexpr (SOFT) {
        for (int j = 0; j < columns; ++j) Lanes<V>::store(sums + j * P, fill<V>(0));
        row = table;
        for (int i = 0; i < rows; ++i, row += columns * W) {
            const V add = Lanes<V>::load(other + i * W);
#pragma GCC unroll 4
            for (int j = 0; j < columns; ++j) {
                const V shift = finite(Lanes<V>::load(out + j * W));
                const V v = Lanes<V>::load(row + j * W) + add;
                Lanes<V>::store(sums + j * P, Lanes<V>::load(sums + j * P) + exponential((v - shift) * inverse));
            }
        }
        for (int j = 0; j < columns; ++j)
            Lanes<V>::store(out + j * W,
                            finish_message(Lanes<V>::load(out + j * W), Lanes<V>::load(sums + j * P), temperature));
    }
}

// log-sum-exp of two values by one exp and one log.
template <class V, bool SOFT>
BF_FN V soft_maximum(V a, V b, V temperature, V inverse) {
    const V high = maximum(a, b);
    if constexpr (!SOFT) return high;
    const V low = a > b ? b : a;
    return finish_message(high, fill<V>(1) + exponential((low - finite(high)) * inverse), temperature);
}

// Both labels of one axis of a 2x2 table; `first`: the message goes to the first axis.
template <class V, int W, bool SOFT>
BF_FN void pair_message_binary(bool first, const ScalarOf<V>* table, const ScalarOf<V>* other, ScalarOf<V>* out,
                               V temperature, V inverse) {
    const V other0 = Lanes<V>::load(other), other1 = Lanes<V>::load(other + W);
    const V t00 = Lanes<V>::load(table), t11 = Lanes<V>::load(table + 3 * W);
    const V t01 = Lanes<V>::load(table + (first ? 1 : 2) * W), t10 = Lanes<V>::load(table + (first ? 2 : 1) * W);
    Lanes<V>::store(out, soft_maximum<V, SOFT>(t00 + other0, t01 + other1, temperature, inverse));
    Lanes<V>::store(out + W, soft_maximum<V, SOFT>(t10 + other0, t11 + other1, temperature, inverse));
}

// One slot's messages inside the general kernel: where they start and how the table's last axis moves in them.
template <class S>
struct Incoming {
    const S* start;
    const int* strides;
    int last_stride;
    int offset;  // moved by the odometer
};

// mu to any child of a table with any number of axes: the table is streamed row by row (last axis innermost) while an
// odometer keeps the position inside the child (`own`) and inside the other messages. The first `moving` of the other
// messages move along with the rows, the rest are constant there; MOVING = moving, or -1. `sums`: [child labels] values
// of V.
template <class V, int W, bool SOFT, int MOVING>
BF_FN void stream_message(int axes, const int* extents, long long outer, const ScalarOf<V>* table,
                          const int* own_strides, int own_last, int labels, int others, int moving,
                          Incoming<ScalarOf<V>>* other, ScalarOf<V>* out, ScalarOf<V>* sums, V temperature, V inverse) {
    using S = ScalarOf<V>;
    constexpr int P = Traits<V>::lanes;
    constexpr int max_axes = 32;
    const int last = extents[axes - 1], along = MOVING >= 0 ? MOVING : moving;
    for (int c = 0; c < labels; ++c) {
        Lanes<V>::store(out + (long long)c * W, minus_infinity<V>());
        if constexpr (SOFT) Lanes<V>::store(sums + (long long)c * P, fill<V>(0));
    }
    for (int pass = 0; pass < (SOFT ? 2 : 1); ++pass) {
        int digit[max_axes] = {};
        int own = 0;
        for (int k = 0; k < others; ++k) other[k].offset = 0;
        const S* row = table;
        for (long long o = 0; o < outer; ++o, row += (long long)last * W) {
            V constant = fill<V>(0);
            for (int k = along; k < others; ++k)
                constant += Lanes<V>::load(other[k].start + (long long)other[k].offset * W);
            const auto entry = [&](int y) {
                V v = Lanes<V>::load(row + (long long)y * W) + constant;
                for (int k = 0; k < along; ++k)
                    v += Lanes<V>::load(other[k].start + (long long)(other[k].offset + y) * W);
                return v;
            };
            S *target = out + (long long)own * W, *sum = sums + (long long)own * P;
            if (own_last && pass == 0) {
#pragma GCC unroll 4
                for (int y = 0; y < last; ++y)
                    Lanes<V>::store(target + (long long)y * W,
                                    maximum(Lanes<V>::load(target + (long long)y * W), entry(y)));
            } else if (own_last) {
#pragma GCC unroll 4
                for (int y = 0; y < last; ++y)
                    Lanes<V>::store(sum + (long long)y * P,
                                    Lanes<V>::load(sum + (long long)y * P) +
                                        exponential((entry(y) - Lanes<V>::load(target + (long long)y * W)) * inverse));
            } else if (pass == 0) {
                V largest = Lanes<V>::load(target);
#pragma GCC unroll 4
                for (int y = 0; y < last; ++y) largest = maximum(largest, entry(y));
                Lanes<V>::store(target, largest);
            } else {
                const V shift = Lanes<V>::load(target);
                V collected = Lanes<V>::load(sum);
#pragma GCC unroll 4
                for (int y = 0; y < last; ++y) collected += exponential((entry(y) - shift) * inverse);
                Lanes<V>::store(sum, collected);
            }
            for (int axis = axes - 2; axis >= 0; --axis) {  // the odometer
                own += own_strides[axis];
                for (int k = 0; k < others; ++k) other[k].offset += other[k].strides[axis];
                if (++digit[axis] < extents[axis]) break;
                own -= own_strides[axis] * extents[axis];
                for (int k = 0; k < others; ++k) other[k].offset -= other[k].strides[axis] * extents[axis];
                digit[axis] = 0;
            }
        }
        if constexpr (SOFT)
            for (int c = 0; c < labels; ++c) {
                S* target = out + (long long)c * W;
                const V largest = Lanes<V>::load(target);
                if (pass == 0)  // without support the sum stays 0, and the message is -inf all the same
                    Lanes<V>::store(target, finite(largest));
                else
                    Lanes<V>::store(target,
                                    finish_message(largest, Lanes<V>::load(sums + (long long)c * P), temperature));
            }
    }
}

// The same, whatever the order of the other messages (it is changed).
template <class V, int W, bool SOFT>
BF_FN void general_message(int axes, const int* extents, long long outer, const ScalarOf<V>* table,
                           const int* own_strides, int own_last, int labels, int others, Incoming<ScalarOf<V>>* other,
                           ScalarOf<V>* out, ScalarOf<V>* sums, V temperature, V inverse) {
    int moving = 0;
    for (int k = 0; k < others; ++k) {
        if (!other[k].last_stride) continue;
        const Incoming<ScalarOf<V>> one = other[k];
        other[k] = other[moving];
        other[moving++] = one;
    }
#define BF_STREAM(MOVING)                                                                                          \
    stream_message<V, W, SOFT, MOVING>(axes, extents, outer, table, own_strides, own_last, labels, others, moving, \
                                       other, out, sums, temperature, inverse)
    if (moving == 0)
        BF_STREAM(0);
    else if (moving == 1)
        BF_STREAM(1);
    else if (moving == 2)
        BF_STREAM(2);
    else
        BF_STREAM(-1);
#undef BF_STREAM
}

// lambda to every parent of one region, in place: mu[j][y] becomes lambda[j][y]; label y of this lane is at offset y *
// W. `total` [y] = theta_r + messages of the children; on return its sum with all mu (the block's optimum depends on it
// only). Messages are defined up to a constant: each is centred to mean zero over the labels with support.
template <class V, int W, bool FORBIDDEN>
BF_FN void outgoing_messages(long long labels, int degree, ScalarOf<V>* total, ScalarOf<V>* mu, const V* weights) {
    using S = ScalarOf<V>;
    V mean_total = fill<V>(0), count = fill<V>(S(FORBIDDEN ? 0 : labels));
    const V lowest = minus_infinity<V>(), zero = fill<V>(0), one = fill<V>(1);
    for (long long y = 0; y < labels; ++y) {
        V sum = Lanes<V>::load(total + y * W);
        for (int j = 0; j < degree; ++j) sum += Lanes<V>::load(mu + (j * labels + y) * W);
        Lanes<V>::store(total + y * W, sum);
        if constexpr (FORBIDDEN) {
            mean_total += sum > lowest ? sum : zero;
            count += sum > lowest ? one : zero;
        } else {
            mean_total += sum;
        }
    }
    const V scale = one / (count > zero ? count : one);
    mean_total *= scale;
    for (int j = 0; j < degree; ++j) {
        S* message = mu + j * labels * W;
        V mean = zero;
        for (long long y = 0; y < labels; ++y) {
            const V m = Lanes<V>::load(message + y * W);
            if constexpr (FORBIDDEN)
                mean += Lanes<V>::load(total + y * W) > lowest ? m : zero;
            else
                mean += m;
        }
        const V weight = weights[j];
        const V centre = weight * mean_total - mean * scale;
        for (long long y = 0; y < labels; ++y) {
            const V b = Lanes<V>::load(total + y * W);
            V lambda = weight * b - Lanes<V>::load(message + y * W) - centre;
            if constexpr (FORBIDDEN) lambda = b > lowest ? lambda : zero;
            Lanes<V>::store(message + y * W, lambda);
        }
    }
}

}  // namespace blendfield::BF_ISA
