// String -> number, by XPath 1.0 (section 4.4) and nothing more: no exponents, no plus sign, no names for infinity.
#pragma once

#include <cstddef>
#include <string_view>

namespace treecast {

// White space (#x20 #x9 #xD #xA), an optional minus sign, Digits ('.' Digits?)? | '.' Digits, white space: the nearest double.
// Anything else is NaN, and so is what has more than number_bytes_max between the white space: a test of values must not read a
// document's digits for every element round them.
constexpr std::size_t number_bytes_max = 4096;
double to_number(std::string_view text);

// The double nearest to the digits of an XPath Number.
double number_value(std::string_view digits);

// Whether the character can stand in a text that is a number; a text with any other is NaN, however long it is.
bool in_number(char c);

}  // namespace treecast
