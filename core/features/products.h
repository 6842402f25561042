// Products of features, sparse or dense, with dense matrices.
#pragma once
#include <cstdint>

namespace blendfield::features {

// N rows of a matrix [N, F] in compressed form: row n has data[k] in column indices[k], indptr[n] <= k < indptr[n + 1].
// Without indptr and indices all F columns of every row are there.
struct FeatureRows {
    int64_t rows = 0, columns = 0;
    const int64_t* indptr = nullptr;   // [N + 1], rising from 0
    const int32_t* indices = nullptr;  // [entries]
    const double* data = nullptr;      // [entries]

    int64_t begin(int64_t n) const { return indptr ? indptr[n] : n * columns; }
    int64_t column(int64_t k, int64_t begin) const { return indices ? indices[k] : k - begin; }
    int64_t entries() const { return begin(rows); }
};

// out [N, width] = features [N, F] dense [F, width]; rows of both dense matrices are `stride` apart, a multiple of 8,
// and what lies between `width` and `stride` is written too. Every row is summed in the order of its entries.
void multiply(const FeatureRows& features, const double* dense, int64_t stride, double* out, int threads);

// out [F, width] = features^T dense, dense [N, width], strides as above. Summed in parts whose number depends on the
// sizes alone. With `squared` every feature is squared first.
void multiply_transposed(const FeatureRows& features, bool squared, const double* dense, int64_t stride, double* out,
                         int threads);

// What rows [begin, end) contribute, one function per instruction set; see products_isa.cpp.
struct FeatureKernels {
    void (*multiply)(const FeatureRows&, const double* dense, int64_t stride, double* out, int64_t begin, int64_t end);
    // Adds to `out`.
    void (*multiply_transposed)(const FeatureRows&, bool squared, const double* dense, int64_t stride, double* out,
                                int64_t begin, int64_t end);
};

}  // namespace blendfield::features
