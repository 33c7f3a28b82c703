#!/usr/bin/env python3
"""Flips comparisons in the predicate machinery and in XTrie, one at a time, and runs the quick tests against each.

    python tools/mutants.py              all mutants; exit status 1 if one survives
    python tools/mutants.py 3 17         these
    python tools/mutants.py --list       what they are

If no test notices a mutant, a test is missing. All mutants are compiled at once, into a copy of the tree: each place
becomes a choice between the original and its mutants, and the environment variable TREECAST_MUTANT selects one. Number 0 is
the original; it must pass before anything else is tried.
"""

# ruff: noqa: E501  (one mutant, one line)
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("tests/test_predicates.py", "tests/test_cases.py")
XTRIE = ("tests/test_xtrie.py",)
SECONDS_MAX = 900  # a mutant may make a loop endless
NEEDED = ("CMakeLists.txt", "pyproject.toml", "native", "src", "tests", "tools")

SWITCH = """
#pragma once
#include <cstdlib>
inline const int treecast_mutant = std::getenv("TREECAST_MUTANT") ? std::atoi(std::getenv("TREECAST_MUTANT")) : 0;
"""


@dataclass(frozen=True)
class Mutant:
    """`original` occurs exactly once in native/`file`, or once right after `behind`. It is an expression, or a statement
    that ends with a semicolon."""

    file: str
    original: str
    mutated: str
    meaning: str
    behind: str = ""
    tests: tuple[str, ...] = TESTS


MUTANTS = [
    # Looking up what holds for a value: bounds, prefixes, substrings, numbers.
    Mutant("machines/gauges.hpp", "return ~height + 1;", "return ~height;", "value < bound takes equal ones"),
    Mutant("machines/gauges.hpp", "return ~height;", "return ~height + 1;", "value <= bound leaves equal ones"),
    Mutant("machines/gauges.hpp", "return height + 1;", "return height;", "value > bound takes equal ones"),
    Mutant("machines/gauges.hpp", "return height;", "return height + 1;", "value >= bound leaves equal ones", behind="default: "),
    Mutant("machines/gauges.hpp", "at != 0 && at != height", "at != height", "!= holds where there is no value"),
    Mutant("machines/gauges.hpp", "b == 0 ? a : height_various", "a", "values that differ all count as the first"),
    Mutant("machines/values.hpp", "prefixes.size > value.size()", "prefixes.size >= value.size()", "a whole value is no prefix of itself"),
    Mutant("machines/gauges.hpp", "number == 0 ? 0 : number", "number", "-0 is below 0"),
    Mutant("machines/gauges.hpp", "size && *begin <= height", "size && *begin < height", "a bound that is just met is lost"),
    Mutant("machines/gauges.hpp", "others[i] <= other", "others[i] < other", "a second bound that is just met is lost"),
    Mutant("machines/gauges.hpp", "lowest[i] <= height", "lowest[i] < height", "a second bound that is just met, and the lowest of its fork, is lost"),
    Mutant("machines/gauges.hpp", "std::max(a, b)", "a", "only the first number is compared"),
    Mutant("machines/values.hpp", "number == 0 ? 0 : number", "number", "-0 in a document is not 0"),
    Mutant("machines/values.hpp", "std::isnan(number)", "false", "what is no number is compared"),
    Mutant("machines/values.hpp", "ends(state)", "shorter(state)", "a substring that ends here is passed over", behind="uint32_t at = "),
    Mutant("machines/values.cpp", "states_[next].ends = states_[fallback].ends;", ";", "a substring inside another is lost"),
    Mutant("machines/values.cpp", "group.automaton != 0", "group.automaton == 0", "a long value is cut although substrings are wanted"),
    # From a query to patterns.
    Mutant("machines/pattern_parts.cpp", "if (number == 0) number = 0;", "if (number != number) number = 0;", "-0 in a query is not 0"),
    Mutant("machines/pattern_parts.cpp", "by_relation[static_cast<int>(relation)]", "by_relation[static_cast<int>(relation) ^ 1]", "< is <=, > is >="),
    Mutant("machines/pattern_parts.cpp", "by_relation[static_cast<int>(relation)]", "by_relation[relation < Relation::lt ? 0 : 7 - static_cast<int>(relation)]", "< is >=, <= is >"),
    Mutant("machines/pattern_parts.cpp", "value_requirement(ValueTest::equal_text, text, relation == Relation::ne)", "value_requirement(ValueTest::equal_text, text, relation == Relation::eq)", "= and != change places, for strings"),
    Mutant("machines/pattern_parts.cpp", "relation == Relation::ne", "relation != Relation::ne", "= and != change places, for numbers", behind="number_bytes(number), "),
    Mutant("machines/pattern.cpp", "requirement[0] ^ negated_bit", "requirement[0] | negated_bit", "not(not()) stays not()"),
    Mutant("machines/pattern.cpp", "(expr.kind == ExprKind::conjunction) != negated", "(expr.kind == ExprKind::conjunction)", "not() leaves and as it is"),
    Mutant("machines/pattern.cpp", "of_expr(query_.expr(expr.first), !negated, counting)", "of_expr(query_.expr(expr.first), true, counting)", "not() inside not() is one not()"),
    Mutant("machines/pattern.cpp", "way.exact && way.tests.empty() && way.branches.empty() && count == 1", "count == 1", "not() of what is only nearly known"),
    Mutant("machines/pattern.cpp", "test && has_first(path)", "test.has_value()", "contains() looks at any item"),
    Mutant("machines/pattern.cpp", "number == std::floor(number)", "true", "[1.5] is [1]"),
    Mutant("machines/pattern.cpp", "end = !either ? no_entry : end == no_entry ? index : end;", "end = either ? index : end;", "[1] is forgotten although more follows"),
    Mutant("machines/pattern_parts.cpp", "value.is_number ? value.number : to_number(text)", "value.number", "an order with a literal is not one of numbers"),
    Mutant("machines/pattern.cpp", "t.uri != meet.uri", "t.uri == meet.uri", "tests of two namespaces meet"),
    Mutant("machines/pattern.cpp", "t.local != meet.local", "t.local == meet.local", "tests of two names meet"),
    Mutant("machines/pattern.cpp", "is_ordered_ && meet->kind == StepKind::element", "false", "ordered patterns are taken without their order"),
    Mutant("machines/tree_orders.cpp", "std::upper_bound(elements.begin(), elements.end(), after)", "std::lower_bound(elements.begin(), elements.end(), after)", "two branches may be one element"),
    # The machine.
    Mutant("machines/tree_run.cpp", "met(*check) != check->negated", "met(*check) == check->negated", "further requirements are turned round"),
    Mutant("machines/tree_values.cpp", "value_.size() <= bytes_max", "value_.size() < bytes_max", "a value is cut where it still may be equal"),
    Mutant("machines/substrings.hpp", "occurrences_[at].end - begin >= values.text(test).size()", "true", "a substring may begin before the value"),
    Mutant("machines/substrings.hpp", "if (mark.visit == visit_) break;", "break;", "the last of the substrings is found, and no other"),
    Mutant("machines/substrings.cpp", "values.ends(state)", "values.shorter(state)", "a substring that ends here is passed over, in elements"),
    Mutant("machines/tree_run.cpp", "if (!raised_.empty() && !machine_->derived_.empty()) derive(labels, above);", "if (raised_.empty()) derive(labels, above);", "bounds behind a step are never met"),
    Mutant("machines/tree_run.cpp", "into.keys |= (gathered_ & wanted.keys) != 0;", "into.keys = (gathered_ & wanted.keys) != 0;", "what was found first is forgotten"),
    Mutant("machines/tree_run.cpp", "labels.late == late", "labels.late != late", "attributes that others wait for come late"),
    Mutant("machines/tree_run.cpp", "attribute.count && !attribute.late", "attribute.late", "an element is passed over although its attributes matter"),
    Mutant("machines/tree_plan.cpp", "r.negated ? is_equality(test) : is_order(test)", "is_order(test)", "an order and its opposite are one", behind="wanted = "),
    Mutant("machines/tree_run.cpp", "next_text_ < until", "next_text_ + 1 < until", "the last text is passed over"),
    Mutant("machines/tree_places.cpp", "counts.back().parent > parent", "false", "children are counted anew behind a sibling that has such children too"),
    Mutant("machines/tree_places.cpp", "counts.back().parent != parent", "false", "children of one parent are counted on in the next"),
    # The direct evaluation.
    Mutant("query/relation.hpp", "left == right", "!(left < right) && !(left > right)", "NaN = anything"),
    Mutant("query/relation.hpp", "left != right", "left < right || left > right", "NaN != nothing"),
    Mutant("query/relation.hpp", "left < right", "left <= right", "< is <="),
    Mutant("query/relation.hpp", "left <= right", "left < right", "<= is <"),
    Mutant("query/relation.hpp", "left > right", "left >= right", "> is >="),
    Mutant("query/relation.hpp", "left >= right", "left > right", ">= is >"),
    Mutant("evaluate/evaluate_condition.cpp", "text_equals(item, query_->view(value.text)) == (expr.relation == Relation::eq)", "text_equals(item, query_->view(value.text)) == (expr.relation != Relation::eq)", "= and != change places, for strings"),
    Mutant("document/string_values.cpp", "return literal.empty();", "return true;", "the beginning of a string equals it"),
    Mutant("evaluate/evaluate_condition.cpp", "!check_part(expr.first, item, position, last)", "check_part(expr.first, item, position, last)", "not() is nothing"),
    Mutant("evaluate/evaluate_condition.cpp", "related(expr.relation, position, last)", "related(expr.relation, last, position)", "position() and last() change places"),
    Mutant("document/string_values.cpp", "text.find(literal) != std::string_view::npos", "text.find(literal) == 0", "contains() is starts-with()"),
    Mutant("document/string_values.cpp", "next + literal.size() <= end", "next < end", "what begins in a value may end behind it"),
    Mutant("document/string_values.cpp", "end - begin > number_bytes_max", "texts.end - texts.begin > 1", "what is in pieces is no number"),
    Mutant("evaluate/evaluate_positions.cpp", "changes_at(std::floor(wanted) + 1);", ";", "a verdict holds one position too far"),
    Mutant("evaluate/evaluate_positions.cpp", "static_cast<uint32_t>(i + 1)", "static_cast<uint32_t>(i)", "positions begin at 0"),
    Mutant("evaluate/evaluate_positions.cpp", "static_cast<uint32_t>(wanted)", "static_cast<uint32_t>(wanted) - 1", "[n] looks at one candidate too few"),
    Mutant("evaluate/evaluate_positions.cpp", "if (!deep) text = next_child_text(context, text);", "if (deep) text = next_child_text(context, text);", "text()[n] counts texts further down"),
    Mutant("evaluate/evaluate_path.cpp", "any && order(item) > best", "any", "what is met first is taken for the first"),
    Mutant("evaluate/evaluate_select.cpp", "context < covered", "context <= covered", "a context behind another is taken for one inside it"),
    Mutant("evaluate/evaluate_ordered.cpp", "push_cursor(step, context, Want::all, after + 1);", "push_cursor(step, context, Want::all, after);", "one element is the witness of two branches"),
    Mutant("evaluate/evaluate_ordered.cpp", "item.index > after ? item.index : none", "item.index >= after ? item.index : none", "the same, for contains()"),
    # What XTrie finds redundant: the answers stay the same, the work does not.
    Mutant("engines/xtrie_run.cpp", "parent == none || wanted(row, level, parent)", "true", "occurrences that nobody waits for are remembered", tests=XTRIE),
    Mutant("engines/xtrie_run.cpp", "!row.child_open || innermost_[probe.row] == none", "true", "occurrences inside another are remembered", tests=XTRIE),
    Mutant("engines/xtrie_run.cpp", "if (parent.seen & bit) return false;", "(void)bit;", "what is matched is reported again", tests=XTRIE),
    Mutant("engines/xtrie_run.cpp", "if (matched(row.filter)) return;", "(void)row;", "what is matched is reported to the end", tests=XTRIE),
]  # fmt: skip


def switched(mutants: Sequence[tuple[int, Mutant]]) -> str:
    """The original and its mutants as one expression or statement that chooses."""
    original = mutants[0][1].original
    if original.endswith(";"):
        cases = "".join(f"if (treecast_mutant == {number}) {{ {m.mutated} }} else " for number, m in mutants)
        return f"{cases}{{ {original} }}"
    cases = "".join(f"treecast_mutant == {number} ? ({m.mutated}) : " for number, m in mutants)
    return f"({cases}({original}))"


def place(source: str, mutant: Mutant) -> int:
    """The place of the mutant's original in the source."""
    text = mutant.behind + mutant.original
    if source.count(text) != 1:
        count = source.count(text)
        raise SystemExit(f"mutants: {text!r} occurs {count} times in native/{mutant.file}: fix tools/mutants.py")
    return source.index(text) + len(mutant.behind)


def mutate(native: Path) -> None:
    """Rewrite the sources in place."""
    for file in dict.fromkeys(mutant.file for mutant in MUTANTS):
        source = (native / file).read_text()
        sites: dict[int, list[tuple[int, Mutant]]] = {}
        for number, mutant in enumerate(MUTANTS, start=1):
            if mutant.file == file:
                sites.setdefault(place(source, mutant), []).append((number, mutant))
        for start in sorted(sites, reverse=True):
            end = start + len(sites[start][0][1].original)
            source = source[:start] + switched(sites[start]) + source[end:]
        (native / file).write_text(source)


def build(home: Path) -> Path:
    """The mutated copy, built and importable; the Python that imports it."""
    tree = home / "tree"
    tree.mkdir()
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__", "_native"))
        else:
            shutil.copy(source, tree / name)
    mutate(tree / "native")
    cmake = tree / "CMakeLists.txt"
    cmake.write_text(cmake.read_text().replace("-O3", "-O1"))  # the build takes longer than the tests
    (home / "mutant.hpp").write_text(SWITCH)
    tools = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    environment["CXXFLAGS"] = f"-include {home / 'mutant.hpp'} -Wno-parentheses"
    for command in (
        ["cmake", "-S", tree, "-B", home / "cmake", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=", f"-DPython_EXECUTABLE={sys.executable}"],
        ["cmake", "--build", home / "cmake"],
        ["cmake", "--install", home / "cmake", "--prefix", home / "site"],
        # An installed treecast must not be found first, so use a Python that sees only the packages.
        [sys.executable, "-m", "venv", "--without-pip", home / "venv"],
    ):  # fmt: skip
        process = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
        if process.returncode:
            raise SystemExit(f"mutants: {command[0]} failed\n{(process.stdout + process.stderr)[-4000:]}")
    shutil.copytree(tree / "src" / "treecast", home / "site" / "treecast", dirs_exist_ok=True)
    packages = next((home / "venv" / "lib").glob("python*/site-packages"))
    own_packages = next(Path(sys.prefix, "lib").glob("python*/site-packages"))
    (packages / "mutants.pth").write_text(f"{home / 'site'}\n{own_packages}\n")
    return home / "venv" / "bin" / "python"


def tests_pass(python: Path, home: Path, number: int, tests: Sequence[str]) -> tuple[bool, str]:
    """Whether the quick tests pass with this mutant, and the first failure."""
    command = [str(python), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "TREECAST_MUTANT": str(number)}
    try:
        process = subprocess.run(
            command, cwd=home / "tree", env=environment, capture_output=True, text=True, timeout=SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return False, "endless"
    if process.returncode < 0:
        return False, f"signal {-process.returncode}"
    if process.returncode not in (0, 1):
        raise SystemExit(f"mutants: the tests did not run\n{(process.stdout + process.stderr)[-4000:]}")
    lines = process.stdout.splitlines()
    failures = [line[7:].partition(" - ")[0] for line in lines if line.startswith("FAILED ")]
    return process.returncode == 0, failures[0].partition("::")[2] if failures else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Flip comparisons in the predicate machinery; the tests must notice.")
    parser.add_argument("numbers", nargs="*", type=int, help="the mutants to try; all of them without")
    parser.add_argument("--list", action="store_true", help="only say what the mutants are")
    options = parser.parse_args()
    numbers = options.numbers or list(range(1, len(MUTANTS) + 1))
    if not all(1 <= number <= len(MUTANTS) for number in numbers):
        parser.error(f"mutants are numbered from 1 to {len(MUTANTS)}")
    if options.list:
        for number in numbers:
            print(f"{number:3} native/{MUTANTS[number - 1].file}: {MUTANTS[number - 1].meaning}")
        return 0
    survivors = []
    with tempfile.TemporaryDirectory(prefix="treecast-mutants-") as directory:
        home = Path(directory).resolve()
        began = time.monotonic()
        python = build(home)
        print(f"built {len(MUTANTS)} mutants in {time.monotonic() - began:.0f} s", flush=True)
        has_passed, first_failure = tests_pass(python, home, 0, (*TESTS, *XTRIE))
        if not has_passed:
            raise SystemExit(f"mutants: the tests fail without any mutant: {first_failure}")
        print("| # | where | what | outcome |\n|--:|-------|------|---------|", flush=True)
        for number in numbers:
            mutant = MUTANTS[number - 1]
            has_passed, first_failure = tests_pass(python, home, number, mutant.tests)
            survivors += [number] if has_passed else []
            outcome = "**survived**" if has_passed else f"caught by `{first_failure}`"
            print(f"| {number} | `{mutant.file}` | {mutant.meaning} | {outcome} |", flush=True)
    print(f"\n{len(numbers) - len(survivors)} of {len(numbers)} mutants caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
