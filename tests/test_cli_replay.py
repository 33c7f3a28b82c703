"""`treecast replay` and `treecast render`: what subscriptions would have matched, and delivered."""

from __future__ import annotations

import io
import json
import re
import shlex
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import treecast
from treecast.cli import main

pytestmark = pytest.mark.house
GUIDE = Path(__file__).parent.parent / "docs" / "guide" / "replay.md"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a verb in a directory that holds the two documents of the guide."""
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```xml\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    Path("archive").mkdir()
    for name, line in zip("ab", block.splitlines(), strict=True):
        Path("archive", f"{name}.xml").write_text(f"{line}\n")

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_the_guide_is_right(command: Run) -> None:
    text = GUIDE.read_text("utf-8")
    examples = re.findall(r"^```\n(treecast [^\n]*)\n```\n\n```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(examples) == 3
    for line, expected in examples:
        status, out, _ = command(*shlex.split(line)[1:])
        assert (status, out) == (0, expected), line


def test_every_subscription_of_a_file_as_json(command: Run) -> None:
    Path("s.csv").write_text("id,query\nall,/news\nnone,/x\nprices,//price\n")
    status, out, err = command("replay", "-s", "s.csv", "--format", "json", "archive")
    assert status == 0
    rows = {row["subscription"]: row for row in map(json.loads, out.splitlines())}
    assert [(row["matched"], row["documents"]) for row in rows.values()] == [(2, 2), (0, 2), (1, 2)]
    assert rows["prices"] == {
        "subscription": "prices", "query": "//price", "documents": 2, "matched": 1, "examples": ["archive/b.xml"],
    }  # fmt: skip
    assert re.fullmatch(r"2 documents in \d+\.\d\d s \([\d,]+ documents/s\)\n", err)


def test_one_of_a_file_and_one_that_is_not_there(command: Run) -> None:
    index = treecast.Index()
    index.add_many([("all", "/news"), ("none", "/x")])
    index.save("s.tcx")
    status, out, _ = command("replay", "-s", "s.tcx", "--id", "all", "--examples", "0", "--quiet", "archive")
    assert (status, out) == (0, "all: /news\n  matches 2 of 2 documents: 100.00%\n")
    status, out, err = command("replay", "-s", "s.tcx", "--id", "al", "archive")
    assert (status, out) == (1, "")
    assert err.startswith("treecast: TC143 there is no subscription 'al'")


def test_many_are_listed_by_their_matches(command: Run) -> None:
    Path("s.csv").write_text("id,query\n" + "".join(f"q{n},/x{n}\n" for n in range(60)) + "all,/news\n")
    _, out, _ = command("replay", "-s", "s.csv", "--quiet", "archive")
    lines = out.splitlines()
    assert lines[:4] == ["all: /news", "  matches 2 of 2 documents: 100.00%", "  archive/a.xml", "  archive/b.xml"]
    assert lines[-1] == "… and 11 more; --format json has all"


def test_archives_and_records_and_bad_documents(command: Run) -> None:
    with zipfile.ZipFile("old.zip", "w") as archive:
        archive.write("archive/a.xml", "a.xml")
        archive.writestr("bad.xml", "<a>")
    with tarfile.open("old.tar", "w") as archive:
        member = tarfile.TarInfo("list.xml")
        data = b"<list><news><item/></news><news/></list>"
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    status, out, err = command("replay", "-q", "//item", "--format", "json", "old.zip")
    assert status == 1
    assert json.loads(out)["examples"] == ["old.zip!/a.xml"]
    assert "old.zip!/bad.xml: TC209" in err
    assert "2 documents, 1 of them bad" in err
    _, out, _ = command("replay", "-q", "//item", "--record", "news", "--format", "json", "old.tar")
    assert json.loads(out)["examples"] == ["old.tar!/list.xml#0"]
    status, out, _ = command("explain", "-q", "//item", "--record", "news", "old.tar!/list.xml#0")
    assert (status, out.splitlines()[0]) == (0, "old.tar!/list.xml#0 matches //item")
    assert command("explain", "-q", "//item", "--record", "news", "old.tar!/list.xml#1")[1].startswith(
        "old.tar!/list.xml#1 does not match //item"
    )
    status, _, err = command("explain", "-q", "//item", "--record", "news", "old.tar!/list.xml#2")
    assert status == 1
    assert "TC710 the file has no record 2" in err
    Path("s.csv").write_text("id,query\nlist,/list\nitem,//item\n")
    _, out, _ = command("check", "--sample", "old.tar", "--record", "news", "--no-covering", "--quiet", "s.csv")
    assert out.splitlines() == [
        "list: no sample document has an element 'list'",
        "list: no sample document matches it (2 tried)",
    ]


def test_match_reads_what_is_packed_and_splits_records(command: Run) -> None:
    data = Path("archive/a.xml").read_bytes()
    Path("a.xml.zst").write_bytes(pa.compress(data, "zstd", asbytes=True))
    with zipfile.ZipFile("z.zip", "w") as archive:
        archive.write("archive/a.xml", "a.xml")
    with tarfile.open("t.tar.gz", "w:gz") as archive:
        archive.add("archive/b.xml", "b.xml")
    status, out, _ = command("match", "-q", "//title", "a.xml.zst", "z.zip", "t.tar.gz")
    assert status == 0
    assert [line.split("\t")[0] for line in out.splitlines()] == ["a.xml.zst", "z.zip!/a.xml", "t.tar.gz!/b.xml"]
    status, out, _ = command("match", "-q", "/item", "--record", "item", "a.xml.zst", "z.zip")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["a.xml.zst#0", "z.zip!/a.xml#0"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["replay", "a.xml"], "give -q QUERY or -s FILE"),
        (["replay", "-q", "/a", "--id", "x", "a.xml"], "add -s FILE"),
        (["replay", "-q", "/a", "--record", "a b", "a.xml"], "record must be"),
        (["replay", "-s", "-", "--subscriptions-format", "csv", "-"], "once"),
        (["render", "a.xml"], "give -s FILE or -q QUERY"),
        (["render", "-q", "/a", "--format", "tsv", "a.xml"], "tsv"),
        (["explain", "-q", "/a", "--record", "<", "a.xml"], "record must be"),
    ],
)
def test_wrong_usage(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert expected in capsys.readouterr().err


def test_a_refused_query_is_one_message(command: Run) -> None:
    status, out, err = command("replay", "-q", "dropp //x", "archive")
    assert (status, out) == (1, "")
    assert err.startswith("treecast: dropp //x: TC104 ")
    assert "  hint: did you mean drop" in err


def test_render_writes_payloads_in_every_form(tmp_path: Path, command: Run) -> None:
    _, out, _ = command("render", "--quiet", "-q", "//price", "--deliver", "document", "archive")
    assert out == Path("archive/b.xml").read_text()
    _, out, _ = command("render", "--quiet", "-q", "//price", "--format", "json", "archive")
    assert json.loads(out) == {"document": "archive/b.xml", "subscription": "//price", "payload": "<price>7.20</price>"}
    Path("s.jsonl").write_text(
        '{"id": "t", "query": "//title", "deliver": "elements"}\n{"id": "w", "query": "/news"}\n'
    )
    _, out, _ = command("render", "--quiet", "-s", "s.jsonl", "-q", "//price", "archive/b.xml")
    assert out.splitlines() == [
        "<title>Grain is up</title>",
        Path("archive/b.xml").read_text()[:-1],
        "<price>7.20</price>",
    ]
    assert command("render", "--quiet", "-s", "s.jsonl", "-o", "outbox/", "archive")[0] == 0
    assert sorted(str(path.relative_to("outbox")) for path in Path("outbox").rglob("*.xml")) == [
        "t/0000001-a.xml", "t/0000002-b.xml", "w/0000001-a.xml", "w/0000002-b.xml",
    ]  # fmt: skip
    assert command("render", "--quiet", "-q", "//price", "--format", "payload", "-o", "p.txt", "archive")[0] == 0
    assert Path("p.txt").read_text() == "<price>7.20</price>\n"


def test_entities_are_hinted_at_in_the_words_of_the_command_line(command: Run) -> None:
    Path("u.xml").write_text("<a>&uuml;<b/></a>")
    for verb in ("match", "render", "replay", "explain"):
        status, _, err = command(verb, "-q", "//b", "u.xml")
        assert status == 1
        assert "hint: add --entities html, or write the character itself" in err, verb
        assert command(verb, "-q", "//b", "--entities", "html", "u.xml")[0] == 0
