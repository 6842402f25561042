// The kernels of potentials that are linear in weights by name, for the type BF_REAL.
#pragma once
#include "cuda/features.h"

// a: Terms, b: tables, c: with the base and its support
BF_ENTRY(potentials) { potentials(*view, blocks, *pointer<const Terms<Real>>(a), pointer<Real>(b), c != 0); }
// a: Terms, b: beliefs
BF_ENTRY(evaluate) { evaluate(*view, blocks, *pointer<const Terms<Real>>(a), pointer<Real>(b)); }
// a: Terms, b: tables
BF_ENTRY(belief_terms) { term_moments(*view, blocks, *pointer<const Terms<Real>>(a), pointer<const Real>(b)); }
BF_ENTRY(candidate_terms) { term_moments(*view, blocks, *pointer<const Terms<Real>>(a), pointer<const double>(b)); }
// a: Regions, b: weights, c: tables
BF_ENTRY(add_rows) { add_rows(*view, *pointer<const Regions>(a), pointer<const double>(b), pointer<Real>(c)); }
// a: Regions, b: tables, c: sums
BF_ENTRY(belief_rows) { take_rows(*view, *pointer<const Regions>(a), pointer<const Real>(b), pointer<double>(c)); }
BF_ENTRY(candidate_rows) { take_rows(*view, *pointer<const Regions>(a), pointer<const double>(b), pointer<double>(c)); }
