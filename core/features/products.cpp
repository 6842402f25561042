#include "features/products.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "cpu/kernels.h"
#include "cpu/thread_pool.h"

namespace blendfield {

namespace baseline {
extern const features::FeatureKernels feature_products;
}
#if defined(BF_X86_ISAS)
namespace avx2 {
extern const features::FeatureKernels feature_products;
}
namespace avx512 {
extern const features::FeatureKernels feature_products;
}
#endif

namespace features {

static const FeatureKernels& kernels() {
#if defined(BF_X86_ISAS)
    const char* name = instruction_set().name;
    if (std::strcmp(name, "avx512") == 0) return avx512::feature_products;
    if (std::strcmp(name, "avx2") == 0) return avx2::feature_products;
#endif
    return baseline::feature_products;
}

void multiply(const FeatureRows& features, const double* dense, int64_t stride, double* out, int threads) {
    constexpr int64_t pieces = 256;
    const int64_t range = std::max<int64_t>(1, features.rows / pieces);
    const auto& of_this_cpu = kernels();
    parallel_for(threads, (features.rows + range - 1) / range, features.entries() * stride,
                 [&](int64_t first, int64_t last, int) {
                     of_this_cpu.multiply(features, dense, stride, out, first * range,
                                          std::min(last * range, features.rows));
                 });
}

void multiply_transposed(const FeatureRows& features, bool squared, const double* dense, int64_t stride, double* out,
                         int threads) {
    constexpr int64_t most_parts = 64, least_share = 16;  // work of a part, in times of adding it up
    const int64_t size = features.columns * stride, work = features.entries() * stride;
    const int64_t parts = std::clamp<int64_t>(work / std::max<int64_t>(1, least_share * size), 1, most_parts);
    const auto& of_this_cpu = kernels();
    std::fill_n(out, size, 0.0);
    if (parts == 1) return of_this_cpu.multiply_transposed(features, squared, dense, stride, out, 0, features.rows);
    std::unique_ptr<double[]> partial(new double[parts * size]());
    parallel_for(threads, parts, work, [&](int64_t first, int64_t last, int) {
        for (int64_t part = first; part < last; ++part)
            of_this_cpu.multiply_transposed(features, squared, dense, stride, partial.get() + part * size,
                                            features.rows * part / parts, features.rows * (part + 1) / parts);
    });
    for (int64_t part = 0; part < parts; ++part)
        for (int64_t k = 0; k < size; ++k) out[k] += partial[part * size + k];
}

}  // namespace features
}  // namespace blendfield
