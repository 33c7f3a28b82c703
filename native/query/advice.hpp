// What to write instead of a word that the language does not have: tables for error messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace treecast {

struct Advice {
    std::string_view name, hint;
};

// Returns an empty text if the table has no advice.
template <size_t n>
std::string find_advice(const Advice (&table)[n], std::string_view name) {
    for (const Advice& advice : table)
        if (advice.name == name) return std::string(advice.hint);
    return {};
}

}  // namespace treecast
