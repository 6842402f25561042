// Values, beliefs and gaps of large tables that are stored lane by lane (GroupView::in_pieces). Nothing as large as the
// table is needed beside it: hat_r is made again piece by piece, a part of a row at a time, whenever a pass wants it.
#pragma once
#include "cpu/loops/masks.h"
#include "kernels/certificate.h"

namespace blendfield::BF_ISA {

namespace {

using PieceVector = NativePack<double>;
constexpr int piece_entries = 1024;

// Entries [first, first + count) of a table, all in one row of its last axis.
struct Piece {
    long long first;
    int count;
    const int* label;   // [slots] of the child at the first entry; moves along when the child has the last axis
    const double* hat;  // [count], then -inf up to a whole vector
};

// Calls f(piece) over the table of a region without messages upwards, or whose `base` has them already.
template <class T, class F>
void for_pieces(const ProblemView<T>& view, const GroupView& g, long long block, F f) {
    using V = PieceVector;
    constexpr int P = Traits<V>::lanes, most = 32;  // axes; a table has fewer slots than this or is worked on whole
    const T* source = (g.base >= 0 ? view.base + g.base : view.tables + g.tables) + block * g.entries;
    alignas(64) double hat[piece_entries + P];
    int digit[most] = {}, row[most] = {}, label[most];
    for (long long o = 0; o < g.outer; ++o) {
        for (int begin = 0; begin < g.last; begin += piece_entries) {
            const int count = g.last - begin < piece_entries ? g.last - begin : piece_entries;
            const T* from = source + o * g.last + begin;
            double constant = 0;
            for (int s = 0; s < g.slots; ++s) {
                label[s] = row[s] + begin * g.slot[s].last_stride;
                const T* message = view.messages + g.slot[s].messages + block * g.slot[s].labels;
                if (!g.slot[s].last_stride) constant += double(message[label[s]]);
            }
            for (int y = 0; y < count; y += P) Lanes<V>::store(hat + y, load_as<V>(from + y) + constant);
            for (int s = 0; s < g.slots; ++s) {
                if (!g.slot[s].last_stride) continue;
                const T* message = view.messages + g.slot[s].messages + block * g.slot[s].labels + label[s];
                for (int y = 0; y < count; y += P)
                    Lanes<V>::store(hat + y, Lanes<V>::load(hat + y) + load_as<V>(message + y));
            }
            for (int y = count; y < count + P; ++y) hat[y] = -Limits<double>::infinity;
            f(Piece{o * g.last + begin, count, label, hat});
        }
        for (int axis = g.axes - 2; axis >= 0; --axis) {
            for (int s = 0; s < g.slots; ++s) row[s] += g.slot[s].strides[axis];
            if (++digit[axis] < g.extents[axis]) break;
            for (int s = 0; s < g.slots; ++s) row[s] -= g.slot[s].strides[axis] * g.extents[axis];
            digit[axis] = 0;
        }
    }
}

// softmax(hat / temperature) entry by entry, as kernels/beliefs.h has it.
struct PieceBelief {
    using V = PieceVector;
    static constexpr int P = Traits<V>::lanes;
    Normaliser<double> n;  // sum, at temperature 0: the number of entries next to the maximum
    double tie;

    V operator()(V hat) const {
        const V u = signed_entry(hat, fill<V>(n.sign)), zero = fill<V>(0);
        if (!(n.temperature > 0)) return u >= fill<V>(tie) ? fill<V>(1 / n.sum) : zero;
        const double shift = maximum(n.largest, Limits<double>::lowest);
        return exponential((u - shift) * n.inverse) * (1 / n.sum);
    }
};

template <class T>
PieceBelief belief_of_pieces(const ProblemView<T>& view, const GroupView& g, long long block, double temperature,
                             double counting) {
    using V = PieceVector;
    constexpr int P = Traits<V>::lanes;
    Normaliser<double> n;
    n.sign = counting < 0 ? -1 : 1;
    n.temperature = temperature < 0 ? -temperature : temperature;
    n.inverse = n.temperature > 0 ? 1 / n.temperature : 1e300;
    V largest = minus_infinity<V>();
    for_pieces(view, g, block, [&](const Piece& piece) {
        for (int y = 0; y < piece.count; y += P)
            largest = maximum(largest, signed_entry(Lanes<V>::load(piece.hat + y), fill<V>(n.sign)));
    });
    n.largest = max_of_lanes(largest);
    n.sum = 1;
    PieceBelief belief{n, n.largest - 1e-9 * (1 + (n.largest < 0 ? -n.largest : n.largest))};
    V sum = fill<V>(0);
    for_pieces(view, g, block, [&](const Piece& piece) {
        for (int y = 0; y < piece.count; y += P) sum += belief(Lanes<V>::load(piece.hat + y));
    });
    belief.n.sum = sum_of_lanes(sum);
    belief.n.log_sum = n.temperature > 0 ? logarithm(belief.n.sum) : 0;
    belief.n.value = n.sign * (n.largest + n.temperature * belief.n.log_sum);
    return belief;
}

template <class T>
PieceBelief belief_of_pieces(const ProblemView<T>& view, const GroupView& g, long long block, double epsilon) {
    const double counting = g.counting[g.counting_uniform ? 0 : block];
    return belief_of_pieces(view, g, block, counting * epsilon, counting);
}

// The gap of a region from q of a piece after the other; see kernels/certificate.h.
class PieceGap {
    using V = PieceVector;
    const PieceBelief& belief_;
    Normaliser<V> n_;
    V divergence_ = fill<V>(0), distance_ = fill<V>(0);

  public:
    explicit PieceGap(const PieceBelief& belief) : belief_(belief) {
        const Normaliser<double>& n = belief.n;
        n_ = {fill<V>(n.largest), fill<V>(n.sum),         fill<V>(n.log_sum), fill<V>(n.inverse),
              fill<V>(n.sign),    fill<V>(n.temperature), fill<V>(n.value)};
    }
    void add(V q, V hat) {
        if (belief_.n.temperature > 0)
            divergence_ += divergence_of_entry(q, belief_(hat), hat, n_);
        else
            distance_ += q > fill<V>(0) ? q * (n_.largest - signed_entry(hat, n_.sign)) : fill<V>(0);
    }
    double total() const {
        const double t = belief_.n.temperature;
        return belief_.n.sign * (t > 0 ? t * sum_of_lanes(divergence_) : sum_of_lanes(distance_));
    }
};

// Beliefs into `out` [entries] unless it is null; returns the value.
template <class T>
double beliefs_in_pieces(const ProblemView<T>& view, const ValueItem& item, double* out) {
    using V = PieceVector;
    constexpr int P = Traits<V>::lanes;
    const GroupView& g = view.groups[item.group];
    const PieceBelief belief = belief_of_pieces(view, g, item.block, view.epsilon);
    if (out)
        for_pieces(view, g, item.block, [&](const Piece& piece) {
            alignas(64) double b[piece_entries + P];
            for (int y = 0; y < piece.count; y += P) Lanes<V>::store(b + y, belief(Lanes<V>::load(piece.hat + y)));
            for (int y = 0; y < piece.count; ++y) out[piece.first + y] = b[y];
        });
    return belief.n.value;
}

struct ValueAndGap {
    double value, gap;
};

// `q` [entries] is given.
template <class T>
ValueAndGap gap_in_pieces(const ProblemView<T>& view, const ValueItem& item, const double* q) {
    using V = PieceVector;
    constexpr int P = Traits<V>::lanes;
    const GroupView& g = view.groups[item.group];
    const PieceBelief belief = belief_of_pieces(view, g, item.block, view.epsilon);
    PieceGap gap(belief);
    for_pieces(view, g, item.block, [&](const Piece& piece) {
        alignas(64) double part[piece_entries + P] = {};
        for (int y = 0; y < piece.count; ++y) part[y] = q[piece.first + y];
        for (int y = 0; y < piece.count; y += P) gap.add(Lanes<V>::load(part + y), Lanes<V>::load(piece.hat + y));
    });
    return {belief.n.value, gap.total()};
}

// q of a table in pieces: its belief times one factor per slot and label.
class ScaledPieces {
    using V = PieceVector;
    static constexpr int P = Traits<V>::lanes;
    const GroupView& g_;
    const PieceBelief& belief_;
    const double* factors_;  // slot after slot, [labels] each
    int slots_;              // how many of the slots have factors already

  public:
    ScaledPieces(const GroupView& g, const PieceBelief& belief, const double* factors, int slots)
        : g_(g), belief_(belief), factors_(factors), slots_(slots) {}

    // [count] entries and zeros up to a whole vector.
    void fill_piece(const Piece& piece, double* q) const {
        for (int y = 0; y < piece.count; y += P) Lanes<V>::store(q + y, belief_(Lanes<V>::load(piece.hat + y)));
        multiply(g_, slots_, piece, factors_, q);
    }
    // q *= prod over the first `slots` slots of factor_s(y_s)
    static void multiply(const GroupView& g, int slots, const Piece& piece, const double* factor, double* q) {
        double constant = 1;
        for (int s = 0; s < slots; factor += g.slot[s++].labels) {
            if (!g.slot[s].last_stride) {
                constant *= factor[piece.label[s]];
                continue;
            }
            for (int y = 0; y < piece.count; ++y) q[y] *= factor[piece.label[s] + y];
        }
        for (int y = 0; y < piece.count; ++y) q[y] *= constant;
    }
    // marginal[label of the slot] += q
    static void collect(const SlotView& slot, int label, int count, const double* q, double* marginal) {
        if (slot.last_stride) {
            for (int y = 0; y < count; ++y) marginal[label + y] += q[y];
            return;
        }
        V sum = fill<V>(0);
        for (int y = 0; y < count; y += P) sum += Lanes<V>::load(q + y);
        marginal[label] += sum_of_lanes(sum);
    }
};

// Makes q consistent with `target`, the q of the children (single variables), slot after slot, as round_to_children
// does, and into `candidate` unless that is null. `work`: twice as many values as targets.
template <class T>
ValueAndGap round_in_pieces(const ProblemView<T>& view, const ValueItem& item, double smoothing, const double* target,
                            double* work, double* candidate) {
    using V = PieceVector;
    constexpr int P = Traits<V>::lanes;
    const GroupView& g = view.groups[item.group];
    const PieceBelief belief = belief_of_pieces(view, g, item.block, view.epsilon);
    const PieceBelief smooth = smoothing == view.epsilon ? belief : belief_of_pieces(view, g, item.block, smoothing);
    alignas(64) double q[piece_entries + P];

    long long targets = 0, covered = 1;
    for (int s = 0; s < g.slots; ++s) {  // the factor of this slot keeps its marginal from exceeding the target
        const SlotView& slot = g.slot[s];
        double* factor = work + targets;
        for (int y = 0; y < slot.labels; ++y) factor[y] = 0;
        const ScaledPieces scaled(g, smooth, work, s);
        for_pieces(view, g, item.block, [&](const Piece& piece) {
            scaled.fill_piece(piece, q);
            ScaledPieces::collect(slot, piece.label[s], piece.count, q, factor);
        });
        for (int y = 0; y < slot.labels; ++y)
            factor[y] = factor[y] > target[targets + y] ? target[targets + y] / factor[y] : 1;
        targets += slot.labels;
        covered *= slot.labels;
    }
    const ScaledPieces scaled(g, smooth, work, g.slots);
    double* const residuals = work + targets;  // of every slot, normalised to one; their mass is delta
    for (long long y = 0; y < targets; ++y) residuals[y] = 0;
    for_pieces(view, g, item.block, [&](const Piece& piece) {
        scaled.fill_piece(piece, q);
        double* residual = residuals;
        for (int s = 0; s < g.slots; residual += g.slot[s++].labels)
            ScaledPieces::collect(g.slot[s], piece.label[s], piece.count, q, residual);
    });
    double delta = 0;
    for (long long s = 0, at = 0; s < g.slots; at += g.slot[s++].labels) {
        double mass = 0;
        for (long long y = at; y < at + g.slot[s].labels; ++y) {
            residuals[y] = target[y] > residuals[y] ? target[y] - residuals[y] : 0;
            mass += residuals[y];
        }
        if (s == 0) delta = mass;
        const double scale = mass > 1e-290 ? 1 / mass : 0;  // 1 / mass must not overflow
        for (long long y = at; y < at + g.slot[s].labels; ++y) residuals[y] *= scale;
    }
    const double each = delta * (double(covered) / double(g.entries));  // axes without a child share it evenly
    PieceGap gap(belief);
    for_pieces(view, g, item.block, [&](const Piece& piece) {
        alignas(64) double add[piece_entries + P];
        scaled.fill_piece(piece, q);
        for (int y = 0; y < piece.count; ++y) add[y] = each;
        ScaledPieces::multiply(g, g.slots, piece, residuals, add);
        for (int y = 0; y < piece.count; ++y) q[y] += add[y];
        for (int y = 0; y < piece.count; y += P) gap.add(Lanes<V>::load(q + y), Lanes<V>::load(piece.hat + y));
        if (candidate)
            for (int y = 0; y < piece.count; ++y) candidate[piece.first + y] = q[y];
    });
    return {belief.n.value, gap.total()};
}

}  // namespace

}  // namespace blendfield::BF_ISA
