// Bits to numbers, once for every processor and once with AVX-512.
#include "base/expand.hpp"

#include "base/cpu.hpp"

#include <bit>

#if TREECAST_X86
#include <immintrin.h>
#endif

namespace treecast {

namespace {

int32_t* expand_one_by_one(const uint32_t* numbers, const uint32_t* words, const uint64_t* masks, uint32_t count, int32_t* out) {
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t* of_word = numbers + uint64_t(words[i]) * 64;
        for (uint64_t rest = masks[i]; rest; rest &= rest - 1) *out++ = static_cast<int32_t>(of_word[std::countr_zero(rest)]);
    }
    return out;
}

int32_t* list_one_by_one(const uint32_t* words, const uint64_t* masks, uint32_t count, int32_t* out) {
    for (uint32_t i = 0; i < count; ++i)
        for (uint64_t rest = masks[i]; rest; rest &= rest - 1) *out++ = static_cast<int32_t>(words[i] * 64 + static_cast<uint32_t>(std::countr_zero(rest)));
    return out;
}

uint32_t take_one_by_one(uint64_t* words, uint64_t lines, uint32_t first, uint32_t* numbers, uint64_t* masks) {
    uint32_t count = 0;
    for (; lines; lines &= lines - 1) {
        auto line = static_cast<uint32_t>(std::countr_zero(lines)) / 8 * 8;
        for (uint32_t word = line; word < line + 8; ++word) {
            numbers[count] = first + word;
            masks[count] = words[word];
            count += words[word] != 0;
            words[word] = 0;
        }
    }
    return count;
}

#if TREECAST_X86
// Eight numbers at a time, whether there are as many or not: a loop over the bits ends where no processor foresees it.
TREECAST_AVX2 int32_t* list_eight_at_once(const uint32_t* words, const uint64_t* masks, uint32_t count, int32_t* out) {
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t first = words[i] * uint64_t(64);
        int32_t* const end = out + _mm_popcnt_u64(masks[i]);
        for (uint64_t rest = masks[i]; out < end; out += 8)
            for (int k = 0; k < 8; ++k, rest = _blsr_u64(rest)) out[k] = static_cast<int32_t>(first + _tzcnt_u64(rest));
        out = end;
    }
    return out;
}

// Compresses the numbers of the bits of a word at once, as bytes. A word seldom has more than 16 bits.
TREECAST_VBMI2 int32_t* list_compressed(const uint32_t* words, const uint64_t* masks, uint32_t count, int32_t* out) {
    alignas(64) uint8_t places[64];
    for (uint8_t place = 0; place < 64; ++place) places[place] = place;
    const __m512i all = _mm512_load_si512(places);
    for (uint32_t i = 0; i < count; ++i) {
        const __m512i first = _mm512_set1_epi32(static_cast<int>(words[i] * 64)), bits = _mm512_maskz_compress_epi8(masks[i], all);
        auto write = [&](int32_t* to, __m128i sixteen) TREECAST_VBMI2 {
            _mm512_storeu_si512(to, _mm512_add_epi32(first, _mm512_maskz_cvtepu8_epi32(0xffff, sixteen)));
        };
        const auto size = static_cast<uint32_t>(_mm_popcnt_u64(masks[i]));
        write(out, _mm512_maskz_extracti32x4_epi32(0xf, bits, 0));      // g++ 12 warns of its own header without a mask
        if (size > 16) {
            write(out + 16, _mm512_maskz_extracti32x4_epi32(0xf, bits, 1));
            write(out + 32, _mm512_maskz_extracti32x4_epi32(0xf, bits, 2));
            write(out + 48, _mm512_maskz_extracti32x4_epi32(0xf, bits, 3));
        }
        out += size;
    }
    return out;
}

TREECAST_AVX512 uint32_t take_compressed(uint64_t* words, uint64_t lines, uint32_t first, uint32_t* numbers, uint64_t* masks) {
    const __m512i places = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    uint32_t count = 0;
    for (; lines; lines &= lines - 1) {
        auto line = static_cast<uint32_t>(std::countr_zero(lines)) / 8 * 8;
        const __m512i of_line = _mm512_loadu_si512(words + line);
        const __mmask8 wanted = _mm512_test_epi64_mask(of_line, of_line);
        _mm512_storeu_si512(words + line, _mm512_setzero_si512());
        _mm512_storeu_si512(masks + count, _mm512_maskz_compress_epi64(wanted, of_line));
        const __m512i here = _mm512_add_epi64(places, _mm512_set1_epi64(first + line));
        const __m512i compressed = _mm512_maskz_compress_epi64(wanted, here);
        // All of them, by a mask: without one, g++ 12 warns of its own header.
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(numbers + count), _mm512_maskz_cvtepi64_epi32(0xff, compressed));
        count += static_cast<uint32_t>(_mm_popcnt_u32(wanted));
    }
    return count;
}

// Loads only what the mask names, so nothing is read beyond the end; stores whole registers, of which the next ones overwrite
// what is not wanted. Few bits are faster one by one. (Compressing straight into memory takes much longer on some processors.)
// Of more bits all four parts are taken, empty ones too: where the last one is cannot be foreseen, and a branch that is mistaken
// takes longer than a part.
TREECAST_AVX512 int32_t* expand_compressed(const uint32_t* numbers, const uint32_t* words, const uint64_t* masks, uint32_t count,
                                           int32_t* out) {
    constexpr int few = 3;
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t* of_word = numbers + uint64_t(words[i]) * 64;
        uint64_t mask = masks[i];
        if (_mm_popcnt_u64(mask) <= few) {
            for (; mask; mask &= mask - 1) *out++ = static_cast<int32_t>(of_word[std::countr_zero(mask)]);
            continue;
        }
        for (int shift = 0; shift < 64; shift += 16) {
            const auto part = static_cast<__mmask16>(mask >> shift);
            _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(part, _mm512_maskz_loadu_epi32(part, of_word + shift)));
            out += _mm_popcnt_u32(part);
        }
    }
    return out;
}
#endif

}  // namespace

ExpandBits expand_bits() {
#if TREECAST_X86
    if (simd_level() >= Simd::avx512) return expand_compressed;
#endif
    return expand_one_by_one;
}

ListBits list_bits() {
#if TREECAST_X86
    if (compresses_bytes()) return list_compressed;
    if (simd_level() >= Simd::avx2) return list_eight_at_once;
#endif
    return list_one_by_one;
}

TakeWords take_words() {
#if TREECAST_X86
    if (simd_level() >= Simd::avx512) return take_compressed;
#endif
    return take_one_by_one;
}

}  // namespace treecast
