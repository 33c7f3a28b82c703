// The values that derivations (derivation.hpp) make of the items of one document, for TreeRun.
//
// Attributes and texts are short or stand by themselves, so theirs are made one by one. The values of elements are inside each
// other: making each of them would read the same text once for every ancestor. So where an element has much text, what
// normalize-space() and translate() make of all texts of the document is made once, and the value of the element is a part of it.
// Its length is a difference of two counts.
#pragma once

#include "document/document.hpp"
#include "document/string_values.hpp"
#include "query/derivation.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

// For one document at a time; not thread-safe.
class DerivedValues {
public:
    struct Made {
        std::string_view text;           // until the next value is made; empty where there is a number
        double number = 0;
        bool is_number = false;
        const std::string* whole = nullptr;   // `text` is a long part of this, which stays the same for the document
    };

    void add(std::string_view program) { derivations_.push_back({Derivation(program), {}}); }
    void begin(const Document& document);            // cheap
    Made of_attribute(uint32_t program, uint32_t attribute);
    Made of_text(uint32_t program, std::string_view text);
    Made of_element(uint32_t program, uint32_t element, StringValues& string_values);

private:
    static constexpr uint64_t short_bytes_max = 256;
    struct Mapped {                                  // all texts of the document
        uint64_t run = 0;
        std::string text;
        std::vector<size_t> offsets, characters;     // by text: what stands before it
    };
    struct One {
        Derivation derivation;
        Mapped mapped;
    };
    static Made made(const Derivation& derivation, Derivation::Value value);
    void map(One& one);
    Made of_long(One& one, uint32_t begin, uint32_t end);

    std::vector<One> derivations_;
    const Document* document_ = nullptr;
    uint64_t run_ = 0;
    std::string gathered_, piece_, other_;
};

}  // namespace treecast
