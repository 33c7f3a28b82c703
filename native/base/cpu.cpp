// Detects the instruction set once. A forced level lets tests run every variant on one machine.
#include "base/cpu.hpp"

#include <atomic>

namespace treecast {

namespace {
std::atomic<int> forced{-1};
}

// BMI2 is required together with AVX2, because the machines need PEXT.
Simd simd_best() {
#if TREECAST_X86
    static const bool fits = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                             __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    static const bool wide = fits && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return wide ? Simd::avx512 : fits ? Simd::avx2 : Simd::scalar;
#else
    return Simd::scalar;
#endif
}

Simd simd_level() {
    int level = forced.load(std::memory_order_relaxed);
    if (level < 0 || level > static_cast<int>(simd_best())) return simd_best();
    return static_cast<Simd>(level);
}

void simd_force(int level) { forced.store(level, std::memory_order_relaxed); }

}  // namespace treecast
