"""XTrie: its decomposition, its trie, and its two variants against lxml and brute force.

The small twin of tests/long/test_full_xtrie.py. The common corpus runs in test_cases, the answers of the paper's
Figure 4 in test_papers.
"""

from __future__ import annotations

from random import Random

import pytest
from support.rounds_xtrie import XTRIE_ROUNDS
from support.sanitized import fewer
from test_papers import SOAP, XTRIE

from treecast import Index, QueryError
from treecast.engines import xtrie

VARIANTS = ("xtrie", "xtrie-single-path")
ENVELOPE = "{http://schemas.example/soap/envelope/}"


def rows(query: str, *, ordered: bool = False) -> list[str]:
    return [str(row).removeprefix("0: ") for row in xtrie.tables([query], ordered=ordered).rows]


# --- the decomposition -----------------------------------------------------------------------------------------------


def test_figure_4() -> None:
    """Each expression of Figure 4 in its substrings: one, but for the `*//` of c and the branches of h."""
    tables = xtrie.tables(XTRIE.values(), namespaces=SOAP)
    assert [str(row).replace(ENVELOPE, "S:") for row in tables.rows] == [
        "0: //{Some-URI}GetLastTradePrice/Symbol",
        "1: //{Some-URI}GetLastTradePrice/Symbol/text(), 1 test",
        "2: /S:Envelope/S:Body, 1 child",
        "2: Symbol/text(), at least 3 below row 2, child 1, 1 test",
        "3: //{some-URI}Transaction/@S:mustUnderstand",
        "4: //{some-URI}Transaction/@S:mustUnderstand, 1 test",
        "5: //Stock/Symbol/text(), 1 test",
        "6: //Stock/Price/text(), 1 test",
        "7: //Stock, 2 children",
        "7: Stock/Symbol/text(), 2 below row 8, child 1, 1 test",
        "7: Stock/Price/text(), 2 below row 8, child 2, 1 test",
    ]


def test_figure_5() -> None:
    """The trie of these expressions: common prefixes once, and where the max-suffix pointers lead."""
    suffixes = xtrie.tables(XTRIE.values(), namespaces=SOAP).suffixes
    assert len(suffixes) == 14
    written = {"/".join(string).replace("{Some-URI}", "m:"): "/".join(suffix) for string, suffix in suffixes.items()}
    assert {string: suffix for string, suffix in written.items() if suffix} == {
        "m:GetLastTradePrice/Symbol": "Symbol",
        "m:GetLastTradePrice/Symbol/text()": "Symbol/text()",
        "Stock/Symbol": "Symbol",
        "Stock/Symbol/text()": "Symbol/text()",
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("/a/b/c", ["/a/b/c"]),
        ("//a//b", ["//a, 1 child", "b, at least 1 below row 0, child 1"]),
        # `*` is a level, no row
        ("/a/*/b", ["/a, 1 child", "b, 2 below row 0, child 1"]),
        ("/*/*/a/b", ["/*/*/a/b"]),
        ("//*/a", ["//*/a"]),
        ("/a//*/*/b/c", ["/a, 1 child", "b/c, at least 4 below row 0, child 1"]),
        # ... but where nothing else stands for it
        ("/*", ["/*"]),
        ("//*", ["//*"]),
        ("/a/*", ["/a, 1 child", "*, 1 below row 0, child 1"]),
        ("/a//*/*", ["/a, 1 child", "*, at least 2 below row 0, child 1"]),
        (
            "/a/*[b]/c",
            [
                "/a, 1 child",
                "*, 1 below row 0, child 1, 2 children",
                "b, 1 below row 1, child 1",
                "c, 1 below row 1, child 2",
            ],
        ),
        ("//*[. = 1]/a", ["//*, 1 test, 1 child", "a, 1 below row 0, child 1"]),
        ("//*[local-name() = 'a']/b", ["//*, 1 test, 1 child", "b, 1 below row 0, child 1"]),
        # substrings reach up past a branching to the last // or *
        (
            "//a/b[c/d//e][g//e/f]//*/*/e/f",
            [
                "//a/b, 3 children",
                "a/b/c/d, 2 below row 0, child 1, 1 child",
                "e, at least 1 below row 1, child 1",
                "a/b/g, 1 below row 0, child 2, 1 child",
                "e/f, at least 2 below row 3, child 1",
                "e/f, at least 4 below row 0, child 3",
            ],
        ),
        # attributes and texts are steps, also behind //
        (
            "//a[@x = 1]//@y",
            ["//a, 2 children", "a/@x, 1 below row 0, child 1, 1 test", "@y, at least 1 below row 0, child 2"],
        ),
        ("/a/*/text()", ["/a, 1 child", "text(), 2 below row 0, child 1"]),
    ],
)
def test_rows(query: str, expected: list[str]) -> None:
    assert rows(query) == expected


def test_rows_of_ordered_patterns() -> None:
    """Attributes have no order; a `*` that is a witness needs its row where `//` would hide which element it was."""
    assert rows("//a[.//*//b][@x][.//*/c]/d", ordered=True) == [
        "//a, 4 children",
        "*, at least 1 below row 0, child 1 in order, 1 child",
        "b, at least 1 below row 1, child 1",
        "a/@x, 1 below row 0, child 4",
        "c, at least 2 below row 0, child 2 in order",
        "a/d, 1 below row 0, child 3 in order",
    ]
    alone = ["//a, 1 child", "b, at least 2 below row 0, child 1"]
    assert rows("//a[.//*//b]", ordered=True) == rows("//a[.//*//b]") == alone


# --- the trie while queries come and go ------------------------------------------------------------------------------


def longest_suffix(string: tuple[str, ...], strings: set[tuple[str, ...]]) -> tuple[str, ...]:
    tails = [string[start:] for start in range(1, len(string) + 1)]
    return next(tail for tail in tails if not tail or tail in strings)


@pytest.mark.parametrize("seed", range(40))
def test_max_suffix_pointers(seed: int) -> None:
    """In any order of additions, and after removals, each pointer leads to the longest other suffix in the trie."""
    random = Random(seed)
    queries = [
        "//" + "/".join(random.choices("abc", k=random.randint(1, 5))) for _ in range(random.choice((3, 10, 40)))
    ]
    removed = random.sample(range(len(queries)), random.randint(0, len(queries)))
    left = [query for place, query in enumerate(queries) if place not in removed]
    kept = [tuple(query[2:].split("/")) for query in left]
    strings = {string[:size] for string in kept for size in range(1, len(string) + 1)}
    tables = xtrie.tables(queries, removed=removed)
    assert tables.suffixes == {string: longest_suffix(string, strings) for string in strings}
    assert [row.substring for row in tables.rows] == kept
    random.shuffle(left)
    assert xtrie.tables(left).suffixes == tables.suffixes


@pytest.mark.parametrize("engine", VARIANTS)
def test_nothing_stays_behind(engine: str) -> None:
    """Whatever the order, the states go with their queries."""
    random = Random(engine)
    queries = ["/a/b//c[@x = 'one']", "//b/c/*", "/a//@x", "//a/b/text()", "//*", "//a[b/c = 2]", "//d/e | //b/c"]
    index = Index(engine=engine)
    empty = index.stats().states
    sizes = []
    for turn in range(6):
        order = random.sample(range(len(queries)), len(queries))
        for number in order:
            index.add(f"{turn}/{number}", queries[number])
        assert index.match(b"<a x='1'><b>text<c/></b></a>") == [f"{turn}/{n}" for n in order if n in (2, 3, 4, 6)]
        sizes.append(index.stats().states)
        for number in random.sample(order, len(order)):
            index.remove(f"{turn}/{number}")
        assert index.match(b"<a><b/></a>") == []
        assert index.stats().states == empty
    assert len(set(sizes)) == 1


# --- matching --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", VARIANTS)
@pytest.mark.parametrize("name", list(XTRIE_ROUNDS))
def test_drawn_rounds(name: str, engine: str) -> None:
    random = Random(f"{name}/{engine}/1")
    count = fewer(12 if name == "samples" else 60)
    assert sum(XTRIE_ROUNDS[name](engine, random, 40, 8) for _ in range(count)) == count * 320


def ordered_match(query: str, document: str) -> bool:
    index = Index(engine="xtrie")
    index.add("q", query, ordered=True)
    return index.match(document.encode()) == ["q"]


def test_a_later_witness_may_be_complete_first() -> None:
    """What a counter of matched branches would miss: the order is one of start tags, not of completion."""
    assert ordered_match("//a[.//x[y]][.//z]", "<a><x><z/><y/></x></a>")
    assert not ordered_match("//a[.//z][.//x[y]]", "<a><x><z/><y/></x></a>")
    assert ordered_match("//a[.//x[y]][.//z[y]]//c", "<a><x><z><c/><y/></z><y/></x></a>")
    assert ordered_match("//a[.//x[y]][.//z][.//w]", "<a><x><w/><z/><w/><y/></x></a>")
    assert not ordered_match("//a[.//x[y]][.//z][.//w]", "<a><x><w/><z/><y/></x></a>")


def test_what_waits_below_one_child_does_not_help_below_the_next() -> None:
    assert not ordered_match("//a[.//x[y]][.//z]", "<a><b><z/></b><x><y/></x></a>")
    assert ordered_match("//a[.//x[y]][.//z]", "<a><b><z/></b><x><y/></x><b><z/></b></a>")


def test_branches_of_one_element() -> None:
    """As many as a match counts in one word; one more is refused."""
    names = [f"n{number}" for number in range(65)]
    document = "<a>" + "".join(f"<{name}/>" for name in names) + "</a>"
    most = "/a" + "".join(f"[{name}]" for name in names[:63]) + f"/{names[63]}"
    for ordered in (False, True):
        index = Index(engine="xtrie")
        index.add("all", most, ordered=ordered)
        index.add("turned round", "/a" + "".join(f"[{name}]" for name in names[63::-1]), ordered=ordered)
        assert index.match(document.encode()) == (["all"] if ordered else ["all", "turned round"])
        assert index.match(document.replace("<n30/>", "").encode()) == []
        with pytest.raises(QueryError, match="64 branches"):
            index.add("too many", f"/a[{names[64]}]{most.removeprefix('/a')}", ordered=ordered)


@pytest.mark.parametrize("engine", VARIANTS)
def test_long_paths_on_deep_documents(engine: str) -> None:
    """As many occurrences as there can be: every step at every level."""
    index = Index(engine=engine)
    index.add("fits", "//a" * 200)
    index.add("fails", "//a" * 200 + "/@x")
    index.add("exact", "/a" * 256)
    index.add("text", "//a" * 50 + "/text()")
    assert index.match(b"<a>" * 400 + b"." + b"</a>" * 400) == ["fits", "exact", "text"]
    assert index.match(b"<a>" * 199 + b"</a>" * 199) == []
    assert index.match(b"<a>" * 399 + b"<a x=''/>" + b"</a>" * 399) == ["fits", "fails", "exact"]


# --- what is redundant is not done ---------------------------------------------------------------------------------
#
# "XTrie reduces unnecessary index probes and avoids redundant matchings": counted, since the answers are the same.


@pytest.mark.parametrize("single_path", [False, True])
def test_a_query_that_is_matched_is_not_tried_again(single_path: bool) -> None:
    document = b"<r>" + b"<a><b/></a>" * 50 + b"</r>"
    for query, expected in (("//a//b", 1), ("//a/*", 1), ("//a//c", 50), ("//a/*/c", 50)):
        work = xtrie.work([query], document, single_path=single_path)
        assert (bool(work.matches), work.remembered) == (expected == 1, expected), (query, work)


def test_of_occurrences_inside_each_other_the_outermost_serves_a_single_path() -> None:
    """The child may be at any depth: all elements below an inner `a` are below the outermost."""
    deep = b"<a>" * 40 + b"<b/>" + b"</a>" * 40
    assert xtrie.work(["//a//c"], deep, single_path=True).remembered == 1
    assert xtrie.work(["//a//a//c"], deep, single_path=True).remembered == 2
    assert xtrie.work(["//a/*/c"], deep, single_path=True).remembered == 40, "at one depth each of them counts"


def test_an_occurrence_without_a_waiting_parent_is_not_remembered() -> None:
    """The first `a` with a `b` is all that `r` needs of that branch; what comes later is redundant."""
    document = b"<r>" + b"<a><b/></a>" * 50 + b"</r>"
    for ordered in (False, True):
        assert xtrie.work(["/r[.//a[.//b]]/z"], document, ordered=ordered).remembered == 2
    without = xtrie.work(["/r[.//a[.//c]]/z"], document)
    assert without.remembered == 51, "r still waits"
    # In order an earlier witness of a later branch is no use, so each may still be one.
    assert xtrie.work(["/r[.//y][.//a[.//b]]"], document, ordered=True).matches == ()


def test_a_branch_is_reported_once_per_occurrence() -> None:
    """Each `b` says that it is there; that `a` is matched is said once."""
    document = b"<r><a>" + b"<b/>" * 50 + b"</a></r>"
    assert xtrie.work(["/r[.//a[.//b]]/z"], document).reported == 50 + 1
    nested = b"<r>" + b"<a>" * 10 + b"<b/>" * 5 + b"</a>" * 10 + b"</r>"
    assert xtrie.work(["/r[.//a[.//b]]/z"], nested).reported == 5 + 10


def test_the_work_on_a_document_grows_with_what_is_not_matched_yet() -> None:
    queries = [f"//a[b]/c{number}" for number in range(20)]
    document = b"<r>" + b"<a><b/>" + b"".join(b"<c%d/>" % number for number in range(20)) + b"</a>"
    once, often = (xtrie.work(queries, document + b"<a><b/></a>" * more + b"</r>") for more in (0, 100))
    assert once.matches == often.matches == tuple(range(20))
    assert (often.remembered, often.reported) == (once.remembered, once.reported)


# --- what is refused -------------------------------------------------------------------------------------------------

REFUSED = {
    "/a[b or c]": ("'or'", 2),
    "/a[not(b)]": ("not()", 2),
    "/a[2]": ("positions", 2),
    "/a[b | c]": ("'|' inside a predicate", 2),
    "/a[/b]": ("a path from the document", 3),
    "/a[contains(b, 'x')]": ("the first of several items", 2),
    "/a[b]/self::a": ("stays at its element", 6),
}
BRANCHING = {"//Stock[Symbol/text()='GHI'][Price/text()>15]": 2, "/a[@x]/b": 1, "/a[. = 1]/b": 1, "/a/b[c and d]": 3}


@pytest.mark.parametrize("engine", VARIANTS)
@pytest.mark.parametrize("query", REFUSED)
def test_what_neither_variant_supports(query: str, engine: str) -> None:
    what, position = REFUSED[query]
    with pytest.raises(QueryError) as refused:
        Index(engine=engine).add("q", query)
    assert what in str(refused.value) and f"'{engine}'" in str(refused.value)
    assert (refused.value.code, refused.value.position) == ("TC150", position)


@pytest.mark.parametrize("query", BRANCHING)
def test_the_single_path_variant_refuses_branching(query: str) -> None:
    with pytest.raises(QueryError, match="more than one branch") as refused:
        Index(engine="xtrie-single-path").add("q", query)
    assert (refused.value.code, refused.value.position) == ("TC150", BRANCHING[query])
    Index(engine="xtrie").add("q", query)


def test_tables_refuse_what_an_index_refuses() -> None:
    with pytest.raises(QueryError, match="TC150"):
        xtrie.tables(["/a", "/a[b][c]"], single_path=True)
    with pytest.raises(QueryError, match="TC112"):
        xtrie.tables(["/a[b or c]"], ordered=True)
    with pytest.raises(IndexError):
        xtrie.tables(["/a"], removed=[1])
