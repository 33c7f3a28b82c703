// Theory of operation. A message is a polynomial over GF(2), and its checksum the remainder modulo P of degree 32. Bits are reflected:
// the lowest bit of a byte is the highest coefficient.
//
// Without special instructions, eight bytes are looked up in eight tables at a time. With carry-less multiplication, four lanes of
// 128 bits are moved 512 bits ahead at a time: a lane is high * x^64 + low, and each half is multiplied by what x^(512+64) and x^512
// leave modulo P (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction"; we differ: the last 16
// bytes are looked up in the tables, in place of a second kind of reduction). PERF: bench/network_cpu.py
#include "base/checksum.hpp"

#include "base/cpu.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#if TREECAST_X86
#include <immintrin.h>
#endif

namespace treecast {

namespace {

constexpr uint32_t polynomial = 0xEDB88320;             // P without its x^32, reflected
constexpr size_t tables = 8;

constexpr auto lookup = [] {
    std::array<std::array<uint32_t, 256>, tables> made{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t rest = byte;
        for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? polynomial : 0);
        made[0][byte] = rest;
    }
    for (size_t table = 1; table < tables; ++table)
        for (uint32_t byte = 0; byte < 256; ++byte) made[table][byte] = made[table - 1][byte] >> 8 ^ made[0][made[table - 1][byte] & 0xFF];
    return made;
}();

// `rest` is the inverted checksum.
uint32_t look_up(const char* data, size_t size, uint32_t rest) {
    auto byte_of = [](char c) { return static_cast<uint32_t>(static_cast<unsigned char>(c)); };
    if constexpr (std::endian::native == std::endian::little) {
        for (; size >= 8; data += 8, size -= 8) {
            uint32_t low, high;
            std::memcpy(&low, data, 4);
            std::memcpy(&high, data + 4, 4);
            low ^= rest;
            rest = lookup[7][low & 0xFF] ^ lookup[6][low >> 8 & 0xFF] ^ lookup[5][low >> 16 & 0xFF] ^ lookup[4][low >> 24] ^
                   lookup[3][high & 0xFF] ^ lookup[2][high >> 8 & 0xFF] ^ lookup[1][high >> 16 & 0xFF] ^ lookup[0][high >> 24];
        }
    }
    for (; size; ++data, --size) rest = rest >> 8 ^ lookup[0][(rest ^ byte_of(*data)) & 0xFF];
    return rest;
}

#if TREECAST_X86

// x^exponent modulo P, reflected, and shifted by one as a product of reflected numbers has to be.
constexpr uint64_t power(int exponent) {
    uint32_t rest = 0x80000000;                         // 1
    for (int i = 0; i < exponent; ++i) rest = rest >> 1 ^ (rest & 1 ? polynomial : 0);
    return static_cast<uint64_t>(rest) << 1;
}

#define TREECAST_CLMUL __attribute__((target("pclmul,sse4.1")))

TREECAST_CLMUL inline __m128i load(const char* data) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data)); }

// A lane moved ahead, and what it meets there.
TREECAST_CLMUL inline __m128i fold(__m128i lane, __m128i by, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(lane, by, 0x00), high = _mm_clmulepi64_si128(lane, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// Four lanes, one behind the other, and what is left behind them.
TREECAST_CLMUL uint32_t finish(const __m128i* lanes, const char* data, size_t size) {
    const __m128i by_128 = _mm_set_epi64x(static_cast<long long>(power(128 - 32)), static_cast<long long>(power(128 + 32)));
    __m128i last = lanes[0];
    for (size_t i = 1; i < 4; ++i) last = fold(last, by_128, lanes[i]);
    for (; size >= 16; data += 16, size -= 16) last = fold(last, by_128, load(data));
    alignas(16) char folded[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(folded), last);
    return look_up(data, size, look_up(folded, sizeof folded, 0));
}

// At least 64 bytes.
TREECAST_CLMUL uint32_t multiply(const char* data, size_t size, uint32_t rest) {
    const __m128i by_512 = _mm_set_epi64x(static_cast<long long>(power(512 - 32)), static_cast<long long>(power(512 + 32)));
    __m128i lanes[4];
    for (size_t i = 0; i < 4; ++i) lanes[i] = load(data + 16 * i);
    lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(static_cast<int>(rest)));
    data += 64;
    size -= 64;
    for (; size >= 64; data += 64, size -= 64)
        for (size_t i = 0; i < 4; ++i) lanes[i] = fold(lanes[i], by_512, load(data + 16 * i));
    return finish(lanes, data, size);
}

#define TREECAST_WIDE_CLMUL __attribute__((target("vpclmulqdq,avx512f,pclmul,sse4.1")))
constexpr size_t wide_bytes = 256;                      // at once

TREECAST_WIDE_CLMUL inline __m512i load_wide(const char* data) { return _mm512_loadu_si512(data); }

TREECAST_WIDE_CLMUL inline __m512i fold_wide(__m512i lanes, __m512i by, __m512i next) {
    __m512i low = _mm512_clmulepi64_epi128(lanes, by, 0x00), high = _mm512_clmulepi64_epi128(lanes, by, 0x11);
    return _mm512_xor_si512(_mm512_xor_si512(low, high), next);
}

template <int bits>
TREECAST_WIDE_CLMUL inline __m512i four_powers() {
    constexpr auto above = static_cast<long long>(power(bits + 32)), below = static_cast<long long>(power(bits - 32));
    return _mm512_set_epi64(below, above, below, above, below, above, below, above);
}

// The same with lanes of 64 bytes; at least 256.
// PERF: bench/network_frame.py. Every byte that comes or leaves goes through here.
TREECAST_WIDE_CLMUL uint32_t multiply_wide(const char* data, size_t size, uint32_t rest) {
    const __m512i by_2048 = four_powers<2048>(), by_512 = four_powers<512>();
    __m512i lanes[4];
    for (size_t i = 0; i < 4; ++i) lanes[i] = load_wide(data + 64 * i);
    lanes[0] = _mm512_xor_si512(lanes[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(rest))));
    data += wide_bytes;
    size -= wide_bytes;
    for (; size >= wide_bytes; data += wide_bytes, size -= wide_bytes)
        for (size_t i = 0; i < 4; ++i) lanes[i] = fold_wide(lanes[i], by_2048, load_wide(data + 64 * i));
    __m512i last = lanes[0];
    for (size_t i = 1; i < 4; ++i) last = fold_wide(last, by_512, lanes[i]);
    for (; size >= 64; data += 64, size -= 64) last = fold_wide(last, by_512, load_wide(data));
    alignas(64) __m128i narrow[4];
    _mm512_store_si512(narrow, last);
    return finish(narrow, data, size);
}

#endif

}  // namespace

uint32_t crc32_scalar(std::string_view data, uint32_t before) { return ~look_up(data.data(), data.size(), ~before); }

uint32_t crc32(std::string_view data, uint32_t before) {
#if TREECAST_X86
    if (data.size() >= wide_bytes && multiplies_carry_less_wide()) return ~multiply_wide(data.data(), data.size(), ~before);
    if (data.size() >= 64 && multiplies_carry_less()) return ~multiply(data.data(), data.size(), ~before);
#endif
    return crc32_scalar(data, before);
}

}  // namespace treecast
