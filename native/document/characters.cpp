// Character classes of XML 1.0, fifth edition, and UTF-8 one character at a time.
//
// These are the slow paths: the reader handles ASCII with tables and vectors, and comes here for everything else.
#include "document/characters.hpp"

namespace treecast {

// Production [2] Char: no surrogates, no U+FFFE or U+FFFF, and of the control characters only white space.
bool is_xml_char(uint32_t c) {
    if (c < 0x20) return c == '\t' || c == '\n' || c == '\r';
    return c < 0xD800 || (c >= 0xE000 && c <= 0xFFFD) || (c >= 0x10000 && c <= 0x10FFFF);
}

// Production [4] NameStartChar.
bool is_name_start(uint32_t c) {
    if (c < 0x80) return character::classes[c] & character::name_start;
    static constexpr uint32_t ranges[][2] = {{0xC0, 0xD6},     {0xD8, 0xF6},     {0xF8, 0x2FF},    {0x370, 0x37D},
                                             {0x37F, 0x1FFF},  {0x200C, 0x200D}, {0x2070, 0x218F}, {0x2C00, 0x2FEF},
                                             {0x3001, 0xD7FF}, {0xF900, 0xFDCF}, {0xFDF0, 0xFFFD}, {0x10000, 0xEFFFF}};
    for (auto [first, last] : ranges)
        if (c >= first && c <= last) return true;
    return false;
}

// Production [4a] NameChar: what may start a name, plus digits, combining marks and a few connectors.
bool is_name_char(uint32_t c) {
    if (c < 0x80) return character::classes[c] & character::name;
    return c == 0xB7 || (c >= 0x300 && c <= 0x36F) || (c >= 0x203F && c <= 0x2040) || is_name_start(c);
}

// Refuses overlong forms, surrogates and values above U+10FFFF: two spellings of one character would defeat every comparison.
Decoded decode_utf8(const char* at, const char* end) {
    auto byte = [at](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(at[i])); };
    auto follows = [&](int i) { return at + i < end && (byte(i) & 0xC0) == 0x80; };
    if (at >= end) return {0, 0};
    uint32_t lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    // C0 and C1 could only start overlong forms; F5 and above only values that are too large.
    if (lead < 0xC2 || lead > 0xF4 || !follows(1)) return {0, 0};
    if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
    if (!follows(2)) return {0, 0};
    if (lead < 0xF0) {
        uint32_t c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
        if (c < 0x800 || (c >= 0xD800 && c < 0xE000)) return {0, 0};
        return {c, 3};
    }
    if (!follows(3)) return {0, 0};
    uint32_t c = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    if (c < 0x10000 || c > 0x10FFFF) return {0, 0};
    return {c, 4};
}

// The caller has checked that `c` is a character.
size_t encode_utf8(uint32_t c, char* out) {
    auto put = [out](int i, uint32_t bits) { out[i] = static_cast<char>(bits); };
    if (c < 0x80) {
        put(0, c);
        return 1;
    }
    if (c < 0x800) {
        put(0, 0xC0 | c >> 6), put(1, 0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        put(0, 0xE0 | c >> 12), put(1, 0x80 | (c >> 6 & 0x3F)), put(2, 0x80 | (c & 0x3F));
        return 3;
    }
    put(0, 0xF0 | c >> 18), put(1, 0x80 | (c >> 12 & 0x3F)), put(2, 0x80 | (c >> 6 & 0x3F)), put(3, 0x80 | (c & 0x3F));
    return 4;
}

}  // namespace treecast
