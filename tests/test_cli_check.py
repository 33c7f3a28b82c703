"""`treecast check` and `treecast build`: findings about subscriptions, their oracle, and a file that loads."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from generators.covering_pairs import ALL, DESCEND, MIXED, NAMESPACES, WILD, Dialect, draw_pair

import treecast
from treecast.cli import lint, main
from treecast.query.witness import witness

DTD = "<!ELEMENT news (item*)> <!ELEMENT item (#PCDATA)> <!ATTLIST item x CDATA #IMPLIED>"
ROWS = [
    ("a", "/news/item"),
    ("b", "//item"),
    ("c", "/news/item[@x = 1]"),
    ("d", "/child::news/item"),
    ("e", "/a["),
    ("f", "//nothing"),
]


def write(directory: Path, rows: list[tuple[str, str]]) -> str:
    path = directory / "s.jsonl"
    path.write_text("".join(json.dumps({"id": id, "query": query}) + "\n" for id, query in rows), "utf-8")
    return str(path)


def findings_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[tuple[str, str, str]]]:
    status = main(["check", "--format", "json", *arguments])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return status, [(row["subscription"], row["kind"], row.get("other", "")) for row in rows]


def test_each_kind_of_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "n.dtd").write_text(DTD, "utf-8")
    (tmp_path / "n.xml").write_text("<news><item/></news>", "utf-8")
    path = write(tmp_path, ROWS)
    given = ["--dtd", str(tmp_path / "n.dtd"), "--sample", str(tmp_path / "n.xml"), path]
    status, findings = findings_of(given, capsys)
    assert status == 1
    assert findings == [
        ("e", "refused", ""),
        ("a", "covered", "b"),
        ("c", "covered", "a"),
        ("d", "same", "a"),
        ("f", "name", ""),
        ("f", "impossible", ""),
        ("c", "name", ""),
        ("f", "name", ""),
        ("c", "unmatched", ""),
        ("f", "unmatched", ""),
    ]


def test_tests_that_are_never_true_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        ("date", '//item[@d > "2026-01-01"]'),
        ("either", '//item[@d > "2026-01-01" or @new]'),
        ("both", "//item[@a = 1 and @a = 2]"),
        ("list", "from //item[0] drop //b"),
        ("fine", '//item[@d = "2026-01-01"]'),
    ]
    assert main(["check", "--no-covering", write(tmp_path, rows)]) == 0
    shown = capsys.readouterr()
    reason = '@d>"2026-01-01" is never true: "2026-01-01" is no number, and > compares numbers'
    assert shown.out.splitlines() == [
        f"date: no document matches it: {reason}",
        f"either: {reason}",
        "both: no document matches it: @a=1 and @a=2 are never true together",
        "list: no document matches it: [0] is never true: a position here is a whole number from 1",
    ]
    assert shown.err.splitlines()[-1] == "5 subscriptions: 3 impossible, 1 never"


def test_names_that_documents_lack_are_reported_with_near_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "n.dtd").write_text(DTD.replace("x CDATA", "title CDATA #IMPLIED x CDATA"), "utf-8")
    (tmp_path / "n.xml").write_text("<news><item title='1'/><p:extra xmlns:p='urn:p'/></news>", "utf-8")
    rows = [("typo", "//itme"), ("attribute", "//item[@titel or count(//zzz) = 0]"), ("space", "//extra")]
    source = write(tmp_path, rows)
    assert main(["check", "--quiet", "--sample", str(tmp_path / "n.xml"), source]) == 0
    assert capsys.readouterr().out.splitlines()[:4] == [
        "typo: no sample document has an element 'itme'; did you mean 'item'?",
        "attribute: no sample document has an attribute 'titel'; did you mean 'title'?",
        "attribute: no sample document has an element 'zzz'",
        "space: no sample document has an element 'extra' in no namespace; there is one in urn:p",
    ]
    assert main(["check", "--quiet", "--dtd", str(tmp_path / "n.dtd"), source]) == 0
    assert capsys.readouterr().out.splitlines()[:4] == [
        "typo: no document of n has an element 'itme'; did you mean 'item'?",
        "attribute: no document of n has an attribute 'titel'; did you mean 'title'?",
        "attribute: no document of n has an element 'zzz'",
        "space: no document of n has an element 'extra'",
    ]


def test_names_that_documents_have_are_not_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "n.xml").write_text("<news xmlns:p='urn:p'><p:item p:x='1' y='2' xml:lang='en'/></news>", "utf-8")
    queries = ["//p:item[@p:x][@y][@xml:lang]", "//*[local-name() = 'item']", "/news", "//@*", "//*[name() = 'zzz']"]
    source = write(tmp_path, [(query, query) for query in queries])
    sample = ["--sample", str(tmp_path / "n.xml"), "--namespace", "p=urn:p"]
    assert [each for each in findings_of([*sample, source], capsys)[1] if each[1] == "name"] == []


def test_without_refusals_the_status_is_0_and_text_is_for_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", write(tmp_path, ROWS[:2])]) == 0
    shown = capsys.readouterr()
    assert shown.out == "a: is covered by 'b': that one matches every document that this one matches\n"
    assert shown.err.splitlines()[-1] == "2 subscriptions: 1 covered"
    assert main(["check", "--no-covering", write(tmp_path, ROWS[:2])]) == 0
    assert capsys.readouterr().out == ""


def test_text_is_cut_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(f"q{number}", f"/a{number}[") for number in range(60)]
    assert main(["check", write(tmp_path, rows)]) == 1
    assert "… 10 more are refused; --format json lists all" in capsys.readouterr().out


def test_an_ordered_subscription_covers_nothing() -> None:
    index = treecast.Index()
    index.add("ordered", "/a[b]/c", ordered=True)
    index.add("plain", "/a[b]/c[@x]")
    assert [finding.subscription for finding in lint.redundancies(index)] == []
    index.add("wide", "/a/c")
    assert {(each.subscription, each.other) for each in lint.redundancies(index)} == {
        ("ordered", "wide"),
        ("plain", "wide"),
    }


@pytest.mark.parametrize("dialect", [DESCEND, WILD, MIXED, ALL], ids=["descend", "wild", "mixed", "all"])
def test_witnesses_of_drawn_queries_are_documents_and_most_match(dialect: Dialect) -> None:
    random = Random(7)
    queries = [draw_pair(random, dialect)[0] for _ in range(50)]
    matches = 0
    for query in queries:
        document = witness(query.tree)
        if document is not None:
            index = treecast.Index(namespaces=NAMESPACES)
            index.add("q", query.text)
            matches += len(index.match(document))
    assert matches >= len(queries) // 3


@pytest.mark.parametrize(
    "query",
    [
        "/a",
        "//a/b/@c",
        "//x:a[b/@k = 3]/*/y",
        "/a[. = 'z']",
        "/a/b[c < 5 and d]",
        "//a[contains(b, 'zz')]/text()",
        "/*/*",
    ],
)
def test_a_simple_query_matches_its_witness(query: str) -> None:
    namespaces = {"x": "urn:x"}
    document = witness(treecast.parse(query, namespaces=namespaces).matching.tree)
    index = treecast.Index(namespaces=namespaces)
    index.add("q", query)
    assert document is not None
    assert index.match(document) == ["q"]


def test_build_writes_an_index_that_match_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "n.xml").write_text("<news><item/></news>", "utf-8")
    saved = tmp_path / "s.tcx"
    assert main(["build", "-o", str(saved), write(tmp_path, ROWS[:3])]) == 0
    assert "3 subscriptions, " in capsys.readouterr().err
    assert list(treecast.Index.load(saved)) == ["a", "b", "c"]
    assert main(["match", "-s", str(saved), str(tmp_path / "n.xml")]) == 0
    assert [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()] == ["a", "b"]


def test_build_refuses_the_whole_for_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "s.tcx"
    assert main(["build", "-o", str(saved), write(tmp_path, ROWS)]) == 1
    assert "e: TC101" in capsys.readouterr().err
    assert not saved.exists()
