// Vector operations on flat arrays.
#pragma once
#include "cpu/pack.h"
#include "kernels/math.h"

namespace blendfield::BF_ISA {

namespace {

BF_FN void fence() {
#if defined(__AVX2__)
    _mm_sfence();  // what was streamed is there for other threads
#endif
}

// Past the caches: what is not read again soon need not be read before it is overwritten either.
template <class V, class T>
BF_FN void stream(T* to, V v) {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)v);
#elif defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)v);
#endif
    Lanes<V>::store(to, v);
}

// Up to four inner products with f at once: f is read from the cache only.
template <class T, int N>
BF_FN void dots(const T* f, const T* const* others, long long begin, long long end, double* out) {
    constexpr int P = Traits<NativePack<double>>::lanes;
    using V = NativePack<double>;
    V sum[N][2] = {};
    long long k = begin;
    for (; k + 2 * P <= end; k += 2 * P)
        for (int u = 0; u < 2; ++u) {
            const V own = load_as<V>(f + k + u * P);
            for (int j = 0; j < N; ++j) sum[j][u] += own * load_as<V>(others[j] + k + u * P);
        }
    for (int j = 0; j < N; ++j) {
        out[j] = sum_of_lanes(sum[j][0] + sum[j][1]);
        for (long long rest = k; rest < end; ++rest) out[j] += double(f[rest]) * double(others[j][rest]);
    }
}

template <class T>
void record(const T* x, const T* saved, T* f, T* g, bool streamed, long long begin, long long end) {
    using V = NativePack<T>;
    constexpr int P = Traits<V>::lanes;
    long long k = begin;
    for (; k + P <= end; k += P) {
        const V now = Lanes<V>::load(x + k);
        Lanes<V>::store(f + k, now - Lanes<V>::load(saved + k));
        if (streamed)
            stream(g + k, now);
        else
            Lanes<V>::store(g + k, now);
    }
    for (; k < end; ++k) f[k] = x[k] - saved[k], g[k] = x[k];
    if (streamed) fence();
}

template <class T>
void products(const T* f, const T* const* others, int count, long long begin, long long end, double* out) {
    for (; count >= 4; count -= 4, others += 4, out += 4) dots<T, 4>(f, others, begin, end, out);
    if (count >= 2) dots<T, 2>(f, others, begin, end, out), count -= 2, others += 2, out += 2;
    if (count) dots<T, 1>(f, others, begin, end, out);
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
