// Regex + value -> whether it matches, in time linear in the value.
//
// Theory of operation. The program is run as a deterministic automaton whose states are made when a value first leads to them: a state
// is the set of instructions that the program may be at, and what came before (nothing, the end of a line, something else).
// ^ and $ are decided when the next character is known, so each step first follows what costs no character, then takes one.
// Characters that no set of the program tells apart are one class; classes too are made when they first occur.
//
// Making a state takes as many steps as the program has instructions, and so does each character at worst: where values keep leading to new
// states, they are forgotten at bytes_max and made again. Nothing goes back in the value, whatever the pattern is.
//
// Not for two threads at once.
#pragma once

#include "base/seeded_hash.hpp"
#include "regex/regex.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

class RegexRun {
public:
    static constexpr size_t bytes_max = 256 << 10;      // of the states of one expression; one state may be more

    explicit RegexRun(Regex regex);
    // Adds what it did to `steps`: one for each 8 bytes, and one for each instruction looked at to make a state.
    bool matches(std::string_view value, uint64_t& steps);
    size_t bytes() const { return bytes_ + fixed_bytes_; }
    const Regex& regex() const { return regex_; }

private:
    enum class Before : uint8_t { nothing, line_end, character };
    struct Place {                              // a state of the automaton
        std::vector<uint32_t> instructions;     // ascending
        std::vector<uint32_t> next;             // by class: a state, or one of those below
        Before before;
    };
    static constexpr uint32_t unknown = 0, accepts = 1, rejects = 2, places_begin = 3;
    static constexpr uint32_t end_class = 0, no_class = 0xFFFFFFFFu;

    uint32_t class_of(uint32_t character);
    uint32_t new_class(uint32_t character);
    uint32_t follow(uint32_t place, uint32_t character_class, uint64_t& steps);
    bool close(const Place& place, uint32_t character_class, uint64_t& steps);
    uint32_t place_of(std::vector<uint32_t>& instructions, Before before);
    void forget();
    const Place& place(uint32_t number) const { return places_[number - places_begin]; }

    Regex regex_;
    std::array<uint32_t, 128> ascii_;                     // their classes
    std::vector<uint32_t> cuts_;                          // where parts of the sets begin, beyond ASCII
    std::vector<uint32_t> kinds_;                         // by part and kind: the class
    std::vector<std::string> members_;                    // by class: for each set, whether it is in it
    TextMap<uint32_t> class_numbers_;                     // by members
    std::vector<Place> places_;
    TextMap<uint32_t> place_numbers_;
    std::vector<uint32_t> marks_, closed_, stack_;
    uint32_t mark_ = 0;
    uint32_t start_ = unknown;
    uint32_t line_class_ = no_class;                      // of a line's end, where that matters
    size_t bytes_ = 0, fixed_bytes_ = 0;
};

}  // namespace treecast
