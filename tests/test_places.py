"""Places among siblings are labels: `b[2]` and the first `b` of `contains(b, "x")` are found without a recheck. Other
positions in the first predicate of a step are what counters say, and are not rechecked either.

Work is counted, not timed: `looked_at` says how many entries were tested one by one, and counts the steps of rechecks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from lxml import etree
from oracles.differential import Query, Setting, compare, plain
from support.counted_work import COUNT, ITEMS, count_work

from treecast import Index


def item_of(place: int) -> str:
    return f'<item code="C{place}"><code>-C{place}-</code><m>1</m><m>2</m></item>'


DECIDED: dict[str, tuple[Callable[[int], str], int]] = {
    "contains() of a child": (lambda place: f'//item[contains(code, "-C{place}-")]', ITEMS),
    "starts-with() of a child": (lambda place: f'//item[starts-with(code, "-C{place}-")]', ITEMS),
    "not contains()": (lambda place: f'//list[not(item[contains(code, "-C{place}-")])]', COUNT - ITEMS),
    "contains() of a child in a place": (lambda place: f'//item[@code="C{place}"][contains(m[2], "2")]', ITEMS),
    "a place before a value": (lambda place: f'//item[{place + 1}][@code="C{place}"]', ITEMS),
    "a place on the way": (lambda place: f'//item[{place + 1}]/code[1][contains(., "C{place}-")]', ITEMS),
    "a place among all": (lambda place: f'/list/*[{place + 1}][@code="C{place}"]', ITEMS),
    "the last": (lambda place: f'//item[@code="C{place}"]/m[last()][. = 2]', ITEMS),
    "the last of all": (lambda place: f'//item[@code="C{place}"]/*[last()][. = 2]', ITEMS),
    "not the last": (lambda place: f'//item[@code="C{place}"]/m[position() != last()][. = 1]', ITEMS),
    "among the first": (lambda place: f'//item[@code="C{place}"]/m[position() < 2][. = 1]', ITEMS),
    "not in a place": (lambda place: f'//item[@code="C{place}"]/m[not(position() = 1)][. = 2]', ITEMS),
    "as many": (lambda place: f'//item[@code="C{place}"]/m[last() = 2 and position() > 1]', ITEMS),
    "the last of those, if there is one": (lambda place: f'//item[@code="C{place}"][last()]', ITEMS),
    "the first of those, if there is one": (lambda place: f'//item[@code="C{place}"][m[. = 2][1]][1]', ITEMS),
}


@pytest.mark.parametrize("name", DECIDED)
def test_what_labels_say_is_not_rechecked(name: str) -> None:
    """A recheck takes at least a step for each of the items."""
    query, matches = DECIDED[name]
    work, matched = count_work(query, item_of)
    assert matched == matches
    assert work <= 2 * COUNT


def test_what_labels_cannot_say_is_rechecked() -> None:
    """So the measure above notices a recheck."""
    work, matched = count_work(lambda place: f'//item[@code="C{place}"][position() < 2]/m', item_of)
    assert matched == ITEMS
    assert work > 2 * COUNT


# --- the same answers as lxml -----------------------------------------------------------------------------------------

NAMES = "aabbc"
TEXTS = ("x", "xy", "yx", "z", "")
PLACES = (
    *("", "", "", "[1]", "[2]", "[3]", "[last()]", "[position() < 3]", "[position() != 2]", "[position() < last()]"),
    *("[last() > 1]", "[not(position() = 2)]", "[position() = 1 or @i]", "[position() >= 2 and last() < 4]"),
    *(
        "[position() >= last()]",
        "[position() <= last()]",
        "[position() > last()]",
        "[not(position() < 2 or last() = 3)]",
    ),
)


def draw_document(random: Random, depth: int = 0) -> str:
    """Elements of few names inside each other, so that places are counted in many parents at once."""
    name = random.choice(NAMES)
    inner = [draw_document(random, depth + 1) for _ in range(random.randint(0, 4 if depth < 4 else 0))]
    inner.insert(random.randint(0, len(inner)), random.choice(TEXTS))
    attribute = f' i="{random.choice("12")}"' if random.random() < 0.4 else ""
    return f"<{name}{attribute}>{''.join(inner)}</{name}>"


def draw_step(random: Random) -> str:
    place = random.choice(PLACES)
    test = random.choice(("", "", "[@i]", '[@i = "1"]', f"[{draw_condition(random)}]"))
    return random.choice(NAMES + "*") + random.choice((place + test, test + place))


def draw_condition(random: Random) -> str:
    step = random.choice(NAMES) + random.choice(("", "", "[1]", "[2]", "[@i][1]"))
    path = random.choice((step, step, f"{step}/{random.choice(NAMES)}", f"{step}/@i", f".//{step}", "*", "text()"))
    text = random.choice(TEXTS)
    form = random.choice(('contains({0}, "{1}")', 'starts-with({0}, "{1}")', '{0} = "{1}"', "{0}"))
    condition = form.format(path, text)
    return f"not({condition})" if random.random() < 0.25 else condition


def draw_query(random: Random) -> Query:
    steps = [random.choice(("/", "//", "//")) + draw_step(random) for _ in range(random.randint(1, 3))]
    return plain("".join(steps) if random.random() < 0.7 else f"//{random.choice(NAMES)}[{draw_condition(random)}]")


@pytest.mark.parametrize("simd", [0, 1])
def test_places_against_lxml(simd: int) -> None:
    random = Random(f"places {simd}")
    for number, way in enumerate(("bulk", "mixed", "after removals")):
        queries = [draw_query(random) for _ in range(250)]
        documents = [draw_document(random).encode() for _ in range(12)]
        afterwards = "loaded and changed" if number % 2 else "as it is"
        setting = Setting(way, simd=simd, seed=number, afterwards=afterwards)
        assert compare(queries, documents, [setting]) == 3_000


def test_empty_siblings_are_told_apart() -> None:
    """What is remembered of an element with nothing below holds for its name, not for its place."""
    queries = [f"/a[{condition}]" for condition in ("b[2]", "b[3]", "not(b[3])", "b[2] and not(b[3])", "b[1] and b[4]")]
    index = Index()
    index.add_many((query, query) for query in queries)
    for number in range(6):
        document = b"<a>" + b"<b/><c/>" * number + b"</a>"
        tree = etree.fromstring(document)
        assert index.match(document) == [query for query in queries if tree.xpath(query)]


def test_a_saved_index_knows_places(tmp_path: Path) -> None:
    index = Index()
    index.add_many([("second", "/a/b[2][@i]"), ("first", '/a[contains(b, "x")]'), ("third", "/a/b[3]")])
    index.save(tmp_path / "saved.tcx")
    loaded = Index.load(tmp_path / "saved.tcx")
    loaded.add("fourth", "/a/b[4][@i]")
    assert set(loaded.match(b"<a><b>x</b><b i='1'/></a>")) == {"second", "first"}
    assert set(loaded.match(b"<a><b/><b>x</b><b/><b i='1'/></a>")) == {"third", "fourth"}


def test_a_saved_index_knows_counters(tmp_path: Path) -> None:
    index = Index()
    index.add_many([("last", "/a/b[last()][@i]"), ("among all", "/a/*[3]/c"), ("few", "/a/b[last() < 3]/@i")])
    index.save(tmp_path / "saved.tcx")
    loaded = Index.load(tmp_path / "saved.tcx")
    loaded.add("many", "/a/b[last() > 2]/@i")
    assert set(loaded.match(b"<a><b/><d/><b i='1'><c/></b></a>")) == {"last", "among all", "few"}
    assert set(loaded.match(b"<a><b/><b i='1'/><b><c/></b></a>")) == {"among all", "many"}
