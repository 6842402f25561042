// The loops over lane blocks (core/cpu/loops), compiled once per instruction set (BF_ISA). Includes no standard header
// with inline code: everything here lives in the namespace of its instruction set.
#include "cpu/kernels.h"
#include "cpu/loops/beliefs.h"
#include "cpu/loops/certificate.h"
#include "cpu/loops/heavy.h"
#include "cpu/loops/light.h"
#include "cpu/loops/vectors.h"

namespace blendfield::BF_ISA {

namespace {

template <class T>
constexpr Kernels<T> table = {&heavy<T>,       &light<T>,  &values<T>,       &beliefs<T>, &line<T>,
                              &certificate<T>, &gaps<T>,   &refresh_base<T>, &record<T>,  &products<T>,
                              &combine<T>,     &finite<T>, &bare_exp<T>};

}  // namespace

#define BF_STRING(x) BF_STRING_(x)
#define BF_STRING_(x) #x
extern const InstructionSet kernels;
const InstructionSet kernels = {BF_STRING(BF_ISA), &table<double>, &table<float>};

}  // namespace blendfield::BF_ISA
