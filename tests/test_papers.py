"""Every expression that the five papers print, with the answers that they state.

The cases in tests/cases_papers have the form of tests/cases and run on every engine; lxml is the oracle for the
canonical text of each query, so that the papers' own spellings (`$msg`, `x/[p]`, `<>`) are tested with them. Selective
prints no expressions. Relative paths are listed as what they are: refused, with a hint.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from oracles.engine_support import ENGINES, check_refused, supported

import treecast

DIRECTORY = Path(__file__).parent / "cases_papers"
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(DIRECTORY.glob("*.toml"))
    for case in tomllib.loads(path.read_text("utf-8"))["case"]
]
YFILTER = ["/a/b", "/a/c", "/a/b/c", "/a//b/c", "/a/*/b", "/a//c", "/a/*/*/c", "/a/b/c"]
SOAP = {"m": "Some-URI", "t": "some-URI", "SOAP-ENV": "http://schemas.example/soap/envelope/"}
XTRIE = {
    "a": "//m:GetLastTradePrice/Symbol",
    "b": "//m:GetLastTradePrice/Symbol[text()='DEF']",
    "c": "/SOAP-ENV:Envelope/SOAP-ENV:Body/*//Symbol[text()='DEF']",
    "d": "//t:Transaction/@SOAP-ENV:mustUnderstand",
    "e": "//t:Transaction[ @SOAP-ENV:mustUnderstand=1]",
    "f": "//Stock/Symbol[text()='GHI']",
    "g": "//Stock/Price[text()>15]",
    "h": "//Stock[Symbol/text()='GHI'][Price/text()>15]",
}
ONYX = {
    "Q1": '$msg/nitf[head/pubdata[@edition.area="SF"]][//tobject.subject[@tobject.subject.type="Stock"]]',
    "Q2": '$msg/nitf[head/pubdata[@edition.area="SF"]][//tobject.subject[@tobject.subject.matter="fishing"]]',
    "area": '/nitf/head/pubdata[@edition.area="SF"]',
    "stock": '/nitf//tobject.subject[@tobject.subject.type="Stock"]',
    "NY": '/nitf/head/pubdata[@edition.area="NY"]',
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("engine", ENGINES)
def test_answers_of_the_index(engine: str, case: dict[str, Any]) -> None:
    index = treecast.Index(engine=engine)
    for name, text, *bindings in case["subscriptions"]:
        namespaces = bindings[0] if bindings else None
        if supported(engine, text, namespaces):
            index.add(name, text, namespaces=namespaces)
        else:
            check_refused(index, text, namespaces, ordered=False)
    assert index.match(case["document"].encode()) == [name for name in case["expected"] if name in index]


@pytest.mark.parametrize("case", CASES)
def test_stated_answers(case: dict[str, object]) -> None:
    assert case.keys() == {"name", "document", "subscriptions", "expected"}
    tree = etree.fromstring(str(case["document"]).encode()).getroottree()
    found = []
    subscriptions = case["subscriptions"]
    assert isinstance(subscriptions, list)
    for name, text, *bindings in subscriptions:
        namespaces = bindings[0] if bindings else None
        query = treecast.parse(text, namespaces=namespaces)
        assert treecast.parse(str(query), namespaces=namespaces) == query
        if tree.xpath(str(query), namespaces=namespaces):
            found.append(name)
    assert found == case["expected"]


def covering(queries: dict[str, str], by: str) -> str:
    """The names of the queries that `by` covers."""
    general = treecast.parse(by, namespaces=SOAP)
    return "".join(name for name, text in queries.items() if general.covers(treecast.parse(text, namespaces=SOAP)))


def test_xtrie_covering() -> None:
    """Section on hierarchical filtering: //Symbol covers the expressions of Figures 4a to 4c, 4f and 4h."""
    assert covering(XTRIE, "//Symbol") == "abcfh"
    assert covering(XTRIE, XTRIE["a"]) == "ab"
    assert covering(XTRIE, XTRIE["d"]) == "de"
    assert covering(XTRIE, XTRIE["f"]) == "fh"
    assert covering(XTRIE, XTRIE["g"]) == "gh"
    assert covering(XTRIE, "/SOAP-ENV:*") == "c"
    assert covering(XTRIE, "//*") == "abcdefgh"
    assert not treecast.parse(XTRIE["h"]).covers(treecast.parse("/a[.//Stock/Symbol/text()='GHI'][.//Price/text()>15]"))


def test_yfilter_shares_the_state_of_equal_queries() -> None:
    """Its eighth query is its third; which of the eight hold wherever another one does."""
    queries = [treecast.parse(text) for text in YFILTER]
    assert queries[2] == queries[7]
    assert len(set(queries)) == 7
    covered = [[j + 1 for j, other in enumerate(queries) if query.covers(other)] for query in queries]
    assert covered == [[1, 3, 8], [2], [3, 8], [3, 4, 8], [5], [2, 3, 4, 6, 7, 8], [7], [3, 8]]


def test_onyx_routing_paths_cover_their_queries() -> None:
    """Section 4.1: the absolute paths that a query is cut into hold wherever it does."""
    queries = {name: treecast.parse(text) for name, text in ONYX.items()}
    covered = {name: [other for other in queries if query.covers(queries[other])] for name, query in queries.items()}
    assert covered == {
        "Q1": ["Q1"],
        "Q2": ["Q2"],
        "area": ["Q1", "Q2", "area"],
        "stock": ["Q1", "stock"],
        "NY": ["NY"],
    }
    assert str(queries["Q1"]).startswith('/nitf[head/pubdata[@edition.area="SF"]][.//tobject.subject')


REFUSED = [
    # relative to the variable of a FLWR query
    ("body/body.head/hedline", "TC104"),
    ("body/body.content", "TC104"),
    ("$n/body/body.head/hedline", "TC105"),
    ("$n/body/body.content", "TC105"),
]


@pytest.mark.parametrize(("text", "code"), REFUSED)
def test_refused_with_a_hint(text: str, code: str) -> None:
    with pytest.raises(treecast.QueryError) as refusal:
        treecast.parse(text)
    assert refusal.value.code == code
    assert refusal.value.hint
