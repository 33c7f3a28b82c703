// String -> number, by XPath 1.0 (section 4.4) and nothing more: no exponents, no plus sign, no names for infinity.
#pragma once

#include <string_view>

namespace treecast {

// White space (#x20 #x9 #xD #xA), an optional minus sign, Digits ('.' Digits?)? | '.' Digits, white space: the nearest double.
// Anything else is NaN.
double to_number(std::string_view text);

// Whether the character can stand in a text that is a number; a text with any other is NaN, however long it is.
bool in_number(char c);

}  // namespace treecast
