// Records found by word number: for each of many directories, a sparse map from the words of a bit set to records.
//
// Where a directory has records for many words it is a bitmap over all words with ranks, one test and one popcount away from
// the record; where it has few it is a sorted list, searched by galloping through the sources.
#pragma once

#include "base/array.hpp"
#include "base/words.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace treecast {

template <class Record>
class Directories {
public:
    // Opens the next directory; its records follow by add(), words ascending; close() ends it.
    void open() {
        words_.clear();
        entries_.push({static_cast<uint32_t>(records_.size()), 0, 0, 0});
    }
    Record& add(uint32_t word) {
        if (words_.empty() || words_.back() != word) {
            words_.push_back(word);
            records_.push({});
        }
        return records_.back();
    }
    // A directory of `listed_max` records at most is a list in any case.
    void close(uint32_t words_total, size_t listed_max = 0) {
        Entry& entry = entries_.back();
        uint32_t wide_words = (words_total + 63) / 64;
        entry.count = static_cast<uint32_t>(words_.size());
        entry.wide = words_.size() > listed_max && words_.size() * 16 >= wide_words;
        if (!entry.wide) {
            entry.place = static_cast<uint32_t>(lists_.size());
            lists_.append(words_.data(), words_.size());
            return;
        }
        entry.place = static_cast<uint32_t>(bits_.size());
        bits_.resize(bits_.size() + wide_words, 0);
        ranks_.resize(ranks_.size() + wide_words, 0);
        for (uint32_t word : words_) bits_[entry.place + (word >> 6)] |= 1ull << (word & 63);
        uint32_t rank = 0;
        for (uint32_t i = 0; i < wide_words; ++i) {
            ranks_[entry.place + i] = rank;
            rank += std::popcount(bits_[entry.place + i]);
        }
    }
    void shrink() {
        records_.shrink();
        bits_.shrink();
        ranks_.shrink();
        lists_.shrink();
        entries_.shrink();
        std::vector<uint32_t>().swap(words_);
    }
    uint32_t size() const { return static_cast<uint32_t>(entries_.size()); }
    uint64_t bytes() const { return records_.bytes() + bits_.bytes() + ranks_.bytes() + lists_.bytes() + entries_.bytes(); }
    template <class Visit>
    void arrays(Visit&& visit) { visit(entries_), visit(records_), visit(bits_), visit(ranks_), visit(lists_); }

    // For one who looks into several directories: expect() all of them, then approach() all of them, then each(). What a step reads was
    // asked for by the one before. Where every directory has one record, expect() asks for the record, too.
    void expect(uint32_t directory) const {
        __builtin_prefetch(&entries_[directory]);
        if (entries_.size() != records_.size()) return;
        __builtin_prefetch(&records_[directory]);
        if (lists_.size() == records_.size()) __builtin_prefetch(&lists_[directory]);
    }
    void approach(uint32_t directory) const {
        const Entry& entry = entries_[directory];
        if (entry.wide) __builtin_prefetch(bits_.data() + entry.place);
        else __builtin_prefetch(lists_.data() + entry.place);
        __builtin_prefetch(records_.data() + entry.records);
    }

    // Calls f(record, mask) for the sources that the directory has records for, ascending. Two passes over what is found: the
    // first asks for the records early.
    template <class Bits, class F>
    void each(uint32_t directory, WordsView sources, std::vector<uint64_t>& scratch, F&& f) const {
        if (scratch.size() < 2 * size_t(sources.size) + 2) scratch.resize(2 * size_t(sources.size) + 64);
        const Entry& entry = entries_[directory];
        uint64_t* hits = scratch.data();
        uint32_t found = 0;
        if (entry.wide) {
            const uint64_t* bits = bits_.data() + entry.place;
            const uint32_t* ranks = ranks_.data() + entry.place;
            for (uint32_t i = 0; i < sources.size; ++i) {
                uint32_t word = sources.index[i];
                uint64_t present = bits[word >> 6], bit = 1ull << (word & 63);
                uint32_t record = entry.records + ranks[word >> 6] + Bits::count(present & (bit - 1));
                hits[2 * found] = record;
                hits[2 * found + 1] = sources.mask[i];
                if (present & bit) {
                    __builtin_prefetch(&records_[record]);
                    ++found;
                }
            }
        } else {
            const uint32_t* words = lists_.data() + entry.place;
            const uint32_t* at = sources.index;
            const uint32_t* end = sources.index + sources.size;
            for (uint32_t r = 0; r < entry.count && at != end; ++r) {
                at = std::lower_bound(at, end, words[r]);
                if (at == end || *at != words[r]) continue;
                hits[2 * found] = entry.records + r;
                hits[2 * found + 1] = sources.mask[at - sources.index];
                ++found;
            }
        }
        for (uint32_t i = 0; i < found; ++i) f(records_[hits[2 * i]], hits[2 * i + 1]);
    }

    // The same, where the sources are also there as a bitmap, `dense`: what costs least, by the records or by the sources.
    template <class Bits, class Dense, class F>
    void each_of(uint32_t directory, WordsView sources, const Dense& dense, std::vector<uint64_t>& scratch, F&& f) const {
        const Entry& entry = entries_[directory];
        if (entry.wide) return each<Bits>(directory, sources, scratch, f);
        const uint32_t* words = lists_.data() + entry.place;
        const Record* records = records_.data() + entry.records;
        if (entry.count <= sources.size * searches_as_probes) {
            for (uint32_t r = 0; r < entry.count; ++r)
                if (uint64_t mask = dense.word(words[r])) f(records[r], mask);
            return;
        }
        const uint32_t *at = words, *end = words + entry.count;
        for (uint32_t i = 0; i < sources.size; ++i) {
            at = std::lower_bound(at, end, sources.index[i]);
            if (at == end) return;
            if (*at == sources.index[i]) f(records[at - words], sources.mask[i]);
        }
    }

private:
    static constexpr uint32_t searches_as_probes = 8;       // a search in a list costs about so many looks at the bitmap
    struct Entry {
        uint32_t records, count;    // in records_
        uint32_t place;             // in bits_ and ranks_ (wide), or in lists_
        uint32_t wide;
    };
    Array<Entry> entries_;
    Array<Record> records_;
    Array<uint64_t> bits_;
    Array<uint32_t> ranks_, lists_;
    std::vector<uint32_t> words_;   // of the open directory
};

}  // namespace treecast
