// Document -> binary form; binary.hpp describes it.
//
// The columns know where every tag and every plain text and value lies in the source, so hardly a byte is looked at: tags are
// walked from name to name, and texts are copied. What does not look as expected is copied as it was written.
//
// What is plain is written by EncoderRun, which has everything that it touches in registers, as BinaryRun has for the way back. It
// leaves all else, one element at a time, to the functions of the encoder.
#include "document/binary.hpp"

#include "base/varint.hpp"
#include "document/characters.hpp"

#include <atomic>
#include <cstring>
#include <stdexcept>

namespace treecast {

namespace {

constexpr size_t chunk_bytes = 64;             // are copied at once, where that many may be read

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
    lengths_.clear();
    names_.clear();
    make_room(document);
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

// Each byte of the source is copied once at most. An element has up to four tokens: what stands before its start tag, that tag, what
// stands before its end tag, and ends.
void BinaryEncoder::make_room(const Document& document) {
    constexpr size_t number_bytes_max = 6;
    const size_t attributes = document.attribute_name.size() + document.declarations.size();
    structure_.reserve(number_bytes_max * (5 * document.elements() + 2 * attributes + 8));
    for (Section* section : {&raw_, &values_, &texts_}) section->reserve(source_.size() + chunk_bytes);
}

void BinaryEncoder::token(BinaryToken kind, uint64_t argument) {
    structure_.append_number(argument << token_bits | static_cast<uint64_t>(kind));
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
        auto length = static_cast<uint32_t>(spelled.size());
        known = code == none ? Code{documents_, learn(spelled), length} : Code{forever, code, length};
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
            texts_.append(written);
            return;
        }
    }
    token(BinaryToken::content, end - begin);
    raw_.append(written);
}

// The attributes of a tag that is written in the usual way; false if it is not. `at` is after the name, `end` before > or />.
bool BinaryEncoder::put_attributes(uint32_t element, uint32_t at, uint32_t end) {
    const Document& d = *document_;
    uint32_t attribute = d.attribute_begin[element], attributes_end = static_cast<uint32_t>(d.attribute_end(element));
    uint32_t declared = declaration_, left = attributes_end - attribute;
    while (declared < d.declarations.size() && d.declarations[declared].element == element) ++declared;
    left += declared - declaration_;
    declaration_ = declared;
    structure_.append_number(left);
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
        structure_.append_number(uint64_t(code) << 1 | (known != none));
        structure_.append_number(known != none ? known : value.size());
        if (known == none) values_.append(value);
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
    structure_.cut(structure_before);              // names that were learnt on the way stay, and are known to the receiver
    values_.cut(values_before);
    token(BinaryToken::tag, uint64_t(content - begin) << 1);
    raw_.append(source_.substr(begin, content - begin));
}

void BinaryEncoder::end_tag(uint32_t element) {
    uint32_t end = document_->end[element], begin = at_;
    size_t name = spelled(document_->start[element] + 1, document_->name[element]).size();
    if (end - begin == name + 3) {                 // white space would make it longer
        ++ends_;
    } else {
        flush_ends();
        token(BinaryToken::tag, uint64_t(end - begin) << 1 | 1);
        raw_.append(source_.substr(begin, end - begin));
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

// The elements of a document, from one end to the other.
struct EncoderRun {
    BinaryEncoder& encoder;
    const Document& d;
    const char* const source;
    const char* const source_safe;       // before this, a chunk may be read
    const uint32_t *names = d.name.data(), *starts = d.start.data(), *contents = d.content.data(), *ends = d.end.data();
    const uint32_t *attribute_begins = d.attribute_begin.data(), *attribute_names = d.attribute_name.data();
    const Span *texts = d.text.data(), *attribute_values = d.attribute_value.data();
    BinaryEncoder::Code* const codes;
    const uint64_t documents;
    const bool has_declarations, has_values;
    // Where it is.
    char *structure = nullptr, *values = nullptr, *text_out = nullptr;
    uint32_t at = 0, text = 0, open_ends = 0;

    explicit EncoderRun(BinaryEncoder& encoder_)
        : encoder(encoder_), d(*encoder.document_), source(encoder.source_.data()),
          source_safe(source + encoder.source_.size() - std::min(encoder.source_.size(), chunk_bytes)), codes(encoder.codes_.data()),
          documents(encoder.documents_), has_declarations(d.declarations.size() > 0),
          has_values(encoder.dictionary_ && encoder.dictionary_->values()) {
        load();
    }

    void load() {
        structure = encoder.structure_.end(), values = encoder.values_.end(), text_out = encoder.texts_.end();
        at = encoder.at_, text = encoder.text_, open_ends = encoder.ends_;
    }
    void store() {
        encoder.structure_.set_end(structure), encoder.values_.set_end(values), encoder.texts_.set_end(text_out);
        encoder.at_ = at, encoder.text_ = text, encoder.ends_ = open_ends;
    }

    void number(uint64_t value) {
        if (__builtin_expect(value < 1u << 14, 1)) {
            const auto low = static_cast<uint32_t>(value), is_long = static_cast<uint32_t>(value >= 0x80);
            structure[0] = static_cast<char>(low | is_long << 7);
            structure[1] = static_cast<char>(low >> 7);
            structure += 1 + is_long;
            return;
        }
        for (; value >= 0x80; value >>= 7) *structure++ = static_cast<char>(value | 0x80);
        *structure++ = static_cast<char>(value);
    }
    void token(BinaryToken kind, uint64_t argument) {
        if (open_ends) {
            number(uint64_t(open_ends - 1) << token_bits | static_cast<uint64_t>(BinaryToken::ends));
            open_ends = 0;
        }
        number(argument << token_bits | static_cast<uint64_t>(kind));
    }
    void copy(const char* from, size_t count, char*& to) const {
        if (__builtin_expect(count <= chunk_bytes && from < source_safe, 1)) std::memcpy(to, from, chunk_bytes);
        else std::memcpy(to, from, count);
        to += count;
    }

    // The number of a name that stands at an offset, and its length; null if it is written with a prefix. With one it would be longer
    // by two bytes at least, so whether it ends where it should decides.
    const BinaryEncoder::Code* code_of(uint32_t offset, uint32_t name) {
        BinaryEncoder::Code& code = codes[name];
        if (__builtin_expect(code.document != documents && code.document != BinaryEncoder::forever, 0)) {
            std::string_view local = encoder.table_->local(name);
            if (!ends_name(source[offset + local.size()])) return nullptr;
            encoder.code_of(local, name);              // which writes it down
            return &code;
        }
        return ends_name(source[offset + code.length]) ? &code : nullptr;
    }

    void segment(uint32_t end, uint32_t texts_end) {
        if (at == end && text == texts_end) return;
        const Span& only = texts[text];
        if (__builtin_expect(texts_end == text + 1 && only.begin == at && only.end == end && !only.in_decoded, 1)) {
            token(BinaryToken::text, end - at);
            copy(source + at, end - at, text_out);
            text = texts_end;
            return;
        }
        store();
        encoder.segment(at, end, texts_end);
        load();
    }

    void start_tag(uint32_t element) {
        const uint32_t begin = starts[element], content = contents[element];
        const bool is_empty = content == ends[element];
        const uint32_t end = content - (is_empty ? 2 : 1);
        const BinaryEncoder::Code* code = code_of(begin + 1, names[element]);
        if (__builtin_expect(code != nullptr, 1)) {
            const uint32_t behind = begin + 1 + code->length;
            if (behind == end) return token(is_empty ? BinaryToken::empty : BinaryToken::start, code->code);
            char *structure_before = structure, *values_before = values;
            const uint32_t ends_before = open_ends;
            token(is_empty ? BinaryToken::empty_attributes : BinaryToken::start_attributes, code->code);
            if (__builtin_expect(put_attributes(element, behind, end), 1)) return;
            structure = structure_before, values = values_before, open_ends = ends_before;
        }
        store();
        encoder.start_tag(element);
        load();
    }

    // False if they are not written in the usual way, or declare namespaces, or may be in a dictionary.
    bool put_attributes(uint32_t element, uint32_t from, uint32_t end) {
        if (has_declarations || has_values) return false;
        uint32_t attribute = attribute_begins[element];
        const auto attributes_end = static_cast<uint32_t>(d.attribute_end(element));
        number(attributes_end - attribute);
        for (; attribute < attributes_end; ++attribute) {
            const BinaryEncoder::Code* code = code_of(from + 1, attribute_names[attribute]);
            const Span& value = attribute_values[attribute];
            if (!code || value.in_decoded || value.begin != from + code->length + 3) return false;
            if (source[from] != ' ' || std::memcmp(source + value.begin - 2, "=\"", 2) != 0 || source[value.end] != '"') return false;
            number(uint64_t(code->code) << 1);
            number(value.end - value.begin);
            copy(source + value.begin, value.end - value.begin, values);
            from = value.end + 1;
        }
        return from == end;
    }

    // What stands before an end tag, and the tag. White space would make it longer.
    void close(uint32_t element) {
        const uint32_t end = ends[element];
        const BinaryEncoder::Code* code = code_of(starts[element] + 1, names[element]);
        const uint32_t tag = code ? end - code->length - 3 : 0;
        if (__builtin_expect(code && tag >= at && source[tag] == '<' && source[tag + 1] == '/', 1)) {
            segment(tag, d.text_end[element]);
            ++open_ends;
            at = end;
            return;
        }
        const auto found = static_cast<uint32_t>(encoder.source_.rfind("</", end - 1));
        segment(found, d.text_end[element]);
        at = found;
        store();
        encoder.end_tag(element);
        load();
    }

    void write() {
        std::vector<uint32_t>& open = encoder.open_;
        const auto elements = static_cast<uint32_t>(d.elements());
        uint32_t innermost_end = 0;                // where the element ends that was opened last, in elements
        for (uint32_t element = 0; element < elements; ++element) {
            while (element >= innermost_end && !open.empty()) {
                close(open.back());
                open.pop_back();
                innermost_end = open.empty() ? 0 : open.back() + d.size[open.back()];
            }
            if (element) segment(starts[element], d.text_begin[element]);
            start_tag(element);
            at = contents[element];
            if (at != ends[element]) {
                open.push_back(element);
                innermost_end = element + d.size[element];
            }
        }
        for (; !open.empty(); open.pop_back()) close(open.back());
        store();
    }
};

void BinaryEncoder::encode(const Document& document, std::string& out) {
    if (document.encoding != Encoding::utf8) {
        out.push_back(static_cast<char>(BinaryKind::original));
        out += document.original;
        return;
    }
    begin(document);
    uint32_t root = document.start[0], after = document.end[0];
    structure_.append_number(root);
    structure_.append_number(source_.size() - after);
    raw_.append(source_.substr(0, root));
    EncoderRun(*this).write();
    flush_ends();
    raw_.append(source_.substr(after));
    out.push_back(static_cast<char>(dictionary_ ? BinaryKind::with_dictionary : BinaryKind::binary));
    if (dictionary_)
        for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(dictionary_->fingerprint() >> shift));
    for (size_t size : {source_.size(), document.elements(), document.text.size(), size_t(own_names_), structure_.size(),
                        names_.size() + raw_.size(), values_.size()})
        put_varint(out, static_cast<uint32_t>(size));
    for (std::string_view part : {std::string_view(lengths_), structure_.view(), std::string_view(names_), raw_.view(), values_.view()})
        out += part;
    out += '<';
    out += texts_.view();
}

}  // namespace treecast
