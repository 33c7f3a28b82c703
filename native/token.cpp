#include "token.hpp"

#include <array>
#include <charconv>
#include <limits>

namespace treecast {

namespace {

enum : uint8_t { name_start = 1, name_rest = 2, beyond_ascii = 4 };

constexpr std::array<uint8_t, 256> classes = [] {
    std::array<uint8_t, 256> table{};
    for (int c = 'a'; c <= 'z'; ++c) table[c] = name_start | name_rest;
    for (int c = 'A'; c <= 'Z'; ++c) table[c] = name_start | name_rest;
    for (int c = '0'; c <= '9'; ++c) table[c] = name_rest;
    table['_'] = name_start | name_rest;
    table['-'] = table['.'] = name_rest;
    for (int c = 0x80; c < 0x100; ++c) table[c] = beyond_ascii;
    return table;
}();

uint8_t class_of(char c) { return classes[static_cast<unsigned char>(c)]; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Decodes one character; size 0 where the bytes are not UTF-8. The text need not be checked yet.
struct Character {
    uint32_t code = 0, size = 0;
};

Character decode(const char* text, size_t size) {
    auto byte = [&](size_t i) -> uint32_t { return i < size ? static_cast<unsigned char>(text[i]) : 0u; };
    auto follows = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
    uint32_t first = byte(0);
    if (size == 0) return {};
    if (first < 0x80) return {first, 1};
    if (first >= 0xC2 && first <= 0xDF && follows(1)) return {(first & 0x1Fu) << 6 | (byte(1) & 0x3Fu), 2};
    if (first >= 0xE0 && first <= 0xEF && follows(1) && follows(2)) {
        uint32_t code = (first & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
        if (code >= 0x800 && (code < 0xD800 || code > 0xDFFF)) return {code, 3};
    }
    if (first >= 0xF0 && first <= 0xF4 && follows(1) && follows(2) && follows(3)) {
        uint32_t code = (first & 7u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu);
        if (code >= 0x10000 && code <= 0x10FFFF) return {code, 4};
    }
    return {};
}

struct Range {
    uint32_t first, last;
};
// XML 1.0, fifth edition, productions [4] and [4a], above ASCII.
constexpr Range starts[] = {{0xC0, 0xD6},     {0xD8, 0xF6},     {0xF8, 0x2FF},    {0x370, 0x37D},
                            {0x37F, 0x1FFF},  {0x200C, 0x200D}, {0x2070, 0x218F}, {0x2C00, 0x2FEF},
                            {0x3001, 0xD7FF}, {0xF900, 0xFDCF}, {0xFDF0, 0xFFFD}, {0x10000, 0xEFFFF}};
constexpr Range rests[] = {{0xB7, 0xB7}, {0x300, 0x36F}, {0x203F, 0x2040}};

template <size_t n>
bool within(const Range (&ranges)[n], uint32_t code) {
    for (const Range& range : ranges)
        if (code >= range.first && code <= range.last) return true;
    return false;
}

// Bytes of the name character at the front of text, 0 where there is none.
uint32_t name_character(const char* text, size_t size, bool first) {
    Character c = decode(text, size);
    return c.size > 1 && (within(starts, c.code) || (!first && within(rests, c.code))) ? c.size : 0;
}

}  // namespace

Slice Scanner::peek_name() const {
    uint32_t i = at;
    uint8_t wanted = name_start;
    while (true) {
        uint8_t found = class_of(text_[i]);
        if (found & wanted) {
            ++i;
        } else if (found & beyond_ascii) {
            uint32_t bytes = name_character(text_ + i, size_ - i, i == at);
            if (!bytes) break;
            i += bytes;
        } else {
            break;
        }
        wanted = name_rest;
    }
    return {at, i - at};
}

Slice Scanner::name() {
    Slice found = peek_name();
    at = found.end();
    return found;
}

Slice Scanner::number() {
    uint32_t begin = at, i = at;
    while (is_digit(text_[i])) ++i;
    if (text_[i] == '.' && (i > begin || is_digit(text_[i + 1]))) {
        ++i;
        while (is_digit(text_[i])) ++i;
    }
    at = i;
    return {begin, i - begin};
}

bool Scanner::literal(Slice& inside) {
    char quote = text_[at];
    uint32_t i = at + 1;
    while (i < size_ && text_[i] != quote) ++i;
    if (i >= size_) return false;
    inside = {at + 1, i - at - 1};
    at = i + 1;
    return true;
}

uint32_t Scanner::character_size(uint32_t position) const {
    if (position >= size_) return 0;
    uint32_t size = decode(text_ + position, size_ - position).size;
    return size ? size : 1;
}

bool is_ncname(std::string_view text) {
    size_t i = 0;
    while (i < text.size()) {
        uint8_t found = class_of(text[i]);
        if (found & (i ? name_rest : name_start)) {
            ++i;
            continue;
        }
        uint32_t bytes = found & beyond_ascii ? name_character(text.data() + i, text.size() - i, i == 0) : 0;
        if (!bytes) return false;
        i += bytes;
    }
    return !text.empty();
}

size_t find_bad_character(std::string_view text) {
    // Nearly every query is printable ASCII, which this loop, vectorised, confirms at once.
    unsigned unusual = 0;
    for (char c : text) unusual |= static_cast<unsigned char>(c - 0x20) >= 0x60;
    if (!unusual) return text.size();
    for (size_t i = 0; i < text.size();) {
        Character c = decode(text.data() + i, text.size() - i);
        bool control = c.code < 0x20 && c.code != '\t' && c.code != '\n' && c.code != '\r';
        if (!c.size || control || c.code == 0xFFFE || c.code == 0xFFFF) return i;
        i += c.size;
    }
    return text.size();
}

double number_value(std::string_view digits) {
    double value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
    if (error != std::errc::result_out_of_range) return value;
    // Out of range: too large where a digit other than 0 stands before the point, too small otherwise.
    size_t first = digits.find_first_not_of('0');
    bool large = first != std::string_view::npos && digits[first] != '.';
    return large ? std::numeric_limits<double>::infinity() : 0.0;
}

std::string_view cut_text(std::string_view text, size_t bytes_max) {
    if (text.size() <= bytes_max) return text;
    size_t size = bytes_max;
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0u) == 0x80u) --size;
    return text.substr(0, size);
}

}  // namespace treecast
