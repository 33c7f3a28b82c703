// One look at all bytes before parsing: copies them, validates UTF-8 and characters, and counts the tags.
//
// The AVX2 version follows Keiser and Lemire, "Validating UTF-8 in less than one instruction per byte" (2021).
// It only finds out that something is wrong. Then the slow loop runs once to find out where.
#include "document/survey.hpp"

#include "base/cpu.hpp"
#include "document/characters.hpp"

#include <cstring>

#if TREECAST_X86
#include <immintrin.h>
#endif

namespace treecast {

namespace {

// The first byte that does not start a well-formed XML character; text.size() if there is none.
size_t first_bad(std::string_view text) {
    const char* end = text.data() + text.size();
    for (const char* at = text.data(); at < end;) {
        auto byte = static_cast<unsigned char>(*at);
        if (byte >= 0x20 && byte < 0x80) {
            ++at;
            continue;
        }
        Decoded decoded = decode_utf8(at, end);
        if (!decoded.length || !is_xml_char(decoded.character)) return static_cast<size_t>(at - text.data());
        at += decoded.length;
    }
    return text.size();
}

size_t count_tags(std::string_view text) {
    size_t tags = 0;
    for (char c : text) tags += c == '<';
    return tags;
}

#if TREECAST_X86

using Bytes = __m256i;

// The ways in which two neighbouring bytes can be wrong. Each error is one bit.
// Three look-ups by nibbles are combined with AND: a bit survives if all three nibbles allow that error.
enum Wrong : uint8_t {
    too_short = 1,       // lead followed by no continuation
    too_long = 2,        // continuation after ASCII
    overlong_3 = 4,      // E0 80..9F
    surrogate = 8,       // ED A0..BF
    overlong_2 = 16,     // C0, C1
    overlong_4 = 32,     // F0 80..8F; also F5.. with 80..8F
    too_large = 64,      // F4 90..BF, F5..
    two_conts = 128,     // continuation after continuation: right only as third or fourth byte
};

TREECAST_AVX2 inline Bytes table(const uint8_t (&entries)[16]) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(entries)));
}

// Errors that do not depend on the low nibble of the first byte.
constexpr uint8_t carry = too_short | too_long | two_conts;
constexpr uint8_t first_high[16] = {
    too_long, too_long, too_long, too_long, too_long, too_long, too_long, too_long,
    two_conts, two_conts, two_conts, two_conts,
    too_short | overlong_2, too_short, too_short | overlong_3 | surrogate, too_short | too_large | overlong_4};
constexpr uint8_t first_low[16] = {
    carry | overlong_3 | overlong_2 | overlong_4, carry | overlong_2, carry, carry, carry | too_large,
    carry | too_large | overlong_4, carry | too_large | overlong_4, carry | too_large | overlong_4,
    carry | too_large | overlong_4, carry | too_large | overlong_4, carry | too_large | overlong_4,
    carry | too_large | overlong_4, carry | too_large | overlong_4, carry | too_large | overlong_4 | surrogate,
    carry | too_large | overlong_4, carry | too_large | overlong_4};
constexpr uint8_t second_high[16] = {
    too_short, too_short, too_short, too_short, too_short, too_short, too_short, too_short,
    too_long | overlong_2 | two_conts | overlong_3 | overlong_4,
    too_long | overlong_2 | two_conts | overlong_3 | too_large,
    too_long | overlong_2 | two_conts | surrogate | too_large,
    too_long | overlong_2 | two_conts | surrogate | too_large,
    too_short, too_short, too_short, too_short};

// `block` moved up by N bytes, filled with the last N bytes of `before`.
template <int N>
TREECAST_AVX2 inline Bytes shifted(Bytes block, Bytes before) {
    return _mm256_alignr_epi8(block, _mm256_permute2x128_si256(before, block, 0x21), 16 - N);
}

// Non-zero bytes where the block, following `before`, is not UTF-8 or has U+FFFE or U+FFFF.
TREECAST_AVX2 inline Bytes utf8_errors(Bytes block, Bytes before) {
    const Bytes nibble = _mm256_set1_epi8(0x0F);
    Bytes prev1 = shifted<1>(block, before), prev2 = shifted<2>(block, before), prev3 = shifted<3>(block, before);
    Bytes pairs = _mm256_shuffle_epi8(table(first_high), _mm256_and_si256(_mm256_srli_epi16(prev1, 4), nibble));
    pairs = _mm256_and_si256(pairs, _mm256_shuffle_epi8(table(first_low), _mm256_and_si256(prev1, nibble)));
    pairs = _mm256_and_si256(
        pairs, _mm256_shuffle_epi8(table(second_high), _mm256_and_si256(_mm256_srli_epi16(block, 4), nibble)));
    // Two continuations in a row are right only at the third byte of E0.. and the third or fourth byte of F0...
    Bytes third = _mm256_subs_epu8(prev2, _mm256_set1_epi8(static_cast<char>(0xE0 - 0x80)));
    Bytes fourth = _mm256_subs_epu8(prev3, _mm256_set1_epi8(static_cast<char>(0xF0 - 0x80)));
    Bytes must = _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8(static_cast<char>(0x80)));
    Bytes errors = _mm256_xor_si256(must, pairs);
    // U+FFFE and U+FFFF are EF BF BE and EF BF BF.
    Bytes last = _mm256_cmpeq_epi8(_mm256_or_si256(block, _mm256_set1_epi8(1)), _mm256_set1_epi8(static_cast<char>(0xBF)));
    Bytes ffff = _mm256_and_si256(_mm256_cmpeq_epi8(prev2, _mm256_set1_epi8(static_cast<char>(0xEF))),
                                  _mm256_cmpeq_epi8(prev1, _mm256_set1_epi8(static_cast<char>(0xBF))));
    return _mm256_or_si256(errors, _mm256_and_si256(ffff, last));
}

// Non-zero bytes where there is a control character that XML does not allow.
TREECAST_AVX2 inline Bytes control_errors(Bytes block) {
    const Bytes blanks = _mm256_setr_epi8(-1, 0, 0, 0, 0, 0, 0, 0, 0, '\t', '\n', 0, 0, '\r', 0, 0,
                                          -1, 0, 0, 0, 0, 0, 0, 0, 0, '\t', '\n', 0, 0, '\r', 0, 0);
    Bytes low = _mm256_cmpeq_epi8(_mm256_min_epu8(block, _mm256_set1_epi8(0x1F)), block);
    return _mm256_andnot_si256(_mm256_cmpeq_epi8(_mm256_shuffle_epi8(blanks, block), block), low);
}

// The state between blocks. Errors accumulate and are tested once at the end, so the loop has no branch on them.
struct Surveyor {
    Bytes before, errors;
    bool high_before = false;
    size_t tags = 0;

    TREECAST_AVX2 Surveyor() : before(_mm256_setzero_si256()), errors(before) {}
    TREECAST_AVX2 void look(Bytes block) {
        errors = _mm256_or_si256(errors, control_errors(block));
        Bytes opening = _mm256_cmpeq_epi8(block, _mm256_set1_epi8('<'));
        tags += static_cast<size_t>(__builtin_popcount(static_cast<unsigned>(_mm256_movemask_epi8(opening))));
        // Pure ASCII skips the UTF-8 check, unless the block before may have ended inside a character.
        bool high = _mm256_movemask_epi8(block) != 0;
        if (high || high_before) errors = _mm256_or_si256(errors, utf8_errors(block, before));
        high_before = high;
        before = block;
    }
};

// Returns whether everything is valid; counts tags on the way.
TREECAST_AVX2 bool survey_avx2(std::string_view text, char* copy, size_t& tags) {
    const char* in = text.data();
    size_t whole = text.size() / 32 * 32;
    Surveyor surveyor;
    for (size_t at = 0; at < whole; at += 32) {
        Bytes block = _mm256_loadu_si256(reinterpret_cast<const Bytes*>(in + at));
        _mm256_storeu_si256(reinterpret_cast<Bytes*>(copy + at), block);
        surveyor.look(block);
    }
    // The rest is read from the copy, padded with spaces so that the padding is valid; the final NULs come after.
    // A sequence that is cut off at the very end is caught because a space follows it.
    size_t rest = text.size() - whole;
    if (rest) std::memcpy(copy + whole, in + whole, rest);
    std::memset(copy + text.size(), ' ', 32);
    surveyor.look(_mm256_loadu_si256(reinterpret_cast<const Bytes*>(copy + whole)));
    std::memset(copy + text.size(), 0, text_padding);
    tags = surveyor.tags;
    return _mm256_testz_si256(surveyor.errors, surveyor.errors);
}

#endif

}  // namespace

Survey survey(std::string_view text, char* copy) {
    Survey result;
#if TREECAST_X86
    if (simd_level() >= Simd::avx2) {
        result.good = survey_avx2(text, copy, result.tags) ? text.size() : first_bad(text);
        return result;
    }
#endif
    if (!text.empty()) std::memcpy(copy, text.data(), text.size());
    std::memset(copy + text.size(), 0, text_padding);
    result.tags = count_tags(text);
    result.good = first_bad(text);
    return result;
}

}  // namespace treecast
