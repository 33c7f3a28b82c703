"""The command as a whole: help, version, usage, signals and pipes."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import treecast
from treecast.cli import main
from treecast.cli.console import progress_line

pytestmark = pytest.mark.house

SELECTIVE = ("grant", "revoke", "publish", "subscribe", "update", "status", "receive", "broker", "follow")

COMMAND = [sys.executable, "-m", "treecast"]
SCREEN_LINES, SCREEN_COLUMNS = 40, 80


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"treecast {treecast.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [["--help"]]
    + [
        [verb, "--help"]
        for verb in (
            "match",
            "render",
            "explain",
            "replay",
            "check",
            "build",
            "generate",
            "init",
            "bench",
            "run",
            "demo",
            "broker",
            "registry",
            "source",
            "peer",
            "up",
            "publish",
            "subscribe",
            "status",
            "token",
            "selective",
            "experiment",
            "completion",
        )
    ]
    + [["generate", what, "--help"] for what in ("documents", "queries")]
    + [["token", what, "--help"] for what in ("create", "list", "revoke")]
    + [["source", what, "--help"] for what in ("add", "list", "remove")]
    + [["peer", what, "--help"] for what in ("up", "status")]
    + [["selective", what, "--help"] for what in SELECTIVE],
    ids=" ".join,
)
def test_help_fits_a_screen_and_shows_an_example(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(SCREEN_COLUMNS))
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= SCREEN_LINES
    assert max(map(len, text.splitlines())) < SCREEN_COLUMNS
    assert f"example:\n  treecast {' '.join(arguments[:-1]) or 'match'}" in text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "COMMAND"),
        (["frobnicate"], "frobnicate"),
        (["match"], "DOCUMENT"),
        (["match", "doc.xml"], "-s FILE or -q QUERY"),
        (["match", "-q", "", "doc.xml"], "-q QUERY is empty"),
        (["match", "-q", "/a", "--threads", "0", "doc.xml"], "from 1 to"),
        (["match", "-q", "/a", "--threads", "many", "doc.xml"], "many"),
        (["match", "-q", "/a", "--depth-max", "-1", "doc.xml"], "--depth-max"),
        (["match", "-q", "/a", "--depth-max", "0", "doc.xml"], "not a size"),
        (["match", "-q", "/a", "--document-bytes-max", "9G", "doc.xml"], "--document-bytes-max must be 1-"),
        (["match", "-q", "/a", "--document-bytes-max", "ten", "doc.xml"], "64K"),
        (["match", "-q", "/a", "--format", "xml", "doc.xml"], "xml"),
        (["match", "-q", "/a", "--format", "parquet", "doc.xml"], "--output"),
        (["match", "-q", "/a", "--namespace", "p:urn:x", "doc.xml"], "prefix=uri"),
        (["match", "-q", "/a", "--entities", "latin", "doc.xml"], "html"),
        (["match", "-s", "subscriptions.dat", "doc.xml"], "--subscriptions-format"),
        (["match", "-s", "-", "--subscriptions-format", "csv", "-"], "once"),
    ],
)
def test_wrong_usage_is_2_and_says_what_to_do(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert expected in said.err
    assert "--help" in said.err
    assert len(said.err.splitlines()) == 1


def test_a_reader_that_goes_away_is_no_failure(tmp_path: Path) -> None:
    document = tmp_path / "a.xml"
    document.write_text("<a/>")
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [*COMMAND, "match", "-q", "/a", str(document)], stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert done.stderr == b""
    assert done.returncode == 0


@pytest.mark.parametrize(("closed", "status"), [(">&-", 1), ("2>&-", 0), (">&- 2>&-", 1)])
def test_closed_streams(tmp_path: Path, closed: str, status: int) -> None:
    document = tmp_path / "a.xml"
    document.write_text("<a/>")
    command = f"'{sys.executable}' -m treecast match -q /a '{document}' {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert done.stdout == ("" if status else f"{document}\t/a\n")


def test_an_interrupt_is_130_and_one_line(tmp_path: Path) -> None:
    fifo = tmp_path / "subscriptions.csv"
    os.mkfifo(fifo)
    command = [*COMMAND, "match", "-s", str(fifo), "doc.xml"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        writer = _open_for_writing(fifo, process)
        said = _interrupt(process)
        os.close(writer)
    assert said == b"treecast: interrupted\n"
    assert process.returncode == 130


def _interrupt(process: subprocess.Popen[bytes]) -> bytes:
    """What the command says when it is interrupted; again, should the first interrupt be lost while Python starts."""
    try:
        for _ in range(6):
            process.send_signal(signal.SIGINT)
            try:
                return process.communicate(timeout=10)[1]
            except subprocess.TimeoutExpired:
                continue
        raise AssertionError("the command does not end when it is interrupted")
    finally:
        process.kill()


@pytest.mark.parametrize("more", [["-o", "m.parquet"], ["--render", "-o", "r.parquet"]], ids=" ".join)
def test_an_interrupt_leaves_no_traceback_and_no_half_of_a_parquet_file(tmp_path: Path, more: list[str]) -> None:
    """pyarrow ends a file when its writer is collected, which is too late here, and would say so."""
    (tmp_path / "a.xml").write_text("<a/>")
    fifo = tmp_path / "b.xml"
    os.mkfifo(fifo)
    command = [*COMMAND, "match", "--quiet", "-q", "/a", *more, "a.xml", "b.xml"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        writer = _open_for_writing(fifo, process)
        said = _interrupt(process)
        os.close(writer)
    assert said == b"treecast: interrupted\n"
    assert process.returncode == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.xml", "b.xml"]


def _open_for_writing(fifo: Path, process: subprocess.Popen[bytes]) -> int:
    """Waits until the command has the pipe open and so is at work."""
    while process.poll() is None:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
    raise AssertionError("the command ended before it read its subscriptions")


class Terminal(io.StringIO):
    """A stream that says it is a terminal: a real one needs devices that a bare system may lack."""

    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_a_terminal_and_wiped(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tmp_path / f"{number}.xml").write_text("<a/>")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["match", "-q", "/a", str(tmp_path)]) == 0
    said = terminal.getvalue()
    assert said.startswith("\rreading subscriptions …")
    assert "]   0%  0 documents" in said
    assert "\r\x1b[K" in said
    assert said.rstrip().splitlines()[-1].endswith("documents/s)")
    matches = capfd.readouterr().out
    assert len(matches.splitlines()) == 3
    assert "\x1b" not in matches


def test_progress_is_wiped_before_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "1.xml").write_text("<a/>")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["match", "-q", "/a", "-o", str(tmp_path / "no" / "where"), str(tmp_path)]) == 1
    assert "\r\x1b[Ktreecast: TC790 " in terminal.getvalue()


def test_no_progress_in_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "1.xml").write_text("<a/>")
    done = subprocess.run([*COMMAND, "match", "-q", "/a", str(tmp_path)], capture_output=True, check=True)
    assert done.stderr.startswith(b"1 document, 1 match, 0 errors in ")
    assert b"\r" not in done.stderr


def test_progress_line() -> None:
    assert progress_line(50, 100, 0, 2.0) == "[############............]  50%  50 of 100 documents  25/s  2 s left"
    assert progress_line(1234, None, 3, 1.0) == "1,234 documents  1,234/s  3 bad"
    assert progress_line(0, 10, 0, 0.0) == "[........................]   0%  0 of 10 documents  0/s"
    share = "[######..................]  25%  1,000 documents  500/s  6 s left"
    assert progress_line(1000, None, 0, 2.0, share=0.25) == share
