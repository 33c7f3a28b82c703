// A bitmap that knows where it was touched: accept ids of a document, entries below an element.
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
    void set_run(uint32_t begin, uint32_t end) {      // bits begin .. end - 1
        while (begin < end) {
            uint32_t stop = std::min(end, (begin | 63) + 1);
            uint64_t mask = stop - begin == 64 ? ~0ull : ((1ull << (stop - begin)) - 1) << (begin & 63);
            set(begin >> 6, mask);
            begin = stop;
        }
    }
    uint64_t word(uint32_t word) const { return words_[word]; }
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
    // The same, and clears the set on the way.
    template <class F>
    void drain(F&& f) {
        for (size_t t = 0; t < tops_.size(); ++t) {
            for (uint64_t top = tops_[t]; top; top &= top - 1) {
                size_t group = t * 64 + std::countr_zero(top);
                for (uint64_t rest = touched_[group]; rest; rest &= rest - 1) {
                    uint32_t word = static_cast<uint32_t>(group * 64 + std::countr_zero(rest));
                    uint64_t mask = words_[word];
                    words_[word] = 0;
                    f(word, mask);
                }
                touched_[group] = 0;
            }
            tops_[t] = 0;
        }
    }
    // The same, up to 64 words at a time: f(words, masks, count).
    template <class F>
    void drain_groups(F&& f) {
        uint32_t words[64];
        uint64_t masks[64];
        for (size_t t = 0; t < tops_.size(); ++t) {
            for (uint64_t top = tops_[t]; top; top &= top - 1) {
                size_t group = t * 64 + std::countr_zero(top);
                uint32_t count = 0;
                for (uint64_t rest = touched_[group]; rest; rest &= rest - 1, ++count) {
                    words[count] = static_cast<uint32_t>(group * 64 + std::countr_zero(rest));
                    masks[count] = words_[words[count]];
                    words_[words[count]] = 0;
                }
                touched_[group] = 0;
                f(words, masks, count);
            }
            tops_[t] = 0;
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
