// PEXT gathers the bits of a value under a mask: in hardware where it is fast to use, in software elsewhere.
#pragma once

#include "cpu.hpp"

#include <bit>
#include <cstdint>

namespace treecast {

struct HardPext {
#if TREECAST_X86
    // Assembly needs no compiler flag where it is inlined.
    static inline __attribute__((always_inline)) uint64_t pext(uint64_t value, uint64_t mask) {
        uint64_t gathered;
        asm("pextq %2, %1, %0" : "=r"(gathered) : "r"(value), "r"(mask));
        return gathered;
    }
#endif
};

struct SoftPext {
    static inline uint64_t pext(uint64_t value, uint64_t mask) {
        uint64_t gathered = 0;
        for (uint64_t rest = value & mask; rest; rest &= rest - 1) {
            uint64_t lowest = rest & (~rest + 1);
            gathered |= 1ull << std::popcount(mask & (lowest - 1));
        }
        return gathered;
    }
};

}  // namespace treecast
