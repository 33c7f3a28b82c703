// Binary form -> Document: finds the parts, surveys the strings, and leaves the rest to the pass (binary_pass.hpp).
#include "document/binary.hpp"

#include "base/cpu.hpp"
#include "base/failure.hpp"
#include "document/encoding.hpp"
#include "document/reader_state.hpp"
#include "document/survey.hpp"

#include <algorithm>

namespace treecast {

void refuse_binary(const char* why, size_t position) {
    Failure failure(Family::document, "TC211", std::string("the binary form of a document is broken: ") + why, position);
    failure.hint = "it was damaged on the way, or the sender made it with another dictionary or version";
    throw failure;
}

namespace {

struct FormHeader {
    std::string_view bytes;
    size_t at = 0;

    uint32_t number() {
        uint64_t value = 0;
        for (int shift = 0; shift < 35; shift += 7) {
            if (at == bytes.size()) refuse_binary("it ends too soon", at);
            auto byte = static_cast<unsigned char>(bytes[at++]);
            value |= uint64_t(byte & 0x7F) << shift;
            if (byte >= 0x80) continue;
            if (value > 0xFFFFFFFFu) break;
            return static_cast<uint32_t>(value);
        }
        refuse_binary("a number is too large", at);
    }
};

}  // namespace

BinaryForm parse_binary(std::string_view bytes) {
    BinaryForm form;
    form.whole = bytes;
    if (bytes.empty()) refuse_binary("it is empty");
    FormHeader header{bytes, 1};
    if (bytes[0] == static_cast<char>(BinaryKind::original)) {
        form.text = bytes.substr(1);
        return form;
    }
    if (bytes[0] != static_cast<char>(BinaryKind::binary) && bytes[0] != static_cast<char>(BinaryKind::with_dictionary))
        refuse_binary("it is of an unknown kind");
    form.kind = static_cast<BinaryKind>(bytes[0]);
    if (form.kind == BinaryKind::with_dictionary) {
        if (bytes.size() < 5) refuse_binary("it ends too soon", bytes.size());
        for (; header.at < 5; ++header.at)
            form.fingerprint |= uint32_t(static_cast<unsigned char>(bytes[header.at])) << (8 * (header.at - 1));
    }
    form.text_bytes = header.number();
    form.elements = header.number();
    form.texts = header.number();
    form.names = header.number();
    uint32_t tokens = header.number();
    form.raw_bytes = header.number();
    form.value_bytes = header.number();
    // Lengths of names stand before the tokens; each takes a byte at least, so that much may be allocated for them.
    size_t begin = header.at;
    for (uint32_t i = 0; i < form.names; ++i) header.number();
    form.structure = reinterpret_cast<const unsigned char*>(bytes.data() + begin);
    if (tokens > bytes.size() - header.at) refuse_binary("it ends too soon", bytes.size());
    form.structure_end = reinterpret_cast<const unsigned char*>(bytes.data() + header.at + tokens);
    form.strings = bytes.substr(header.at + tokens);
    if (uint64_t(form.raw_bytes) + form.value_bytes + 1 > form.strings.size()) refuse_binary("it ends too soon", bytes.size());
    // Every element, and every text that is not in a piece as it was written, has a token.
    if (form.elements > tokens || form.texts > uint64_t(tokens) + form.raw_bytes)
        refuse_binary("it says that there is more in it than there can be");
    return form;
}

}  // namespace treecast
