// Encodings: detection, the XML declaration, and conversion to UTF-8.
//
// Follows XML 1.0, appendix F. The first bytes give the width and order of code units; only then can the declaration be read.
// The declaration may then name a more specific encoding, but it must not contradict the bytes.
// Everything after this file works on UTF-8 only.
#include "document/encoding.hpp"

#include "base/failure.hpp"
#include "base/interrupt.hpp"
#include "document/characters.hpp"

#include <algorithm>

namespace treecast {

namespace {

[[noreturn]] void fail(const char* code, size_t offset, std::string message, std::string hint = {}) {
    Failure failure(Family::document, code, std::move(message), offset);
    failure.hint = std::move(hint);
    throw failure;
}

const char* const convert_hint = "convert the document to UTF-8";

// A cursor over the declaration. All its characters are ASCII, so it needs no tables.
struct DeclarationParser {
    std::string_view text;
    size_t at;

    // At the end of the text the document is merely incomplete, which has its own code: more input might fix it.
    [[noreturn]] void broken(const char* what) {
        if (at >= text.size()) fail("TC209", text.size(), "the document ends inside its XML declaration");
        fail("TC201", at, what);
    }
    bool spaces() {
        size_t begin = at;
        while (at < text.size() && is_space(text[at])) ++at;
        return at > begin;
    }
    // Reads the quoted value of the pseudo-attribute `name`, if that comes next.
    bool value(std::string_view name, std::string_view& out, size_t& offset) {
        std::string_view next = text.substr(at, name.size());
        if (next != name) {
            // A prefix of the name at the very end is a cut-off document, not a wrong one.
            if (next.empty() || next.size() == name.size() || next != name.substr(0, next.size())) return false;
            at = text.size();
            broken("");
        }
        at += name.size();
        spaces();
        if (at >= text.size() || text[at] != '=') broken("expected '=' in the XML declaration");
        ++at;
        spaces();
        if (at >= text.size() || (text[at] != '"' && text[at] != '\'')) broken("expected a quoted value in the XML declaration");
        char quote = text[at];
        offset = ++at;
        // Markup characters end the search, so a missing quote is reported near its place, not at the end of the document.
        while (at < text.size() && text[at] != quote && text[at] != '<' && text[at] != '>') ++at;
        if (at >= text.size() || text[at] != quote) broken("a value in the XML declaration lacks its closing quote");
        out = text.substr(offset, at - offset);
        ++at;
        return true;
    }
};

// XML 1.0, fifth edition: a 1.0 processor accepts any version 1.x.
void check_version(std::string_view version, size_t offset) {
    bool fits = version.size() > 2 && version.substr(0, 2) == "1." &&
                std::all_of(version.begin() + 2, version.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!fits) fail("TC201", offset, "the XML version must be 1.0");
}

void check_encoding_name(std::string_view name, size_t offset) {
    auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
    bool fits = !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
        return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    });
    if (!fits) fail("TC201", offset, "the encoding name in the XML declaration is malformed");
}

}  // namespace

// Every character after `<?xml` and white space must fit. `<?xml-stylesheet` is an instruction, not a declaration.
XmlDeclaration parse_xml_declaration(std::string_view text) {
    XmlDeclaration found;
    if (text.substr(0, 5) != "<?xml" || text.size() < 6 || !is_space(text[5])) return found;
    DeclarationParser parser{text, 5};
    std::string_view value;
    size_t offset = 0;
    parser.spaces();
    if (!parser.value("version", value, offset)) parser.broken("an XML declaration must start with version=\"1.0\"");
    check_version(value, offset);
    bool spaced = parser.spaces();
    if (spaced && parser.value("encoding", found.encoding, found.encoding_offset)) {
        check_encoding_name(found.encoding, found.encoding_offset);
        spaced = parser.spaces();
    }
    if (spaced && parser.value("standalone", value, offset)) {
        if (value != "yes" && value != "no") fail("TC201", offset, "standalone must be \"yes\" or \"no\"");
        parser.spaces();
    }
    // Step over a lone question mark, so that a text that ends there counts as incomplete.
    if (text.substr(parser.at, 2) != "?>") {
        if (parser.at < text.size() && text[parser.at] == '?') ++parser.at;
        parser.broken("the XML declaration has something that does not belong there");
    }
    found.length = parser.at + 2;
    return found;
}

// The order matters: the mark of UTF-32 little-endian starts with that of UTF-16.
Encoding sniff_encoding(std::string_view bytes, bool& marked) {
    auto starts = [bytes](std::string_view prefix) { return bytes.substr(0, prefix.size()) == prefix; };
    using namespace std::string_view_literals;
    marked = true;
    if (starts("\xEF\xBB\xBF"sv)) return Encoding::utf8;
    if (starts("\0\0\xFE\xFF"sv) || starts("\xFF\xFE\0\0"sv) || starts("\0\0\0<"sv) || starts("<\0\0\0"sv))
        fail("TC204", 0, "the document is in UTF-32, which is not accepted", convert_hint);
    if (starts("\xFF\xFE"sv)) return Encoding::utf16_le;
    if (starts("\xFE\xFF"sv)) return Encoding::utf16_be;
    marked = false;
    if (starts("<\0?\0"sv)) return Encoding::utf16_le;
    if (starts("\0<\0?"sv)) return Encoding::utf16_be;
    if (starts("<\0"sv) || starts("\0<"sv))
        fail("TC204", 0, "the document looks like UTF-16 but has neither a byte order mark nor a declaration", convert_hint);
    if (starts("\x4C\x6F\xA7\x94"sv)) fail("TC204", 0, "the document is in EBCDIC, which is not accepted", convert_hint);
    return Encoding::utf8;
}

// The bytes win over the declaration only where they leave no doubt; any contradiction is refused, never guessed.
Encoding declared_encoding(const XmlDeclaration& declaration, Encoding sniffed, bool marked) {
    bool utf16 = sniffed != Encoding::utf8;
    std::string name(declaration.encoding);
    for (char& c : name)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
    size_t offset = declaration.encoding_offset;
    if (declaration.encoding.empty()) {
        if (utf16 && !marked)
            fail("TC204", 0, "UTF-16 without a byte order mark must be declared", convert_hint);
        return sniffed;
    }
    auto mismatch = [&](const char* actual) {
        fail("TC204", offset, "the declaration says " + std::string(declaration.encoding.substr(0, 40)) +
                                  " but the document is in " + actual, "declare the encoding that the bytes are in");
    };
    // The names that IANA registers, in lower case, plus the spellings without hyphen that libxml2 accepts.
    static constexpr struct { std::string_view name; Encoding encoding; } known[] = {
        {"utf-8", Encoding::utf8},            {"utf8", Encoding::utf8},
        {"utf-16", Encoding::utf16_le},       {"utf16", Encoding::utf16_le},
        {"utf-16le", Encoding::utf16_le},     {"utf16le", Encoding::utf16_le},
        {"utf-16be", Encoding::utf16_be},     {"utf16be", Encoding::utf16_be},
        {"us-ascii", Encoding::ascii},        {"ascii", Encoding::ascii},
        {"ansi_x3.4-1968", Encoding::ascii},  {"iso646-us", Encoding::ascii},
        {"iso-ir-6", Encoding::ascii},        {"us", Encoding::ascii},
        {"ibm367", Encoding::ascii},          {"cp367", Encoding::ascii},
        {"iso-8859-1", Encoding::latin1},     {"iso_8859-1", Encoding::latin1},
        {"iso8859-1", Encoding::latin1},      {"latin1", Encoding::latin1},
        {"l1", Encoding::latin1},             {"iso-ir-100", Encoding::latin1},
        {"ibm819", Encoding::latin1},         {"cp819", Encoding::latin1},
        {"windows-1252", Encoding::windows1252}, {"cp1252", Encoding::windows1252},
    };
    for (auto& [label, encoding] : known) {
        if (name != label) continue;
        bool says_utf16 = encoding == Encoding::utf16_le || encoding == Encoding::utf16_be;
        if (utf16) {
            // Plain "UTF-16" leaves the byte order open, so both orders agree with it.
            if (!says_utf16 || (name != "utf-16" && name != "utf16" && encoding != sniffed)) mismatch(encoding_label(sniffed));
            return sniffed;
        }
        if (says_utf16) mismatch("an encoding of single bytes");
        if (marked && encoding != Encoding::utf8) mismatch("UTF-8, as its byte order mark says");
        return encoding;
    }
    fail("TC204", offset, "the encoding " + std::string(declaration.encoding.substr(0, 40)) + " is not accepted",
         "convert the document to UTF-8; UTF-16, US-ASCII, ISO-8859-1 and windows-1252 are read too");
}

const char* encoding_label(Encoding encoding) {
    static const char* const labels[] = {"UTF-8", "UTF-16LE", "UTF-16BE", "US-ASCII", "ISO-8859-1", "windows-1252"};
    return labels[static_cast<int>(encoding)];
}

namespace {

// Conversion polls for Ctrl-C once per piece.
constexpr size_t piece_bytes = 1u << 18, nanoseconds_per_byte = 5;

// Stops at the first unpaired surrogate or odd byte and returns its offset; the caller reports it.
size_t transcode_utf16(std::string_view bytes, bool big_endian, std::string& out) {
    auto unit = [&](size_t at) -> uint32_t {
        auto low = static_cast<unsigned char>(bytes[at + big_endian]);
        auto high = static_cast<unsigned char>(bytes[at + !big_endian]);
        return low | high << 8;
    };
    char encoded[4];
    size_t at = 0;
    for (size_t pause = piece_bytes; at + 2 <= bytes.size(); at += 2) {
        if (at >= pause) {
            pause = at + piece_bytes;
            Interrupt::check(piece_bytes * nanoseconds_per_byte);
        }
        uint32_t c = unit(at);
        if (c < 0x80) {
            out.push_back(static_cast<char>(c));
            continue;
        }
        // A high surrogate needs a low one right after it. Together they form one character above U+FFFF.
        if (c >= 0xD800 && c < 0xE000) {
            if (c >= 0xDC00 || at + 4 > bytes.size()) return at;
            uint32_t low = unit(at + 2);
            if (low < 0xDC00 || low >= 0xE000) return at;
            c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
            at += 2;
        }
        out.append(encoded, encode_utf8(c, encoded));
    }
    return at;
}

// 0x80..0x9F in windows-1252; 0 where nothing is assigned.
constexpr uint16_t windows1252_high[32] = {
    0x20AC, 0, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0, 0x017D, 0,
    0, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0, 0x017E, 0x0178};

}  // namespace

size_t transcode(std::string_view bytes, Encoding encoding, std::string& out) {
    // Room for some characters that grow. More of them only cost a reallocation.
    out.reserve(out.size() + bytes.size() + bytes.size() / 8);
    if (encoding == Encoding::utf16_le || encoding == Encoding::utf16_be)
        return transcode_utf16(bytes, encoding == Encoding::utf16_be, out);
    char encoded[4];
    for (size_t at = 0; at < bytes.size(); ++at) {
        if ((at + 1) % piece_bytes == 0) Interrupt::check(piece_bytes * nanoseconds_per_byte);
        uint32_t c = static_cast<unsigned char>(bytes[at]);
        if (c < 0x80) {
            out.push_back(static_cast<char>(c));
            continue;
        }
        if (encoding == Encoding::ascii) return at;
        if (encoding == Encoding::windows1252 && c < 0xA0) {
            c = windows1252_high[c - 0x80];
            if (!c) return at;
        }
        out.append(encoded, encode_utf8(c, encoded));
    }
    return bytes.size();
}

}  // namespace treecast
