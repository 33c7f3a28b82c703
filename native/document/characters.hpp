// The character classes of XML 1.0, fifth edition.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace treecast {

namespace character {

enum Class : uint8_t { space = 1, name_start = 2, name = 4, pubid = 8 };

// Classes of ASCII characters; of higher bytes nothing is set.
inline constexpr std::array<uint8_t, 256> classes = [] {
    std::array<uint8_t, 256> table{};
    for (int c = 0; c < 128; ++c) {
        bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        bool digit = c >= '0' && c <= '9';
        bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
        if (blank) table[c] |= space;
        if (letter || c == '_' || c == ':') table[c] |= name_start;
        if (letter || c == '_' || c == ':' || digit || c == '-' || c == '.') table[c] |= name;
        if (letter || digit || (blank && c != '\t')) table[c] |= pubid;
    }
    for (unsigned char c : std::string_view("-'()+,./:=?;!*#@$_%")) table[c] |= pubid;
    return table;
}();

inline bool is(char c, Class wanted) { return classes[static_cast<unsigned char>(c)] & wanted; }

}  // namespace character

inline bool is_space(char c) { return character::is(c, character::space); }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_xml_char(uint32_t c);      // production Char
bool is_name_start(uint32_t c);    // production NameStartChar
bool is_name_char(uint32_t c);     // production NameChar

struct Decoded {
    uint32_t character;
    uint32_t length;               // bytes; 0 where the bytes are no UTF-8
};
Decoded decode_utf8(const char* at, const char* end);
size_t encode_utf8(uint32_t character, char* out);   // at most 4 bytes; returns how many

}  // namespace treecast
