// The texts of all queries of an index, and the number of the settings of each, in as few bytes as they need.
//
// Theory of operation. A million paths consist of a few hundred steps. So the text of a path is written as the numbers of its
// *words*: a step with the slashes before it, as `/item`, `//*` or `/@id`. A text of 40 bytes becomes one of 10. What follows the
// first character that plain paths do not have (a predicate, a space) is written as it is, and so are texts that do not begin
// with a slash. The text that comes back is the one that was given, to the byte.
//
// Words are numbered as they come, and never forgotten, so there is a limit to how many there are.
#pragma once

#include "base/array.hpp"
#include "base/id_slots.hpp"
#include "base/packed_rows.hpp"
#include "base/seeded_hash.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace treecast {

// What a reader holds.
class SharedTexts {
public:
    uint32_t settings(uint32_t slot) const;
    // The text, as it was given. It lies in `room`, or where texts are kept: those that begin with no slash stay valid.
    std::string_view text(uint32_t slot, std::string& room) const;
    void prefetch(uint32_t slot) const { rows_.prefetch(slot); }

private:
    friend class QueryTexts;
    SharedRows rows_;
    std::shared_ptr<char[]> word_bytes_;
    std::shared_ptr<uint32_t[]> word_ends_;
};

class QueryTexts {
public:
    static constexpr uint32_t words_max = 1 << 16, word_bytes_max = 64;

    QueryTexts() { word_ends_.push(0); }
    uint32_t size() const { return rows_.size(); }
    void add(std::string_view text, uint32_t settings);       // under the next number. May fail: see cut()
    uint32_t settings(uint32_t slot) const;
    std::string_view text(uint32_t slot, std::string& room) const;
    void share_with(SharedTexts& reader) const noexcept;
    uint64_t bytes() const { return rows_.bytes() + word_bytes_.bytes() + word_ends_.bytes() + slots_.bytes(); }
    uint32_t words() const { return static_cast<uint32_t>(word_ends_.size()) - 1; }

    struct Mark {
        uint32_t texts, words;
        uint64_t used;
    };
    Mark mark() const { return {size(), words(), rows_.used()}; }
    void cut(const Mark& mark) noexcept;                      // forgets what was added since

    template <class Visit>
    void parts(Visit&& visit) { rows_.parts(visit), visit(word_bytes_), visit(word_ends_); }
    bool adopt(uint32_t size);                                // after its parts were read; false: they contradict each other

private:
    uint32_t word(std::string_view text);                     // its number; none where it may have none
    uint64_t hash(std::string_view text) const { return hash_bytes(text, 0, seeds_); }
    std::string_view word_text(uint32_t word) const;

    PackedRows rows_;
    Array<char> word_bytes_;
    Array<uint32_t> word_ends_;
    const HashSeeds seeds_ = hash_seeds();
    IdSlots slots_;                                           // words by text
    std::string row_;                                         // being written
};

}  // namespace treecast
