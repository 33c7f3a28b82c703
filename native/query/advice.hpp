// What to write instead of a word that the language has not: tables for those who refuse it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace treecast {

struct Advice {
    std::string_view name, hint;
};

// Nothing where the table has nothing.
template <size_t n>
std::string find_advice(const Advice (&table)[n], std::string_view name) {
    for (const Advice& advice : table)
        if (advice.name == name) return std::string(advice.hint);
    return {};
}

}  // namespace treecast
