// Documents that stay: read once, then routed, transformed, matched and rendered by any number of indexes and threads.
//
// A Reader has one document at a time. A KeptDocument is a copy of its columns, in one block, with its names in a table that
// never changes. Readers are lent from a pool of the process, so that documents that are read one after the other have one table
// of names: what an index has learnt about names then holds for all of them.
//
// The table. Copying it costs time for each name in it, so it is copied only once documents with as many elements have been read
// since the last time; a document with new names that comes before gets a small table of its own. So the cost is linear in
// what is read, whatever names strangers invent.
#pragma once

#include "document/document.hpp"
#include "document/reader.hpp"

#include <memory>
#include <string_view>

namespace treecast {

class KeptDocument {
public:
    const Document& document() const { return document_; }

private:
    friend class KeptReader;
    Document document_;
    std::unique_ptr<char[]> memory_;
    std::shared_ptr<const NameTable> names_;
};

// What is to be matched: bytes, or a document that has been read.
struct GivenDocument {
    std::string_view bytes;
    const Document* read = nullptr;
};

class KeptReader {
public:
    explicit KeptReader(const Limits& limits) : reader_(limits) {}
    void use(const Limits& limits, std::shared_ptr<const Entities> entities) { reader_.use(limits, std::move(entities)); }
    const Limits& limits() const { return reader_.limits(); }
    // The bytes must outlive the document. Throws Failure.
    std::unique_ptr<KeptDocument> read(std::string_view bytes) { return keep(reader_.read(bytes), false); }
    // The bytes may go; they are no document as it was given (BinaryKind::original).
    std::unique_ptr<KeptDocument> decode(std::string_view bytes, const WireDictionary* dictionary) {
        return keep(reader_.decode(bytes, dictionary), true);
    }

    // For whoever may not keep it: a document that is valid until the next call. Of binary, with its kind, or of text.
    const Document& look(std::string_view bytes, const WireDictionary* dictionary) { return reader_.decode(bytes, dictionary); }
    const Document& look(std::string_view text) { return reader_.read(text); }
    // What was looked at last, kept after all. `copies_text`: it was binary, or its bytes go.
    std::unique_ptr<KeptDocument> keep(const Document& read, bool copies_text);

private:
    void freeze_names(KeptDocument& kept);

    Reader reader_;
    std::shared_ptr<const NameTable> names_;       // a copy of the reader's
    uint64_t generation_ = 0;                      // of the reader's table when it was copied
    uint64_t credit_ = 0;                          // elements and attributes since then
};

// A reader of the pool, for as long as this lives.
class LentReader {
public:
    LentReader(const Limits& limits, std::shared_ptr<const Entities> entities);
    ~LentReader();
    LentReader(const LentReader&) = delete;
    KeptReader* operator->() { return reader_.get(); }
    KeptReader& operator*() { return *reader_; }
    void keep() { kept_ = true; }                  // it may be used again: nothing but Failures was thrown

private:
    std::unique_ptr<KeptReader> reader_;
    bool kept_ = false;
};

}  // namespace treecast
