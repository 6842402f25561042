// Products of sparse and dense matrices.
#pragma once
#include <cstdint>

namespace blendfield::features {

// N rows of a matrix [N, F] in compressed form: row n has data[k] in column indices[k], indptr[n] <= k < indptr[n + 1].
struct SparseRows {
    int64_t rows = 0, columns = 0;
    const int64_t* indptr = nullptr;   // [N + 1], rising from 0
    const int32_t* indices = nullptr;  // [indptr[N]]
    const double* data = nullptr;      // [indptr[N]]
};

// out [N, width] = sparse [N, F] dense [F, width]; rows of both dense matrices are `stride` apart, a multiple of 8, and
// what lies between `width` and `stride` is written too. Every row is summed in the order of its entries.
void multiply(const SparseRows& sparse, const double* dense, int64_t stride, double* out, int threads);

// out [F, width] = sparse^T dense, dense [N, width], strides as above. Summed in parts whose number depends on the
// sizes alone.
void multiply_transposed(const SparseRows& sparse, const double* dense, int64_t stride, double* out, int threads);

// What rows [begin, end) contribute, one function per instruction set; see sparse_isa.cpp.
struct SparseKernels {
    void (*multiply)(const SparseRows&, const double* dense, int64_t stride, double* out, int64_t begin, int64_t end);
    // Adds to `out`.
    void (*multiply_transposed)(const SparseRows&, const double* dense, int64_t stride, double* out, int64_t begin,
                                int64_t end);
};

}  // namespace blendfield::features
