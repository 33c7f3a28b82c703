"""The facts of queries are consequences of them, and the root's name is that of the reader."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.placements import draw_population
from test_cases import CASES

from treecast import DocumentError, Index, QueryError, read
from treecast.placement import Pair, root_name, survey

pytestmark = pytest.mark.house


def facts_of(query: str) -> tuple[str | None, list[str], list[str], list[str]]:
    facts = survey([("q", query)])[0]
    return facts.root, sorted(facts.required), list(facts.skeletons), [pair.filter for pair in facts.pairs]


@pytest.mark.parametrize(
    ("query", "root", "required", "skeletons", "filters"),
    [
        ("/a/b", "a", "a b", ["/a/b"], []),
        ("//a", None, "a", ["//a"], []),
        ("/*/b", None, "b", ["/*/b"], []),
        ("/a/b | /a/c", "a", "a", ["/a/b", "/a/c"], []),
        ("/a | /b", None, "", ["/a", "/b"], []),
        ("/a[b or c]/d", "a", "a d", ["/a/d"], []),
        ("/a[not(b)]", "a", "a", ["/a"], []),
        ("/a[b and .//c = 1]", "a", "a b c", ["/a"], ["/a//c[. = 1]"]),
        ('/a[@x = "1"]/b[c/@y = "it\'s"]', "a", "a b c", ["/a/b"], ['/a[@x = "1"]', '/a/b/c[@y = "it\'s"]']),
        ("/a[@x != 1]", "a", "a", ["/a"], []),
        ("/a[contains(b, 'x')]", "a", "a b", ["/a"], []),
        ("/a[contains(b, '')]", "a", "a", ["/a"], []),
        ("/a/descendant-or-self::b/c", "a", "a b c", ["/a"], []),
        ("/descendant::a[2]/b[text() = 'x']", None, "a b", ["//a/b"], ['//a/b[text() = "x"]']),
        ("/a[//z = -1.5]", "a", "a z", ["/a"], ["//z[. = -1.5]"]),
        ("/a[b[@x = 'y']/c]", "a", "a b c", ["/a"], ['/a/b[@x = "y"]']),
        ("/a/@x", "a", "a", ["/a"], []),
        ("/a[(b | c) = 1]", "a", "a", ["/a"], []),
        ("/a[.//@x = 1]", "a", "a", ["/a"], []),
        ("/*[local-name() = 'a']", "a", "a", ["/*[local-name() = 'a']"], []),
    ],
)
def test_facts_of_single_queries(
    query: str, root: str | None, required: str, skeletons: list[str], filters: list[str]
) -> None:
    assert facts_of(query) == (root, required.split(), skeletons, filters)


def test_facts_are_consequences() -> None:
    random = Random(7)
    for _ in range(15):
        subscriptions, documents = draw_population(random, queries=100, documents=30)
        index = Index()
        index.add_many(subscriptions)
        filters = Index()
        table = survey(subscriptions)
        assert len(table) == len(subscriptions)
        for row, facts in enumerate(table):
            assert (facts.root, facts.required) == (table.root(row), table.required(row))
            filters.add_many([(f"{row} s{at}", text) for at, text in enumerate(facts.skeletons)])
            filters.add_many([(f"{row} c{at}", text) for at, text in enumerate(table.covers_of(row))])
            filters.add_many([(f"{row} p{at}", pair.filter) for at, pair in enumerate(facts.pairs)])
        for document in documents:
            names = {local for _, local in read(document).names}
            passed = set(filters.match(document))
            for id in index.match(document):
                row = int(id[1:])
                facts = table[row]
                assert facts.root in (None, root_name(document))
                assert set(facts.required) <= names
                assert any(f"{row} c{at}" in passed for at in range(len(table.covers_of(row))))
                assert any(f"{row} s{at}" in passed for at in range(len(facts.skeletons)))
                assert all(f"{row} p{at}" in passed for at in range(len(facts.pairs)))


def test_a_refused_query_is_reported_with_its_place() -> None:
    with pytest.raises(QueryError) as error:
        survey([("a", "/a"), ("b", "/a[")])
    assert error.value.code == "TC101" and "/a[" in str(error.value)
    with pytest.raises(QueryError):
        survey([("a", "/x:a")])
    assert survey([("a", "/x:a")], {"x": "urn:x"})[0].root == "a"
    assert len(survey([])) == 0
    assert Pair("/a\0@x", "sone's \"").filter.startswith("/a[@x")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.topic}: {case.name}")
def test_the_root_of_every_document_of_the_corpus(case: object) -> None:
    document: bytes = case.document  # type: ignore[attr-defined]
    assert root_name(document) == read(document).names[0][1]
    assert root_name(memoryview(document)) == root_name(document)


PARTS = [
    "<",
    ">",
    "!--",
    "--",
    "<!-- > -->",
    "<?p a>?>",
    "<?",
    "?>",
    "a",
    "p:a",
    "é",
    " ",
    "\n",
    "/",
    '"',
    "'",
    "<!DOCTYPE a",
    "[",
    "]",
    "x",
]
PROLOGS = [
    '<?xml version="1.0"?>',
    '<!DOCTYPE a SYSTEM "x>y">',
    "<!DOCTYPE a [ <!-- ] --> ]>",
    "<!DOCTYPE a PUBLIC 'a' \"b'\" [<?x ]?>] >",
]


@given(
    st.lists(st.sampled_from(PROLOGS + PARTS), max_size=12).map("".join),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
@example("<!-- --><!DOCTYPE a [<!-- >] --> <?p >?>]><a/>", "utf-8")
def test_the_root_is_what_the_reader_says(text: str, encoding: str) -> None:
    for document in (text.encode(encoding), (text + "<é:b xmlns:é='u'/>").encode(encoding)):
        try:
            expected = read(document).names[0][1]
        except DocumentError:
            root_name(document)  # whatever it says: nothing breaks
            continue
        assert root_name(document) == expected


@pytest.mark.parametrize(
    "encoding",
    ["ISO-8859-1", "ISO_8859-1", "latin1", "windows-1252", "CP1252", "UTF-8", "UTF-16LE", "UTF-16BE", "UTF-16"],
)
def test_the_root_in_other_encodings(encoding: str) -> None:
    mark = "\ufeff" if encoding in ("UTF-16LE", "UTF-16BE") else ""
    declared = encoding[:6] if mark else encoding
    text = mark + f'<?xml version="1.0" encoding="{declared}"?><Ärger/>'
    document = text.encode(encoding)
    assert root_name(document) == read(document).names[0][1] == "Ärger"
