"""`treecast explain`: what it prints, in which colours, and with which status."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from treecast.cli import main
from treecast.cli.excerpt import WIDTH_CHARS_MAX, Mark, excerpt

NEWS = """<news>
\t<item lang="en"/>

  <!-- 4 -->
  <!-- 5 -->
  <!-- 6 -->
  <!-- 7 -->
  <item lang="de"><title>Zwei</title></item>
</news>
"""


@pytest.fixture
def news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("news.xml").write_text(NEWS)
    return "news.xml"


def run(*arguments: str) -> int:
    return main(["explain", *arguments])


def test_a_match(news: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-q", "/news/item[title = 'Zwei']", "--context", "0", news) == 0
    assert capsys.readouterr().out == (
        """\
news.xml matches /news/item[title = 'Zwei']
  /news  /news[1], line 1
  /item  /news[1]/item[2], line 8
         [title = 'Zwei'] is true: /news[1]/item[2]/title[1] is "Zwei"

  1 │ <news>
    │ ~~~~~~
  ⋮
  8 │   <item lang="de"><title>Zwei</title></item>
    │   ~~~~~~~~~~~~~~~~^^^^^^^
"""
    )


def test_a_near_miss_is_no_failure(news: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-q", "/news/item[@lang='fr']", "--context", "1", news) == 0
    out = capsys.readouterr().out
    assert out.startswith("news.xml does not match /news/item[@lang='fr']\n")
    assert '  2 │  <item lang="en"/>\n    │  ~~~~~~^^^^^^^^^~~\n  3 │\n' in out


def test_json(news: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-q", "//item/@lang", "--format", "json", news) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["document"], report["matched"], report["miss"]) == ("news.xml", True, None)
    found = report["steps"][1]["place"]
    assert (found["path"], NEWS[found["start"] : found["end"]]) == ("/news[1]/item[1]/@lang", 'lang="en"')


def test_a_subscription_of_a_file(news: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.csv").write_text(
        "id,query,namespaces,ordered\nbad,//(,,\nq1,/n:news,n=urn:n,\nq2,/news[item][item],,true\n"
    )
    assert run("-s", "s.csv", "--id", "q1", news) == 0
    assert "only the namespace differs" in capsys.readouterr().out
    assert run("-s", "s.csv", "--id", "q2", news) == 0
    assert capsys.readouterr().out.startswith("news.xml matches")
    assert run("-s", "s.csv", "--id", "bad", news) == 1
    assert "TC105" in capsys.readouterr().err
    assert run("-s", "s.csv", "--id", "q3", news) == 1
    assert "TC143 s.csv: there is no subscription 'q3'" in capsys.readouterr().err


def test_a_subscription_of_lines(news: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.txt").write_text("/a\n//title\n")
    assert run("-s", "s.txt", "--id", "2", news) == 0
    assert capsys.readouterr().out.startswith("news.xml matches //title")


def test_namespaces_order_and_entities(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.xml.gz"
    path.write_bytes(gzip.compress(b'<a xmlns="u">&nbsp;<c/><b/></a>'))
    arguments = ["--namespace", "=u", "--entities", "html", str(path)]
    assert run("-q", "/a[b][c]", *arguments) == 0
    assert "does not match" not in capsys.readouterr().out
    assert run("-q", "/a[b][c]", "--ordered", *arguments) == 0
    assert "too early" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "DOCUMENT"),
        (["doc.xml"], "either -q QUERY or -s FILE"),
        (["-q", "/a", "-s", "s.csv", "doc.xml"], "either -q QUERY or -s FILE"),
        (["-s", "s.csv", "doc.xml"], "go together"),
        (["-q", "/a", "--id", "q1", "doc.xml"], "go together"),
        (["-s", "s.dat", "--id", "q1", "doc.xml"], "--subscriptions-format"),
        (["-s", "-", "--id", "q1", "--subscriptions-format", "csv", "-"], "once"),
        (["-q", "/a", "--namespace", "p", "doc.xml"], "prefix=uri"),
        (["-q", "/a", "--context", "-1", "doc.xml"], "--context"),
        (["-q", "/a", "--format", "xml", "doc.xml"], "xml"),
    ],
)
def test_wrong_usage(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run(*arguments)
    assert stop.value.code == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("query", "content", "expected"),
    [
        ("a", "<a/>", "TC104"),
        ("/p:a", "<a/>", "TC109"),
        ("/a", "<a>", "doc.xml: TC209"),
        ("/a", None, "doc.xml: TC712"),
    ],
)
def test_bad_input_is_1(
    query: str, content: str | None, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "doc.xml"
    if content is not None:
        document.write_text(content)
    assert run("-q", query, str(document)) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert expected in said.err


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_on_a_terminal(news: str, environment: dict[str, str], coloured: bool) -> None:
    command = [sys.executable, "-m", "treecast", "explain", "-q", "/news/item[@lang='fr']", news]
    control, terminal = pty.openpty()
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run(command, stdout=terminal, check=True, env={**plain, "TERM": "xterm", **environment})
    os.close(terminal)
    said = os.read(control, 65536).decode()
    os.close(control)
    assert ('\x1b[31mlang="en"\x1b[0m' in said) == coloured
    assert ("\x1b" in said) == coloured


# --- excerpts --------------------------------------------------------------------------------------------------------


def shown(source: str, *marks: Mark, context: int = 0) -> list[str]:
    return list(excerpt(source, marks, context, colour=False))


def test_excerpt_of_a_long_line() -> None:
    source = "<a>" + "x" * 300 + "<b/>" + "y" * 300 + "</a>"
    lines = shown(source, Mark(1, 1, 1, 4, "step"), Mark(1, 304, 1, 308, "step"))
    assert [line.index("~") for line in lines if "~" in line] == [6, 6 + 1 + 24]
    assert lines[2].endswith("y…")
    assert max(map(len, lines)) <= WIDTH_CHARS_MAX + 8


def test_excerpt_keeps_marks_under_wide_and_strange_characters() -> None:
    first, under = shown("<中\u0301 \x1b[2J\t<b/>", Mark(1, 10, 1, 14, "step"))
    assert "\x1b" not in first
    assert first == "  1 │ <中\u0301 \ufffd[2J <b/>"
    assert under == "    │" + " " * 10 + "~~~~"


def test_excerpt_of_a_tag_over_several_lines() -> None:
    assert shown("<a\r\n x='1'\r>", Mark(1, 1, 3, 2, "step"), context=9) == [
        "  1 │ <a",
        "    │ ~~",
        "  2 │  x='1'",
        "  3 │ >",
    ]


def test_excerpt_of_nothing() -> None:
    assert shown("<a/>") == []
