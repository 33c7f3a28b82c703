// The functions of predicates that look for a literal in a value: contains(path, "x") and others like it.
// Everything known about a function is here. The parser, printer, evaluator, placements, engines and the syntax
// tree in Python read it.
//
// Each takes one path and one literal, and looks at the string value of the path's first item in document order.
// Without any item it looks at the empty string. So each holds for every value if the literal is empty, and without an item
// only then: the asserts below check it. A function of another kind (numbers, several paths) is an ExprKind instead.
//
// A new one is an enumerator, a row and a case here, and the same as a term (term.hpp), of any arguments: so explanations read it.
// That is enough for it to work everywhere: the shared machines look for the path alone, and the evaluator rechecks what they
// find. To make it faster, teach it to
//
//   machines/pattern.cpp               test_of(): the tree machine decides it, once machines/values.* can
//   evaluate/evaluate_condition.cpp    check_text(): without building the value of an element
//
// CONTRIBUTING.md has the recipe, docs/guide/language.md the words for users.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace treecast {

enum class Function : uint8_t { contains, starts_with };

struct FunctionTraits {
    Function function;
    std::string_view name;      // as it is written
    bool before, after;         // whether the value may have more before the literal, and after it: used by covering
};

inline constexpr std::array functions{
    FunctionTraits{Function::contains, "contains", true, true},
    FunctionTraits{Function::starts_with, "starts-with", false, true},
};

constexpr const FunctionTraits& traits_of(Function function) { return functions[static_cast<size_t>(function)]; }

// The name in messages: contains().
inline std::string function_text(Function function) { return std::string(traits_of(function).name) + "()"; }

constexpr const FunctionTraits* find_function(std::string_view name) {
    for (const FunctionTraits& traits : functions)
        if (traits.name == name) return &traits;
    return nullptr;
}

// PERF: a switch, so that a call in a loop over elements is no call through a pointer (bench.values).
constexpr bool function_holds(Function function, std::string_view value, std::string_view literal) {
    switch (function) {
        case Function::contains: return value.find(literal) != std::string_view::npos;
        case Function::starts_with: return value.starts_with(literal);
    }
    return false;
}

// Checks at compile time what the header comment promises.
constexpr bool functions_are_consistent() {
    for (size_t i = 0; i < functions.size(); ++i) {
        const FunctionTraits& traits = functions[i];
        auto holds = [&](std::string_view value, std::string_view literal) { return function_holds(traits.function, value, literal); };
        bool in_place = static_cast<size_t>(traits.function) == i && find_function(traits.name) == &traits;
        bool empty = holds("", "") && holds("x", "") && !holds("", "x");
        bool as_said = holds("yx", "x") == traits.before && holds("xy", "x") == traits.after && holds("x", "x") && !holds("y", "x");
        if (!in_place || !empty || !as_said) return false;
    }
    return true;
}
static_assert(functions_are_consistent());

}  // namespace treecast
