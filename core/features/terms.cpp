#include <algorithm>

#include "features/features.h"
#include "features/loops.h"

namespace blendfield::features {

namespace {

// What the terms of a block differ in, decided once per range: the row of a term's table and its coefficient.
struct Rows {
    const Terms& terms;
    int64_t entries, step;  // step from row to row when there is no index
    explicit Rows(const Terms& t) : terms(t), entries(t.entries), step(t.rows == 1 ? 0 : t.entries) {}
    const double* of(int64_t j) const { return terms.tables + (terms.table ? terms.table[j] * entries : j * step); }
    double coefficient(int64_t j) const { return terms.coefficient ? terms.coefficient[j] : 1.0; }
};

void check(const Terms& terms, int64_t begin, int64_t end, int64_t flat, int64_t weights) {
    check_inside("start", terms.start, begin, end, terms.entries, flat);
    check_inside("weight", terms.weight, begin, end, 1, weights);
    if (terms.table) check_inside("table", terms.table, begin, end, 1, terms.rows);
}

}  // namespace

template <class T>
void apply(const Terms& terms, Vector<const double> w, Vector<T> flat, int threads) {
    const Rows rows(terms);
    for_tables(threads, terms.start, terms.count, terms.entries, [&](int64_t begin, int64_t end) {
        check(terms, begin, end, flat.size, w.size);
        with_entries(terms.entries, [&](auto entries) {
            for (int64_t j = begin; j < end; ++j) {
                const double factor = w.data[terms.weight[j]] * rows.coefficient(j);
                const double* table = rows.of(j);
                T* to = flat.data + terms.start[j];
                for (int64_t y = 0; y < entries; ++y) to[y] = static_cast<T>(to[y] + factor * table[y]);
            }
        });
    });
}

template <class T>
void moments(const Terms& terms, Vector<const T> d, Vector<double> gradient, int threads) {
    const Rows rows(terms);
    accumulate(threads, terms.count, terms.entries, gradient.data, gradient.size,
               [&](int64_t begin, int64_t end, double* to) {
                   check(terms, begin, end, d.size, gradient.size);
                   with_entries(terms.entries, [&](auto entries) {
                       for (int64_t j = begin; j < end; ++j) {
                           const double* table = rows.of(j);
                           const T* from = d.data + terms.start[j];
                           double sum = 0;
                           for (int64_t y = 0; y < entries; ++y) sum += static_cast<double>(from[y]) * table[y];
                           to[terms.weight[j]] += rows.coefficient(j) * sum;
                       }
                   });
               });
}

template <class T>
void statistics(const Terms& terms, Vector<const T> beliefs, Scale scale, Vector<double> sums, int threads) {
    const Rows rows(terms);
    const int64_t weights = sums.size / 2;
    accumulate(threads, terms.count, terms.entries, sums.data, sums.size, [&](int64_t begin, int64_t end, double* to) {
        check(terms, begin, end, beliefs.size, weights);
        check_inside("region", scale.region, begin, end, 1, scale.values.size);
        with_entries(terms.entries, [&](auto entries) {
            for (int64_t j = begin; j < end; ++j) {
                const double* table = rows.of(j);
                const T* b = beliefs.data + terms.start[j];
                double moment = 0, first = 0, second = 0;
                for (int64_t y = 0; y < entries; ++y) {
                    const double x = table[y] - table[0];  // a constant is no variance
                    const double p = static_cast<double>(b[y]);
                    moment += p * table[y];
                    first += p * x;
                    second += p * x * x;
                }
                const double c = rows.coefficient(j);
                to[terms.weight[j]] += c * moment;
                to[weights + terms.weight[j]] += scale.of(j) * c * c * std::max(second - first * first, 0.0);
            }
        });
    });
}

#define BF_INSTANTIATE(T)                                                      \
    template void apply(const Terms&, Vector<const double>, Vector<T>, int);   \
    template void moments(const Terms&, Vector<const T>, Vector<double>, int); \
    template void statistics(const Terms&, Vector<const T>, Scale, Vector<double>, int);
BF_INSTANTIATE(double)
BF_INSTANTIATE(float)
#undef BF_INSTANTIATE

}  // namespace blendfield::features
