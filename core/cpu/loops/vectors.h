// Vector operations on flat arrays.
#pragma once
#include "cpu/pack.h"
#include "kernels/math.h"

namespace blendfield::BF_ISA {

namespace {

template <class T>
double dot(const T* a, const T* b, long long begin, long long end) {
    constexpr int P = Traits<NativePack<double>>::lanes;
    using V = NativePack<double>;
    V sum[4] = {};
    long long k = begin;
    for (; k + 4 * P <= end; k += 4 * P)
        for (int u = 0; u < 4; ++u) sum[u] += load_as<V>(a + k + u * P) * load_as<V>(b + k + u * P);
    double total = sum_of_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; k < end; ++k) total += double(a[k]) * double(b[k]);
    return total;
}

template <class T>
void subtract(const T* a, const T* b, T* out, long long begin, long long end) {
    for (long long k = begin; k < end; ++k) out[k] = a[k] - b[k];
}

template <class T>
void combine(const T* const* vectors, const double* weights, int count, T* out, long long begin, long long end) {
    constexpr int P = Traits<NativePack<T>>::lanes;
    using V = NativePack<T>;
    long long k = begin;
    for (; k + P <= end; k += P) {
        V sum = Lanes<V>::load(vectors[0] + k) * T(weights[0]);
        for (int j = 1; j < count; ++j) sum += Lanes<V>::load(vectors[j] + k) * T(weights[j]);
        Lanes<V>::store(out + k, sum);
    }
    for (; k < end; ++k) {
        T sum = vectors[0][k] * T(weights[0]);
        for (int j = 1; j < count; ++j) sum += vectors[j][k] * T(weights[j]);
        out[k] = sum;
    }
}

template <class T>
bool finite(const T* x, long long begin, long long end) {
    using V = NativePack<T>;
    constexpr int P = Traits<V>::lanes;
    V sum[4] = {};  // 0 times a number is 0, else NaN
    long long k = begin;
    for (; k + 4 * P <= end; k += 4 * P)
        for (int u = 0; u < 4; ++u) sum[u] += Lanes<V>::load(x + k + u * P) * T(0);
    T total = sum_of_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; k < end; ++k) total += x[k] * T(0);
    return total == T(0);
}

template <class T>
double bare_exp(const T* x, long long count) {
    using V = NativePack<T>;
    constexpr int P = Traits<V>::lanes;
    V sum[4] = {};
    long long k = 0;
    for (; k + 4 * P <= count; k += 4 * P)
        for (int u = 0; u < 4; ++u) sum[u] += exponential(Lanes<V>::load(x + k + u * P));
    double total = double(sum_of_lanes((sum[0] + sum[1]) + (sum[2] + sum[3])));
    for (; k < count; ++k) total += double(exponential(x[k]));
    return total;
}

}  // namespace

}  // namespace blendfield::BF_ISA
