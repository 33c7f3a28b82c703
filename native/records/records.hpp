// Large files of records: each record of a file, as a document of its own.
//
// A record is an element: every child of the root, or the outermost elements of given names. Its document is the bytes
// from its start tag to its end tag in UTF-8, plus two things that it would lose by standing alone: the namespaces that
// its ancestors declare are declared again on its start tag (unless it does so itself), and references to the entities
// given are replaced by their text. Attributes of ancestors, xml:lang and its like among them, are not carried over: a
// query would take them for the record's own.
//
// How it works. A scanner goes from '<' to '<' by memchr and tells tags, comments, CDATA, instructions and the DOCTYPE
// apart; it keeps the names of the open elements, so an end tag that does not match is found, and nested elements of a
// record's name are its content. Bytes arrive in pieces of any size: the scanner stops where they end and goes on there,
// never back, so time is linear. Only the record at hand is kept; one over the limit is scanned and dropped.
//
// Cutting in parallel. Whether a '<' in the middle of a file begins a tag depends on everything before it, so a byte range
// alone does not tell its records. A planning run therefore goes over the file once with the same scanner, keeping
// nothing, and notes at the first record after each multiple of the wanted size what is known there: the offset, the
// number of the record, the open elements and namespaces. A splitter resumes from such a cut and stops at the next one,
// so whatever the size, the parts together give every record once, and exactly those of one run.
//
// A file that breaks off or is not well-formed between its records gives the records before, then one row with what is
// wrong:
//
//   TC201  the markup is wrong                     TC302  elements nested too deep to follow
//   TC202  an end tag does not match               TC303  more namespaces in scope than records may declare
//   TC204  the encoding is not accepted            TC304  a name that is too long
//   TC205  a DTD in the file                       TC305  a start tag outside records that is too long
//   TC209  the file is empty or ends too soon     TC306  far more namespace declarations in records than file
//
// A record over the limit is a row with TC301, and the rest goes on. What is wrong inside a record alone (characters,
// references, attributes) is found by its reader.
#pragma once

#include "base/failure.hpp"
#include "document/reader.hpp"
#include "records/records_text.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

constexpr uint64_t record_bytes_most = 1ull << 30;   // a column of records has 32-bit offsets
constexpr uint64_t whole_file = ~0ull;

struct RecordOptions {
    std::vector<std::string> names;        // of the records, as spelled in their tags; none: every child of the root
    uint64_t record_bytes_max = 64ull << 20;
    std::shared_ptr<const Entities> entities;
};

// Records in the layout of Arrow. A row without a document is in `refused`.
struct RecordRows {
    struct Refused {
        size_t row;
        Failure failure;
    };
    std::string data;
    std::vector<int32_t> ends;             // where the document of each row ends in `data`
    std::vector<int64_t> offsets, ordinals;   // -1: what is refused is no record
    std::vector<Refused> refused;
    size_t bytes() const { return data.size() + ends.size() * 32; }   // roughly, with the columns beside
    void add(uint64_t offset, int64_t ordinal);
};

// Where a part of a file begins: `state` is all that a splitter needs to go on from there.
struct RecordCut {
    uint64_t offset, ordinal;
    std::string state;
};

class RecordSplitter {
public:
    // From the start of a file, or from a cut; no record that starts at `stop` or later is given.
    explicit RecordSplitter(RecordOptions options, std::string_view state = {}, uint64_t stop = whole_file);
    // A planning run: gives no rows, but a cut at the first record at least `part_bytes` after the last.
    static RecordSplitter planning(RecordOptions options, uint64_t part_bytes);

    void feed(std::string_view bytes);
    void finish();                         // no more will be fed
    // Scans what was fed until the rows have `rows_bytes` or more; false when it has all been scanned.
    bool scan(size_t rows_bytes);
    bool done() const { return done_; }    // whatever is fed further will be ignored
    RecordRows& rows() { return rows_; }
    const std::vector<RecordCut>& cuts() const { return cuts_; }

private:
    enum class Place : uint8_t {
        text, comment, cdata, instruction, doctype, doctype_quote, subset, tag_name, tag, quoted, end_tag
    };
    struct Binding {
        size_t depth;                      // of the element that declares it
        std::string prefix, value;         // the value with its quotes
    };
    static constexpr size_t nowhere = ~size_t{0};

    // Each goes on from at_ and returns false where it needs more text than there is.
    bool step();
    bool step_text();
    bool step_declaration();
    bool step_comment();
    bool step_instruction();
    bool step_until(std::string_view end, Place next);
    bool step_doctype();
    bool step_subset();
    bool step_tag_name();
    bool step_tag();
    bool step_quoted();
    bool step_end_tag();

    bool awaits(std::string_view wanted) const;
    bool in_record() const { return record_ != nowhere; }
    bool outside_root() const { return lengths_.empty(); }
    void open_element(std::string_view name);
    void close_element(size_t end);
    void tag_closed(size_t end, bool empty);
    void learn_namespaces(std::string_view inside, size_t at);
    void gather_inherited();
    void begin_record(size_t name_bytes);
    void count_inherited();
    void end_record(size_t end);
    void compose(size_t end);
    void append_inherited(std::string_view tag);
    void release();
    void refuse_file(Failure failure);
    void ended();
    std::string_view top() const;
    std::string save();
    void restore(std::string_view state);
    [[noreturn]] void fail(const char* code, size_t index, std::string message, std::string hint = {});

    RecordOptions options_;
    uint64_t stop_ = whole_file, part_bytes_ = 0;   // part_bytes_: of a planning run
    RecordText input_;
    Place place_ = Place::text;
    Place after_note_ = Place::text;       // where a comment or instruction leads back to
    size_t at_ = 0, token_ = 0;            // of the text: scanned so far; where the tag or note at hand began
    char quote_ = 0;
    bool root_seen_ = false, doctype_seen_ = false, subset_seen_ = false, finished_ = false, done_ = false;

    std::string names_;                    // of the open elements, one after the other
    std::vector<uint32_t> lengths_;
    std::vector<Binding> bindings_;        // of the open elements outside records
    std::vector<std::pair<std::string, std::string>> inherited_;   // prefix -> declaration, ready to be inserted
    std::string inherited_text_;           // all of them

    size_t record_ = nowhere;              // where the record at hand began in the text
    size_t record_depth_ = 0, record_name_bytes_ = 0, record_tag_bytes_ = 0;
    uint64_t record_offset_ = 0, ordinal_ = 0, cut_offset_ = 0;
    uint64_t inherited_bytes_ = 0;         // of declarations in the records so far
    bool dropped_ = false;                 // the record at hand is not kept
    RecordRows rows_;
    std::vector<RecordCut> cuts_;
};

}  // namespace treecast
