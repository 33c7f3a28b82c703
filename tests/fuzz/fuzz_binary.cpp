// Invariant: any bytes, taken as the binary form of a document, give a Document that is what reading its text gives, or a
// Failure of the document family with a code; the portable pass and the AVX2 pass give the same; and what was read and encoded
// decodes to the same text. The first byte of the input says whether the rest is a form or a text to be encoded.
#include "base/cpu.hpp"
#include "base/failure.hpp"
#include "document/binary.hpp"
#include "document/reader.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

using namespace treecast;

namespace {

void demand(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "the invariant is broken: %s\n", what);
    std::abort();
}

// Everything that a Document says, as one string.
std::string account(const Document& d) {
    std::string out(d.source);
    auto say = [&out](std::string_view text) { out.append(text).push_back('\x1F'); };
    auto number = [&out](uint64_t value) { out.append(std::to_string(value)).push_back(' '); };
    for (size_t i = 0; i < d.elements(); ++i) {
        say(d.names->uri(d.name[i])), say(d.names->local(d.name[i]));
        number(d.parent[i]), number(d.size[i]), number(d.start[i]), number(d.content[i]), number(d.end[i]);
        number(d.depth[i]), number(d.text_begin[i]), number(d.text_end[i]);
        for (size_t a = d.attribute_begin[i]; a < d.attribute_end(i); ++a)
            say(d.names->uri(d.attribute_name[a])), say(d.names->local(d.attribute_name[a])), say(d.value(d.attribute_value[a]));
    }
    for (size_t t = 0; t < d.text.size(); ++t) say(d.value(d.text[t])), number(d.text_parent[t]);
    for (size_t i = 0; i < d.declarations.size(); ++i) number(d.declarations[i].element), number(d.declarations[i].prefix_begin);
    return out;
}

// What a form is, or the code that refuses it.
std::string decoded(Reader& reader, std::string_view form, const WireDictionary* dictionary) {
    try {
        return account(reader.decode(form, dictionary));
    } catch (const Failure& failure) {
        demand(failure.family == Family::document && !failure.code.empty(), "failure");
        return failure.code + failure.message;
    }
}

Limits small() {
    Limits limits;
    limits.document_bytes_max = 3000;
    limits.depth_max = 20;
    limits.attributes_max = 8;
    limits.name_bytes_max = 80;
    limits.attribute_bytes_max = 200;
    return limits;
}

void check_form(std::string_view form, const WireDictionary* dictionary) {
    static Reader reader(small()), plain(small());
    simd_force(0);
    std::string scalar = decoded(reader, form, dictionary);
    simd_force(1);
    demand(decoded(reader, form, dictionary) == scalar, "both passes agree");
    if (scalar.starts_with("TC")) return;
    std::string text;
    try {
        text = reader.decode(form, dictionary).original;
    } catch (const Failure&) {
        return;
    }
    try {
        demand(account(plain.read(text)) == scalar, "the text gives the same document");
    } catch (const Failure&) {
        demand(false, "the text is a document");
    }
}

void check_text(std::string_view text, const WireDictionary* dictionary) {
    static Reader reader(small()), receiver(small());
    std::string form, expected;
    try {
        const Document& read = reader.read(text);
        expected = account(read);
        BinaryEncoder(dictionary).encode(read, form);
    } catch (const Failure&) {
        return;
    }
    demand(decoded(receiver, form, dictionary) == expected, "what was encoded decodes to the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (!size) return 0;
    static const WireDictionary dictionary({"a", "b", "p:c", "xmlns", "xmlns:p"}, {"1", "one", "urn:x"}, 0x61616161);
    std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
    const WireDictionary* known = data[0] & 1 ? &dictionary : nullptr;
    if (data[0] & 2) check_text(bytes, known);
    else check_form(bytes, known);
    return 0;
}
