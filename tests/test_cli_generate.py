"""`treecast generate`: where documents and queries go, what options mean, what is refused."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from treecast import Index
from treecast.cli import generate_output, main
from treecast.cli.entry import build_parser
from treecast.inputs.records import records
from treecast.workload import (
    DocumentSettings,
    NumberRange,
    QuerySettings,
    Schema,
    Values,
    generate_documents,
    generate_queries,
)

pytestmark = pytest.mark.house

COMMAND = [sys.executable, "-m", "treecast", "generate"]
SMALL = DocumentSettings(bytes_target=500)
PREFIXED = '<!ELEMENT p:a (p:b*)> <!ATTLIST p:a xmlns:p CDATA #FIXED "urn:p"> <!ELEMENT p:b EMPTY>'


def run(*arguments: str) -> int:
    return main(["generate", *arguments])


# Documents.


def test_documents_into_a_directory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("documents", "--count", "12", "--bytes", "500", "--seed", "3", "-o", str(tmp_path / "docs")) == 0
    files = sorted((tmp_path / "docs").iterdir())
    assert [file.name for file in files] == [f"{number:04}.xml" for number in range(1, 13)]
    assert [file.read_bytes() for file in files] == list(generate_documents(Schema.news(), 12, SMALL, seed=3))
    said = capfd.readouterr()
    assert said.out == ""
    assert re.search(r"news: 100 elements.*the root is news\n12 documents, 0\.0 MB, in ", said.err)
    assert [path.name for path in tmp_path.iterdir()] == ["docs"]


def test_documents_into_an_archive(tmp_path: Path) -> None:
    for name in ("one.zip", "two.ZIP"):
        assert run("documents", "--dtd", "records", "--count", "5", "--bytes", "500", "-o", str(tmp_path / name)) == 0
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.ZIP").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert archive.testzip() is None
        documents = [archive.read(name) for name in archive.namelist()]
    assert documents == list(generate_documents(Schema.records(), 5, SMALL))


def test_documents_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "all.xml"
    assert run("documents", "--count", "7", "--bytes", "500", "--record-file", str(path)) == 0
    tree = etree.parse(str(path)).getroot()
    assert tree.tag == "documents"
    alone = [etree.fromstring(document) for document in generate_documents(Schema.news(), 7, SMALL)]
    assert [etree.tostring(child, method="c14n", with_tail=False) for child in tree] == [
        etree.tostring(document, method="c14n") for document in alone
    ]
    with path.open("rb") as file:
        split = [record.document for record in records(file)]
    assert [etree.tostring(etree.fromstring(document or b""), method="c14n") for document in split] == [
        etree.tostring(document, method="c14n") for document in alone
    ]


def test_one_document_to_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("documents", "--bytes", "500", "--quiet") == 0
    said = capfdbinary.readouterr()
    assert said.out == next(generate_documents(Schema.news(), 1, SMALL))
    assert said.err == b""


def test_documents_take_every_setting(tmp_path: Path) -> None:
    options = (
        "--bytes 2K --depth-max 7 --repeats-max 2 --recursion-max 1 --optional 0.5 --attributes 0.4 --skew 0.5 "
        "--weight para=3 --weight rule=0 --values sum=1..9 --values @name=a,b --value-skew 1 --text-words-max 3"
    )
    assert run("documents", "--count", "5", *options.split(), "-o", str(tmp_path / "docs")) == 0
    settings = DocumentSettings(
        bytes_target=2048, depth_max=7, repeats_max=2, recursion_max=1, optional=0.5, attributes=0.4, skew=0.5,
        weights={"para": 3, "rule": 0},
        values=Values({"sum": NumberRange(1, 9), "@name": ("a", "b")}, skew=1, text_words_max=3),
    )  # fmt: skip
    expected = list(generate_documents(Schema.news(), 5, settings))
    assert [file.read_bytes() for file in sorted((tmp_path / "docs").iterdir())] == expected
    assert run("documents", "--bytes", "0", "--depth-max", "4", "-o", str(tmp_path / "as-it-comes")) == 0
    [document] = generate_documents(Schema.news(), 1, DocumentSettings(bytes_target=None, depth_max=4))
    assert (tmp_path / "as-it-comes" / "0001.xml").read_bytes() == document


# Queries.


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_queries_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("queries", "--count", "50", "--seed", "4", "--predicates", "1") == 0
    said = capfd.readouterr()
    expected = list(generate_queries(Schema.news(), 50, QuerySettings(predicates=1), seed=4))
    assert read_csv(said.out) == [{"id": f"q{number}", "query": query} for number, query in enumerate(expected, 1)]
    assert said.err.splitlines()[-1].startswith("50 queries in ")


@pytest.mark.parametrize(("name", "form"), [("q.jsonl", None), ("q.txt", None), ("q.csv", None), ("q", "jsonl")])
def test_queries_into_a_file_that_match_reads(
    tmp_path: Path, name: str, form: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    formats = ["--format", form] if form else []
    assert run("queries", "--count", "200", *formats, "-o", str(path), "--quiet") == 0
    assert run("documents", "--count", "3", "--bytes", "5K", "-o", str(tmp_path / "docs"), "--quiet") == 0
    assert capfd.readouterr() == ("", "")
    formats = ["--subscriptions-format", form] if form else []
    assert main(["match", "-s", str(path), *formats, str(tmp_path / "docs"), "--quiet"]) == 0
    found = capfd.readouterr().out.splitlines()
    index = Index()
    index.add_many((query, query) for query in generate_queries(Schema.news(), 200))
    settings = DocumentSettings(bytes_target=5 << 10)
    assert len(found) == sum(len(index.match(document)) for document in generate_documents(Schema.news(), 3, settings))
    assert len(found) > 20


def test_queries_take_every_setting(capfd: pytest.CaptureFixture[str]) -> None:
    options = (
        "--depth-min 2 --depth-max 6 --wildcard 0.1 --descendant 0.3 --skip 0.4 --stop 0.2 --attribute 0.1 --text 0.1 "
        "--skew 0.5 --predicates 1.5 --kinds attribute=2,text=1,position=1 --position-max 5 --nested 0.5 "
        "--nested-depth-max 2 --selectivity 0.2 --values price=1..9 --value-skew 1 --text-words-max 3 --duplicates"
    )
    assert run("queries", "--dtd", "records", "--count", "300", *options.split()) == 0
    settings = QuerySettings(
        depth_min=2, depth_max=6, wildcard=0.1, descendant=0.3, skip=0.4, stop=0.2, attribute=0.1, text=0.1, skew=0.5,
        predicates=1.5, kinds={"attribute": 2, "text": 1, "position": 1}, position_max=5, nested=0.5,
        nested_depth_max=2, selectivity=0.2, distinct=False,
        values=Values({"price": NumberRange(1, 9)}, skew=1, text_words_max=3),
    )  # fmt: skip
    expected = list(generate_queries(Schema.records(), 300, settings))
    assert [row["query"] for row in read_csv(capfd.readouterr().out)] == expected


def test_queries_with_prefixes_carry_their_namespaces(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    dtd = tmp_path / "p.dtd"
    dtd.write_text(PREFIXED)
    assert run("queries", "--dtd", str(dtd), "--count", "9", "-o", str(tmp_path / "q.csv")) == 0
    assert run("queries", "--dtd", str(dtd), "--count", "9", "-o", str(tmp_path / "q.jsonl")) == 0
    assert run("documents", "--dtd", str(dtd), "--bytes", "300", "-o", str(tmp_path / "docs")) == 0
    rows = read_csv((tmp_path / "q.csv").read_text())
    assert {row["namespaces"] for row in rows if ":" in row["query"]} == {"p=urn:p"}
    objects = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert [(row["id"], row["query"], row.get("namespaces", {})) for row in objects] == [
        (row["id"], row["query"], {"p": "urn:p"} if row["namespaces"] else {}) for row in rows
    ]
    capfd.readouterr()
    assert main(["match", "--quiet", "-s", str(tmp_path / "q.csv"), str(tmp_path / "docs")]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 9
    assert run("queries", "--dtd", str(dtd), "--count", "9", "--format", "lines") == 0
    assert "match them with --namespace p=urn:p" in capfd.readouterr().err


# DTDs.


def test_a_dtd_with_parts_and_a_root(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "part.ent").write_text("<!ELEMENT part (#PCDATA)>")
    dtd = tmp_path / "whole.dtd"
    text = '<!ENTITY % p SYSTEM "http://example.org/part.ent"> %p; <!ELEMENT whole (part?)> <!ELEMENT other (part?)>'
    dtd.write_text(text)
    assert run("documents", "--dtd", str(dtd), "--root", "other", "--dtd-directory", str(tmp_path / "more")) == 0
    said = capfd.readouterr()
    assert re.search("<other>\n<part>.*</part>", said.out)
    assert "left out" not in said.err
    assert run("documents", "--dtd", str(dtd)) == 0
    said = capfd.readouterr()
    assert said.out.endswith("<whole>\n</whole>\n")
    assert "whole: parts of the DTD are not on disk and left out: http://example.org/part.ent" in said.err


def test_several_dtds(capfd: pytest.CaptureFixture[str]) -> None:
    both = ("--dtd", "news", "--dtd", "records", "--count", "40", "--wildcard", "0", "--descendant", "0")
    assert run("queries", *both, "--shares", "3,1") == 0
    queries = [row["query"] for row in read_csv(capfd.readouterr().out)]
    assert sum(query.startswith("/news") for query in queries) == 30
    assert sum(query.startswith("/trades") for query in queries) == 10
    assert run("queries", *both, "--depth-max", "1", "--count", "2") == 0
    assert run("queries", *both, "--depth-max", "2", "--count", "5", "--shares", "1,4") == 0
    assert "has hardly more than" in capfd.readouterr().err


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "documents|queries"),
        (["figures"], "figures"),
        (["documents", "--count", "2"], "where to?"),
        (["documents", "-o", "a", "--record-file", "b"], "not both"),
        (["documents", "--count", "-1"], "number from 0"),
        (["documents", "--count", "many"], "number from 0"),
        (["documents", "--bytes", "large"], "64K"),
        (["documents", "--depth-max", "0"], "depth_max is at least 1"),
        (["documents", "--optional", "2"], "probabilities"),
        (["documents", "--weight", "para"], "NAME="),
        (["documents", "--weight", "para=heavy"], "no number"),
        (["documents", "--weight", "prize=2"], "prize"),
        (["documents", "--values", "prize=1..2"], "prize"),
        (["documents", "--values", "sum=9..1"], "no range"),
        (["documents", "--shares", "a"], "3,1,1"),
        (["documents", "--shares", "1,2"], "one weight for every schema"),
        (["documents", "--root", "para"], "--root is not for news"),
        (["documents", "--dtd", "news", "--dtd", "records", "--root", "a"], "one DTD"),
        (["queries", "--wildcard", "x"], "x"),
        (["queries", "--kinds", "order=1"], "kinds of predicates"),
        (["queries", "--selectivity", "2"], "selectivity"),
        (["queries", "--format", "xml"], "xml"),
        (["queries", "--values", "nothing"], "NAME="),
    ],
)  # fmt: skip
def test_wrong_usage_is_2(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        run(*arguments, *(["--quiet"] if arguments[:1] in (["documents"], ["queries"]) else []))
    assert stop.value.code == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert expected in said.err
    assert "--help" in said.err
    assert len(said.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_two_dtds_that_disagree_on_a_prefix(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.dtd").write_text(PREFIXED)
    (tmp_path / "q.dtd").write_text(PREFIXED.replace("urn:p", "urn:q"))
    with pytest.raises(SystemExit):
        run("queries", "--dtd", str(tmp_path / "p.dtd"), "--dtd", str(tmp_path / "q.dtd"))
    assert "generate their queries apart" in capfd.readouterr().err


def test_bad_input_is_1_and_leaves_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.dtd"
    bad.write_text("<!ELEMENT a (b>")
    small = tmp_path / "small.dtd"
    small.write_text("<!ELEMENT a (b)> <!ELEMENT b EMPTY>")
    forbidden = tmp_path / "forbidden.dtd"
    forbidden.write_text("<!ELEMENT a EMPTY> <!ATTLIST a b (x | y) #REQUIRED>")
    full = tmp_path / "full"
    full.mkdir()
    (full / "kept").write_text("")
    before = sorted(tmp_path.rglob("*"))
    new, output = str(tmp_path / "new"), str(tmp_path / "new.csv")
    for arguments, expected in (
        (["documents", "--dtd", str(bad), "-o", new], "TC280 bad.dtd: the content model of 'a'"),
        (["documents", "--dtd", str(tmp_path / "none.dtd"), "-o", new], "TC283"),
        (["documents", "--dtd", str(bad), "--root", "z", "-o", new], "TC280"),
        (["documents", "--dtd", str(small), "--root", "z", "-o", new], "TC281"),
        (["documents", "--dtd", str(forbidden), "--values", "@b=z", "-o", new], "TC284"),
        (["documents", "-o", str(full)], "TC790 "),
        (["documents", "-o", str(full / "kept")], "choose another name"),
        (["documents", "-o", str(tmp_path / "no" / "where")], "create the directory first"),
        (["documents", "--record-file", str(tmp_path / "no" / "where")], "create the directory first"),
        (["queries", "--dtd", str(small), "--count", "9999", "-o", output], "TC381 small gave only"),
        (["queries", "--dtd", str(small), "--predicates", "1", "-o", output], "no path of the schema serves"),
    ):
        assert run(*arguments) == 1, arguments
        said = capfd.readouterr()
        assert expected in said.err
        assert "Traceback" not in said.err
        assert sorted(tmp_path.rglob("*")) == before, arguments


def test_a_reader_that_goes_away_is_no_failure() -> None:
    for what in (["queries", "--count", "100000"], ["documents", "--bytes", "1M"]):
        command = [*COMMAND, *what, "--quiet"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(10)
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 0


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_what_takes_long_shows_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from treecast.cli import generate

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert run("documents", "--count", "9", "--bytes", "300", "-o", str(tmp_path / "quick")) == 0
    assert "\r" not in terminal.getvalue()
    monkeypatch.setattr(generate, "PROGRESS_AFTER_SECONDS", 0.0)
    assert run("documents", "--count", "9", "--bytes", "300", "-o", str(tmp_path / "slow")) == 0
    assert "of 9 documents" in terminal.getvalue()
    assert run("queries", "--count", "3000", "-o", str(tmp_path / "q.csv")) == 0
    assert "of 3,000 queries" in terminal.getvalue()


def test_the_help_tells_the_true_defaults() -> None:
    def parser_of(kind: str) -> Any:
        verbs: Any = build_parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
        return verbs["generate"]._subparsers._group_actions[0].choices[kind]

    renamed = {"bytes": "bytes_target"}
    for kind, settings in (("documents", DocumentSettings()), ("queries", QuerySettings())):
        defaults = {}
        for action in parser_of(kind)._actions:
            default = re.search(r"\(default ([\d.]+)\)", action.help or "")
            if default and action.dest not in ("seed", "count", "value_skew", "text_words_max", "weight"):
                defaults[renamed.get(action.dest, action.dest)] = float(default[1])
        fields = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
        assert defaults == {name: fields[name] for name in defaults}
        assert len(defaults) >= 6


def test_prefixes_are_told_from_values() -> None:
    assert generate_output._PREFIX.search("/a/p:b")
    assert generate_output._PREFIX.search("//p:*")
    assert not generate_output._PREFIX.search("/a/b[c]")
