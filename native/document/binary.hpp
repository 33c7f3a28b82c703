// The binary form of a document: what travels between brokers, and is read into columns without being parsed.
//
// What it keeps. Everything: the text that a document was read from comes out byte for byte. Names are numbers; tags that are
// written as most are, <a b="c"> or <a/> and </a>, are those numbers; plain texts and values are lengths. All else stands as it
// was written, and is read as text: tags with other white space or quotes, values and texts with references or carriage
// returns, CDATA, comments, instructions, and what surrounds the root. A document in another encoding than UTF-8 stands there
// as a whole.
//
//     kind         1 byte: 0 the original bytes follow, 1 binary, 2 binary with a dictionary
//     dictionary   4 bytes, kind 2 only: its fingerprint
//     sizes        numbers: text, elements, texts, names, structure, raw, values (the rest is for texts)
//     names        numbers: the length of each name that the dictionary has not
//     structure    tokens
//     strings      names, raw pieces | values | '<' | texts: each section in the order in which tokens take from it
//
// Numbers have seven bits a byte, lowest first. The structure begins with the lengths of the raw pieces before and after the
// root. A token is a number; its lowest three bits say what it is, the others are its argument:
//
//     0  the ends of so many elements, and of one more      4  a start tag with attributes, of that name
//     1  a text of that length                              5  an empty tag with attributes, of that name
//     2  a start tag of that name                           6  content as it was written, of that length
//     3  an empty tag of that name                          7  a tag as it was written: an end tag if the argument is odd,
//                                                              and half of the argument is its length
//
// After 4 and 5 comes the number of attributes. Each is 2 * name and the length of its value, or 2 * name + 1 and the number of
// its value in the dictionary. Names count through the dictionary first, then through the document's own.
//
// What is checked. Whoever reads it trusts nothing: all that the reader checks is checked here too, with the same code, so that
// the document is one that the text would have given. Texts and values have sections of their own because one look at each
// finds out that there is no markup in them.
//
//   TC211  the binary form is broken, or its dictionary is another one
#pragma once

#include "base/seeded_hash.hpp"
#include "document/document.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

enum class BinaryKind : uint8_t { original, binary, with_dictionary };

enum class BinaryToken : uint8_t { ends, text, start, empty, start_attributes, empty_attributes, content, tag };
constexpr unsigned token_bits = 3;

constexpr size_t dictionary_names_max = 1u << 14, dictionary_values_max = 1u << 14, dictionary_value_bytes_max = 64;

// Names as documents spell them, and values of attributes, that both ends of a link know by number. It never changes.
class WireDictionary {
public:
    // Throws std::invalid_argument for what is no name, or no plain value, or too many of either. Repeated ones too.
    WireDictionary(std::vector<std::string> names, std::vector<std::string> values, uint32_t fingerprint);
    size_t names() const { return names_.size(); }
    size_t values() const { return values_.size(); }
    std::string_view name(size_t number) const { return names_[number]; }
    std::string_view value(size_t number) const { return values_[number]; }
    uint32_t find_name(std::string_view name) const { return find(name_numbers_, name); }       // `none`: it has no such name
    uint32_t find_value(std::string_view value) const {
        return value.size() > dictionary_value_bytes_max ? none : find(value_numbers_, value);
    }
    uint32_t fingerprint() const { return fingerprint_; }
    uint64_t serial() const { return serial_; }             // no two of a process have the same

private:
    static uint32_t find(const TextMap<uint32_t>& numbers, std::string_view text) {
        auto found = numbers.find(text);
        return found == numbers.end() ? none : found->second;
    }
    const std::vector<std::string> names_, values_;
    TextMap<uint32_t> name_numbers_, value_numbers_;
    const uint32_t fingerprint_;
    const uint64_t serial_;
};

// Documents -> binary. One per thread; keeps scratch between documents.
class BinaryEncoder {
public:
    explicit BinaryEncoder(const WireDictionary* dictionary = nullptr) : dictionary_(dictionary) {}
    void encode(const Document& document, std::string& out);        // appends

private:
    void begin(const Document& document);
    void segment(uint32_t begin, uint32_t end, uint32_t texts_end);
    void start_tag(uint32_t element);
    bool put_attributes(uint32_t element, uint32_t at, uint32_t end);
    void end_tag(uint32_t element);
    void flush_ends();
    void token(BinaryToken kind, uint64_t argument);
    std::string_view spelled(uint32_t at, uint32_t name) const;
    uint32_t code_of(std::string_view spelled, uint32_t name);
    uint32_t learn(std::string_view spelled);
    void make_room(const Document& document);
    friend struct EncoderRun;

    // Bytes with room for all that a document can put there.
    class Section {
    public:
        void reserve(size_t bytes) {
            if (room_.size() < bytes) room_.resize(bytes + bytes / 4);
            end_ = room_.data();
        }
        char* end() const { return end_; }
        void set_end(char* end) { end_ = end; }
        size_t size() const { return static_cast<size_t>(end_ - room_.data()); }
        void cut(size_t size) { end_ = room_.data() + size; }
        void append(std::string_view bytes) { end_ = std::copy(bytes.begin(), bytes.end(), end_); }
        void append_number(uint64_t value) {
            for (; value >= 0x80; value >>= 7) *end_++ = static_cast<char>(value | 0x80);
            *end_++ = static_cast<char>(value);
        }
        std::string_view view() const { return {room_.data(), size()}; }

    private:
        std::vector<char> room_;
        char* end_ = nullptr;
    };

    const WireDictionary* const dictionary_;
    const Document* document_ = nullptr;
    std::string_view source_;
    std::string lengths_, names_;
    Section structure_, raw_, values_, texts_;
    std::vector<uint32_t> open_;
    uint32_t at_ = 0;                    // how far the source has been written
    uint32_t text_ = 0;                  // the next text
    uint32_t declaration_ = 0;           // the next declaration of a namespace
    uint32_t ends_ = 0;                  // end tags that are not yet written
    uint32_t own_names_ = 0;
    TextMap<uint32_t> own_codes_;        // names of this document
    // Numbers of names without a prefix, by the document's own: those of the dictionary hold as long as its table does.
    struct Code {
        uint64_t document = 0;           // in which it holds; always, if this is `forever`
        uint32_t code = 0;
        uint32_t length = 0;             // of the name
    };
    static constexpr uint64_t forever = ~0ull;
    std::vector<Code> codes_;
    const NameTable* table_ = nullptr;
    uint64_t generation_ = 0, documents_ = 0;
};

// Names as a document spells them, and plain values of its attributes, with how often they occur: what a dictionary is made of.
struct WireCounts {
    TextMap<uint32_t> names, values;
};
void count_spelled(const Document& document, WireCounts& counts);

// The parts of a binary form, checked only as far as it takes to find them.
struct BinaryForm {
    std::string_view whole;
    BinaryKind kind = BinaryKind::original;
    std::string_view text;               // of `original`
    uint32_t fingerprint = 0;
    uint32_t text_bytes = 0, elements = 0, texts = 0, names = 0;
    const unsigned char* structure = nullptr;      // lengths of names, then tokens
    const unsigned char* structure_end = nullptr;
    std::string_view strings;
    uint32_t raw_bytes = 0, value_bytes = 0;
};

BinaryForm parse_binary(std::string_view bytes);
[[noreturn]] void refuse_binary(const char* why, size_t position = 0);

}  // namespace treecast
