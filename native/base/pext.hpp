// Gathering and counting bits: in hardware where possible, in software elsewhere.
//
// The machines map sets to sets with PEXT. One template runs with either version, chosen at run time.
#pragma once

#include "base/cpu.hpp"

#include <bit>
#include <cstdint>

namespace treecast {

// PEXT gathers the bits of a value under a mask.
struct HardBits {
#if TREECAST_X86
    // Assembly needs no compiler flag where it is inlined; std::popcount without the flag is a call into a library.
    static inline __attribute__((always_inline)) uint64_t pext(uint64_t value, uint64_t mask) {
        uint64_t gathered;
        asm("pextq %2, %1, %0" : "=r"(gathered) : "r"(value), "r"(mask));
        return gathered;
    }
    static inline __attribute__((always_inline)) uint32_t count(uint64_t value) {
        uint64_t bits;
        asm("popcntq %1, %0" : "=r"(bits) : "r"(value) : "cc");
        return static_cast<uint32_t>(bits);
    }
#endif
};

// Visits only the bits that are set in both; sets are sparse, so these are few.
struct SoftBits {
    static inline uint64_t pext(uint64_t value, uint64_t mask) {
        uint64_t gathered = 0;
        for (uint64_t rest = value & mask; rest; rest &= rest - 1) {
            uint64_t lowest = rest & (~rest + 1);
            gathered |= 1ull << std::popcount(mask & (lowest - 1));
        }
        return gathered;
    }
    static inline uint32_t count(uint64_t value) { return static_cast<uint32_t>(std::popcount(value)); }
};

}  // namespace treecast
