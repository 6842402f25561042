// A sum of potentials in which forbidden terms are counted, so that infeasible labellings still compare.
#pragma once
#include <cmath>

namespace blendfield {

struct Rank {
    int forbidden = 0;
    double total = 0;
    void add(double term) {
        if (std::isinf(term))
            ++forbidden;
        else
            total += term;
    }
    void add(const Rank& other) {
        forbidden += other.forbidden;
        total += other.total;
    }
    bool better_than(const Rank& other) const {
        return forbidden != other.forbidden ? forbidden < other.forbidden : total > other.total;
    }
};

}  // namespace blendfield
