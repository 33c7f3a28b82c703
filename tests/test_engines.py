"""The engines of the papers: what they support equals lxml, the rest is refused, and an index behaves as always.

The small twin of tests/long/test_full_engines.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from generators.conditions import draw_valued_document
from generators.filters import FilterDrawer
from oracles.differential import lxml_matches, plain
from oracles.engine_support import PUBLISHED
from support.rounds import published_answers
from support.rounds_engines import ENGINE_ROUNDS, nests, takes
from support.sanitized import fewer

import treecast
from bench.engines import RIVALS, measure
from bench.measure import Report
from treecast import Index, engines

engine_of_all = pytest.mark.parametrize("engine", PUBLISHED)
FIGURE_1 = ("/a/b", "/a/c", "/a/b/c", "/a//b/c", "/a/*/b", "/a//c", "/a/*/*/c", "/a/b/c")
ROUNDS_EACH = {"filters": fewer(15), "chains": fewer(5), "paths": fewer(8), "language": fewer(5), "schema": fewer(3)}


def test_the_names() -> None:
    assert engines.names() == ["auto", "lazydfa", "xfilter", "hybrid", "yfilter", "xtrie"]
    assert "xtrie-single-path" in engines.names(variants=True)
    assert "yfilter-inline" in engines.names(variants=True)
    assert "yfilter-inline" not in engines.names()
    with pytest.raises(ValueError, match="yfilter-inline"):
        Index(engine="zfilter")


@engine_of_all
@pytest.mark.parametrize("name", list(ENGINE_ROUNDS))
def test_drawn_rounds(engine: str, name: str) -> None:
    random = Random(f"{engine} {name}")
    decisions = sum(ENGINE_ROUNDS[name](engine, random, 60, 12) for _ in range(ROUNDS_EACH[name]))
    assert decisions == ROUNDS_EACH[name] * 60 * 12


@engine_of_all
def test_published_answers(engine: str, data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    if data_directory is None:
        leave_out("the published answers of YFilter's test, for the engines of the papers")
        return
    queries, answers = published_answers(data_directory)
    index = Index(engine=engine)
    index.add_many((str(number), query) for number, query in enumerate(queries, start=1))
    for document, expected in answers:
        assert {int(name) for name in index.match(document)} == expected


# --- what the papers show --------------------------------------------------------------------------------------------


def test_the_machine_of_figure_1() -> None:
    """States: the first, a; b, b c; c; * , * b, * *, * * c; the //-child of a, b and b c and c below it."""
    index = Index(engine="yfilter")
    for number, query in enumerate(FIGURE_1, start=1):
        index.add(f"Q{number}", query)
    assert index.stats().states == 13
    assert index.match(b"<a><b><c/></b></a>") == ["Q1", "Q3", "Q4", "Q6", "Q8"]
    index.remove("Q8")
    assert index.stats().states == 13, "its accepting state is that of Q3"
    index.remove("Q4")
    assert index.stats().states == 11
    for number in (1, 2, 3, 5, 6, 7):
        index.remove(f"Q{number}")
    assert index.stats().states == 1
    assert index.match(b"<a><b><c/></b></a>") == []


def test_states_of_the_rivals() -> None:
    """XFilter has a state for each named step of each distinct path; the hybrid shares substrings, not prefixes."""
    index = Index(engine="xfilter")
    index.add_many([("1", "/a/*/b"), ("2", "/a//b"), ("3", "/a//b"), ("4", "/a/*")])
    assert index.stats().states == 6
    index = Index(engine="hybrid")
    index.add_many([("1", "/a/b//c/d"), ("2", "//c/d"), ("3", "/x//a/b")])
    assert index.stats().states == 7, "the first, the //-child below it, a, a b, c, c d, x"


@pytest.mark.parametrize("engine", ["yfilter", "yfilter-inline"])
def test_predicates_of_different_elements_are_never_combined(engine: str) -> None:
    """Two assignments each satisfy one predicate; no assignment satisfies both."""
    index = Index(engine=engine)
    index.add("both", "//a[@x = 1]//b[@y = 1]")
    index.add("nested", "//a[@x = 1][c]//b")
    assert index.match(b'<a x="1"><b/></a>') == []
    assert index.match(b'<r><a x="1"><b/></a><a><b y="1"/></a></r>') == []
    assert index.match(b'<a x="2"><a x="1"><b y="2"/></a><b y="1"/></a>') == []
    assert index.match(b'<a x="1"><a x="2"><b y="1"/></a></a>') == ["both"]
    assert index.match(b'<a x="1"><a x="2"><c/><b/></a></a>') == []
    assert index.match(b'<a x="1"><a x="2"><b/></a><c/></a>') == ["nested"]


@pytest.mark.parametrize("engine", ["yfilter", "yfilter-inline"])
def test_nested_paths_meet_at_one_element(engine: str) -> None:
    index = Index(engine=engine)
    index.add("q", "//a[b/c[@x]][.//d[e = 'v']/f]/g")
    assert index.match(b"<a><b><c x=''/></b><h><d><e>v</e><f/></d></h><g/></a>") == ["q"]
    assert index.match(b"<r><a><b><c x=''/></b><g/></a><a><d><e>v</e><f/></d><g/></a></r>") == []
    assert index.match(b"<a><b/><b><c/></b><h><d><e>v</e><f/></d></h><g/></a>") == []
    assert index.match(b"<a><b><c x=''/></b><h><d><e>v</e></d><d><f/></d></h><g/></a>") == []


# --- refusals --------------------------------------------------------------------------------------------------------

REFUSED = {
    "/a[b or c]": "'or'",
    "/a[not(b)]": "not()",
    "//a[contains(., 'x')]": "contains()",
    "//a[last()]": "last()",
    "/a/descendant::b[1]": "positions on the axis descendant::",
    "/a/self::a": "the axes self:: and descendant-or-self::",
    "//a[@x][2]": "a position that counts what another predicate has left",
    "/a[/b]": "a path from the document in a predicate",
    "/a[@x | @y]": "'|' in a predicate",
    "/a[.//@x]": "attributes and text() below any element in a predicate",
    "/a/text()[1]": "a predicate of an attribute or text() that is no comparison of its value",
}


@pytest.mark.parametrize("engine", ["xfilter", "hybrid", "yfilter", "yfilter-inline"])
@pytest.mark.parametrize(("query", "what"), REFUSED.items())
def test_refusals_say_what_is_not_supported(engine: str, query: str, what: str) -> None:
    with pytest.raises(treecast.QueryError) as caught:
        Index(engine=engine).add("q", query)
    lines = str(caught.value).split("\n")
    assert lines[0] == f"TC150 the engine '{engine}' cannot match {what}"
    assert lines[1].strip() == query
    assert set(lines[2].strip()) == {"^"}
    assert lines[3] == '  hint: use engine="auto", which matches the whole language'
    Index().add("q", query)


@pytest.mark.parametrize("engine", ["xfilter", "hybrid"])
def test_rivals_refuse_nested_paths(engine: str) -> None:
    with pytest.raises(treecast.QueryError, match="cannot match nested paths"):
        Index(engine=engine).add("q", "/a[b]")


# --- an index is an index --------------------------------------------------------------------------------------------


@engine_of_all
def test_all_or_nothing(engine: str) -> None:
    index = Index(engine=engine)
    index.add("there", "/a")
    with pytest.raises(treecast.QueryError) as caught:
        index.add_many([("1", "/a/b"), ("there", "//b"), ("2", "/a[not(b)]"), ("3", "/a["), ("4", "//c")])
    assert [name for name, _ in caught.value.refused] == ["2", "3", "there"]
    assert len(index) == 1
    assert index.match(b"<a><b/><c/></a>") == ["there"]
    states = index.stats().states
    index.add_many([("1", "/a/b"), ("4", "//c")])
    assert index.match(b"<a><b/><c/></a>") == ["there", "1", "4"]
    index.remove("1")
    index.remove("4")
    assert index.stats().states == states


@engine_of_all
def test_replace_keeps_the_place(engine: str) -> None:
    index = Index(engine=engine)
    index.add_many([("1", "/a"), ("2", "/a/b"), ("3", "//a")])
    index.replace("1", "//b")
    assert index.match(b"<a><b/></a>") == ["1", "2", "3"]
    with pytest.raises(treecast.QueryError):
        index.replace("1", "/a[not(b)]")
    assert index["1"].query == "//b"
    assert index.match(b"<a/>") == ["3"]
    with pytest.raises(KeyError):
        index.replace("4", "/a")
    with pytest.raises(KeyError):
        index.remove("4")


@engine_of_all
def test_renumbering_loses_nothing(engine: str) -> None:
    """So many removals that the index starts its numbers afresh, and the engine with it."""
    index = Index(engine=engine)
    index.add_many((str(number), "/a" if number % 2 else "//b[@x = 1]") for number in range(3000))
    for number in range(2900):
        index.remove(str(number))
    index.add("last", "/a/b")
    expected = [str(number) for number in range(2900, 3000)] + ["last"]
    assert index.match(b"<a><b x='1'/></a>") == expected
    assert index.match(b"<a><b/></a>") == [name for name in expected if name == "last" or int(name) % 2]
    assert len(index) == 101


@engine_of_all
def test_saved_and_loaded(engine: str, tmp_path: Path) -> None:
    index = Index(engine=engine, namespaces={"p": "urn:p"})
    index.add_many([("1", "//p:a"), ("2", "//a[@x = 1]"), ("3", "/b"), ("4", "//p:*")])
    index.replace("2", "//a[@x = 2]")
    index.remove("3")
    index.save(tmp_path / "saved.tcx")
    loaded = Index.load(tmp_path / "saved.tcx")
    assert (loaded.engine, len(loaded)) == (engine, 3)
    document = b"<a x='2' xmlns:q='urn:p'><q:a/></a>"
    assert loaded.match(document) == index.match(document) == ["1", "2", "4"]
    assert loaded.stats().states == index.stats().states
    loaded.add("3", "/a")
    assert loaded.match(document) == ["1", "2", "4", "3"]
    assert loaded.explain(document, "2").matched


@engine_of_all
def test_invalid_documents_are_reported(engine: str) -> None:
    index = Index(engine=engine)
    index.add("b", "//b")
    matches, errors = index.match_many([b"<a><b/></a>", b"<a>", b"<b/>"], threads=2, on_error="report")
    assert sorted(matches["document"].to_pylist()) == [0, 2]
    assert errors["code"].to_pylist() == ["TC209"]
    with pytest.raises(treecast.DocumentError):
        index.match_many([b"<b/>", b"<a>"])
    tables = list(index.match_batches([b"<b/>"] * 5, matches_max=1))
    assert sum(table.num_rows for table in tables) == 5


@engine_of_all
def test_changes_while_others_match(engine: str) -> None:
    """Two threads match, one changes: every answer has what is never touched, and ends agree with a fresh index."""
    random = Random(engine)
    draw = FilterDrawer(random, nests(engine))
    taken = (query for query in iter(draw.query, None) if takes(engine, query))
    fixed, passing = list(islice(taken, 60)), list(islice(taken, 60))
    documents = [draw_valued_document(random) for _ in range(20)]
    index = Index(engine=engine)
    index.add_many((f"q{place}", query.text) for place, query in enumerate(fixed))
    expected = [{f"q{place}" for place in lxml_matches(fixed, document)} for document in documents]
    failures: list[str] = []
    done = threading.Event()

    def match() -> None:
        while not done.is_set():
            table = index.match_many(documents, threads=2)
            found: list[set[str]] = [set() for _ in documents]
            for row in table.to_pylist():
                found[row["document"]].add(row["subscription"])
            if [{name for name in names if name[0] == "q"} for names in found] != expected:
                failures.append("an answer lacks or invents what nobody touched")
                return

    threads = [threading.Thread(target=match) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(fewer(5)):
        for place, query in enumerate(passing):
            index.add(f"p{place}", query.text)
        assert len(index) == 120
        for place in range(len(passing)):
            index.remove(f"p{place}")
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [set(index.match(document)) for document in documents] == expected


@engine_of_all
def test_deep_recursion_stays_cheap(engine: str) -> None:
    """Assignments of ten `//` steps to 400 nested elements are too many to enumerate."""
    index = Index(engine=engine)
    no, late = "//a[@x = 1]" * 10 + "//b", "//a[@x = 2]" + "//a" * 9 + "[@x = 1]"
    index.add_many((name, query) for name, query in (("no", no), ("late", late)) if takes(engine, plain(query)))
    index.add("yes", "//a" * 10 + "//b[. = '']")
    document = b"<a x='2'>" * 400 + b"<b/>" + b"</a>" * 400
    assert index.match(document) == ["yes"]
    assert [query for query in ("no",) if lxml_matches([plain("//a[@x = 1]//b")], b"<a x='2'><b/></a>")] == []


@pytest.mark.house
def test_the_measurement_runs_at_tiny_size() -> None:
    report = Report("engines", [])
    report.stand_in("a tiny input")
    measure(report, FIGURE_1, [b"<a><b><c/></b></a>", b"<a><c/></a>"], 1)
    assert len(report.rows) == 7 + len(RIVALS)
    assert all(row[-1] == "" for row in report.rows), "bars are for the full size"
