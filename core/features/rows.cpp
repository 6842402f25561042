#include "features/features.h"
#include "features/loops.h"

namespace blendfield::features {

template <class T>
void gather(Vector<const T> flat, const int64_t* start, int64_t count, int64_t entries, double* rows, int threads) {
    constexpr int64_t range = 1 << 11;
    parallel_for(threads, (count + range - 1) / range, count * entries, [&](int64_t first, int64_t last, int) {
        const int64_t begin = first * range, end = std::min(last * range, count);
        check_inside("start", start, begin, end, entries, flat.size);
        with_entries(entries, [&](auto size) {
            for (int64_t j = begin; j < end; ++j)
                for (int64_t y = 0; y < size; ++y) rows[j * size + y] = static_cast<double>(flat.data[start[j] + y]);
        });
    });
}

template <class T>
void scatter_add(const double* rows, const int64_t* start, int64_t count, int64_t entries, Vector<T> flat,
                 int threads) {
    for_tables(threads, start, count, entries, [&](int64_t begin, int64_t end) {
        check_inside("start", start, begin, end, entries, flat.size);
        with_entries(entries, [&](auto size) {
            for (int64_t j = begin; j < end; ++j) {
                T* to = flat.data + start[j];
                for (int64_t y = 0; y < size; ++y) to[y] = static_cast<T>(to[y] + rows[j * size + y]);
            }
        });
    });
}

template void gather(Vector<const double>, const int64_t*, int64_t, int64_t, double*, int);
template void gather(Vector<const float>, const int64_t*, int64_t, int64_t, double*, int);
template void scatter_add(const double*, const int64_t*, int64_t, int64_t, Vector<double>, int);
template void scatter_add(const double*, const int64_t*, int64_t, int64_t, Vector<float>, int);

}  // namespace blendfield::features
