// BLAKE2b with 32 bytes of output (RFC 7693), without a key.
//
// A cryptographic hash is needed here: the seeds of saved tables follow from it, and nobody must be able to steer them.
#include "base/digest.hpp"

#include "base/interrupt.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace treecast {

namespace {

constexpr uint64_t digest_bytes = 32;

// The fractional parts of the square roots of the first eight primes, as in SHA-512.
constexpr uint64_t initial[8] = {0x6A09E667F3BCC908ull, 0xBB67AE8584CAA73Bull, 0x3C6EF372FE94F82Bull, 0xA54FF53A5F1D36F1ull,
                                 0x510E527FADE682D1ull, 0x9B05688C2B3E6C1Full, 0x1F83D9ABFB41BD6Bull, 0x5BE0CD19137E2179ull};

// In which order a round takes the words of a block; rounds 10 and 11 are like 0 and 1.
constexpr uint8_t word_order[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

// The mixing function G of the RFC.
inline void mix(uint64_t& a, uint64_t& b, uint64_t& c, uint64_t& d, uint64_t x, uint64_t y) {
    a += b + x;
    d = std::rotr(d ^ a, 32);
    c += d;
    b = std::rotr(b ^ c, 24);
    a += b + y;
    d = std::rotr(d ^ a, 16);
    c += d;
    b = std::rotr(b ^ c, 63);
}

}  // namespace

// The parameter block: digest length, no key, sequential mode.
Digest::Digest() {
    std::copy(std::begin(initial), std::end(initial), state_);
    state_[0] ^= 0x01010000 ^ digest_bytes;
}

void Digest::compress(const unsigned char* block, bool last) {
    uint64_t words[16], v[16];
    std::memcpy(words, block, sizeof words);
    for (int i = 0; i < 8; ++i) v[i] = state_[i], v[i + 8] = initial[i];
    v[12] ^= counted_;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < 12; ++round) {
        const uint8_t* at = word_order[round % 10];
        for (int i = 0; i < 4; ++i) mix(v[i], v[i + 4], v[i + 8], v[i + 12], words[at[2 * i]], words[at[2 * i + 1]]);
        for (int i = 0; i < 4; ++i)
            mix(v[i], v[4 + (i + 1) % 4], v[8 + (i + 2) % 4], v[12 + (i + 3) % 4], words[at[8 + 2 * i]], words[at[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; ++i) state_[i] ^= v[i] ^ v[i + 8];
}

// A full block is compressed only when more bytes follow, because the last block is marked.
void Digest::add(std::string_view bytes) {
    while (!bytes.empty()) {
        if (filled_ == block_bytes) {
            counted_ += block_bytes;
            compress(block_, false);
            filled_ = 0;
            Interrupt::check(block_bytes);
        }
        size_t taken = std::min(bytes.size(), block_bytes - filled_);
        std::memcpy(block_ + filled_, bytes.data(), taken);
        filled_ += taken;
        bytes.remove_prefix(taken);
    }
}

std::array<uint64_t, 4> Digest::finish() {
    std::memset(block_ + filled_, 0, block_bytes - filled_);
    counted_ += filled_;
    compress(block_, true);
    return {state_[0], state_[1], state_[2], state_[3]};
}

// Seeds are odd, as the hash functions require.
HashSeeds Digest::seeds() {
    auto [a, b, c, unused] = finish();
    return {a | 1, b | 1, c | 1};
}

}  // namespace treecast
