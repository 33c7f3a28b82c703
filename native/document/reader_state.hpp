// What the pass and its slow paths share while a document is read. Private to the reader.
#pragma once

#include "base/failure.hpp"
#include "base/id_slots.hpp"
#include "document/characters.hpp"
#include "document/document.hpp"
#include "document/qnames.hpp"
#include "document/reader.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// An element whose end tag is still to come.
struct OpenElement {
    uint32_t element;
    uint32_t name_length;          // of its name as spelled; the name itself follows the '<'
    uint32_t scope;                // how many bindings were hidden before it
};

enum class NamePlace { element, attribute };

// A text node under construction: a slice of the source as long as that is possible, decoded text after that.
struct TextBuilder {
    std::string& decoded;
    const char* const base;
    uint32_t begin = 0, end = 0;       // of the source, or of `decoded`
    bool in_decoded = false;

    void add(const char* from, const char* to) {
        if (from == to) return;
        auto b = static_cast<uint32_t>(from - base), e = static_cast<uint32_t>(to - base);
        if (!in_decoded && begin == end) {
            begin = b, end = e;
        } else if (!in_decoded && end == b) {
            end = e;
        } else {
            text().append(from, static_cast<size_t>(to - from));
        }
    }
    std::string& text() {              // where decoded characters go
        if (!in_decoded) {
            auto at = static_cast<uint32_t>(decoded.size());
            decoded.append(base + begin, end - begin);
            begin = at;
            in_decoded = true;
        }
        return decoded;
    }
    Span span() const { return {begin, in_decoded ? static_cast<uint32_t>(decoded.size()) : end, in_decoded}; }
};

// Thrown where names_max is met while the tables still hold names of earlier documents: nobody knows yet whether this one has too many.
struct NamesFull {};

struct ReaderState {
    ReaderState(const Limits& limits, std::shared_ptr<const Entities> entities);

    Limits limits;
    std::shared_ptr<const Entities> entities;
    Document document;
    NameTable names;
    QNames qnames;
    Column<OpenElement> open;
    Column<char> buffer;               // the text, padded
    std::string transcoded;
    const char* base = nullptr;        // the text in `buffer`
    const char* end = nullptr;         // a NUL stands there
    bool has_earlier_names = false;    // in the tables, of documents before this one
    const char* looked_at = nullptr;   // how far look_ahead() has come
    uint64_t stamp = 0;                // of the element whose attributes are being read; never reused

    // Namespaces in scope. The prefixes 0, 1 and 2 are "", "xml" and "xmlns".
    struct Hidden { uint32_t prefix, uri; };
    struct Declaration { uint32_t prefix; const char* at; Span value; };
    struct Prefixed { uint32_t attribute; QName* name; const char* at; };
    std::vector<uint32_t> prefix_uri;          // by prefix; `unresolved` if unbound
    std::vector<std::string_view> prefixes;    // their names
    IdSlots prefix_slots;
    StringArena prefix_names;
    std::vector<Hidden> hidden;                // bindings to restore
    std::vector<Declaration> declarations;     // of the element being read
    std::vector<Prefixed> prefixed;
    std::vector<uint64_t> name_stamps;         // by name id: the last element with such a prefixed attribute

    // Of binary forms: their strings, padded, and what their numbers of names mean.
    Column<char> strings;
    std::vector<QName*> own_names;             // of the document
    Column<const QName*> open_names;           // of open elements
    std::vector<QName*> dictionary_names;      // null: not looked up yet
    uint64_t dictionary_serial = 0, dictionary_generation = 0;

    void begin_document(bool forget_names = false);
    void reset_names();
    static constexpr uint32_t elements_per_pause = 1u << 14;
    void pause();                      // after so many elements: the call may have been interrupted

    // reader_prolog.cpp: everything before the '<' of the root element, and after its end.
    const char* prolog();
    void epilog(const char* at);
    const char* comment(const char* at);                    // each returns where it ends
    const char* instruction(const char* at);

    // reader_state.cpp: the rare cases of the pass.
    const char* scan_name(const char* at, const char* what);
    QName* learn_name(const char* at, NamePlace place);
    QName* name_of_text(std::string_view name);             // that is known to be UTF-8
    const char* reference(const char* at, std::string& out, bool in_attribute);
    const char* cdata(const char* at, TextBuilder& text);
    const char* equals_sign(const char* at);                // returns the opening quote
    const char* end_tag(const char* at, uint32_t element, uint32_t name_length);
    void attribute_met(QName& name, const char* at, Span value, uint32_t attribute);
    uint32_t plain_attribute(QName& name, const char* at);
    void resolve_attributes(uint32_t* attribute_names, uint32_t element);
    uint32_t element_name(QName& name, const char* at);
    void restore_bindings(uint32_t scope);

    // Failures. `unexpected` and similar functions report a document that ends too soon if `at` is its end.
    [[noreturn]] void fail(const char* code, const char* at, std::string_view message, std::string_view hint = {});
    [[noreturn]] void unexpected(const char* at, std::string_view message, std::string_view hint = {});
    [[noreturn]] void too_many(const char* code, const char* at, const char* what, const char* limit, uint64_t value);
    [[noreturn]] void too_deep(const char* at);
    [[noreturn]] void too_many_attributes(const char* at);
    [[noreturn]] void value_too_long(const char* at);
    [[noreturn]] void attribute_twice(const QName& name, const char* at);
    [[noreturn]] void open_at_end(uint32_t element);
    std::string shown(const char* from, const char* to) const;   // an excerpt for a message

private:
    uint32_t prefix_id(std::string_view prefix);
    void check_qname(std::string_view name, const char* at);
    bool has_too_many_names() const;
    void check_names(const char* at);
    void look_ahead(const char* at);
    void bind(const Declaration& declared, uint32_t element);
    const char* doctype(const char* at);
    const char* internal_subset(const char* at);
    const char* literal(const char* at, bool pubid);
    const char* skip_spaces(const char* at) const;
    const char* expect(const char* at, std::string_view text, const char* message);
};

// The failure for a document with a DTD, and a search for one in a prolog that is broken otherwise. The search returns the
// offset of the first declaration, or npos. A message about the DTD is more useful than one about a mistake before it.
Failure brings_dtd(size_t offset);
size_t find_dtd(std::string_view text);

// The pass: from the '<' of the root element to its end. Two builds of reader_pass.hpp.
namespace level_scalar { const char* read_content(ReaderState& state, const char* root); }
namespace level_avx2 { const char* read_content(ReaderState& state, const char* root); }

// The same for a binary form: writes the text into `buffer`, and returns where it ends. Two builds of binary_pass.hpp.
struct BinaryForm;
class WireDictionary;
namespace level_scalar { const char* read_binary(ReaderState& state, const BinaryForm& form, const WireDictionary* dictionary); }
namespace level_avx2 { const char* read_binary(ReaderState& state, const BinaryForm& form, const WireDictionary* dictionary); }

}  // namespace treecast
