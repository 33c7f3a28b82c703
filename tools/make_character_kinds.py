"""Write `native/regex/character_kinds_table.cpp`: categories of Unicode, and letters that differ in case alone.

    .venv/bin/python tools/make_character_kinds.py > native/regex/character_kinds_table.cpp

The tables are those of the Python that runs this. tests/test_matches.py compares them, where the versions agree.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

CHARACTERS = range(0x110000)
# In the order of kind_names in native/regex/character_kinds.hpp.
KINDS = (
    "Cc", "Cf", "Cn", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd", "Pe",
    "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs",
)  # fmt: skip


def kind_runs() -> list[int]:
    """Where the kind changes: the character times 32, plus its kind."""
    runs: list[int] = []
    before = -1
    for character in CHARACTERS:
        kind = KINDS.index(unicodedata.category(chr(character)))
        if kind != before:
            runs.append(character * 32 + kind)
        before = kind
    return runs


def case_pairs() -> set[tuple[int, int]]:
    """Two characters are variants if their lower-case texts are equal, or their upper-case texts."""
    pairs: set[tuple[int, int]] = set()
    for spelling in (str.lower, str.upper):
        groups: dict[str, list[int]] = {}
        for character in CHARACTERS:
            groups.setdefault(spelling(chr(character)), []).append(character)
        for group in groups.values():
            pairs |= {(one, other) for one in group for other in group if one != other}
    return pairs


def case_rows() -> list[tuple[int, int, int, int]]:
    """First, last, step, and how far the variant is from each: in the order of the first."""
    distances: dict[int, list[int]] = {}
    for one, other in sorted(case_pairs()):
        distances.setdefault(other - one, []).append(one)
    rows = []
    for distance, characters in distances.items():
        at = 0
        while at < len(characters):
            ends = {step: last_of_run(characters, at, step) for step in (1, 2)}
            step = max(ends, key=lambda each: ends[each])
            rows.append((characters[at], characters[ends[step]], step, distance))
            at = ends[step] + 1
    return sorted(rows)


def last_of_run(characters: list[int], at: int, step: int) -> int:
    while at + 1 < len(characters) and characters[at + 1] == characters[at] + step:
        at += 1
    return at


def filled_lines(items: Iterable[str]) -> Iterable[str]:
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 120:
            yield line
            line = "   "
        line += f" {item},"
    yield line


def main() -> None:
    print(f"// Written by tools/make_character_kinds.py from Unicode {unicodedata.unidata_version}; not by hand.")
    print('#include "regex/character_kinds.hpp"\n\nnamespace treecast {\n')
    runs = kind_runs()
    print(f"const uint32_t kind_runs[kind_run_count] = {{     // {len(runs)}")
    print("\n".join(filled_lines(str(run) for run in runs)))
    rows = case_rows()
    print(f"}};\n\nconst CaseRow case_rows[case_row_count] = {{     // {len(rows)}")
    print("\n".join(filled_lines("{" + ", ".join(map(str, row)) + "}" for row in rows)))
    print("};\n\n}  // namespace treecast")


if __name__ == "__main__":
    main()
