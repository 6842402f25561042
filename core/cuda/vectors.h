// Vectors of messages (the mixing memory) and sums in a fixed order.
#pragma once
#include "cuda/threads.h"

namespace blendfield::BF_ISA {

constexpr int share = 8;  // consecutive rounds of one thread, so that a sum over a part is long

// f[slot] = messages - saved, g[slot] = messages, and this warp's part of the inner products of f[slot] with f of every
// slot, into partial [warps][slots]. `residuals`, `images` [slots]: addresses; 0: empty.
template <class T>
BF_DEVICE void push(const T* messages, const T* saved, const long long* residuals, T* residual, T* image, int slots,
                    double* partial, long long size) {
    const long long threads = block_threads(), first = block_number() * threads * share + thread_number();
    T f[share];
#pragma unroll
    for (int i = 0; i < share; ++i) {
        const long long at = first + i * threads;
        f[i] = 0;
        if (at >= size) continue;
        const T now = messages[at];
        f[i] = now - saved[at];
        residual[at] = f[i];
        image[at] = now;
    }
    const long long warp = (block_number() * threads + thread_number()) / team_size;
    for (int k = 0; k < slots; ++k) {
        const T* other = pointer<const T>(residuals[k]);
        double sum = 0;
        if (other == residual)
#pragma unroll
            for (int i = 0; i < share; ++i) sum += double(f[i]) * double(f[i]);
        else if (other)
#pragma unroll
            for (int i = 0; i < share; ++i) {
                const long long at = first + i * threads;
                if (at < size) sum += double(f[i]) * double(other[at]);
            }
        for (int distance = team_size / 2; distance > 0; distance /= 2) sum += from_thread(sum, distance);
        if (thread_number() % team_size == 0) partial[warp * slots + k] = sum;
    }
}

// messages = sum_k weights[k] g[k] over the slots that are not empty.
template <class T>
BF_DEVICE void mix(T* messages, const long long* images, const double* weights, int slots, long long size) {
    const long long at = block_number() * block_threads() + thread_number();
    if (at >= size) return;
    T sum = 0;
    for (int k = 0; k < slots; ++k)
        if (images[k]) sum += pointer<const T>(images[k])[at] * T(weights[k]);
    messages[at] = sum;
}

// out[piece][j] = sum of rows[starts[piece]] .. rows[starts[piece + 1] - 1] of an array [rows][columns], through
// `order` if there is one; one team per (piece, column).
BF_DEVICE void sum_pieces(const double* rows, double* out, const long long* starts, const int* order, long long pieces,
                          int columns) {
    const long long unit = (block_number() * block_threads() + thread_number()) / team_size;
    if (unit >= pieces * columns) return;
    const long long piece = unit / columns, column = unit - piece * columns;
    const int rank = thread_number() % team_size;
    double sum = 0;
    for (long long k = starts[piece] + rank; k < starts[piece + 1]; k += team_size)
        sum += rows[(order ? order[k] : k) * columns + column];
    for (int distance = team_size / 2; distance > 0; distance /= 2) sum += from_thread(sum, distance);
    if (rank == 0) out[unit] = sum;
}

}  // namespace blendfield::BF_ISA
