// The text that records are cut from: bytes in any accepted encoding become UTF-8 piece by piece, and any place in the
// text can be told as an offset into the bytes given. Also what becomes of entity references in a record.
//
// Bytes that mean nothing in their encoding do not stop the text: they become bytes that are no UTF-8 (0xFF, or a lone
// surrogate spelled like any other character), so the record they are in is refused when it is read, and only that one.
#pragma once

#include "document/document.hpp"
#include "document/reader.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace treecast {

class RecordText {
public:
    // From the start of a file, whose first bytes tell the encoding …
    RecordText() = default;
    // … or from anywhere in it, where the encoding is known.
    RecordText(Encoding encoding, uint64_t offset)
        : opened_(true), encoding_(encoding), mark_offset_(offset), given_(offset) {}

    // Takes the next bytes. Throws Failure where the encoding is not accepted.
    void feed(std::string_view bytes);
    // No more will come. Throws Failure where the bytes end inside a character.
    void finish();
    bool opened() const { return opened_; }
    Encoding encoding() const { return encoding_; }
    std::string_view text() const { return text_; }
    // Where text()[index] lies in the bytes given. Cheap as long as the indices asked for do not go back.
    uint64_t offset_of(size_t index);
    // Forgets the first `count` bytes of the text.
    void drop(size_t count);
    uint64_t bytes_given() const { return given_; }   // from the start of the file

private:
    bool open(bool finished);
    void append(std::string_view bytes);
    size_t append_utf16(std::string_view bytes);
    void append_single(std::string_view bytes);
    uint64_t units(size_t from, size_t to) const;

    bool opened_ = false;
    Encoding encoding_ = Encoding::utf8;
    std::string text_;
    std::string pending_;              // bytes not yet decoded: the first few of a file, or part of a character
    size_t mark_index_ = 0;            // text_[mark_index_] is at mark_offset_ of the bytes given
    uint64_t mark_offset_ = 0;
    uint64_t given_ = 0;
};

// Calls `found` with the prefix ("" for the default) and the quoted value of each namespace declaration in a start tag,
// `inside` being what stands between its name and its end. Returns where the attributes stop making sense, or npos.
size_t each_declaration(std::string_view inside, const std::function<void(std::string_view, std::string_view)>& found);

// Appends the text of a record, or of a quoted value, with each reference to one of `entities` replaced by its text,
// written so that it reads as in place of the reference. Stops once `out` has more than `bytes_max`.
void append_expanded(std::string_view record, const Entities& entities, size_t bytes_max, std::string& out);
void append_expanded_value(std::string_view value, const Entities& entities, size_t bytes_max, std::string& out);

}  // namespace treecast
