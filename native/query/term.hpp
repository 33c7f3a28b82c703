// Terms: the expressions of XPath 1.0 that the patterns of query.hpp cannot say, as a syntax tree of their own.
//
// A predicate that is a path, a comparison of a path with a constant, or a position is an Expr, which the machines know. All else
// (count(), arithmetic, reverse axes, paths against paths, filter expressions …) is a Term: read once, evaluated item by item
// (evaluate/terms.hpp). An Expr of kind `term` holds one, together with what it requires of a document as far as patterns can
// say that (query_relax.cpp).
//
// Operands of one level (a + b - c, a = b, x or y, arguments) are a list, not a tree. So only brackets and parentheses
// nest, whose number is limited, and nobody recurses deeper than that.
#pragma once

#include "query/token.hpp"

#include <array>
#include <cstdint>
#include <string_view>

namespace treecast {

// XPath 1.0 knows four types, and each term has one that does not depend on the document.
enum class TermType : uint8_t { items, boolean, number, string };

enum class TermKind : uint8_t {
    number,          // `value`
    literal,         // `value`
    disjunction,     // or: the operands from `first` on
    conjunction,     // and
    comparison,      // the operands from `first` on, from the left: each but the first has its `relation`
    arithmetic,      // the same with its `sign`
    negative,        // -x: the operand `first`
    union_,          // the operands from `first` on
    path,            // `start`, filtered by `predicates`, then the steps from `steps` on
    call,            // `function` of the arguments from `first` on
};

enum class Sign : uint8_t { plus, minus, times, div, mod };

enum class TermAxis : uint8_t {
    child, descendant, descendant_or_self, self, attribute,
    parent, ancestor, ancestor_or_self, following, following_sibling, preceding, preceding_sibling,
};

constexpr bool is_reverse(TermAxis axis) {
    return axis == TermAxis::parent || axis == TermAxis::ancestor || axis == TermAxis::ancestor_or_self ||
           axis == TermAxis::preceding || axis == TermAxis::preceding_sibling;
}

enum class TermTest : uint8_t { name, any, any_namespace, text, any_item, comment, instruction };

enum class TermFunction : uint8_t {
    last, position, count, local_name, namespace_uri, name, string, concat, starts_with, contains, substring_before,
    substring_after, substring, string_length, normalize_space, translate, boolean, not_, true_, false_, lang, number, sum,
    floor, ceiling, round,
    matches,         // of XPath 2.0: regex/regex.hpp. The pattern and the flags are literals
};

struct TermFunctionTraits {
    TermFunction function;
    std::string_view name;
    uint8_t arguments_min, arguments_max;    // 255: any number
    TermType type;
    bool items;                              // its argument is a set of items
    bool context;                            // without arguments it is about the context item
};

inline constexpr uint8_t any_number = 255;
inline constexpr std::array term_functions{
    TermFunctionTraits{TermFunction::last, "last", 0, 0, TermType::number, false, true},
    TermFunctionTraits{TermFunction::position, "position", 0, 0, TermType::number, false, true},
    TermFunctionTraits{TermFunction::count, "count", 1, 1, TermType::number, true, false},
    TermFunctionTraits{TermFunction::local_name, "local-name", 0, 1, TermType::string, true, true},
    TermFunctionTraits{TermFunction::namespace_uri, "namespace-uri", 0, 1, TermType::string, true, true},
    TermFunctionTraits{TermFunction::name, "name", 0, 1, TermType::string, true, true},
    TermFunctionTraits{TermFunction::string, "string", 0, 1, TermType::string, false, true},
    TermFunctionTraits{TermFunction::concat, "concat", 2, any_number, TermType::string, false, false},
    TermFunctionTraits{TermFunction::starts_with, "starts-with", 2, 2, TermType::boolean, false, false},
    TermFunctionTraits{TermFunction::contains, "contains", 2, 2, TermType::boolean, false, false},
    TermFunctionTraits{TermFunction::substring_before, "substring-before", 2, 2, TermType::string, false, false},
    TermFunctionTraits{TermFunction::substring_after, "substring-after", 2, 2, TermType::string, false, false},
    TermFunctionTraits{TermFunction::substring, "substring", 2, 3, TermType::string, false, false},
    TermFunctionTraits{TermFunction::string_length, "string-length", 0, 1, TermType::number, false, true},
    TermFunctionTraits{TermFunction::normalize_space, "normalize-space", 0, 1, TermType::string, false, true},
    TermFunctionTraits{TermFunction::translate, "translate", 3, 3, TermType::string, false, false},
    TermFunctionTraits{TermFunction::boolean, "boolean", 1, 1, TermType::boolean, false, false},
    TermFunctionTraits{TermFunction::not_, "not", 1, 1, TermType::boolean, false, false},
    TermFunctionTraits{TermFunction::true_, "true", 0, 0, TermType::boolean, false, false},
    TermFunctionTraits{TermFunction::false_, "false", 0, 0, TermType::boolean, false, false},
    TermFunctionTraits{TermFunction::lang, "lang", 1, 1, TermType::boolean, false, true},
    TermFunctionTraits{TermFunction::number, "number", 0, 1, TermType::number, false, true},
    TermFunctionTraits{TermFunction::sum, "sum", 1, 1, TermType::number, true, false},
    TermFunctionTraits{TermFunction::floor, "floor", 1, 1, TermType::number, false, false},
    TermFunctionTraits{TermFunction::ceiling, "ceiling", 1, 1, TermType::number, false, false},
    TermFunctionTraits{TermFunction::round, "round", 1, 1, TermType::number, false, false},
    TermFunctionTraits{TermFunction::matches, "matches", 2, 3, TermType::boolean, false, false},
};

constexpr const TermFunctionTraits& traits_of(TermFunction function) {
    return term_functions[static_cast<size_t>(function)];
}

constexpr const TermFunctionTraits* find_term_function(std::string_view name) {
    for (const TermFunctionTraits& traits : term_functions)
        if (traits.name == name) return &traits;
    return nullptr;
}

inline constexpr uint32_t no_term = 0xFFFFFFFFu;

struct Term {
    TermKind kind = TermKind::number;
    TermType type = TermType::number;
    TermFunction function{};
    Sign sign = Sign::plus;              // of an operand of arithmetic: what joins it to those before
    uint8_t relation = 0;                // of an operand of a comparison: a Relation
    bool absolute = false;               // a path that starts at the document
    bool uses_context = false;           // its value depends on the context item
    bool uses_position = false;          // or on its position, or on how many there are
    uint32_t first = no_term;            // Term: its first operand or argument; of a path, what is filtered (no_term: see `absolute`)
    uint32_t next = no_term;             // Term: the operand after it
    uint32_t predicates = no_term;       // Term: of what is filtered
    uint32_t steps = no_term;            // TermStep
    uint32_t value = no_term;            // Value of a number or literal
    uint32_t variable = no_term;         // of a transformation: a path that starts at this variable
    uint64_t variables = 0;              // bit v: its value depends on the variable v
    Slice source;
};

struct TermStep {
    TermAxis axis = TermAxis::child;
    TermTest test = TermTest::any;
    bool positional = false;             // one of its predicates uses positions
    uint32_t next = no_term;
    uint32_t predicates = no_term;       // Term
    Slice prefix, local, uri;            // as in Step; of a processing-instruction(), `local` is its target
    bool has_target = false;             // a processing-instruction() with a target
    Slice source;                        // without its predicates; empty: `//` stands for it
};

}  // namespace treecast
