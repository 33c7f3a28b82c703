"""Machines of patterns that are merged: by calls that match, once that has been paid for, and by `Index.compact`.

What decides when is native/engines/merge_credit.hpp. Whatever is merged, the answers stay those of lxml.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from generators.conditions import ConditionDrawer, draw_valued_document
from generators.paths_and_documents import Vocabulary
from oracles.differential import Query, lxml_matches
from support.index_fillings import fill_machines

from treecast import Index, engines
from treecast._native import testing

DOCUMENT = b"<a x='1'><b>1</b><c><b y='x'/></c></a>"
VOCABULARY = Vocabulary((("", "a"), ("", "b"), ("", "c")), (("", "x"), ("", "y")))


def codes(first: int, end: int) -> list[tuple[str, str]]:
    """As many different patterns as subscriptions."""
    return [(f"s{number}", f'//item[@code="{number}"]') for number in range(first, end)]


def in_machines(*sizes: int) -> Index:
    """Added so that each has a machine of its own, the largest first."""
    index = Index()
    for size in sizes:
        index.add_many(codes(len(index), len(index) + size))
    assert index.stats().machines == len(sizes)
    return index


def saved_bytes(index: Index, path: Path) -> bytes:
    index.save(path)
    return path.read_bytes()


# --- when ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "match",
    [
        lambda index: index.match(DOCUMENT),
        lambda index: index.match_many([DOCUMENT] * 3, threads=2),
        lambda index: index.render(DOCUMENT),
        lambda index: index.render_many([DOCUMENT] * 3, threads=2),
    ],
    ids=["match", "match_many", "render", "render_many"],
)
def test_additions_pay_for_a_merge_at_the_next_document(match: Callable[[Index], object]) -> None:
    index = in_machines(1000)
    for id, query in codes(1000, 1050):
        index.add(id, query)
    assert index.stats().machines > 1
    match(index)
    assert index.stats().machines == 1


def test_a_save_merges_first(tmp_path: Path) -> None:
    """Those who load the file only match, and leave it as it is."""
    index = in_machines(1000)
    for id, query in codes(1000, 1050):
        index.add(id, query)
    bytes_saved = saved_bytes(index, tmp_path / "saved.tcx")
    assert Index.load(tmp_path / "saved.tcx").stats().machines == 1
    assert saved_bytes(index, tmp_path / "again.tcx") == bytes_saved


def test_documents_pay_for_a_merge() -> None:
    """A few additions do not, until as much was spent on walking over documents twice."""
    index = in_machines(2000, 10)
    document = b"<list>" + b"<item code='3'/>" * 1000 + b"</list>"
    walks = 0
    while index.stats().machines == 2:
        assert index.match(document) == ["s3"]
        walks += 1
        assert walks < 1000
    assert walks > 10
    index.add("one more", "//item[@code]")
    index.match(document)
    assert index.stats().machines == 2  # what was earned is spent


@pytest.mark.house
@pytest.mark.house
def test_small_merges_leave_something_for_the_large_one() -> None:
    """Additions and documents in turn: one machine is left at some time, long before additions alone would merge."""
    index = in_machines(20_000)
    document = b"<list>" + b"<item code='3'/>" * 4000 + b"</list>"
    machines = []
    for id, query in codes(20_000, 20_600):
        index.add(id, query)
        index.match(document)
        machines.append(index.stats().machines)
    assert machines.count(1) in range(1, 10)
    assert max(machines) <= 4


@pytest.mark.parametrize(
    ("sizes", "added", "visits", "count"),
    [
        ([], 1000, 1 << 40, 0),
        ([5000], 1000, 1 << 40, 0),
        ([10, 1000], 42, 0, 0),
        ([10, 1000], 43, 0, 2),  # 24 each
        ([10, 1000], 0, 128 * 1010 - 1, 0),
        ([10, 1000], 0, 128 * 1010, 2),
        ([10, 1000], 42, 128 * 2, 2),  # both together
        ([10, 20, 30, 100_000], 3, 0, 2),  # half of 72 pays for 10 and 20
        ([10, 20, 30, 100_000], 2, 0, 0),
        ([10, 20, 30, 100_000], 5, 0, 3),
        ([10, 20, 300_000], 2, 0, 2),  # all that a document may wait for
        ([10, 300_000], 1_000_000, 1 << 40, 0),
    ],
)
def test_what_is_merged(sizes: list[int], added: int, visits: int, count: int) -> None:
    assert testing.affordable_merge(sizes, added, visits) == count


# --- what stays as it was --------------------------------------------------------------------------------------------


def test_answers_are_those_of_lxml_before_and_after() -> None:
    """Subscriptions in several machines, some of them removed, replaced or asked for twice."""
    random = Random("merge")
    drawer = ConditionDrawer(random, VOCABULARY)
    documents = [draw_valued_document(random) for _ in range(12)]
    index, model = Index(), dict[str, Query]()
    for size in (900, *[1] * 30):
        new = [(f"s{len(model) + place}", drawer.query()) for place in range(size)]
        index.add_many([(id, query.text) for id, query in new])
        model.update(new)
    for place in range(0, 920, 3):
        index.remove(f"s{place}")
        del model[f"s{place}"]
    for place in range(1, 920, 60):
        model[f"s{place}"] = drawer.query()
        index.replace(f"s{place}", model[f"s{place}"].text)
    names, queries = list(model), list(model.values())
    expected = [[names[place] for place in sorted(lxml_matches(queries, document))] for document in documents]
    before = index.stats()
    assert [index.match(document) for document in documents] == expected
    after = index.stats()
    assert before.machines > after.machines == 1
    index.remove("s1")
    index.add("s1", "//a[b]/c")
    index.compact()
    assert index.match(b"<a><b/><c/></a>")[-1] == "s1"


def test_an_index_that_was_loaded_stays_as_it_is_until_something_is_added(tmp_path: Path) -> None:
    """Processes share its memory, and its bytes are its name."""
    path = tmp_path / "saved.tcx"
    in_machines(1000, 30).save(path)
    before = path.read_bytes()
    index = Index.load(path)
    documents = [b"<list>" + b"<item code='1007'/>" * 1000 + b"</list>"] * 300
    assert index.match_many(documents).num_rows == 300
    assert index.stats().machines == 2
    assert saved_bytes(index, tmp_path / "again.tcx") == before
    index.add("new", "//item[@code > 1006]")
    assert index.match(documents[0]) == ["s1007", "new"]
    assert index.stats().machines == 1
    index.remove("s1007")
    assert index.match(documents[0]) == ["new"]
    assert path.read_bytes() == before
    assert Index.load(path).match(documents[0]) == ["s1007"]


# --- compact ---------------------------------------------------------------------------------------------------------


def test_compact_leaves_one_machine_of_each_kind(tmp_path: Path) -> None:
    index = Index()
    fill_machines(index)
    revision, subscriptions, before = index.revision, index.subscriptions(), index.stats()
    answer = index.match(DOCUMENT)
    index.compact()
    after = index.stats()
    assert (after.machines, after.subscriptions) == (2, before.subscriptions)
    assert after.bytes < before.bytes
    assert index.subscriptions() == subscriptions
    assert index.match(DOCUMENT) == answer
    assert index.revision == revision
    first = saved_bytes(index, tmp_path / "first.tcx")
    index.compact()
    assert saved_bytes(index, tmp_path / "second.tcx") == first


@pytest.mark.parametrize("engine", engines.names())
def test_every_engine_can_be_compacted(engine: str) -> None:
    index = Index(engine=engine)
    index.compact()
    index.add_many((f"q{number}", f"/a/b{number % 40}//c") for number in range(300))
    for number in range(0, 300, 3):
        index.remove(f"q{number}")
    document = b"<a><b1><c/></b1><b2><c/></b2></a>"
    answer = index.match(document)
    index.compact()
    assert index.match(document) == answer
