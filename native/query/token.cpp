// Scanning of names, numbers, literals and comments. See token.hpp for why there is no token list.
#include "query/token.hpp"

#include "document/characters.hpp"

#include <array>

namespace treecast {

namespace {

enum : uint8_t { name_start = 1, name_rest = 2, beyond_ascii = 4 };

// PERF: parse_count. The classes of NCName, which has no colon, in one look-up; above ASCII characters.cpp decides.
constexpr std::array<uint8_t, 256> classes = [] {
    std::array<uint8_t, 256> table{};
    for (int c = 0; c < 128; ++c) {
        if (c == ':') continue;
        if (character::classes[c] & character::name_start) table[c] |= name_start;
        if (character::classes[c] & character::name) table[c] |= name_rest;
    }
    for (int c = 128; c < 256; ++c) table[c] = beyond_ascii;
    return table;
}();

uint8_t class_of(char c) { return classes[static_cast<unsigned char>(c)]; }

// Bytes of the name character above ASCII at the front of the text; 0 if there is none.
uint32_t name_character(const char* text, size_t size, bool first) {
    Decoded c = decode_utf8(text, text + size);
    return c.length && (first ? is_name_start(c.character) : is_name_char(c.character)) ? c.length : 0;
}

}  // namespace

// The final NUL has no class, so the loop needs no test for the end.
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

// A lone point is not a number: it is the context item.
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

bool Scanner::skip_comment() {
    size_t size = comment_size({text_ + at, size_ - at});
    at += static_cast<uint32_t>(size);
    return size != 0;
}

// Comments nest, as in XQuery.
size_t comment_size(std::string_view text) {
    if (!text.starts_with("(:")) return 0;
    size_t open = 0;
    for (size_t at = 0; at + 1 < text.size();) {
        bool opens = text[at] == '(' && text[at + 1] == ':', closes = text[at] == ':' && text[at + 1] == ')';
        at += opens || closes ? 2 : 1;
        if (opens) ++open;
        if (closes && --open == 0) return at;
    }
    return 0;
}

// At least 1, so that a caret is visible even below a broken byte.
uint32_t Scanner::character_size(uint32_t position) const {
    if (position >= size_) return 0;
    uint32_t size = decode_utf8(text_ + position, text_ + size_).length;
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
    // Nearly every query is printable ASCII, which this loop confirms quickly once vectorised.
    unsigned unusual = 0;
    for (char c : text) unusual |= static_cast<unsigned char>(c - 0x20) >= 0x60;
    if (!unusual) return text.size();
    for (size_t i = 0; i < text.size();) {
        Decoded c = decode_utf8(text.data() + i, text.data() + text.size());
        if (!c.length || !is_xml_char(c.character)) return i;
        i += c.length;
    }
    return text.size();
}

// Moves back to the start of a character, so that messages stay valid UTF-8.
std::string_view cut_text(std::string_view text, size_t bytes_max) {
    if (text.size() <= bytes_max) return text;
    size_t size = bytes_max;
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0u) == 0x80u) --size;
    return text.substr(0, size);
}

}  // namespace treecast
