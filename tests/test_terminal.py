"""Texts of strangers reach a terminal only escaped: ids, names of files, errors, payloads, DTDs."""

from __future__ import annotations

import json
import os
import pty
import re
from pathlib import Path

import pytest
from support.quick_process import PIPE, QuickProcess

pytestmark = pytest.mark.house

ODD = "a\x1b[2J\x9b5m\u202eb\x7f"
OURS = re.compile(r"\x1b\[(K|0m|2m|3[1236]m)|[\r\n\t]")  # the colours of explain, and what wipes a line


def on_terminal(directory: Path, *arguments: str) -> str:
    """What a terminal would get from `treecast`, stdout and stderr together."""
    ours, theirs = pty.openpty()
    command = ["-m", "treecast", *arguments]
    with QuickProcess(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=directory) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            parts.append(part)
        process.wait(60)
    os.close(ours)
    return b"".join(parts).decode()


def in_pipe(directory: Path, *arguments: str) -> str:
    with QuickProcess(["-m", "treecast", *arguments], cwd=directory, stdout=PIPE) as process:
        shown, _ = process.communicate()
    assert process.returncode == 0
    return shown


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / f"{ODD}.xml").write_text("<a>\u202e</a>")
    (tmp_path / f"bad{ODD}.xml").write_text(f"<a><b></{ODD}></a>")
    rows = [{"id": ODD, "query": "/a"}, {"id": "tab\tline\n", "query": "/a"}]
    (tmp_path / "subscriptions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "refused.jsonl").write_text(json.dumps({"id": ODD, "query": f"/a[@b={ODD}]"}))
    (tmp_path / "bad.dtd").write_text(f"<!ELEMENT a {ODD}>")
    spelled = "".join(f"\\u{ord(c):04x}" for c in ODD)
    (tmp_path / "pipeline.toml").write_text(f'[source]\npath = "{spelled}"\n')
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("match", "-s", "subscriptions.jsonl", "."),
        ("match", "-s", "subscriptions.jsonl", "--format", "json", "."),
        ("match", "--render", "-s", "subscriptions.jsonl", "."),
        ("match", "-s", "refused.jsonl", "."),
        ("match", "-q", "/a", ODD),
        ("match", f"--{ODD}"),
        ("explain", "-q", "/a", f"{ODD}.xml"),
        ("explain", "-q", "/a", f"bad{ODD}.xml"),
        ("explain", "-s", "subscriptions.jsonl", "--id", f"{ODD}x", f"{ODD}.xml"),
        ("generate", "documents", "bad.dtd", "-o", "out"),
        ("run", "pipeline.toml", "--dry-run"),
    ],
    ids=lambda arguments: " ".join(arguments[:3]).encode("unicode_escape").decode(),
)
def test_nothing_moves_the_cursor(directory: Path, arguments: tuple[str, ...]) -> None:
    shown = on_terminal(directory, *arguments)
    left = OURS.sub("", shown)
    assert left.isprintable(), left
    assert shown.strip()


def test_pipes_get_what_is_there(directory: Path) -> None:
    """In TSV only what would break lines and columns is escaped; JSON on a terminal says the same as in a pipe."""
    command = ["match", "--quiet", "-s", "subscriptions.jsonl", f"{ODD}.xml"]
    assert in_pipe(directory, *command) == f"{ODD}.xml\t{ODD}\n{ODD}.xml\ttab\\tline\\n\n"
    piped = in_pipe(directory, *command, "--format", "json")
    shown = on_terminal(directory, *command, "--format", "json").replace("\r\n", "\n")
    assert [json.loads(line) for line in shown.splitlines()] == [json.loads(line) for line in piped.split("\n")[:-1]]
