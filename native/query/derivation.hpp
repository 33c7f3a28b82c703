// Derivations: values that functions of XPath 1.0 make of one item and of constants, such as normalize-space(.), string-length(.),
// translate(., "AB", "ab"), concat(" ", ., " ") or 2 * . + 1.
//
// A predicate that compares such a value with a constant is decided by the shared machines like one that compares the item
// itself: what it is about is the same element with another value. A derivation is written as bytes, its program; equal ones have
// equal bytes, so however many subscriptions ask for normalize-space(title), it is made once for each title.
//
//     program   = operation*, from the innermost function to the outermost; an empty one is string()
//     operation = code byte, then its constants: varint(size) bytes, or 8 bytes of a double
#pragma once

#include "document/text_functions.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace treecast {

enum class Deriving : uint8_t {
    name = 1, local_name, namespace_uri,                // of the item: only as the first operation
    normalize, translate,                               // two texts
    substring,                                          // from
    substring_length,                                   // from, length
    before, after,                                      // a text
    prepend, append,                                    // a text
    length, number,                                     // a number of a text; from here on numbers
    add, subtract, multiply, divide, modulo,            // a number on the right
    subtract_from, divide_from, modulo_from,            // on the left
    negative, floor, ceiling, round,
};

constexpr bool is_name_source(Deriving code) { return code <= Deriving::namespace_uri; }
constexpr bool takes_number(Deriving code) { return code >= Deriving::add; }

void put_operation(std::string& program, Deriving code);
void put_operation(std::string& program, Deriving code, std::string_view text);
void put_operation(std::string& program, Deriving code, double number);

// A program that is ready to run. One belongs to one thread.
class Derivation {
public:
    struct Value {
        std::string_view text;           // until the next value is made; empty where there is a number
        double number;                   // only where is_number()
    };

    explicit Derivation(std::string_view program);          // of a program that is valid
    static bool is_valid(std::string_view program);

    bool is_empty() const { return operations_.empty(); }
    bool is_number() const;                                 // else it gives texts
    bool is_of_name() const { return !is_empty() && is_name_source(operations_[0].code); }
    Deriving first() const { return operations_[0].code; }
    // Operations at the beginning that treat each character alike, wherever it stands: some translate() and then perhaps a
    // normalize-space(). What they make of a part is a part of what they make of the whole, but for space at its ends.
    size_t maps() const { return maps_; }
    bool is_normalizing(size_t operation) const { return operations_[operation].code == Deriving::normalize; }
    bool is_length_at(size_t operation) const { return operation < operations_.size() && operations_[operation].code == Deriving::length; }
    bool is_length() const { return !is_empty() && is_length_at(operations_.size() - 1); }
    // Whether the values of nested elements can be had without reading each of them to its end.
    bool suits_elements() const;

    // What the operations from the number `begin` on make of a text, or of a number.
    Value of(std::string_view text, size_t begin = 0);
    double of_number(double number, size_t begin) const;
    void map(std::string_view text, size_t operation, std::string& out) const;     // one of maps(), appended

private:
    struct Operation {
        Deriving code{};
        std::string first, second;
        double number = 0, length = 0;
        std::shared_ptr<const Translation> translation;
    };
    static constexpr double characters_read_max = 1024;

    void apply(const Operation& operation, std::string_view text);

    std::vector<Operation> operations_;
    size_t maps_ = 0;
    std::string text_, next_;
};

}  // namespace treecast
