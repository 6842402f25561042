// The loops over terms: in parallel where every term writes to a table of its own, and with sums whose order depends on
// the block alone where many terms write to one weight.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "cpu/thread_pool.h"

namespace blendfield::features {

// Calls f(Y) with the number of entries as a compile-time constant where it is a common one.
template <class F>
void with_entries(int64_t entries, F f) {
    switch (entries) {
        case 2:
            return f(std::integral_constant<int64_t, 2>());
        case 3:
            return f(std::integral_constant<int64_t, 3>());
        case 4:
            return f(std::integral_constant<int64_t, 4>());
        case 8:
            return f(std::integral_constant<int64_t, 8>());
        case 9:
            return f(std::integral_constant<int64_t, 9>());
        default:
            return f(entries);
    }
}

// Positions [at_j, at_j + length) lie inside an array of `size`, for j in [begin, end).
template <class I>
void check_inside(const char* what, const I* at, int64_t begin, int64_t end, int64_t length, int64_t size) {
    // By sign bits, of which vectors take many at once: at < 0 or at > limit.
    using Bits = std::make_unsigned_t<I>;
    const int64_t limit = std::min<int64_t>(size - length, std::numeric_limits<I>::max());
    Bits outside = limit < 0 ? ~Bits{0} : Bits{0};
    for (int64_t j = begin; j < end; ++j)
        outside |= static_cast<Bits>(at[j]) | (static_cast<Bits>(limit) - static_cast<Bits>(at[j]));
    if (begin >= end || !(outside >> (8 * sizeof(I) - 1))) return;
    while (at[begin] >= 0 && at[begin] <= size - length) ++begin;
    throw std::invalid_argument(std::string(what) + " of term " + std::to_string(begin) + " is " +
                                std::to_string(at[begin]) + "; expected 0 to " + std::to_string(size - length));
}

// Calls f(begin, end) over [0, count) in ranges that never part terms of the same table; std::invalid_argument where
// start falls.
template <class F>
void for_tables(int threads, const int64_t* start, int64_t count, int64_t entries, F f) {
    constexpr int64_t range = 1 << 11;
    parallel_for(threads, (count + range - 1) / range, count * entries, [&](int64_t first, int64_t last, int) {
        auto boundary = [&](int64_t j) {
            j = std::min(j, count);
            while (j > 0 && j < count && start[j] == start[j - 1]) ++j;
            return j;
        };
        for (int64_t k = first; k < last; ++k) {
            const int64_t begin = boundary(k * range), end = boundary((k + 1) * range);
            if (begin >= end) continue;
            uint64_t falls = 0;  // in the sign bit
            for (int64_t j = std::max<int64_t>(begin, 1); j < end; ++j)
                falls |= static_cast<uint64_t>(start[j]) - static_cast<uint64_t>(start[j - 1]);
            if (falls >> 63) throw std::invalid_argument("expected terms sorted by start");
            f(begin, end);
        }
    });
}

// sums [size] += what f(begin, end, to) adds to `to` [size] for all of [0, count). The work is cut in parts, each with
// sums of its own that are added up in order; how many parts depends on the sizes only.
template <class F>
void accumulate(int threads, int64_t count, int64_t entries, double* sums, int64_t size, F f) {
    constexpr int64_t most_parts = 64, least_work = 1 << 13;
    const int64_t work = count * entries;
    const int64_t parts = std::min({most_parts, work / std::max(least_work, 4 * size), count});
    if (parts <= 1) {
        f(int64_t{0}, count, sums);
        return;
    }
    std::unique_ptr<double[]> partial(new double[parts * size]);
    parallel_for(threads, parts, work, [&](int64_t begin, int64_t end, int) {
        for (int64_t part = begin; part < end; ++part) {
            double* to = partial.get() + part * size;
            std::fill_n(to, size, 0.0);
            f(count * part / parts, count * (part + 1) / parts, to);
        }
    });
    constexpr int64_t range = 1 << 9;
    parallel_for(threads, (size + range - 1) / range, parts * size, [&](int64_t begin, int64_t end, int) {
        const int64_t last = std::min(size, end * range);
        for (int64_t part = 0; part < parts; ++part) {
            const double* from = partial.get() + part * size;
            for (int64_t k = begin * range; k < last; ++k) sums[k] += from[k];
        }
    });
}

}  // namespace blendfield::features
