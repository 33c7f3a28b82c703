"""One corpus, every engine, every way to build an index; lxml confirms what each case expects.

What an engine of the papers does not support (`engine_support`) is asserted to be refused; it matches the rest.

A case in tests/cases/*.toml is

    name           what it is about
    document       the text; `encoding` (utf-8 unless given) makes it bytes
    subscriptions  [id, query] or [id, query, {prefix = "uri"}]
    ordered        true where all of the case's subscriptions are ordered patterns; only brute force decides those
    expected       the ids that match, in the order of `subscriptions`
    oracle          id -> [query, {prefix = "uri"}], where plain XPath 1.0 spells the query differently
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from lxml import etree
from oracles.engine_support import ENGINES, check_refused, supported

import treecast
from treecast.index.explain import explain

DIRECTORY = Path(__file__).parent / "cases"
DECOYS = ("/a", "/*", "//b", "//b/c", "/a/*/c", "//*//*", "//@x", "/a/text()", "/zebra//quagga", "//a | //b", "/r//c",
          "//a[b]", "//*[@x = 1]", "//b[not(c)][1]")  # fmt: skip

KEYS = {"name", "document", "encoding", "subscriptions", "ordered", "expected", "oracle"}

Binding = dict[str, str]


@dataclass(frozen=True)
class Subscription:
    id: str
    query: str
    namespaces: Binding | None


@dataclass(frozen=True)
class Case:
    topic: str
    name: str
    document: bytes
    subscriptions: list[Subscription]
    expected: list[str]
    ordered: bool
    oracle: dict[str, tuple[str, Binding | None]] = field(default_factory=dict)


def load_cases() -> list[Case]:
    cases = []
    for path in sorted(DIRECTORY.glob("*.toml")):
        for entry in tomllib.loads(path.read_text("utf-8"))["case"]:
            assert entry.keys() <= KEYS, entry["name"]
            subscriptions = [Subscription(row[0], row[1], *(row[2:] or [None])) for row in entry["subscriptions"]]
            oracle = {key: (row[0], row[1] if len(row) > 1 else None) for key, row in entry.get("oracle", {}).items()}
            data = entry["document"].encode(entry.get("encoding", "utf-8"))
            ordered = entry.get("ordered", False)
            cases.append(Case(path.stem, entry["name"], data, subscriptions, entry["expected"], ordered, oracle))
    return cases


CASES = load_cases()


def add_bulk(index: treecast.Index, case: Case) -> None:
    """Everything in one call."""
    index.add_many(treecast.Subscription(s.id, s.query, s.namespaces or {}, case.ordered) for s in case.subscriptions)


def add_singly(index: treecast.Index, case: Case) -> None:
    for s in case.subscriptions:
        index.add(s.id, s.query, namespaces=s.namespaces, ordered=case.ordered)


def add_among_decoys(index: treecast.Index, case: Case) -> None:
    """Add, match, remove and add again, with other subscriptions that come before, stay for a while and go."""
    decoys = [query for query in DECOYS if supported(index.engine, query)]
    for number, query in enumerate(decoys):
        index.add(f"decoy {number}", query)
    add_singly(index, case)
    index.match(case.document)
    for number in range(0, len(decoys), 2):
        index.remove(f"decoy {number}")
    for s in reversed(case.subscriptions):
        index.remove(s.id)
    index.match(case.document)
    add_singly(index, case)
    for number in range(1, len(decoys), 2):
        index.remove(f"decoy {number}")


BUILDERS: list[Callable[[treecast.Index, Case], None]] = [add_bulk, add_singly, add_among_decoys]


def within(case: Case, engine: str) -> Case:
    """The case without what the engine has to refuse, which it is asserted to do."""
    index = treecast.Index(engine=engine)
    left = []
    for s in case.subscriptions:
        if supported(engine, s.query, s.namespaces, ordered=case.ordered):
            left.append(s)
        else:
            check_refused(index, s.query, s.namespaces, ordered=case.ordered)
    ids = {s.id for s in left}
    return replace(case, subscriptions=left, expected=[id_ for id_ in case.expected if id_ in ids])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.topic}: {case.name}")
def test_every_engine_agrees_with_the_case(case: Case, engine: str) -> None:
    case = within(case, engine)
    for build in BUILDERS:
        index = treecast.Index(engine=engine)
        build(index, case)
        check(index, case, build.__name__)
        check(save_and_load(index), case, f"{build.__name__}, saved and loaded")


def save_and_load(index: treecast.Index) -> treecast.Index:
    with TemporaryDirectory() as directory:
        index.save(Path(directory) / "case.tcx")
        return treecast.Index.load(Path(directory) / "case.tcx")


def check(index: treecast.Index, case: Case, how: str) -> None:
    assert len(index) == len(case.subscriptions), how
    assert index.match(case.document) == case.expected, how
    table = index.match_many([case.document, case.document])
    rows = sorted(zip(table["document"].to_pylist(), table["subscription"].to_pylist(), strict=True))
    assert rows == sorted((row, id_) for row in (0, 1) for id_ in case.expected), how


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.topic}: {case.name}")
def test_explanations_agree_with_the_case(case: Case) -> None:
    for s in case.subscriptions:
        explanation = explain(case.document, s.query, namespaces=s.namespaces, ordered=case.ordered)
        assert explanation.matched == (s.id in case.expected), s.query
        assert (explanation.miss is None, explanation.undecided) == (explanation.matched, ""), s.query
        assert str(explanation), s.query


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.ordered], ids=lambda case: f"{case.topic}: {case.name}"
)
def test_lxml_agrees_with_the_case(case: Case) -> None:
    tree = etree.fromstring(case.document, etree.XMLParser(load_dtd=False, no_network=True)).getroottree()
    found = []
    for s in case.subscriptions:
        query, namespaces = case.oracle.get(s.id, (s.query, s.namespaces))
        if tree.xpath(query, namespaces=namespaces):
            found.append(s.id)
    assert found == case.expected


def test_the_corpus_is_whole() -> None:
    assert len(CASES) >= 160
    assert len({(case.topic, case.name) for case in CASES}) == len(CASES)
    for case in CASES:
        ids = [s.id for s in case.subscriptions]
        assert len(set(ids)) == len(ids), case.name
        assert set(case.oracle) <= set(ids), case.name
