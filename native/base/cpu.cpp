// Detects the instruction set once. A forced level lets tests run every variant on one machine.
#include "base/cpu.hpp"

#include <atomic>
#include <cstdint>
#if TREECAST_X86
#include <cpuid.h>
#endif

namespace treecast {

namespace {

std::atomic<int> forced{-1};

#if TREECAST_X86

// What the processor has and the system saves. By CPUID itself: __builtin_cpu_supports needs a table that not every compiler's
// runtime has.
struct Processor {
    bool carry_less = false, carry_less_wide = false, avx2 = false, avx512 = false, bytes_compressed = false;

    Processor() {
        unsigned basic = 0, extended = 0, vectors = 0, more = 0, rest = 0;
        if (!__get_cpuid(1, &rest, &rest, &basic, &rest)) return;
        carry_less = has(basic, 1) && has(basic, 19);   // PCLMULQDQ, SSE4.1
        if (!has(basic, 27)) return;                    // OSXSAVE: the system says which registers it saves
        uint64_t saved = registers_saved();
        if (!__get_cpuid_count(7, 0, &rest, &extended, &vectors, &rest)) return;
        if (!__get_cpuid(0x80000001, &rest, &rest, &more, &rest)) return;
        // AVX2, BMI1, BMI2, POPCNT and LZCNT; registers XMM and YMM
        avx2 = (saved & 0x6) == 0x6 && has(extended, 5) && has(extended, 3) && has(extended, 8) && has(basic, 23) && has(more, 5);
        // F, DQ, BW and VL; the masks and registers ZMM besides
        avx512 = avx2 && (saved & 0xe6) == 0xe6 && has(extended, 16) && has(extended, 17) && has(extended, 30) && has(extended, 31);
        carry_less_wide = carry_less && avx512 && has(vectors, 10);  // VPCLMULQDQ
        bytes_compressed = avx512 && has(vectors, 6);                // VBMI2
    }

private:
    static bool has(unsigned flags, int bit) { return flags >> bit & 1; }

    static uint64_t registers_saved() {
        uint32_t low, high;
        asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        return static_cast<uint64_t>(high) << 32 | low;
    }
};

const Processor& processor() {
    static const Processor detected;
    return detected;
}

#endif

}  // namespace

// BMI2 is required together with AVX2, because the machines need PEXT.
Simd simd_best() {
#if TREECAST_X86
    return processor().avx512 ? Simd::avx512 : processor().avx2 ? Simd::avx2 : Simd::scalar;
#else
    return Simd::scalar;
#endif
}

bool multiplies_carry_less() {
#if TREECAST_X86
    return processor().carry_less && simd_level() != Simd::scalar;
#else
    return false;
#endif
}

bool multiplies_carry_less_wide() {
#if TREECAST_X86
    return processor().carry_less_wide && simd_level() != Simd::scalar;
#else
    return false;
#endif
}

bool compresses_bytes() {
#if TREECAST_X86
    return processor().bytes_compressed && simd_level() == Simd::avx512;
#else
    return false;
#endif
}

Simd simd_level() {
    int level = forced.load(std::memory_order_relaxed);
    if (level < 0 || level > static_cast<int>(simd_best())) return simd_best();
    return static_cast<Simd>(level);
}

void simd_force(int level) { forced.store(level, std::memory_order_relaxed); }

}  // namespace treecast
