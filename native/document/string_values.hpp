// Answers questions about the string values of elements without building them.
//
// The value of an element is a run of the document's texts, one after the other. So the values of its ancestors contain it.
// Building or searching each of them would read the same text once for every ancestor.
// Here all values are parts of one long text, the texts of the document, which stays where it is:
//
//   contains()     searches a value in place. Once that has read about as much as there is, one pass over all texts records
//                  where the next occurrence begins, for each text. A value that begins with that text contains the literal
//                  if that occurrence ends in time.
//   number()       needs only the few characters between white space. Where white space ends is recorded in the same way.
//   equals(), starts_with()   read no more than they compare with.
//
// The search is that of Knuth, Morris and Pratt, continued from text to text: linear whatever the text and the literal are.
#pragma once

#include "document/document.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// For one document at a time; not thread-safe.
class StringValues {
public:
    struct Texts {                       // consecutive ones, by their numbers
        uint32_t begin = 0, end = 0;
    };

    void begin(const Document& document);            // cheap
    // From now on the keys stand for other literals; cheap.
    void forget_literals() { ++stamp_; }

    // `key` identifies the literal: a small number.
    bool contains(Texts texts, std::string_view literal, uint32_t key);
    bool contains(std::string_view text, std::string_view literal, uint32_t key);
    bool equals(Texts texts, std::string_view literal);
    bool starts_with(Texts texts, std::string_view beginning);
    double number(Texts texts);
    uint64_t offset(uint32_t text);                  // bytes of all texts before this one

    // The cost of the answers since the last call: each text is one step, and so is each 32 bytes read.
    uint64_t take_work();

private:
    // What is known about one literal.
    struct Search {
        uint64_t stamp = 0, bytes = 0;               // bytes read for this literal so far
        uint32_t table = none;
        std::vector<uint32_t> fallback;              // by length of what matched; empty: not there yet
    };
    // For one literal, where it occurs next. Tables are shared by all literals within a memory limit.
    struct Table {
        uint64_t stamp = 0;
        uint32_t key = none;                         // whose it is
        std::vector<uint64_t> next;                  // by text: where the next occurrence begins; `nowhere`
    };
    static constexpr uint64_t nowhere = ~0ull;

    std::string_view piece(uint32_t text) const { return document_->value(document_->text[text]); }
    void find_offsets();
    void find_dark();
    bool gather(Texts texts);
    Search& search(uint32_t key);
    void prepare(Search& search, std::string_view literal);
    uint32_t take_table(uint32_t key);
    void fill_table(Search& search, std::string_view literal, std::vector<uint64_t>& next);
    // Calls visit(end) where an occurrence ends, until it returns true. `end` counts within the piece.
    // `matched` carries over from piece to piece.
    template <class Visit>
    static bool scan(const Search& search, std::string_view literal, std::string_view piece, uint32_t& matched, Visit&& visit);

    const Document* document_ = nullptr;
    uint64_t stamp_ = 1, bytes_ = 0, texts_ = 0;     // the last two: work that was not taken
    bool offsets_found_ = false, dark_found_ = false;
    std::vector<uint64_t> offsets_;                  // by text, and the end of all
    std::vector<uint64_t> first_dark_, last_dark_;   // by text: the first byte from it on, behind the last one before it, that is no space
    std::vector<Search> searches_;                   // by key
    std::vector<Table> tables_;
    uint32_t next_table_ = 0;
    std::string buffer_;
};

}  // namespace treecast
