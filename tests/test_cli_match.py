"""`treecast match`: documents and subscriptions in, lines out, and what it says about bad ones."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import subprocess
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from treecast import Index, sample
from treecast.cli import main, match_output
from treecast.inputs import document_files
from treecast.inputs.document_files import ReadSettings
from treecast.inputs.listing import list_files

NEWS = b"<news><item id='1'>one</item></news>"
MAIL = b"<mail><to/></mail>"


@dataclass(frozen=True)
class Outcome:
    status: int
    lines: list[str]
    said: str


Run = Callable[..., Outcome]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("news.xml").write_bytes(NEWS)
    Path("mail.xml").write_bytes(MAIL)
    return tmp_path


@pytest.fixture
def treecast_match(here: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    def run(*arguments: str) -> Outcome:
        status = main(["match", *arguments])
        out, err = capfdbinary.readouterr()
        return Outcome(status, out.decode().splitlines(), err.decode())

    return run


def test_lines_of_document_and_subscription(treecast_match: Run) -> None:
    done = treecast_match("-q", "//item", "-q", "/mail", "news.xml", "mail.xml")
    assert done.lines == ["news.xml\t//item", "mail.xml\t/mail"]
    assert done.status == 0
    assert done.said.startswith("2 documents, 2 matches, 0 errors in ")


def test_quiet_says_nothing(treecast_match: Run) -> None:
    assert treecast_match("--quiet", "-q", "/mail", "mail.xml").said == ""


def test_json_lines(treecast_match: Run) -> None:
    Path('say "hi"\\.xml').write_bytes(NEWS)
    done = treecast_match("-q", "//item", "--format", "json", "news.xml", 'say "hi"\\.xml')
    assert [json.loads(line) for line in done.lines] == [
        {"document": "news.xml", "subscription": "//item"},
        {"document": 'say "hi"\\.xml', "subscription": "//item"},
    ]


def test_parquet(treecast_match: Run) -> None:
    done = treecast_match("-q", "/*", "-q", "//item", "-o", "found.parquet", "news.xml", "mail.xml")
    assert done.lines == []
    rows = pq.read_table("found.parquet").to_pylist()
    assert sorted((row["document"], row["subscription"]) for row in rows) == [
        ("mail.xml", "/*"),
        ("news.xml", "/*"),
        ("news.xml", "//item"),
    ]


def test_parquet_without_matches_still_has_its_columns(treecast_match: Run) -> None:
    assert treecast_match("-q", "/zebra", "-o", "found.parquet", "news.xml").status == 0
    table = pq.read_table("found.parquet")
    assert table.column_names == ["document", "subscription"]
    assert table.num_rows == 0


@pytest.mark.parametrize(("name", "first"), [("out.tsv", "news.xml\t/news"), ("out.jsonl", '{"document": "news.xml"')])
def test_output_file_and_its_suffix(treecast_match: Run, name: str, first: str) -> None:
    assert treecast_match("-q", "/news", "--output", name, "news.xml").lines == []
    assert Path(name).read_text().startswith(first)
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_names_and_ids_of_every_length_are_written_whole(treecast_match: Run) -> None:
    ids = ["i" * length + chr(ord("a") + length % 26) for length in range(70)]
    Path("all.csv").write_text("id,query\n" + "".join(f"{subscription},//item\n" for subscription in ids))
    names = ["d" * length + ".xml" for length in range(1, 70)]
    for name in names:
        Path(name).write_bytes(NEWS)
    done = treecast_match("-s", "all.csv", *names)
    assert done.lines == [f"{name}\t{subscription}" for name in names for subscription in ids]


def test_tabs_and_line_ends_are_escaped(treecast_match: Run) -> None:
    Path("a\tb\n.xml").write_bytes(NEWS)
    Path("subscriptions.jsonl").write_text('{"id": "x\\ty\\\\z", "query": "/news"}\n')
    done = treecast_match("-s", "subscriptions.jsonl", "a\tb\n.xml", "news.xml")
    assert done.lines == ["a\\tb\\n.xml\tx\\ty\\\\z", "news.xml\tx\\ty\\\\z"]


def test_a_name_that_is_not_utf8(treecast_match: Run) -> None:
    name = os.fsdecode(b"caf\xe9.xml")
    Path(name).write_bytes(NEWS)
    assert treecast_match("-q", "/news", name).lines == [r"caf\\xe9.xml" + "\t/news"]


def test_directories_patterns_and_gzip(treecast_match: Run) -> None:
    (Path("in") / "deep").mkdir(parents=True)
    (Path("in") / "deep" / "2.xml.gz").write_bytes(gzip.compress(NEWS))
    (Path("in") / "1.xml").write_bytes(NEWS)
    (Path("in") / "_ignored.txt").write_bytes(b"not a document")
    Path("disguised.xml").write_bytes(gzip.compress(NEWS))
    done = treecast_match("-q", "/news", "in", "new*.xml", "disguised.xml", "in/**/*.gz")
    assert [line.split("\t")[0] for line in done.lines] == [
        "in/1.xml",
        "in/deep/2.xml.gz",
        "news.xml",
        "disguised.xml",
    ]


def test_standard_input(treecast_match: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("news.xml").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert treecast_match("-q", "/news", "-").lines == ["-\t/news"]


def test_bad_documents_are_reported_and_the_rest_goes_on(treecast_match: Run) -> None:
    Path("bad.xml").write_bytes(b"<a><b></a>")
    Path("junk.xml").write_bytes(bytes(range(256)) * 10)
    Path("empty.xml").write_bytes(b"")
    Path("dtd.xml").write_bytes(b"<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>")
    Path("half.xml.gz").write_bytes(gzip.compress(NEWS * 100)[:40])
    done = treecast_match(
        "-q", "/news", "bad.xml", "junk.xml", "empty.xml", "dtd.xml", "half.xml.gz", "gone.xml", "no*.pdf", "news.xml"
    )
    assert done.status == 1
    assert done.lines == ["news.xml\t/news"]
    for name in ("bad.xml", "junk.xml", "empty.xml", "dtd.xml"):
        assert f"treecast: {name}: TC2" in done.said
    for name, code in {"half.xml.gz": "TC714", "gone.xml": "TC710", "no*.pdf": "TC710"}.items():
        assert f"treecast: {name}: {code}" in done.said
    assert "5 documents, 1 match, 7 errors" in done.said
    assert "Traceback" not in done.said


def test_links_in_directories(treecast_match: Run) -> None:
    Path("in").mkdir()
    (Path("in") / "loop.xml").symlink_to("loop.xml")
    (Path("in") / "circle").symlink_to(".")
    (Path("in") / "link.xml").symlink_to(Path("news.xml").resolve())
    (Path("in") / "gone.xml").symlink_to("nowhere.xml")
    done = treecast_match("-q", "/news", "in")
    assert done.status == 1
    assert done.lines == ["in/link.xml\t/news"]
    assert "in/loop.xml: TC712" in done.said
    assert "in/gone.xml: TC712" in done.said
    assert "2 errors" in done.said


def test_deep_directories(treecast_match: Run) -> None:
    names = ["in", *["d"] * 1_200]
    here = Path.cwd()
    try:
        for name in names:
            Path(name).mkdir()
            os.chdir(name)
        Path("news.xml").write_bytes(NEWS)
        os.chdir(here)
        assert treecast_match("-q", "/news", "in").lines == ["/".join([*names, "news.xml"]) + "\t/news"]
    finally:
        subprocess.run(["rm", "-rf", str(here / "in")], check=True)  # too deep for Python's own rmtree


def test_an_empty_directory_is_bad_input(treecast_match: Run) -> None:
    Path("void").mkdir()
    done = treecast_match("-q", "/news", "void")
    assert done.status == 1
    assert "void: TC710 no document in this directory" in done.said


def test_an_unreadable_file(treecast_match: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may read everything, so the refusal is made here.
    def refuse(self: Path, *arguments: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.open", refuse)
    done = treecast_match("-q", "/news", "news.xml")
    assert done.status == 1
    assert "news.xml: TC712 the file cannot be read: Permission denied" in done.said
    assert "hint:" in done.said


def test_a_gzip_bomb_is_refused_without_inflating_it(treecast_match: Run) -> None:
    Path("bomb.xml.gz").write_bytes(gzip.compress(b"<a>" + b" " * (60 << 20) + b"</a>", compresslevel=1))
    tracemalloc.start()
    done = treecast_match("-q", "/a", "--document-bytes-max", "1M", "bomb.xml.gz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert done.status == 1
    assert "bomb.xml.gz: TC301" in done.said
    assert peak < 8 << 20


@pytest.mark.parametrize(
    ("option", "value", "document"),
    [
        ("--document-bytes-max", "20", b"<a>0123456789012345</a>"),
        ("--depth-max", "2", b"<a><b><c/></b></a>"),
        ("--attributes-max", "1", b"<a x='' y=''/>"),
        ("--name-bytes-max", "4", b"<abcde/>"),
        ("--attribute-bytes-max", "4", b"<a x='12345'/>"),
    ],
)
def test_limits(treecast_match: Run, option: str, value: str, document: bytes) -> None:
    Path("large.xml").write_bytes(document)
    assert treecast_match("-q", "/*", "large.xml").status == 0
    done = treecast_match("-q", "/*", option, value, "large.xml")
    assert done.status == 1
    assert "large.xml: TC30" in done.said


def test_entities(treecast_match: Run) -> None:
    Path("html.xml").write_bytes(b"<p>a&nbsp;b</p>")
    assert treecast_match("-q", "/p", "html.xml").status == 1
    assert treecast_match("-q", "/p", "--entities", "html", "html.xml").lines == ["html.xml\t/p"]


def test_namespaces(treecast_match: Run) -> None:
    Path("ns.xml").write_bytes(b"<a xmlns='urn:x'/>")
    assert treecast_match("-q", "/p:a", "--namespace", "p=urn:x", "ns.xml").lines == ["ns.xml\t/p:a"]
    assert treecast_match("-q", "/a", "--namespace", "=urn:x", "ns.xml").lines == ["ns.xml\t/a"]
    assert treecast_match("-q", "/a", "ns.xml").lines == []


def test_refused_subscriptions_stop_it_and_are_listed(treecast_match: Run) -> None:
    Path("queries.txt").write_text("/news\n" + "".join(f"/news/namespace::a{number}\n" for number in range(30)))
    done = treecast_match("-s", "queries.txt", "-o", "out.tsv", "news.xml")
    assert done.status == 1
    assert not Path("out.tsv").exists()
    assert done.said.startswith(
        "treecast: TC140 nothing was added: 30 subscriptions were refused; the first of them:\n2: TC1"
    )
    assert done.said.count("TC1") == 21


@pytest.mark.parametrize("query", ["news", "/news[", "/x:news"])
def test_one_refused_query(treecast_match: Run, query: str) -> None:
    done = treecast_match("-q", query, "news.xml")
    assert done.status == 1
    assert done.lines == []
    assert "TC1" in done.said
    assert "Traceback" not in done.said


def test_a_setting_that_is_none_is_refused_with_its_subscription(treecast_match: Run) -> None:
    Path("wide.csv").write_text("id,query,deliver\nall,/news,document\nwide,/news,everything\n")
    done = treecast_match("-s", "wide.csv", "news.xml")
    assert done.status == 1
    assert done.said.startswith("treecast: wide: TC144 deliver is document or elements, not 'everything'")


def test_ids_of_two_files_may_not_clash(treecast_match: Run) -> None:
    Path("one.csv").write_text("id,query\nq,/news\n")
    Path("two.csv").write_text("id,query\nq,/mail\n")
    done = treecast_match("-s", "one.csv", "-s", "two.csv", "news.xml")
    assert done.status == 1
    assert done.said.startswith("treecast: q: TC14")


def test_no_subscriptions_at_all(treecast_match: Run) -> None:
    Path("none.csv").write_text("id,query\n")
    done = treecast_match("-s", "none.csv", "news.xml")
    assert done.status == 0
    assert "there are no subscriptions" in done.said


@pytest.mark.parametrize(("output", "advice"), [("no/such/place.tsv", "create the directory"), (".", "name a file")])
def test_an_impossible_output(treecast_match: Run, output: str, advice: str) -> None:
    done = treecast_match("-q", "/news", "-o", output, "news.xml")
    assert done.status == 1
    assert f"TC790 {output}: " in done.said
    assert f"\n  hint: {advice}" in done.said


def test_a_device_is_written_to_directly(treecast_match: Run) -> None:
    assert treecast_match("-q", "/news", "-o", "/dev/null", "news.xml").status == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_threads_and_small_batches_change_nothing(treecast_match: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    root = sample.path()
    arguments = ("-s", str(root / "subscriptions.csv"), str(root / "documents"))
    expected = treecast_match(*arguments, "--threads", "1")
    assert expected.status == 0
    assert len(expected.lines) > 500
    documents = [line.split("\t")[0] for line in expected.lines]
    assert list(dict.fromkeys(documents)) == [file.path for file in list_files(arguments[2:]) if file.path in documents]
    monkeypatch.setattr(document_files, "BATCH_DOCUMENTS_MAX", 3)
    assert sorted(treecast_match(*arguments, "--threads", "4").lines) == sorted(expected.lines)
    monkeypatch.setattr(document_files, "BATCH_BYTES_MAX", 1)
    assert sorted(treecast_match(*arguments).lines) == sorted(expected.lines)


@pytest.mark.parametrize("form", ["tsv", "json"])
def test_text_is_written_in_pieces(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of all matches may be larger than memory. A piece is at most one line longer than the bound."""

    class Recorder(io.BytesIO):
        def write(self, text: Any) -> int:
            sizes.append(len(text))
            return super().write(text)

    sizes: list[int] = []
    index = Index()
    index.add_many((f"{number}" + "x" * 90, "//a") for number in range(50))
    names, matches = [f"document {number}" for number in range(7)], index.match_many([b"<a/>"] * 7)
    whole, pieces = io.BytesIO(), Recorder()
    match_output.TextWriter(whole, form).write(names, matches)
    monkeypatch.setattr(match_output, "PIECE_BYTES", 1000)
    match_output.TextWriter(pieces, form).write(names, matches)
    assert pieces.getvalue() == whole.getvalue()
    assert max(sizes) <= 1200
    assert len(whole.getvalue().splitlines()) == 350


def test_parquet_is_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index()
    index.add_many((f"{number}" + "x" * 90, "//a") for number in range(50))
    monkeypatch.setattr(match_output, "TEXT_BYTES_MAX", 1000)
    with match_output.open_writer("parquet", str(tmp_path / "out.parquet")) as writer:
        writer.write(["one", "two"], index.match_many([b"<a/>"] * 2))
    found = pq.ParquetFile(tmp_path / "out.parquet")
    assert found.num_row_groups > 5
    assert found.read().column("document").to_pylist() == ["one"] * 50 + ["two"] * 50


def test_batches_hold_no_more_than_they_must(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        Path(f"{number}.xml").write_bytes(b"<a/>" * 25)
    names = [f"{number}.xml" for number in range(10)]
    settings = ReadSettings(document_bytes_max=1000)
    monkeypatch.setattr(document_files, "BATCH_BYTES_MAX", 250)
    sizes = [len(batch.documents) for batch in document_files.batches(names, settings, lambda name, error: None)]
    assert sizes == [3, 3, 3, 1]
    monkeypatch.setattr(document_files, "BATCH_DOCUMENTS_MAX", 2)
    sizes = [len(batch.documents) for batch in document_files.batches(names, settings, lambda name, error: None)]
    assert sizes == [2, 2, 2, 2, 2]


@pytest.mark.parametrize("verb", ["match", "render"])
@pytest.mark.parametrize("output", ["out.tsv", "out.json", "out.parquet", "out/"])
def test_no_output_is_left_where_a_document_is_bad(
    verb: str, output: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if output.endswith(".tsv") and verb == "render":
        output = "out"  # payloads
    Path("bad.xml").write_bytes(b"<a>")
    arguments = [verb, "-q", "/news", "-o", output, "bad.xml", "news.xml"]
    if output == "out/":
        arguments += ["--format", "files", *(["--render"] if verb == "match" else [])]
    assert main(arguments) == 1
    assert f"nothing is written to {output}: 1 error; add --skip-bad" in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir() if "out" in path.name or path.name.startswith(".")) == []
    assert main([*arguments, "--skip-bad"]) == 0
    assert "bad.xml: TC209" in capsys.readouterr().err
    assert Path(output).exists()


def test_an_earlier_output_stays_where_a_document_is_bad(treecast_match: Run) -> None:
    Path("bad.xml").write_bytes(b"<a>")
    Path("out.tsv").write_text("earlier")
    assert treecast_match("-q", "/news", "-o", "out.tsv", "bad.xml").status == 1
    assert Path("out.tsv").read_text() == "earlier"
    assert treecast_match("-q", "/news", "-o", "/dev/null", "bad.xml").status == 1
