// The loops of elimination that every instruction set provides; see elimination_isa.cpp.
//
// `rows` holds one row per label of the eliminated variable, `stride` apart (a multiple of 8 values), `n` of them used.
#pragma once
#include <cstdint>

namespace blendfield {

struct EliminationKernels {
    const char* name;  // of the instruction set
    // row[j] += (or =, when `first`) values[j], values[0], or values[index[j]]
    void (*add)(double* row, const double* values, int64_t n, bool first);
    void (*add_constant)(double* row, double value, int64_t n, bool first);
    void (*add_gathered)(double* row, const double* values, const int32_t* index, int64_t n, bool first);
    // out[j] = log sum_y exp(rows[y][j])
    void (*soft)(const double* rows, int labels, int64_t stride, int64_t n, double* out);
    // out[j] = max_y rows[y][j]
    void (*hard)(const double* rows, int labels, int64_t stride, int64_t n, double* out);
    // weights[y][j] = -inf where rows[y][j] is below the maximum over y by more than 1e-9 (1 + |maximum|)
    void (*keep_best)(const double* rows, double* weights, int labels, int64_t stride, int64_t n);
    // rows[y][j] = mass[j] exp(rows[y][j]) / sum_y exp(rows[y][j]); 0 where mass is 0
    void (*conditional)(double* rows, int labels, int64_t stride, int64_t n, const double* mass);
    // target[j] += row[j]; returns sum_j row[j]; target[index[j]] += row[j]
    void (*collect)(double* target, const double* row, int64_t n);
    double (*collect_sum)(const double* row, int64_t n);
    void (*collect_gathered)(double* target, const double* row, const int32_t* index, int64_t n);
};

// Of the instruction set that this CPU has.
const EliminationKernels& elimination_kernels();

}  // namespace blendfield
