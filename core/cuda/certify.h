// The kernels of the certificate by name, for the type BF_REAL.
#pragma once
#include "cuda/certificate.h"

// a: Certificate; zero_candidates also b: zero children, c: how many
BF_ENTRY(certify_children) { certify_children(*view, blocks, *pointer<const Certificate<Real>>(a)); }
BF_ENTRY(certify_parents) { certify_parents(*view, blocks, *pointer<const Certificate<Real>>(a)); }
BF_ENTRY(zero_candidates) { zero_candidates(*view, pointer<const int>(b), c, *pointer<const Certificate<Real>>(a)); }
