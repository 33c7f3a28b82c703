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

// For every bit of every mask, ascending: writes 64 * words[i] + bit. The rest is as above.
using ListBits = int32_t* (*)(const uint32_t* words, const uint64_t* masks, uint32_t count, int32_t* out);

ListBits list_bits();

// Of 64 words those that are not empty, ascending: their numbers, from `first` on, and what is in them. Clears them. Only lines of
// eight words with a byte in `lines` are looked at. Answers with how many there are. There must be room for eight more than that.
using TakeWords = uint32_t (*)(uint64_t* words, uint64_t lines, uint32_t first, uint32_t* numbers, uint64_t* masks);

TakeWords take_words();

}  // namespace treecast
