// The pass with AVX2. Everything it includes is included before the target is switched, so that no inline function that
// other files share is compiled for AVX2 here.
#include "base/cpu.hpp"
#include "document/binary.hpp"
#include "document/reader_state.hpp"
#include "document/survey.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#if TREECAST_X86
#include <immintrin.h>

#define TREECAST_INLINE inline __attribute__((always_inline))
#define TREECAST_NOINLINE __attribute__((noinline))

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt,lzcnt")
#endif

namespace treecast::level_avx2 {

namespace {

using Bytes = __m256i;

// A byte is a stop if the table, looked up by its low nibble, holds the byte itself. That is one shuffle and one comparison for
// up to sixteen characters, as long as their low nibbles differ. 0 stands for NUL at nibble 0 and for nothing elsewhere.
TREECAST_INLINE Bytes stop_table(char n0, char n2, char n6, char n7, char n9, char na, char nc, char nd, char ne, char nf) {
    __m128i half = _mm_setr_epi8(n0, 0, n2, 0, 0, 0, n6, n7, 0, n9, na, 0, nc, nd, ne, nf);
    return _mm256_broadcastsi128_si256(half);
}

TREECAST_INLINE Bytes load(const void* at) { return _mm256_loadu_si256(static_cast<const Bytes*>(at)); }
TREECAST_INLINE uint32_t bits(Bytes matches) { return static_cast<uint32_t>(_mm256_movemask_epi8(matches)); }

struct Scan {
    static TREECAST_INLINE const char* find_text_stop(const char* at) {
        // PERF: 64 bytes a turn, because most texts are shorter and whether the loop ends is then well predicted
        // (bench/reading.py).
        for (;; at += 64) {
            uint64_t found = text_stops(load(at)) | static_cast<uint64_t>(text_stops(load(at + 32))) << 32;
            if (found) return at + __builtin_ctzll(found);
        }
    }
    static TREECAST_INLINE uint32_t text_stops(Bytes block) {
        const Bytes table = stop_table(0, 0, '&', 0, 0, 0, '<', ']', 0, 0);
        Bytes stops = _mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, block), block);
        return bits(_mm256_or_si256(stops, _mm256_cmpeq_epi8(block, _mm256_set1_epi8('\r'))));
    }
    static TREECAST_INLINE const char* find_value_stop(const char* at, char quote) {
        const Bytes table = stop_table(0, '"', '&', '\'', '\t', '\n', '<', '\r', 0, 0);
        // The other quote is an ordinary character in this value, so it is taken out of the stops.
        const Bytes other = _mm256_set1_epi8(static_cast<char>(quote ^ ('"' ^ '\'')));
        for (;; at += 32) {
            Bytes block = load(at);
            Bytes stops = _mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, block), block);
            uint32_t found = bits(_mm256_andnot_si256(_mm256_cmpeq_epi8(block, other), stops));
            if (found) return at + __builtin_ctz(found);
        }
    }
    static TREECAST_INLINE void copy_32(void* to, const void* from) { _mm256_storeu_si256(static_cast<Bytes*>(to), load(from)); }
    // At most 32, which means 32 or more.
    static TREECAST_INLINE uint32_t name_length(const char* at) {
        const Bytes table = stop_table(' ', 0, 0, 0, '\t', '\n', 0, '=', '>', '/');
        Bytes block = load(at);
        uint32_t found = bits(_mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, block), block));
        return _tzcnt_u32(found);
    }
    struct Key {
        Bytes name;
        TREECAST_INLINE Key(const char* at, uint32_t length) : name(_mm256_and_si256(load(at), load(name_masks + 32 - length))) {}
        TREECAST_INLINE bool equals(const char* bytes) const { return bits(_mm256_cmpeq_epi8(name, load(bytes))) == 0xFFFFFFFFu; }
    };
    // May deny a long name, which then takes the slow path.
    static TREECAST_INLINE bool same_name(const char* one, const char* other, uint32_t length) {
        if (__builtin_expect(length > short_name_bytes, 0)) return false;
        Bytes difference = _mm256_xor_si256(load(one), load(other));
        return _mm256_testz_si256(difference, load(name_masks + 32 - length));
    }
};

#include "document/reader_pass.hpp"
#include "document/binary_pass.hpp"

}  // namespace treecast::level_avx2

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
