#include <cstdlib>
#include <cstring>

#include "cpu/kernels.h"

namespace blendfield {

namespace baseline {
extern const InstructionSet kernels;
}
#if defined(BF_X86_ISAS)
namespace avx2 {
extern const InstructionSet kernels;
}
namespace avx512 {
extern const InstructionSet kernels;
}
#endif

static const InstructionSet& choose() {
    const char* wish = std::getenv("BLENDFIELD_ISA");
    auto allowed = [&](const char* name) { return !wish || !*wish || std::strcmp(wish, name) == 0; };
    (void)allowed;
#if defined(BF_X86_ISAS)
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    if (has_avx512 && allowed("avx512")) return avx512::kernels;
    if (has_avx2 && allowed("avx2")) return avx2::kernels;
#endif
    return baseline::kernels;
}

const InstructionSet& instruction_set() {
    static const InstructionSet& chosen = choose();
    return chosen;
}

}  // namespace blendfield
