// Products of features with dense matrices, compiled once per instruction set like cpu/kernels_isa.cpp.
#include "cpu/pack.h"
#include "features/products.h"

namespace blendfield::BF_ISA {

namespace {

using V = NativePack<double>;
constexpr int P = Traits<V>::lanes;

// `packs` packs of row n, from column `first` on: sums stay in registers over the entries of the row.
template <int packs>
void part_of_row(const features::FeatureRows& rows, const double* dense, int64_t stride, int64_t first, int64_t n,
                 double* out) {
    V sums[packs] = {};
    const int64_t begin = rows.begin(n), end = rows.begin(n + 1);
    for (int64_t k = begin; k < end; ++k) {
        const double* from = dense + rows.column(k, begin) * stride + first;
        const V value = fill<V>(rows.data[k]);
        for (int p = 0; p < packs; ++p) sums[p] += value * Lanes<V>::load(from + p * P);
    }
    for (int p = 0; p < packs; ++p) Lanes<V>::store(out + n * stride + first + p * P, sums[p]);
}

void multiply(const features::FeatureRows& rows, const double* dense, int64_t stride, double* out, int64_t begin,
              int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
        int64_t first = 0;
        for (; first + 4 * P <= stride; first += 4 * P) part_of_row<4>(rows, dense, stride, first, n, out);
        for (; first < stride; first += P) part_of_row<1>(rows, dense, stride, first, n, out);
    }
}

// The row of `dense` stays in registers over the entries of the row.
template <int packs>
void part_of_row_transposed(const features::FeatureRows& rows, bool squared, const double* dense, int64_t stride,
                            int64_t first, int64_t n, double* out) {
    V row[packs];
    for (int p = 0; p < packs; ++p) row[p] = Lanes<V>::load(dense + n * stride + first + p * P);
    const int64_t begin = rows.begin(n), end = rows.begin(n + 1);
    for (int64_t k = begin; k < end; ++k) {
        double* to = out + rows.column(k, begin) * stride + first;
        const V value = fill<V>(squared ? rows.data[k] * rows.data[k] : rows.data[k]);
        for (int p = 0; p < packs; ++p) Lanes<V>::store(to + p * P, Lanes<V>::load(to + p * P) + value * row[p]);
    }
}

void multiply_transposed(const features::FeatureRows& rows, bool squared, const double* dense, int64_t stride,
                         double* out, int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
        int64_t first = 0;
        for (; first + 4 * P <= stride; first += 4 * P)
            part_of_row_transposed<4>(rows, squared, dense, stride, first, n, out);
        for (; first < stride; first += P) part_of_row_transposed<1>(rows, squared, dense, stride, first, n, out);
    }
}

}  // namespace

extern const features::FeatureKernels feature_products;
const features::FeatureKernels feature_products = {multiply, multiply_transposed};

}  // namespace blendfield::BF_ISA
