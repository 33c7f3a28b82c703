// The accept ids of one document: a bitmap to which all that is found is added, and which is read and cleared once, at the end.
//
// A document adds sets of hundreds of words, and the sets overlap. So adding does as little as possible: one word, and a byte that
// says that its line of eight words was touched. Bytes need no look at what was there before. Reading passes over eight lines
// at a time; of a million bits that is as much as two kilobytes.
//
// Use AcceptBits where a set is listed and cleared at every element.
// PERF: bench/yfilter.py, later passes; bench/million.py, warm.
#pragma once

#include "base/expand.hpp"
#include "base/words.hpp"

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace treecast {

class AnswerBits {
public:
    void resize(uint32_t bits) {
        size_t groups = (size_t(bits) + group_bits - 1) / group_bits;
        if (lines_.size() == groups * 8) return;
        words_.assign(groups * group_words, 0);
        lines_.assign(groups * 8, 0);
    }
    void set(uint32_t word, uint64_t mask) {
        words_[word] |= mask;
        lines_[word >> 3] = 1;
    }
    // Puts `bits` at the bit position `position`, possibly across two words.
    void append(uint32_t position, uint64_t bits) {
        uint32_t word = position >> 6, shift = position & 63;
        if (uint64_t low = bits << shift) set(word, low);
        if (shift)
            if (uint64_t high = bits >> (64 - shift)) set(word + 1, high);
    }
    void add(WordsView words) {
        uint64_t* const to = words_.data();
        uint8_t* const lines = lines_.data();
        for (uint32_t i = 0; i < words.size; ++i) {
            uint32_t word = words.index[i];
            to[word] |= words.mask[i];
            lines[word >> 3] = 1;
        }
    }
    // A bit for each number.
    void add(std::span<const int32_t> numbers) {
        uint64_t* const to = words_.data();
        uint8_t* const lines = lines_.data();
        for (int32_t number : numbers) {
            const auto bit = static_cast<uint32_t>(number);
            to[bit >> 6] |= 1ull << (bit & 63);
            lines[bit >> 9] = 1;
        }
    }
    // Calls f(words, masks, count) for the words that are not empty, ascending, up to 64 at a time, and clears them.
    template <class F>
    void drain(F&& f) {
        uint32_t words[group_words + 8];
        uint64_t masks[group_words + 8];
        const TakeWords take = take_words();
        for (size_t line = 0; line < lines_.size(); line += 8) {
            uint64_t touched;
            std::memcpy(&touched, &lines_[line], sizeof touched);
            if (!touched) continue;
            std::memset(&lines_[line], 0, sizeof touched);
            uint32_t count = take(&words_[line * 8], touched, static_cast<uint32_t>(line * 8), words, masks);
            f(words, masks, count);
        }
    }

private:
    static constexpr size_t group_words = 64, group_bits = 64 * group_words;
    std::vector<uint64_t> words_;
    std::vector<uint8_t> lines_;            // by eight words; 0 or 1
};

}  // namespace treecast
