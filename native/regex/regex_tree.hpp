// The syntax tree of a regular expression: between its parser and its compiler.
#pragma once

#include "regex/regex.hpp"

namespace treecast {

enum class RegexPart : uint8_t {
    characters,     // one character of the set `set`
    begin, end,     // ^ and $
    sequence,       // all children, one after the other; without children, nothing
    branches,       // one of the children
    repetition,     // the one child, `least` to `most` times
};

constexpr uint32_t no_part = 0xFFFFFFFFu;
constexpr uint32_t unlimited = 0xFFFFFFFFu;

struct RegexNode {
    RegexPart part = RegexPart::sequence;
    uint32_t set = 0;
    uint32_t least = 0, most = 0;
    uint32_t first = no_part, next = no_part;     // its first child; the one after it
};

struct RegexTree {
    std::vector<RegexNode> nodes;
    std::vector<CharacterSet> sets;
    uint32_t root = no_part;
    bool multiline = false;
};

struct RegexFlags {
    bool any_case = false, lines = false, any_character = false, spaced = false;
};

RegexTree parse_regex(std::string_view text, const RegexFlags& flags);

}  // namespace treecast
