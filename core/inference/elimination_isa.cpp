// The loops of elimination, compiled once per instruction set like cpu/kernels_isa.cpp.
#include <algorithm>

#include "cpu/pack.h"
#include "inference/elimination_kernels.h"
#include "kernels/math.h"
#include "kernels/messages.h"

namespace blendfield::BF_ISA {

namespace {

using V = NativePack<double>;
constexpr int P = Traits<V>::lanes;

// Full packs go through `p` directly, the last one through a copy: what lies behind belongs to others.
V load_part(const double* p, int64_t count) {
    if (count >= P) return Lanes<V>::load(p);
    double copy[P] = {};
    std::copy_n(p, count, copy);
    return Lanes<V>::load(copy);
}
void store_part(double* p, int count, V v) {
    if (count >= P) {
        Lanes<V>::store(p, v);
        return;
    }
    double copy[P];
    Lanes<V>::store(copy, v);
    std::copy_n(copy, count, p);
}

void add(double* row, const double* values, int64_t n, bool first) {
    if (first)
        std::copy_n(values, n, row);
    else
        for (int64_t j = 0; j < n; ++j) row[j] += values[j];
}

void add_constant(double* row, double value, int64_t n, bool first) {
    if (first)
        std::fill_n(row, n, value);
    else
        for (int64_t j = 0; j < n; ++j) row[j] += value;
}

void add_gathered(double* row, const double* values, const int32_t* index, int64_t n, bool first) {
    if (first)
        for (int64_t j = 0; j < n; ++j) row[j] = values[index[j]];
    else
        for (int64_t j = 0; j < n; ++j) row[j] += values[index[j]];
}

V highest(const double* rows, int labels, int64_t stride) {
    V largest = Lanes<V>::load(rows);
    for (int y = 1; y < labels; ++y) largest = maximum(largest, Lanes<V>::load(rows + y * stride));
    return largest;
}

void soft(const double* rows, int labels, int64_t stride, int64_t n, double* out) {
    const V one = fill<V>(1.0);
    for (int64_t j = 0; j < n; j += P) {
        V result;
        if (labels == 2) {
            result = soft_maximum<V, true>(Lanes<V>::load(rows + j), Lanes<V>::load(rows + stride + j), one, one);
        } else {
            const V largest = highest(rows + j, labels, stride), shift = finite(largest);
            V sum = fill<V>(0.0);
            for (int y = 0; y < labels; ++y) sum += exponential(Lanes<V>::load(rows + y * stride + j) - shift);
            result = finish_message(largest, sum, one);
        }
        store_part(out + j, n - j, result);
    }
}

void hard(const double* rows, int labels, int64_t stride, int64_t n, double* out) {
    for (int64_t j = 0; j < n; j += P) store_part(out + j, n - j, highest(rows + j, labels, stride));
}

void keep_best(const double* rows, double* weights, int labels, int64_t stride, int64_t n) {
    const V lowest = minus_infinity<V>();
    for (int64_t j = 0; j < n; j += P) {
        const V largest = finite(highest(rows + j, labels, stride));
        const V size = maximum(largest, fill<V>(0.0) - largest);
        const V least = largest - (size + 1.0) * 1e-9;
        for (int y = 0; y < labels; ++y) {
            double* w = weights + y * stride + j;
            Lanes<V>::store(w, Lanes<V>::load(rows + y * stride + j) < least ? lowest : Lanes<V>::load(w));
        }
    }
}

void conditional(double* rows, int labels, int64_t stride, int64_t n, const double* mass) {
    const V zero = fill<V>(0.0);
    for (int64_t j = 0; j < n; j += P) {
        const V largest = finite(highest(rows + j, labels, stride));
        V sum = zero;
        for (int y = 0; y < labels; ++y) {
            double* row = rows + y * stride + j;
            const V e = exponential(Lanes<V>::load(row) - largest);
            Lanes<V>::store(row, e);
            sum += e;
        }
        const V part = load_part(mass + j, n - j);
        const V scale = sum > zero ? part / sum : zero;
        for (int y = 0; y < labels; ++y) {
            double* row = rows + y * stride + j;
            Lanes<V>::store(row, Lanes<V>::load(row) * scale);
        }
    }
}

void collect(double* target, const double* row, int64_t n) {
    for (int64_t j = 0; j < n; ++j) target[j] += row[j];
}

double collect_sum(const double* row, int64_t n) {
    double s[8] = {};
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (int k = 0; k < 8; ++k) s[k] += row[j + k];
    for (; j < n; ++j) s[0] += row[j];
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

void collect_gathered(double* target, const double* row, const int32_t* index, int64_t n) {
    for (int64_t j = 0; j < n; ++j) target[index[j]] += row[j];
}

#define BF_NAME_OF(x) #x
#define BF_NAME(x) BF_NAME_OF(x)

}  // namespace

extern const EliminationKernels elimination;
const EliminationKernels elimination = {BF_NAME(BF_ISA), add,     add_constant, add_gathered,    soft, hard, keep_best,
                                        conditional,     collect, collect_sum,  collect_gathered};

}  // namespace blendfield::BF_ISA
