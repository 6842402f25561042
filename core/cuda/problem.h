// The kernels of a compiled problem by name, for the type BF_REAL.
#pragma once
#include "cuda/sweep.h"
#include "cuda/tables.h"
#include "cuda/values.h"
#include "cuda/vectors.h"

BF_ENTRY(heavy_soft) { heavy<Real, true>(*view, blocks); }
BF_ENTRY(heavy_hard) { heavy<Real, false>(*view, blocks); }
// a: values [padded lanes] or 0
BF_ENTRY(light) {
    for_lane(*view, blocks, [&](const Group& g, auto lane) { light_lane(*view, g, lane, pointer<double>(a)); });
}
BF_ENTRY(refresh_base) {
    for_lane(*view, blocks, [&](const Group& g, auto lane) { refresh_lane(*view, g, lane); });
}

// a: flat tables; b: lanes (0: the problem's own); c: keep what has no support
BF_ENTRY(load_tables) {
    load_tables(*view, blocks, pointer<const Real>(a), b ? pointer<Real>(b) : view->tables, c != 0);
}
// a: flat tables, b: int64, the least position
BF_ENTRY(first_unusable) { first_unusable(*view, blocks, pointer<const Real>(a), pointer<long long>(b)); }
// a: lanes, b: flat
BF_ENTRY(store_tables) { store_tables(*view, blocks, pointer<const Real>(a), pointer<Real>(b)); }
BF_ENTRY(store_doubles) { store_tables(*view, blocks, pointer<const double>(a), pointer<double>(b)); }
// a: flat messages
BF_ENTRY(messages_out) { copy_messages(*view, blocks, pointer<Real>(a), true); }
BF_ENTRY(messages_in) { copy_messages(*view, blocks, pointer<Real>(a), false); }
BF_ENTRY(mask_messages) { mask_messages(*view, blocks); }

// a: state, int64 [2]
BF_ENTRY(support_extends) { support_extends(*view, blocks); }
BF_ENTRY(support_restricts) { support_restricts(*view, blocks, pointer<long long>(a)); }
BF_ENTRY(support_tells) { support_tells(*view, blocks); }
BF_ENTRY(support_prunes) { support_prunes(*view, blocks, pointer<long long>(a)); }
// a: int [groups]
BF_ENTRY(support_marks) { support_marks(*view, blocks, pointer<int>(a)); }

// a: values [padded lanes], b: beliefs, x: epsilon
BF_ENTRY(values) { values(*view, blocks, pointer<double>(a), x); }
BF_ENTRY(beliefs) { beliefs(*view, blocks, pointer<double>(a), pointer<Real>(b), x); }
// a: beliefs, b: zero children, c: how many
BF_ENTRY(zero_beliefs) { zero_beliefs(*view, pointer<const int>(b), c, pointer<Real>(a)); }
// a: direction, b: partial sums, c: steps, d: how many
BF_ENTRY(line) { line(*view, blocks, pointer<const Real>(a), pointer<double>(b), pointer<const double>(c), int(d)); }

// a: saved point, b: addresses of residuals [slots], images [slots], partial sums; c: slot, d: slots, x: size
BF_ENTRY(push) {
    const long long* addresses = pointer<const long long>(b);
    push(view->messages, pointer<const Real>(a), addresses, pointer<Real>(addresses[c]),
         pointer<Real>(addresses[d + c]), int(d), pointer<double>(addresses[2 * d]), (long long)x);
}
// a: addresses of the images, b: weights, c: size, d: slots
BF_ENTRY(mix) { mix(view->messages, pointer<const long long>(a), pointer<const double>(b), int(d), c); }
// a: rows, b: sums, c: pieces, d: columns; blocks: starts, int64 [pieces + 1], then the address of the order
BF_ENTRY(sum_pieces) {
    const long long* starts = reinterpret_cast<const long long*>(blocks);
    sum_pieces(pointer<const double>(a), pointer<double>(b), starts, pointer<const int>(starts[c + 1]), c, int(d));
}
