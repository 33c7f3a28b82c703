"""The README, the guide and the examples are correct: their code runs and prints what they show.

A ```python block runs after those above it in the same file, a ```sh block in a shell of its own; a block without a
language that follows is what they print. A ```shell block is for a clone (git, make, pip): its make targets exist.
Pages that use Spark run in tests/spark/test_spark_guide.py.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.quick_command import quick_command

pytestmark = pytest.mark.house

ROOT = Path(__file__).parent.parent
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
COOKBOOK = sorted((ROOT / "docs" / "cookbook").glob("*.md"))
PAGES = [ROOT / "README.md", *GUIDE, *COOKBOOK]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIRST_SCREEN_LINES = 40


def needs_spark(page: Path) -> bool:
    return any(language == "python" and "treecast.spark" in code for language, code in blocks(page))


def blocks(page: Path) -> list[tuple[str, str]]:
    return FENCE.findall(page.read_text("utf-8"))


def run_python(code: str, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), names)
    return printed.getvalue()


def run_shell(code: str, directory: Path) -> str:
    places = [str(quick_command()), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(places)}
    command = ["bash", "-euc", code]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def check_page(page: Path, tmp_path: Path, names: dict[str, Any]) -> None:
    """Run the page, with these names known at its beginning."""
    names |= {"__name__": "example"}
    printed: str | None = None
    for language, code in blocks(page):
        if language == "python":
            printed = run_python(code, names)
        elif language == "sh":
            printed = run_shell(code, tmp_path)
        elif language == "" and printed is not None:
            assert code == printed
            printed = None


@pytest.mark.parametrize(
    "page", [page for page in PAGES if not needs_spark(page)], ids=lambda page: f"{page.parent.name}-{page.name}"
)
def test_code_prints_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_page(page, tmp_path, {})


def test_a_result_is_on_the_first_screen() -> None:
    top = "".join((ROOT / "README.md").read_text("utf-8").splitlines(keepends=True)[:FIRST_SCREEN_LINES])
    assert "make demo" in top
    assert "['goals', 'players']" in top


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for page in PAGES:
        text = page.read_text("utf-8")
        assert set(re.findall(r"\bmake ([a-z]+)\b(?=`|\n)", text)) <= targets, page


def test_the_help_knows_every_option_of_the_guide() -> None:
    from treecast.cli.entry import build_parser

    verb = build_parser()._subparsers._group_actions[0].choices["match"]  # type: ignore[union-attr,index]
    text = (ROOT / "docs" / "guide" / "cli.md").read_text("utf-8")
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert named == {flag for flag in verb._option_string_actions if flag.startswith("--")} - {"--help"}


def test_the_page_of_errors_has_every_code() -> None:
    page = (ROOT / "docs" / "guide" / "errors.md").read_text("utf-8")
    documented = set(re.findall(r"TC\d{3}", page))
    for first, last in re.findall(r"TC(\d{3}) to TC(\d{3})", page):
        documented |= {f"TC{number}" for number in range(int(first), int(last))}
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "native").rglob("*.[ch]pp")]
    thrown = {code for path in sources for code in re.findall(r"TC\d{3}\b", path.read_text("utf-8"))}
    assert documented == thrown


def test_every_page_can_be_found() -> None:
    for start in (ROOT / "README.md", ROOT / "docs" / "guide" / "index.md"):
        text = start.read_text("utf-8")
        missing = [page.name for page in GUIDE if not re.search(rf"\]\((docs/guide/)?{re.escape(page.name)}\)", text)]
        assert missing in ([], ["index.md"]), start


def test_every_page_of_the_cookbook_is_in_its_index() -> None:
    text = (ROOT / "docs" / "cookbook" / "index.md").read_text("utf-8")
    assert [page.name for page in COOKBOOK if f"]({page.name})" not in text] == ["index.md"]
    for start in (ROOT / "README.md", ROOT / "docs" / "guide" / "index.md"):
        assert "cookbook/index.md)" in start.read_text("utf-8")


def test_example_route_directory(tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    (incoming / "a.xml").write_text("<trade><fx/></trade>")
    (incoming / "b.xml").write_text("<trade><fx></trade>")
    (tmp_path / "s.csv").write_text("id,query\nfx,//fx\n../all,/trade\nnone,/memo\n")
    command = [sys.executable, str(ROOT / "examples" / "route_directory.py"), "s.csv", "incoming", "routed"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "2 copies, 1 rejected\n"
    made = sorted(str(path.relative_to(tmp_path / "routed")) for path in (tmp_path / "routed").rglob("*.??*"))
    assert made == ["for/%2E%2E%2Fall/a.xml", "for/fx/a.xml", "rejected/b.txt", "rejected/b.xml"]
    assert "TC2" in (tmp_path / "routed" / "rejected" / "b.txt").read_text()


def test_an_example_without_arguments_says_how_to_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["route_directory.py"])
    with pytest.raises(
        SystemExit, match=r"^usage: python examples/route_directory\.py SUBSCRIPTIONS\.csv INCOMING/ ROUTED/$"
    ):
        runpy.run_path(str(ROOT / "examples" / "route_directory.py"), run_name="__main__")


def test_example_live_changes(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "live_changes.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed == "2000 documents matched while subscriptions changed; 11 subscriptions are left\n"


def test_example_match_arrow_table(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "match_arrow_table.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "k1 all-trades",
        "k1 fx",
        "k2 all-trades",
        "k2 swaps",
        "k3 TC202 at byte 13",
    ]
