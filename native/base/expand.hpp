// Bits to the numbers that they stand for: accept ids of a machine to the slots of their subscriptions.
//
// Bits are taken one by one, or 16 at a time where the processor can compress (AVX-512).
// PERF: bench/million.py and bench/yfilter.py, warm: most of what a document with thousands of matches costs is here.
#pragma once

#include <cstdint>

namespace treecast {

// For every bit of every mask, ascending: writes numbers[64 * words[i] + bit]. Answers with the end of what was written. There
// must be room for 64 numbers a mask.
using ExpandBits = int32_t* (*)(const uint32_t* numbers, const uint32_t* words, const uint64_t* masks, uint32_t count, int32_t* out);

ExpandBits expand_bits();        // what suits the level in force: see cpu.hpp

}  // namespace treecast
