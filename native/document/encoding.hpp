// Finds out which encoding a document is in, and converts it to UTF-8.
//
// Accepted: UTF-8, UTF-16, US-ASCII, ISO-8859-1, windows-1252. Everything else is refused with TC204.
#pragma once

#include "document/document.hpp"

#include <string>
#include <string_view>

namespace treecast {

// `<?xml version="1.0" encoding="…" standalone="…"?>`; offsets count from where parsing began.
struct XmlDeclaration {
    size_t length = 0;                 // 0: there is none
    std::string_view encoding;         // empty: not given
    size_t encoding_offset = 0;
};

// `text` starts where the declaration would. Throws Failure with offsets relative to `text`.
XmlDeclaration parse_xml_declaration(std::string_view text);

constexpr size_t bom_bytes = 3;
inline bool has_utf8_bom(std::string_view text) { return text.substr(0, bom_bytes) == "\xEF\xBB\xBF"; }

// What the byte order mark and the first bytes say: utf16_le, utf16_be, or utf8 for anything that starts like ASCII.
// `marked` returns whether there was a byte order mark.
// Throws Failure (TC204) on UTF-32, EBCDIC, and UTF-16 that has neither mark nor declaration.
Encoding sniff_encoding(std::string_view bytes, bool& marked);

// What the document declares, checked against what was sniffed. Throws Failure (TC204).
Encoding declared_encoding(const XmlDeclaration& declaration, Encoding sniffed, bool marked);

// Appends the document as UTF-8 and returns how many bytes were read.
// If that is fewer than all, the next bytes have no meaning in this encoding.
size_t transcode(std::string_view bytes, Encoding encoding, std::string& out);

const char* encoding_label(Encoding encoding);

}  // namespace treecast
