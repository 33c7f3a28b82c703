// The first look at a document: is every byte of it an XML character in UTF-8, and how many tags can it have?
//
// One pass copies the text into a padded buffer, so that the pass proper may load 32 bytes anywhere and needs no end
// checks (a NUL, which no document may contain, ends it). Blocks of ASCII need one test for control characters. Other
// blocks are validated 32 bytes at a time: each pair of neighbouring bytes is looked up by three nibbles in tables whose
// bits stand for the ways UTF-8 goes wrong (an error is a bit set in all three), after Keiser and Lemire, "Validating
// UTF-8 in less than one instruction per byte"; U+FFFE and U+FFFF are caught beside. Where a block is found wanting,
// the scalar loop finds the exact byte.
#pragma once

#include <cstddef>
#include <string_view>

namespace treecast {

constexpr size_t text_padding = 128;   // bytes that may be read after the text

struct Survey {
    size_t tags = 0;                   // '<' in the text
    size_t good = 0;                   // bytes before the first that is no XML character; all, as a rule
};

// Copies `text` to `copy`, which has room for `text_padding` more bytes; those become NUL.
Survey survey(std::string_view text, char* copy);

}  // namespace treecast
