// Every kernel header as it is, instantiated for one lane per thread in float64 and float32; main() runs the same text
// on the host. No device is needed. Built and run by test_nvcc.py.
#include <cmath>
#include <cstdio>

#include "kernels/beliefs.h"
#include "kernels/certificate.h"
#include "kernels/line.h"
#include "kernels/math.h"
#include "kernels/messages.h"
#include "kernels/portable.h"

namespace kernels = blendfield::BF_ISA;

// One block of W lanes of (L x L) tables: the messages of the table and those of a region.
template <class S, int W, int L>
BF_FN void one_lane(int lane, const S* table, S* messages, S* total, S* sums, S temperature) {
    const S inverse = S(1) / temperature;
    S* first = messages + lane;
    S* second = messages + L * W + lane;
    if (L == 2) {
        kernels::pair_message_binary<S, W, true>(true, table + lane, second, first, temperature, inverse);
        kernels::pair_message_binary<S, W, true>(false, table + lane, first, second, temperature, inverse);
    }
    kernels::pair_message_first<S, W, true, L, L>(L, L, table + lane, second, first, temperature, inverse);
    kernels::pair_message_second<S, W, true, 0, 0>(L, L, table + lane, first, second, sums, temperature, inverse);
    kernels::pair_message_first<S, W, false, 0, 0>(L, L, table + lane, second, first, temperature, inverse);
    const int extents[2] = {L, L}, strides[2] = {1, 0}, other_strides[2] = {0, 1};
    kernels::Incoming<S> other = {second, other_strides, 1, 0};
    kernels::general_message<S, W, true>(2, extents, L, table + lane, strides, 0, L, 1, &other, first, sums,
                                         temperature, inverse);
    const S weights[2] = {S(0.5), S(0.5)};
    kernels::outgoing_messages<S, W, false>(L, 2, total + lane, messages + lane, weights);
    kernels::outgoing_messages<S, W, true>(L, 2, total + lane, messages + lane, weights);
}

template <class S, int W, int L>
__global__ void sweep(const S* table, S* messages, S* total, S* sums, S temperature) {
    one_lane<S, W, L>(threadIdx.x, table, messages, total, sums + threadIdx.x * L, temperature);
}

template __global__ void sweep<double, 32, 2>(const double*, double*, double*, double*, double);
template __global__ void sweep<double, 32, 21>(const double*, double*, double*, double*, double);
template __global__ void sweep<float, 32, 2>(const float*, float*, float*, float*, float);
template __global__ void sweep<float, 32, 21>(const float*, float*, float*, float*, float);

// Values, beliefs and certificates are float64 on every device.
__global__ void certify(int labels, const double* hat, const double* target, const double* q, double* belief,
                        double* work, double* gap, double temperature) {
    const int lane = threadIdx.x, entries = labels * labels;
    const auto n = kernels::normalise<double, 32, true>(entries, hat + lane, temperature, 1.0, belief + lane);
    kernels::finish_beliefs<double, 32>(entries, hat + lane, n, false, belief + lane);
    gap[lane] = kernels::gap_of_lane<double, 32>(entries, hat + lane, belief + lane, q + lane, n, false);
    double* second = work + 64 * labels;
    gap[lane] += kernels::pair_gap<double, 32>(labels, labels, hat + lane, belief + lane, target + lane, target + lane,
                                               work + lane, second + lane, n);
    const double mean = kernels::centre_direction<double, 32>(entries, hat + lane, work + lane);
    const auto point =
        kernels::point_on_line<double, 32, false>(entries, hat + lane, work + lane, mean, 0.5, temperature, 1.0);
    gap[lane] += point.value + point.slope + point.curvature;
}

// Largest relative error of exp and largest error of log on the host.
template <class S>
double error_of_exp(S low, S high) {
    double worst = 0;
    for (int k = 0; k <= 1000; ++k) {
        const S x = low + (high - low) * S(k) / S(1000);
        worst = std::fmax(worst, std::fabs(double(kernels::exponential(x)) / std::exp(double(x)) - 1));
    }
    return worst;
}

template <class S>
double error_of_log(S low, S high) {
    double worst = 0;
    for (int k = 0; k <= 1000; ++k) {
        const S x = low + (high - low) * S(k) / S(1000);
        worst = std::fmax(worst, std::fabs(double(kernels::logarithm(x)) - std::log(double(x))));
    }
    return worst;
}

int main() {
    std::printf("%.3g %.3g %.3g %.3g\n", error_of_exp<double>(-700, 700), error_of_log<double>(1e-3, 50),
                error_of_exp<float>(-80, 80), error_of_log<float>(1e-3f, 50));
    std::printf("%g %g\n", kernels::exponential(-INFINITY), double(kernels::exponential(double(-INFINITY))));
    return 0;
}
