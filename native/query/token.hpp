// The characters of a query: white space, names, literals, numbers, and the check that the text can be read at all.
//
// There is no token list. XPath 1.0 distinguishes `*` the wildcard from `*` the operator, and the element `and` from the
// operator `and`, by what comes before. A parser that asks for a step or an operator knows that already, so it scans in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace treecast {

// A range of the query text, in bytes.
struct Slice {
    uint32_t begin = 0, size = 0;
    uint32_t end() const { return begin + size; }
};

// Walks over a text that ends with a NUL and holds no other, so looking one character ahead needs no test for the end.
class Scanner {
public:
    void reset(const char* text, uint32_t size) { text_ = text, size_ = size, at = 0; }
    uint32_t at = 0;                                              // the next byte to be read

    char peek() const { return text_[at]; }
    char peek(uint32_t ahead) const { return at + ahead < size_ ? text_[at + ahead] : '\0'; }
    bool ended() const { return at >= size_; }
    uint32_t size() const { return size_; }
    std::string_view view(Slice s) const { return {text_ + s.begin, s.size}; }
    std::string_view view(uint32_t begin, uint32_t end) const { return {text_ + begin, end - begin}; }

    bool comments = false;                                        // `(: … :)` is white space, as XQuery has it

    void skip_space() {
        do
            while (text_[at] == ' ' || text_[at] == '\n' || text_[at] == '\t' || text_[at] == '\r') ++at;
        while (text_[at] == '(' && comments && skip_comment());
    }
    // The NCName that starts here. If there is none, its size is 0 and nothing is consumed.
    Slice name();
    // The same, without consuming it.
    Slice peek_name() const;
    // Digits ('.' Digits?)? | '.' Digits; size 0 if none starts here.
    Slice number();
    // A literal: returns what is between the quotes. False if it is not closed; then nothing is consumed.
    bool literal(Slice& inside);
    // Bytes of the character that starts at `position`, for carets.
    uint32_t character_size(uint32_t position) const;

private:
    bool skip_comment();

    const char* text_ = "";
    uint32_t size_ = 0;
};

// Bytes of the comment `(: … :)` at the front of a text, including nested ones; 0 if there is none, or if it is not closed.
size_t comment_size(std::string_view text);

// Whether a whole text is an NCName of XML 1.0, fifth edition.
bool is_ncname(std::string_view text);

// Offset of the first byte that is not well-formed UTF-8 or not a character of XML 1.0; text.size() if there is none.
size_t find_bad_character(std::string_view text);

// At most `bytes_max` bytes of text, cut between characters.
std::string_view cut_text(std::string_view text, size_t bytes_max);

}  // namespace treecast
