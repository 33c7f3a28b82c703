// Document -> binary form; binary.hpp describes it.
//
// The columns know where every tag and every plain text and value lies in the source, so hardly a byte is looked at: tags are
// walked from name to name, and texts are copied. What does not look as expected is copied as it was written.
#include "document/binary.hpp"

#include "base/varint.hpp"
#include "document/characters.hpp"

#include <atomic>
#include <cstring>
#include <stdexcept>

namespace treecast {

namespace {

bool ends_name(char c) { return is_space(c) || c == '>' || c == '/' || c == '='; }

bool is_plain_value(std::string_view value) { return value.find_first_of("<&\"\t\n\r") == std::string_view::npos; }

bool is_text(std::string_view text) {
    for (const char *at = text.data(), *end = at + text.size(); at < end;) {
        Decoded c = decode_utf8(at, end);
        if (!c.length || !is_xml_char(c.character)) return false;
        at += c.length;
    }
    return true;
}

uint64_t next_serial() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

void number(const std::vector<std::string>& texts, TextMap<uint32_t>& numbers) {
    for (const std::string& text : texts)
        if (!numbers.try_emplace(text, static_cast<uint32_t>(numbers.size())).second)
            throw std::invalid_argument("twice in a dictionary: " + text.substr(0, 40));
}

}  // namespace

// Names are checked when they are first used, as those of documents are.
WireDictionary::WireDictionary(std::vector<std::string> names, std::vector<std::string> values, uint32_t fingerprint)
    : names_(std::move(names)), values_(std::move(values)), fingerprint_(fingerprint), serial_(next_serial()) {
    if (names_.size() > dictionary_names_max || values_.size() > dictionary_values_max)
        throw std::invalid_argument("a dictionary has at most 16384 names and 16384 values");
    for (const std::string& name : names_)
        if (name.empty() || !is_text(name)) throw std::invalid_argument("not a name: " + name.substr(0, 40));
    for (const std::string& value : values_)
        if (value.size() > dictionary_value_bytes_max || !is_plain_value(value) || !is_text(value))
            throw std::invalid_argument("a value with markup or of more than 64 bytes: " + value.substr(0, 40));
    number(names_, name_numbers_);
    number(values_, value_numbers_);
}

void BinaryEncoder::begin(const Document& document) {
    document_ = &document;
    source_ = document.source;
    for (std::string* part : {&lengths_, &names_, &structure_, &raw_, &values_, &texts_}) part->clear();
    open_.clear();
    if (!own_codes_.empty()) own_codes_.clear();
    at_ = text_ = ends_ = own_names_ = declaration_ = 0;
    ++documents_;
    if (table_ != document.names || generation_ != document.names->generation()) {
        table_ = document.names;
        generation_ = table_->generation();
        codes_.clear();
    }
    if (codes_.size() < table_->size()) codes_.resize(table_->size());
}

void BinaryEncoder::token(BinaryToken kind, uint64_t argument) {
    uint64_t value = argument << token_bits | static_cast<uint64_t>(kind);
    for (; value >= 0x80; value >>= 7) structure_.push_back(static_cast<char>(value | 0x80));
    structure_.push_back(static_cast<char>(value));
}

void BinaryEncoder::flush_ends() {
    if (!ends_) return;
    token(BinaryToken::ends, ends_ - 1);
    ends_ = 0;
}

// The name as it stands at an offset. Most have no prefix, and are compared instead of scanned.
std::string_view BinaryEncoder::spelled(uint32_t at, uint32_t name) const {
    std::string_view local = table_->local(name);
    if (source_.substr(at, local.size()) == local && ends_name(source_[at + local.size()])) return source_.substr(at, local.size());
    uint32_t end = at;
    while (!ends_name(source_[end])) ++end;
    return source_.substr(at, end - at);
}

uint32_t BinaryEncoder::learn(std::string_view spelled) {
    put_varint(lengths_, static_cast<uint32_t>(spelled.size()));
    names_ += spelled;
    return static_cast<uint32_t>(dictionary_ ? dictionary_->names() : 0) + own_names_++;
}

// `name` is the document's number of a name with this local part, or `none`.
uint32_t BinaryEncoder::code_of(std::string_view spelled, uint32_t name) {
    // Names without a prefix have a place of their own. Two of them may be spelled alike, in two namespaces; then the name is
    // written twice, which does no harm.
    if (name != none && spelled.size() == table_->local(name).size()) {
        Code& known = codes_[name];
        if (known.document == documents_ || known.document == forever) return known.code;
        uint32_t code = dictionary_ ? dictionary_->find_name(spelled) : none;
        known = code == none ? Code{documents_, learn(spelled)} : Code{forever, code};
        return known.code;
    }
    uint32_t code = dictionary_ ? dictionary_->find_name(spelled) : none;
    if (code != none) return code;
    auto [found, added] = own_codes_.try_emplace(std::string(spelled), 0);
    if (added) found->second = learn(spelled);
    return found->second;
}

// What stands between two tags. It is plain if it is exactly one text of the document that needed no decoding.
void BinaryEncoder::segment(uint32_t begin, uint32_t end, uint32_t texts_end) {
    uint32_t first = text_;
    text_ = texts_end;
    if (begin == end) return;
    flush_ends();
    std::string_view written = source_.substr(begin, end - begin);
    if (texts_end == first + 1) {
        const Span& only = document_->text[first];
        if (!only.in_decoded && only.begin == begin && only.end == end) {
            token(BinaryToken::text, end - begin);
            texts_ += written;
            return;
        }
    }
    token(BinaryToken::content, end - begin);
    raw_ += written;
}

// The attributes of a tag that is written in the usual way; false if it is not. `at` is after the name, `end` before > or />.
bool BinaryEncoder::put_attributes(uint32_t element, uint32_t at, uint32_t end) {
    const Document& d = *document_;
    uint32_t attribute = d.attribute_begin[element], attributes_end = static_cast<uint32_t>(d.attribute_end(element));
    uint32_t declared = declaration_, left = attributes_end - attribute;
    while (declared < d.declarations.size() && d.declarations[declared].element == element) ++declared;
    left += declared - declaration_;
    declaration_ = declared;
    put_varint(structure_, left);
    for (; at < end; --left) {
        if (source_[at] != ' ') return false;
        bool any = attribute < attributes_end;
        uint32_t id = any ? d.attribute_name[attribute] : none;
        std::string_view name = any ? spelled(at + 1, id) : std::string_view();
        if (!any) {
            uint32_t stop = at + 1;
            while (!ends_name(source_[stop])) ++stop;
            name = source_.substr(at + 1, stop - at - 1);
        }
        at += 1 + static_cast<uint32_t>(name.size());
        if (name.empty() || source_.substr(at, 2) != "=\"") return false;
        at += 2;
        bool declares = name == "xmlns" || name.starts_with("xmlns:");
        uint32_t stop;
        if (declares) {
            stop = static_cast<uint32_t>(source_.find('"', at));
            if (stop >= end || !is_plain_value(source_.substr(at, stop - at))) return false;
            id = none;
        } else {
            if (!any) return false;
            const Span& value = d.attribute_value[attribute++];
            if (value.in_decoded || value.begin != at || source_[value.end] != '"') return false;
            stop = value.end;
        }
        std::string_view value = source_.substr(at, stop - at);
        uint32_t code = code_of(name, id), known = dictionary_ ? dictionary_->find_value(value) : none;
        put_varint(structure_, code << 1 | (known != none));
        put_varint(structure_, known != none ? known : static_cast<uint32_t>(value.size()));
        if (known == none) values_ += value;
        at = stop + 1;
    }
    return at == end && !left && attribute == attributes_end;
}

void BinaryEncoder::start_tag(uint32_t element) {
    const Document& d = *document_;
    flush_ends();
    uint32_t begin = d.start[element], content = d.content[element];
    bool is_empty = content == d.end[element];
    uint32_t end = content - (is_empty ? 2 : 1);
    std::string_view name = spelled(begin + 1, d.name[element]);
    uint32_t behind = begin + 1 + static_cast<uint32_t>(name.size());
    size_t structure_before = structure_.size(), values_before = values_.size();
    uint32_t code = code_of(name, d.name[element]);
    if (behind == end) return token(is_empty ? BinaryToken::empty : BinaryToken::start, code);
    token(is_empty ? BinaryToken::empty_attributes : BinaryToken::start_attributes, code);
    if (put_attributes(element, behind, end)) return;
    structure_.erase(structure_before);            // names that were learnt on the way stay, and are known to the receiver
    values_.erase(values_before);
    token(BinaryToken::tag, uint64_t(content - begin) << 1);
    raw_ += source_.substr(begin, content - begin);
}

void BinaryEncoder::end_tag(uint32_t element) {
    uint32_t end = document_->end[element], begin = at_;
    size_t name = spelled(document_->start[element] + 1, document_->name[element]).size();
    if (end - begin == name + 3) {                 // white space would make it longer
        ++ends_;
    } else {
        flush_ends();
        token(BinaryToken::tag, uint64_t(end - begin) << 1 | 1);
        raw_ += source_.substr(begin, end - begin);
    }
    at_ = end;
}

// Only start tags are walked, from name to name; values that stand in other quotes count too.
void count_spelled(const Document& document, WireCounts& counts) {
    std::string_view source = document.source;
    for (size_t element = 0; element < document.elements(); ++element) {
        size_t at = document.start[element] + 1, end = document.content[element];
        for (bool is_attribute = false; at < end; is_attribute = true) {
            size_t name = at;
            while (!ends_name(source[at])) ++at;
            if (at == name) break;
            ++counts.names[std::string(source.substr(name, at - name))];
            if (is_attribute) {
                at = source.find_first_of("\"'", at);
                size_t value = at + 1;
                at = source.find(source[at], value) + 1;
                std::string_view plain = source.substr(value, at - value - 1);
                if (plain.size() <= dictionary_value_bytes_max && is_plain_value(plain)) ++counts.values[std::string(plain)];
            }
            while (is_space(source[at])) ++at;
        }
    }
}

void BinaryEncoder::encode(const Document& document, std::string& out) {
    if (document.encoding != Encoding::utf8) {
        out.push_back(static_cast<char>(BinaryKind::original));
        out += document.original;
        return;
    }
    begin(document);
    uint32_t root = document.start[0], after = document.end[0];
    put_varint(structure_, root);
    put_varint(structure_, static_cast<uint32_t>(source_.size() - after));
    raw_ += source_.substr(0, root);
    auto close = [&](uint32_t element) {
        auto tag = static_cast<uint32_t>(source_.rfind("</", document.end[element] - 1));     // that of its own end tag
        segment(at_, tag, document.text_end[element]);
        at_ = tag;
        end_tag(element);
    };
    for (uint32_t element = 0; element < document.elements(); ++element) {
        for (; !open_.empty() && element >= open_.back() + document.size[open_.back()]; open_.pop_back()) close(open_.back());
        if (element) segment(at_, document.start[element], document.text_begin[element]);
        start_tag(element);
        at_ = document.content[element];
        if (at_ != document.end[element]) open_.push_back(element);
    }
    for (; !open_.empty(); open_.pop_back()) close(open_.back());
    flush_ends();
    raw_ += source_.substr(after);
    out.push_back(static_cast<char>(dictionary_ ? BinaryKind::with_dictionary : BinaryKind::binary));
    if (dictionary_)
        for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(dictionary_->fingerprint() >> shift));
    for (size_t size : {source_.size(), document.elements(), document.text.size(), size_t(own_names_), structure_.size(),
                        names_.size() + raw_.size(), values_.size()})
        put_varint(out, static_cast<uint32_t>(size));
    for (const std::string* part : {&lengths_, &structure_, &names_, &raw_, &values_}) out += *part;
    out += '<';
    out += texts_;
}

}  // namespace treecast
