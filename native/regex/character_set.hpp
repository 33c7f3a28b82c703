// A set of characters, as the classes of a regular expression have them: [a-z], \w, [^\p{Lu}-[x]].
//
// The characters are cut into parts at the ends of the ranges that were written. Within a part, the general category decides. So
// \w is one part with a mask of categories, a-z three parts with an empty mask and a full one, and every combination of such sets
// has as few parts as were written.
#pragma once

#include "regex/character_kinds.hpp"

#include <cstdint>
#include <vector>

namespace treecast {

struct CharacterRange {
    uint32_t first, last;
    bool operator==(const CharacterRange&) const = default;
};

// Appends what differs in case from a character of the range.
void append_variants(CharacterRange range, std::vector<CharacterRange>& out);

class CharacterSet {
public:
    struct Part {
        uint32_t begin;           // up to where the next one begins
        uint32_t kinds;           // which categories belong to the set
        bool operator==(const Part&) const = default;
    };

    CharacterSet() : parts_{{0, 0}} {}
    static CharacterSet of_kinds(uint32_t kinds);

    static CharacterSet of_ranges(std::vector<CharacterRange>& ranges);      // sorts them

    void add(const CharacterSet& other);
    void subtract(const CharacterSet& other);
    void invert();

    bool has(uint32_t character) const;
    const std::vector<Part>& parts() const { return parts_; }
    // Appends all characters of the set if there are at most so many, and no category decides. Otherwise returns false.
    bool list(size_t count_max, std::vector<uint32_t>& out) const;
    bool operator==(const CharacterSet&) const = default;

private:
    template <class Join> void combine(const CharacterSet& other, Join join);

    std::vector<Part> parts_;     // ascending; the first begins at 0
};

}  // namespace treecast
