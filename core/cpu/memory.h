// Memory that is free, back to the system: glibc by itself keeps it, in holes that the next array may not fit into.
#pragma once
#include <cstdint>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace blendfield {

// About so many bytes may have become free; nothing is done for few.
inline void give_back([[maybe_unused]] int64_t bytes) {
#if defined(__GLIBC__)
    if (bytes >= 1 << 20) malloc_trim(0);
#endif
}

// Does so at the end of a scope: declared before what takes the memory.
struct GiveBack {
    int64_t bytes;
    explicit GiveBack(int64_t bytes_) : bytes(bytes_) {}
    ~GiveBack() { give_back(bytes); }
    GiveBack(const GiveBack&) = delete;
    GiveBack& operator=(const GiveBack&) = delete;
};

}  // namespace blendfield
