// The compiled problem as the kernels see it: plain data, no standard headers, shared by every instruction set.
//
// Regions with the same shape, the same child slots and the same role form a *table group*; a region is a *lane* of its
// group. Lanes are stored in blocks of `width` (1, 8 or 32): table[block][entry][lane], lane fastest. The messages
// lambda_{child->parent} live with the parent, one slot per child: messages[block][child label][lane of the parent].
#pragma once

namespace blendfield {

// How one child sits inside the tables of its parents' group.
struct SlotView {
    int labels;          // size of the child's table
    int last_stride;     // stride of the table's last axis in the child's labels: 1, or 0 when the child lacks it
    const int* strides;  // [axes] stride of every table axis in the child's labels, 0 when absent
    long long messages;  // offset of block 0 in the message array
};

struct GroupView {
    int axes;
    const int* extents;  // [axes] label counts, ascending
    int last;            // extents[axes - 1]
    long long outer;     // entries / last
    long long entries;
    int lanes;  // regions in the group
    int width;  // lanes per block
    int blocks;
    int slots;
    const SlotView* slot;    // [slots]
    long long tables;        // offset of block 0 in the table array
    long long base;          // offset in the base array (theta minus messages upwards), -1 when not needed
    long long first_lane;    // offset of the group in arrays with one value per (padded) lane
    const double* counting;  // counting numbers: one per padded lane, or a single one
    bool counting_uniform;
    bool has_zero;   // some counting number is 0
    bool sends;      // the regions have parents
    bool forbidden;  // some entry of some table is -inf
    bool in_pieces;  // values, beliefs and gaps are made piece by piece (loops/pieces.h)
};

// A child block of the light phase: the lanes `mask` of one block, all sending in the same class.
struct ParentEdge {       // one per (light block, parent number)
    int stride;           // distance of consecutive child labels in the parent's message array
    unsigned contiguous;  // bit k: lanes 8k .. 8k+7 lie next to each other in the parents' message array
    long long index;      // offset of the positions of (label 0, lane) in the message array, see `positions`
};
struct LightBlock {
    int group;
    int block;
    unsigned mask;
    int degree;        // largest number of parents of a lane; missing ones have position `no_edge`
    long long edge;    // offset of ParentEdge[degree]
    long long weight;  // offset of weights [degree + 1][width] (or [degree + 1] when uniform): c_p / c_hat, then c_hat
    bool weight_uniform;
};
constexpr unsigned no_edge = 0xffffffffu;

// Where the positions of lanes begin, of eight from `lane` on: one for all of them where they are contiguous, else one
// each. (Groups of width 1 have a single lane, 0.)
static inline const unsigned* positions(const unsigned* index, const ParentEdge& edge, int lane) {
    return index + edge.index + lane - 7 * __builtin_popcount(edge.contiguous & ((1u << lane / 8) - 1));
}
static inline unsigned position(const unsigned* index, const ParentEdge& edge, int lane) {
    const unsigned* of_eight = positions(index, edge, lane & ~7);
    return edge.contiguous >> lane / 8 & 1 ? *of_eight + static_cast<unsigned>(lane & 7) : of_eight[lane & 7];
}

struct HeavyItem {  // mu for one slot of one block
    int group;
    int slot;
    int block;
    unsigned mask;
    int from, to;  // the labels of the child to make; fewer than all of them for parts of large tables only
};
struct ValueItem {  // the lanes `mask` of one block; `light` finds their messages upwards, -1: outer regions
    int group;
    int block;
    unsigned mask;
    int light;
};

template <class T>
struct ProblemView {
    const GroupView* groups;
    const LightBlock* lights;
    const ParentEdge* edges;
    const unsigned* index;
    const T* weights;
    const T* tables;
    T* base;
    T* messages;
    double epsilon;
};

// The two-level certificate: consistent beliefs q, made from the children (single variables) upwards.
struct CertificateView {
    double smoothing;               // temperature of the beliefs from which q is made
    double* q;                      // q of the children: [block][label][lane] of their groups, see q_offset
    const long long* q_offset;      // [groups]
    const unsigned char* fixed;     // [padded lanes] the child's q is given already
    const unsigned* child_q;        // per parent group: [slot][padded lane], position of the child's q (label 0)
    const long long* child_start;   // [groups] where a group begins in child_q
    const int* const* child_width;  // [groups][slots] distance of consecutive labels of the child's q
};

// Where sums over regions go: per item, and (when not null) per padded lane.
struct Sink {
    double* items;
    double* lanes;
};

// Working memory of one thread; sizes are fixed when the problem is compiled.
struct Scratch {
    double* block[3];  // each holds the largest block of tables in float64, those in pieces left out; not for sweeps
    void* partial;     // messages of one slot of one block, or one row of a table
    double* light;     // totals and gathered mu of the largest light block
    void* weights;     // weights of one light block, one native vector per parent
    double* marginal;  // per-axis vectors of the certificate: targets, then workspace three times as large
    double* sums;      // [largest child table][16]
    void* slots;       // one Incoming per slot
};

}  // namespace blendfield
