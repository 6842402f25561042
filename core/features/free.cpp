#include "features/features.h"
#include "features/loops.h"

namespace blendfield::features {

namespace {

void check(const Free& terms, int64_t begin, int64_t end, int64_t flat, int64_t weights) {
    check_inside("start", terms.start, begin, end, terms.entries, flat);
    check_inside("base", terms.base, begin, end, terms.entries, weights);
}

double coefficient(const Free& terms, int64_t j) { return terms.coefficient ? terms.coefficient[j] : 1.0; }

}  // namespace

template <class T>
void apply(const Free& terms, Vector<const double> w, Vector<T> flat, int threads) {
    for_tables(threads, terms.start, terms.count, terms.entries, [&](int64_t begin, int64_t end) {
        check(terms, begin, end, flat.size, w.size);
        with_entries(terms.entries, [&](auto entries) {
            for (int64_t j = begin; j < end; ++j) {
                const double* from = w.data + terms.base[j];
                T* to = flat.data + terms.start[j];
                const double c = coefficient(terms, j);
                for (int64_t y = 0; y < entries; ++y) to[y] = static_cast<T>(to[y] + c * from[y]);
            }
        });
    });
}

template <class T>
void moments(const Free& terms, Vector<const T> d, Vector<double> gradient, int threads) {
    accumulate(threads, terms.count, terms.entries, gradient.data, gradient.size,
               [&](int64_t begin, int64_t end, double* sums) {
                   check(terms, begin, end, d.size, gradient.size);
                   with_entries(terms.entries, [&](auto entries) {
                       for (int64_t j = begin; j < end; ++j) {
                           const T* from = d.data + terms.start[j];
                           double* to = sums + terms.base[j];
                           const double c = coefficient(terms, j);
                           for (int64_t y = 0; y < entries; ++y) to[y] += c * static_cast<double>(from[y]);
                       }
                   });
               });
}

template <class T>
void statistics(const Free& terms, Vector<const T> beliefs, Scale scale, Vector<double> sums, int threads) {
    const int64_t weights = sums.size / 2;
    accumulate(threads, terms.count, terms.entries, sums.data, sums.size, [&](int64_t begin, int64_t end, double* out) {
        check(terms, begin, end, beliefs.size, weights);
        check_inside("region", scale.region, begin, end, 1, scale.values.size);
        with_entries(terms.entries, [&](auto entries) {
            for (int64_t j = begin; j < end; ++j) {
                const T* from = beliefs.data + terms.start[j];
                double *moment = out + terms.base[j], *variance = moment + weights;
                const double c = coefficient(terms, j), factor = scale.of(j) * c * c;
                for (int64_t y = 0; y < entries; ++y) {
                    const double b = static_cast<double>(from[y]);
                    moment[y] += c * b;
                    variance[y] += factor * b * (1.0 - b);
                }
            }
        });
    });
}

#define BF_INSTANTIATE(T)                                                     \
    template void apply(const Free&, Vector<const double>, Vector<T>, int);   \
    template void moments(const Free&, Vector<const T>, Vector<double>, int); \
    template void statistics(const Free&, Vector<const T>, Scale, Vector<double>, int);
BF_INSTANTIATE(double)
BF_INSTANTIATE(float)
#undef BF_INSTANTIATE

}  // namespace blendfield::features
