// The functions every instruction set provides; see kernels_isa.cpp. Ranges are half open, outputs never overlap
// between items, so any split over threads gives the same bits.
#pragma once
#include "cpu/views.h"

namespace blendfield {

template <class T>
struct Kernels {
    // mu of the items, written over lambda of the same slot.
    void (*heavy)(const ProblemView<T>&, const HeavyItem*, long long begin, long long end, Scratch&);
    // lambda of the light blocks, written over mu; `values` (or null): per block, sum of eps c_hat logsumexp(B / (eps
    // c_hat)), the value of all regions in {r} + P(r).
    void (*light)(const ProblemView<T>&, const int* blocks, long long begin, long long end, Scratch&, double* values);
    // Values of the regions of the items.
    void (*values)(const ProblemView<T>&, const ValueItem*, long long begin, long long end, Scratch&, Sink values);
    // Beliefs of item k into `out` ([entry][lane]), and its values unless `values.items` is null.
    void (*beliefs)(const ProblemView<T>&, const ValueItem&, long long k, Scratch&, double* out, Sink values);
    // Adds to sums[step] value, slope and curvature of the item's regions with the potentials moved by steps[step]
    // times the direction ([entry][lane], overwritten); see kernels/line.h.
    void (*line)(const ProblemView<T>&, const ValueItem&, double* direction, const double* steps, int count, Scratch&,
                 double (*sums)[3]);
    // Two-level certificate: q, values and gaps of the items; children (regions with parents) before their parents.
    // With a `candidate` ([entry][lane]) q of the last item is left there.
    void (*certificate)(const ProblemView<T>&, const CertificateView&, const ValueItem*, long long begin, long long end,
                        Scratch&, double* candidate, Sink values, Sink gaps);
    // Gaps and values of item k whose q ([entry][lane]) is given.
    void (*gaps)(const ProblemView<T>&, const ValueItem&, long long k, Scratch&, const double* q, Sink values,
                 Sink gaps);
    // base = theta - sum of lambda upwards, for the light blocks of regions that have children.
    void (*refresh_base)(const ProblemView<T>&, const int* blocks, long long begin, long long end);
    // Vector operations of the mixing on [begin, end).
    // f = x - saved, g = x; `streamed`: g goes past the caches (its vectors aligned).
    void (*record)(const T* x, const T* saved, T* f, T* g, bool streamed, long long begin, long long end);
    // out[j] = inner product of f and others[j]
    void (*products)(const T* f, const T* const* others, int count, long long begin, long long end, double* out);
    void (*combine)(const T* const* vectors, const double* weights, int count, T* out, long long begin, long long end);
    // Every number is finite.
    bool (*finite)(const T*, long long begin, long long end);
    // Sum of exp over an array: the yardstick of the benchmarks.
    double (*bare_exp)(const T*, long long count);
};

struct InstructionSet {
    const char* name;
    const Kernels<double>* float64;
    const Kernels<float>* float32;
};

// The best instruction set of this CPU, chosen once; BLENDFIELD_ISA=baseline|avx2|avx512 overrides.
const InstructionSet& instruction_set();

}  // namespace blendfield
