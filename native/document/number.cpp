// The number() of XPath 1.0: optional white space, an optional minus sign, digits with an optional point. Anything else is NaN.
//
// There is no plus sign and no exponent, so the standard parser gets only what this grammar has accepted.
#include "document/number.hpp"

#include <charconv>
#include <limits>

namespace treecast {

namespace {

constexpr std::string_view white_space = " \t\r\n";

size_t count_digits(std::string_view text, size_t from) {
    size_t at = from;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - from;
}

}  // namespace

double number_value(std::string_view digits) {
    double value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
    if (error != std::errc::result_out_of_range) return value;
    // Out of range: too large if a digit other than 0 comes before the point, otherwise too small.
    size_t first = digits.find_first_not_of('0');
    bool large = first != std::string_view::npos && digits[first] != '.';
    return large ? std::numeric_limits<double>::infinity() : 0.0;
}

// A quick test that rejects most texts by their first character.
bool in_number(char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

double to_number(std::string_view text) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    size_t begin = text.find_first_not_of(white_space);
    if (begin == std::string_view::npos) return nan;
    text = text.substr(begin, text.find_last_not_of(white_space) + 1 - begin);
    if (text.size() > number_bytes_max) return nan;
    bool negative = text.front() == '-';
    if (negative) text.remove_prefix(1);
    size_t whole = count_digits(text, 0), fraction = 0, size = whole;
    if (size < text.size() && text[size] == '.') {
        fraction = count_digits(text, size + 1);
        size += 1 + fraction;
    }
    // Either side of the point may be empty, but not both.
    if (size != text.size() || whole + fraction == 0) return nan;
    double value = number_value(text);
    return negative ? -value : value;
}

}  // namespace treecast
