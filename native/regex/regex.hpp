// text -> Regex: the regular expressions of matches(), in the fragment that takes time linear in the value.
//
// The language is that of XPath 2.0 and XML Schema, without back-references: branches, groups, repetition, classes with subtraction,
// \d \w \s \i \c, the general categories \p{L}, and ^ and $. XPath has no look-around. A lazy repetition (a+?) finds what a greedy one
// finds, since matches() only asks whether there is something. Flags: i (case), m (lines), s (`.` is any character), x (spaces).
//
// A text is read into a tree, and the tree becomes a program: a nondeterministic automaton over sets of characters.
// RegexRun (regex_run.hpp) runs it.
//
//   TC120  a regular expression that is malformed, or outside the language; an unknown flag
//   TC334  a regular expression that stands for more states than states_max, or nests deeper than depth_max
#pragma once

#include "base/failure.hpp"
#include "regex/character_set.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

struct RegexLimits {
    uint32_t states_max = 10'000;      // of the automaton: each repetition counts, so that x{1,100} has about 200
    uint32_t depth_max = 64;           // groups inside each other
};
constexpr RegexLimits regex_limits;

enum class RegexOperation : uint8_t {
    characters,     // one of the set `first`, then `second`
    either,         // `first` or `second`
    begin,          // ^, then `first`
    end,            // $, then `first`
    accept,
};

struct RegexInstruction {
    RegexOperation operation;
    uint32_t first = 0, second = 0;
};

// What a value must contain: one of `texts`, at its very start if `at_start`. Nothing is known if there are none.
struct RequiredTexts {
    bool at_start = false;
    std::vector<std::string> texts;
};

class Regex {
public:
    // Throws a Failure; its position is a byte of `text`. An invalid flag has position `text.size()` and what follows.
    Regex(std::string_view text, std::string_view flags);

    const std::vector<RegexInstruction>& program() const { return program_; }
    const std::vector<CharacterSet>& sets() const { return sets_; }
    uint32_t start() const { return start_; }
    bool is_multiline() const { return multiline_; }
    bool is_anchored() const { return anchored_; }           // it matches at the start or nowhere
    const RequiredTexts& required() const { return required_; }

private:
    friend class RegexCompiler;
    std::vector<RegexInstruction> program_;
    std::vector<CharacterSet> sets_;
    uint32_t start_ = 0;
    bool multiline_ = false, anchored_ = false;
    RequiredTexts required_;
};

}  // namespace treecast
