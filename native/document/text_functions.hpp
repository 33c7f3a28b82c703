// The functions of XPath 1.0, section 4.2, on strings that are at hand. Strings are counted in characters, not bytes.
#pragma once

#include "base/seeded_hash.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// Whether a byte belongs to the character that an earlier one has begun.
constexpr bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

size_t count_characters(std::string_view text);

// The nearest whole number, and of two the greater: XPath 1.0, section 4.4. NaN, infinities and zeros stay what they are.
double round_half_up(double number);

// The characters at positions p with p >= round(from) and, if there is a length, p < round(from) + round(length).
std::string_view substring_of(std::string_view text, double from, const double* length);

// normalize-space(): appended to `out`, which is taken to begin with this text.
void append_normalized(std::string_view text, std::string& out);

// translate(), prepared for many texts. Of several entries for a character, the first counts.
class Translation {
public:
    Translation(std::string_view from, std::string_view to);
    void append(std::string_view text, std::string& out) const;

private:
    static constexpr int keep = -1, drop = -2;
    std::array<int, 128> ascii_;                                         // a byte, or one of these, or the number of a text
    std::vector<std::string> texts_;
    TextMap<std::string> others_;                // characters of several bytes
};

}  // namespace treecast
