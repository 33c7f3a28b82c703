// A bitmap that knows where it was touched: entries below an element, tests that its value meets.
//
// Machines have millions of bits, of which a document sets a few hundred. Clearing or scanning all words would dominate.
#pragma once

#include "base/words.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace treecast {

// Two summaries, each with a bit for a word of the level below. So walking a large, almost empty set costs what is in it.
class AcceptBits {
public:
    void resize(uint32_t bits) {
        size_t words = (size_t(bits) + 63) / 64;
        if (words_.size() == words) return;
        words_.assign(words, 0);
        touched_.assign((words + 63) / 64, 0);
        tops_.assign((touched_.size() + 63) / 64, 0);
    }
    void set(uint32_t word, uint64_t mask) {
        words_[word] |= mask;
        touched_[word >> 6] |= 1ull << (word & 63);
        tops_[word >> 12] |= 1ull << ((word >> 6) & 63);
    }
    uint64_t word(uint32_t word) const { return words_[word]; }
    const uint64_t* words() const { return words_.data(); }
    bool test(uint32_t bit) const { return words_[bit >> 6] >> (bit & 63) & 1; }
    void add(WordsView words) {
        for (uint32_t i = 0; i < words.size; ++i) set(words.index[i], words.mask[i]);
    }
    // Calls f(word, mask) for every touched word, ascending.
    template <class F>
    void each(F&& f) const {
        for (size_t t = 0; t < tops_.size(); ++t)
            for (uint64_t top = tops_[t]; top; top &= top - 1) {
                size_t group = t * 64 + std::countr_zero(top);
                for (uint64_t rest = touched_[group]; rest; rest &= rest - 1) {
                    uint32_t word = static_cast<uint32_t>(group * 64 + std::countr_zero(rest));
                    f(word, words_[word]);
                }
            }
    }
    void list(Words& out) const {                     // the touched words, ascending
        out.clear();
        each([&](uint32_t word, uint64_t mask) { out.push(word, mask); });
    }
    // Clears whole summary words: all their bits belong to words of the list.
    void clear(WordsView words) {                     // of a list that list() gave
        for (uint32_t i = 0; i < words.size; ++i) {
            uint32_t word = words.index[i];
            words_[word] = 0;
            touched_[word >> 6] = 0;
            tops_[word >> 12] = 0;
        }
    }

private:
    std::vector<uint64_t> words_, touched_, tops_;
};

}  // namespace treecast
