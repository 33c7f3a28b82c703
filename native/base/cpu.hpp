// Which instruction set the hot loops use. Chosen once at run time; tests force each level in turn.
#pragma once

namespace treecast {

// avx2 also means BMI1, BMI2, POPCNT and LZCNT; avx512 is all of that, and the parts F, BW, DQ and VL of AVX-512.
enum class Simd : int { scalar = 0, avx2 = 1, avx512 = 2 };

Simd simd_best();            // what this processor can do
Simd simd_level();           // what is in force: simd_best(), unless forced
void simd_force(int level);  // -1: automatic again; more than simd_best() is ignored
bool multiplies_carry_less();  // PCLMULQDQ, unless scalar is forced
bool multiplies_carry_less_wide();  // the same for four lanes at once: VPCLMULQDQ and AVX-512
bool compresses_bytes();  // AVX-512 with its part VBMI2, unless a lower level is forced

}  // namespace treecast

#if defined(__x86_64__)
#define TREECAST_X86 1
#define TREECAST_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt")))
#define TREECAST_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi,bmi2,popcnt,lzcnt")))
#define TREECAST_VBMI2 __attribute__((target("avx512vbmi2,avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi,bmi2,popcnt,lzcnt")))
#else
#define TREECAST_X86 0
#define TREECAST_AVX2
#define TREECAST_AVX512
#define TREECAST_VBMI2
#endif
