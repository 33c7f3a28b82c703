// What Unicode says of a character: its general category, and which characters differ from it in case alone.
//
// The tables are written by tools/make_character_kinds.py. Characters that Unicode adds later count as unassigned (Cn).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace treecast {

inline constexpr uint32_t character_max = 0x10FFFF;

// The general categories in the order of their names, which is the order of their bits in a mask.
inline constexpr std::string_view kind_names[] = {"Cc", "Cf", "Cn", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
                                                  "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};
inline constexpr uint32_t kind_count = 30;
inline constexpr uint32_t all_kinds = (1u << kind_count) - 1;

// The mask of a category (`Lu`) or of all that begin with a letter (`L`); 0 where there is none.
constexpr uint32_t kinds_called(std::string_view name) {
    uint32_t mask = 0;
    for (uint32_t kind = 0; kind < kind_count; ++kind)
        if (kind_names[kind] == name || (name.size() == 1 && kind_names[kind][0] == name[0])) mask |= 1u << kind;
    return mask;
}

uint32_t kind_of(uint32_t character);      // a number below kind_count

// Each character from `first` to `last` by `step` has a variant that is so far away.
struct CaseRow {
    uint32_t first, last, step;
    int32_t distance;
};

inline constexpr size_t kind_run_count = 3968, case_row_count = 472;
extern const uint32_t kind_runs[kind_run_count];      // where the kind changes: the character times 32, plus its kind
extern const CaseRow case_rows[case_row_count];       // by `first`

}  // namespace treecast
