// Sparse bit sets as ascending (word index, 64-bit mask) pairs: sets of states, sets of accept ids.
//
// Indices and masks are in two arrays, so that a comparison of sets is two calls of memcmp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace treecast {

// A set that somebody else owns.
struct WordsView {
    const uint32_t* index = nullptr;
    const uint64_t* mask = nullptr;
    uint32_t size = 0;
};

// Built in ascending order only; bits that fall into the last word are merged there.
class Words {
public:
    void clear() { size_ = 0; }
    uint32_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    uint32_t index(uint32_t i) const { return index_[i]; }
    uint64_t mask(uint32_t i) const { return mask_[i]; }
    WordsView view() const { return {index_.data(), mask_.data(), size_}; }

    void push(uint32_t word, uint64_t bits) {
        if (size_ && index_[size_ - 1] == word) {
            mask_[size_ - 1] |= bits;
            return;
        }
        if (size_ == index_.size()) grow();
        index_[size_] = word;
        mask_[size_++] = bits;
    }
    // Puts `bits` at the bit position `position`, possibly across two words.
    void append(uint32_t position, uint64_t bits) {
        if (!bits) return;
        uint32_t word = position >> 6, shift = position & 63;
        if (uint64_t low = bits << shift) push(word, low);
        if (shift)
            if (uint64_t high = bits >> (64 - shift)) push(word + 1, high);
    }
    void keep(uint32_t slot, uint32_t word, uint64_t bits) { index_[slot] = word; mask_[slot] = bits; }  // slot < size()
    void truncate(uint32_t size) { size_ = size; }

private:
    void grow() {
        size_t wanted = index_.empty() ? 64 : index_.size() * 2;
        index_.resize(wanted);
        mask_.resize(wanted);
    }
    std::vector<uint32_t> index_;
    std::vector<uint64_t> mask_;
    uint32_t size_ = 0;
};

// out = a | b; both ascending.
inline void unite(WordsView a, WordsView b, Words& out) {
    out.clear();
    uint32_t i = 0, j = 0;
    while (i < a.size || j < b.size) {
        if (j == b.size || (i < a.size && a.index[i] <= b.index[j])) {
            out.push(a.index[i], a.mask[i]);
            ++i;
        } else {
            out.push(b.index[j], b.mask[j]);
            ++j;
        }
    }
}

// a &= ~b, dropping empty words; both ascending.
inline void subtract(Words& a, WordsView b) {
    uint32_t kept = 0, j = 0;
    for (uint32_t i = 0; i < a.size(); ++i) {
        uint32_t word = a.index(i);
        uint64_t bits = a.mask(i);
        while (j < b.size && b.index[j] < word) ++j;
        if (j < b.size && b.index[j] == word) bits &= ~b.mask[j];
        if (bits) a.keep(kept++, word, bits);
    }
    a.truncate(kept);
}

}  // namespace treecast
