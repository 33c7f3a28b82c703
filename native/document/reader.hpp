// bytes -> Document. One Reader per thread; its buffers and names are reused from document to document.
//
// What it accepts is XML 1.0 (fifth edition) with Namespaces 1.0, read without a DTD. What it refuses:
//
//   TC201  the markup is wrong                     TC301  more than document_bytes_max
//   TC202  an end tag does not match               TC302  deeper than depth_max
//   TC203  a character that XML does not allow     TC303  more than attributes_max on one element
//   TC204  the encoding is not accepted, is not    TC304  a name longer than name_bytes_max
//          the declared one, or is broken          TC305  an attribute longer than attribute_bytes_max
//   TC205  a DTD in the document                   TC309  more than names_max distinct names
//   TC206  an entity that nobody declared
//   TC207  namespaces are used wrongly
//   TC208  an attribute occurs twice
//   TC209  the document is empty or ends too soon
//
// Errors come in document order: of two, the one at the lower offset is reported. Only TC205 goes before others in the
// prolog, so that a document with a DTD in it is always called that.
//
// How it works. survey.cpp checks the characters and copies the text into a padded buffer. reader_pass.hpp walks it
// once: tags, attributes and plain text by SIMD (compiled twice, for AVX2 and portably), with everything rare handed to
// reader_state.cpp (references, CDATA, comments, new names, namespaces) and reader_prolog.cpp (what surrounds the root).
#pragma once

#include "base/seeded_hash.hpp"
#include "document/document.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace treecast {

// Replacement texts for entity references that the document does not declare (nothing it declares is ever read).
using Entities = TextMap<std::string>;

struct Failure;
class WireDictionary;

// Both throw std::invalid_argument where a limit is out of range, or an entity is no name or no text.
void check_limits(const Limits& limits);
void check_entities(const Entities& entities);

class Reader {
public:
    // Checks what it is given by the two above.
    explicit Reader(Limits limits = {}, std::shared_ptr<const Entities> entities = nullptr);
    ~Reader();
    Reader(Reader&&) noexcept;
    Reader& operator=(Reader&&) noexcept;
    // The bytes must outlive the Document. Throws Failure (Family::document) and leaves no half-read document.
    const Document& read(std::string_view bytes);
    // The same for the binary form of a document (binary.hpp). Its text belongs to the Reader, until the next call.
    const Document& decode(std::string_view bytes, const WireDictionary* dictionary = nullptr);
    // Other limits and entities from now on, which have been checked. `name_bytes_max` stays, because known names are not
    // measured again.
    void use(const Limits& limits, std::shared_ptr<const Entities> entities);
    const NameTable& names() const;
    const Limits& limits() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// What read() throws for a document of more than limits.document_bytes_max; for callers that buffer chunks.
Failure document_too_long(const Limits& limits);

constexpr uint64_t document_bytes_most = (1ull << 32) - (1ull << 20);   // offsets have 32 bits
constexpr uint32_t depth_most = 65535;                                  // depths have 16

}  // namespace treecast
