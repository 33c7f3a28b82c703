// The text of a record file: bytes of any accepted encoding in, UTF-8 out, with offsets in the original.
//
// Unlike a document, a record file may be larger than memory. So text is appended piece by piece and dropped when done.
// Invalid characters are passed on as invalid UTF-8: the record that contains them is refused, not the whole file.
#include "records/records_text.hpp"

#include "base/failure.hpp"
#include "document/characters.hpp"
#include "document/encoding.hpp"

#include <algorithm>
#include <cstring>

namespace treecast {

namespace {

constexpr size_t declaration_bytes_max = 4096;   // an XML declaration is looked for in so many bytes

bool is_wide(Encoding encoding) { return encoding == Encoding::utf16_le || encoding == Encoding::utf16_be; }

// How many bytes at the start are ASCII. Eight are tested at a time.
size_t ascii_run(std::string_view bytes) {
    size_t at = 0;
    for (uint64_t word; at + 8 <= bytes.size(); at += 8) {
        std::memcpy(&word, bytes.data() + at, 8);
        if (word & 0x8080808080808080ull) break;
    }
    while (at < bytes.size() && static_cast<unsigned char>(bytes[at]) < 0x80) ++at;
    return at;
}

}  // namespace

void RecordText::feed(std::string_view bytes) {
    given_ += bytes.size();
    if (opened_) return append(bytes);
    pending_ += bytes;
    open(false);
}

void RecordText::finish() {
    if (!opened_) open(true);
    if (!pending_.empty()) throw Failure(Family::document, "TC204", "the file ends inside a character", given_);
}

// The encoding is certain only when the XML declaration is complete, so early bytes wait in pending_.
bool RecordText::open(bool finished) {
    if (pending_.size() < 4 && !finished) return false;
    bool marked = false;
    Encoding sniffed = sniff_encoding(pending_, marked);
    size_t mark_bytes = !marked ? 0 : is_wide(sniffed) ? 2 : bom_bytes;
    encoding_ = sniffed;
    std::string bytes;
    bytes.swap(pending_);
    mark_offset_ = mark_bytes;
    append(std::string_view(bytes).substr(mark_bytes));
    // No '>' yet: the declaration may still be incomplete. Forget the attempt and wait for more bytes.
    if (!finished && bytes.size() < declaration_bytes_max && text_.find('>') == std::string::npos) {
        text_.clear();
        pending_.swap(bytes);
        return false;
    }
    size_t unit = is_wide(sniffed) ? 2 : 1, declaration_bytes = 0;
    try {
        XmlDeclaration declaration = parse_xml_declaration(text_);
        encoding_ = declared_encoding(declaration, sniffed, marked);
        declaration_bytes = declaration.length;
    } catch (Failure& failure) {
        failure.position = mark_bytes + unit * failure.position;   // a declaration is ASCII up to where it goes wrong
        throw;
    }
    opened_ = true;
    // The declaration named another encoding than the first bytes suggested, so the text is decoded again.
    if (encoding_ != sniffed) {
        text_.clear();
        append(std::string_view(bytes).substr(mark_bytes));
    }
    drop(declaration_bytes);
    return true;
}

// Only UTF-16 can be cut inside a character here; the rest waits in pending_.
void RecordText::append(std::string_view bytes) {
    if (encoding_ == Encoding::utf8) {
        text_ += bytes;
    } else if (!is_wide(encoding_)) {
        append_single(bytes);
    } else if (pending_.empty()) {
        pending_ = bytes.substr(append_utf16(bytes));
    } else {
        std::string whole = pending_;
        whole += bytes;
        pending_ = whole.substr(append_utf16(whole));
    }
}

// 0xFF is never valid UTF-8, so it stands for a byte that this encoding does not have.
void RecordText::append_single(std::string_view bytes) {
    for (;;) {
        size_t run = ascii_run(bytes);
        text_ += bytes.substr(0, run);
        bytes.remove_prefix(run);
        if (bytes.empty()) return;
        size_t high = 1;
        while (high < bytes.size() && static_cast<unsigned char>(bytes[high]) >= 0x80) ++high;
        size_t done = transcode(bytes.substr(0, high), encoding_, text_);
        if (done < high) text_ += '\xFF', ++done;
        bytes.remove_prefix(done);
    }
}

// A lone surrogate is encoded as three bytes that no UTF-8 reader accepts, so its record will be refused.
size_t RecordText::append_utf16(std::string_view bytes) {
    bool big = encoding_ == Encoding::utf16_be;
    size_t at = 0;
    while (at < bytes.size()) {
        at += transcode(bytes.substr(at), encoding_, text_);
        if (at + 2 > bytes.size()) return at;                       // half a unit, or nothing
        auto high = static_cast<unsigned char>(bytes[at + !big]);
        auto low = static_cast<unsigned char>(bytes[at + big]);
        if (high < 0xDC && at + 4 > bytes.size()) return at;        // the other half of the pair is to come
        uint32_t lone = static_cast<uint32_t>(high << 8 | low);
        text_ += static_cast<char>(0xE0 | lone >> 12);
        text_ += static_cast<char>(0x80 | (lone >> 6 & 0x3F));
        text_ += static_cast<char>(0x80 | (lone & 0x3F));
        at += 2;
    }
    return at;
}

// Bytes of the original between two places of the text.
uint64_t RecordText::units(size_t from, size_t to) const {
    if (encoding_ == Encoding::utf8) return to - from;
    bool wide = is_wide(encoding_);
    uint64_t count = 0;
    for (size_t at = from; at < to; ++at) {
        auto byte = static_cast<unsigned char>(text_[at]);
        count += (byte & 0xC0) != 0x80;
        count += wide && byte >= 0xF0;
    }
    return wide ? 2 * count : count;
}

// Offsets are asked in ascending order, so counting continues from the last one.
uint64_t RecordText::offset_of(size_t index) {
    if (index < mark_index_) return mark_offset_ - units(index, mark_index_);
    mark_offset_ += units(mark_index_, index);
    mark_index_ = index;
    return mark_offset_;
}

void RecordText::drop(size_t count) {
    if (!count) return;
    mark_offset_ = offset_of(count);
    mark_index_ = 0;
    text_.erase(0, count);
}

// Reads only what is needed to find declarations; returns the position of the first mistake.
size_t each_declaration(std::string_view inside, const std::function<void(std::string_view, std::string_view)>& found) {
    size_t at = 0;
    auto spaces = [&] { while (at < inside.size() && is_space(inside[at])) ++at; };
    for (;;) {
        spaces();
        if (at == inside.size()) return std::string_view::npos;
        size_t begin = at;
        while (at < inside.size() && inside[at] != '=' && !is_space(inside[at])) ++at;
        std::string_view name = inside.substr(begin, at - begin);
        spaces();
        if (name.empty() || at == inside.size() || inside[at] != '=') return begin;
        ++at;
        spaces();
        if (at == inside.size() || (inside[at] != '"' && inside[at] != '\'')) return begin;
        size_t stop = inside.find(inside[at], at + 1);
        if (stop == std::string_view::npos) return begin;
        std::string_view value = inside.substr(at, stop + 1 - at);
        at = stop + 1;
        if (name == "xmlns") found({}, value);
        else if (name.substr(0, 6) == "xmlns:") found(name.substr(6), value);
    }
}

namespace {

// Both quotes are escaped, since the value may be between quotes of either kind.
void append_escaped(std::string_view replacement, bool in_value, std::string& out) {
    for (char c : replacement) {
        switch (c) {
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '&': out += "&amp;"; break;
        case '"': out += "&#34;"; break;
        case '\'': out += "&#39;"; break;
        // White space in an entity's text is a space each in a value, and itself in content.
        case '\t': case '\n': out += in_value ? ' ' : c; break;
        case '\r': out += in_value ? " " : "&#13;"; break;
        default: out += c;
        }
    }
}

// Appends the reference at the start of `text`, or what it stands for. Returns how many bytes of `text` that took.
size_t append_reference(std::string_view text, const Entities& entities, bool in_value, std::string& out) {
    size_t stop = 1;
    while (stop < text.size() && (character::is(text[stop], character::name) || (text[stop] & 0x80))) ++stop;
    bool named = stop > 1 && stop < text.size() && text[stop] == ';';
    static constexpr std::string_view predefined[] = {"lt", "gt", "amp", "apos", "quot"};
    std::string_view name = text.substr(1, stop - 1);
    if (named && std::find(std::begin(predefined), std::end(predefined), name) == std::end(predefined)) {
        auto given = entities.find(name);
        if (given != entities.end()) {
            append_escaped(given->second, in_value, out);
            return stop + 1;
        }
    }
    out += '&';                        // not ours to replace: the reader of the record decides
    return 1;
}

}  // namespace

void append_expanded_value(std::string_view value, const Entities& entities, size_t bytes_max, std::string& out) {
    while (!value.empty() && out.size() <= bytes_max) {
        size_t plain = std::min(value.find('&'), value.size());
        out += value.substr(0, plain);
        value.remove_prefix(plain);
        if (!value.empty()) value.remove_prefix(append_reference(value, entities, true, out));
    }
}

// References are expanded in text and tags, but not in comments, CDATA sections and instructions.
void append_expanded(std::string_view record, const Entities& entities, size_t bytes_max, std::string& out) {
    auto behind = [&](std::string_view end, size_t from) {
        size_t found = record.find(end, from);
        return found == std::string_view::npos ? record.size() : found + end.size();
    };
    auto starts = [&](std::string_view with) { return record.substr(0, with.size()) == with; };
    while (!record.empty() && out.size() <= bytes_max) {
        size_t taken = std::min(record.find_first_of("<&"), record.size());
        if (!taken && record[0] == '&') {
            record.remove_prefix(append_reference(record, entities, false, out));
            continue;
        }
        if (!taken && starts("<!--")) taken = behind("-->", 4);
        else if (!taken && starts("<![CDATA[")) taken = behind("]]>", 9);
        else if (!taken && starts("<?")) taken = behind("?>", 2);
        if (taken) {
            out += record.substr(0, taken);
            record.remove_prefix(taken);
            continue;
        }
        size_t at = 1;                 // a tag, up to its '>' outside quotes
        while (at < record.size() && record[at] != '>')
            at = record[at] == '"' || record[at] == '\'' ? behind(record.substr(at, 1), at + 1) : at + 1;
        at = std::min(at + 1, record.size());
        append_expanded_value(record.substr(0, at), entities, bytes_max, out);
        record.remove_prefix(at);
    }
}

}  // namespace treecast
