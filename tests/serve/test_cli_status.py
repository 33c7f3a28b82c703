"""`treecast status`: one look, a live screen on a terminal, and no line that is too wide."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from support.quick_process import QuickProcess
from support.served_http import Service

from treecast.cli import main
from treecast.cli.status_screen import StatusScreen, width
from treecast.serve.doors import forms

pytestmark = pytest.mark.house

COLUMNS, ROWS = 80, 24


def example(queues: int = 3) -> dict[str, Any]:
    """As large as numbers get, with ids of strangers."""
    history = [float(number % 7) * 1e6 for number in range(60)]
    rates = {"published": 123456.7, "delivered": 1e8, "refused": 0.25}
    queue = {"waiting": 10**9, "sent": 1_000, "receivers": 3, "is_parked": True, "is_paused": False}
    return {
        "broker": "\x1b[2Jbroker" * 10,
        "version": "0.2.0",
        "uptime_ms": 10**10,
        "store": "x",
        "totals": {"published": 10**10, "matched": 10**12, "delivered": 10**11, "refused": 1},
        "rates": {"last_10_s": rates, "last_60_s": rates},
        "history": {"published": history, "delivered": history, "refused": history, "lag_ms": [0] * 60},
        "lag": {"receivers_ms": 99_999_999, "oldest_ms": 10**10, "oldest_document": 10**9},
        "queues": [
            {"subscription": f"{'短い名前' * 30}\u202e{number}", "oldest_document": 1, "oldest_ms": 10**10, **queue}
            for number in range(queues)
        ],
        "sizes": dict.fromkeys(forms.Sizes.__struct_fields__, 10**12),
    }


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("rows", [10, 24])
def test_every_line_fits(columns: int, rows: int) -> None:
    screen = StatusScreen("http://127.0.0.1:8080", colour=False, ascii_only=False)
    lines = screen.lines(example(50), columns, rows)
    assert len(lines) <= rows
    assert max(map(width, lines)) <= columns
    assert all(line.isprintable() for line in lines)


def test_colours_are_extra() -> None:
    plain = StatusScreen("u", colour=False, ascii_only=False).lines(example(), 80)
    coloured = StatusScreen("u", colour=True, ascii_only=False).lines(example(), 80)
    assert plain != coloured
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in coloured] == plain


def test_ascii_will_do() -> None:
    status = {**example(0), "broker": "b"}
    assert "\n".join(StatusScreen("u", colour=False, ascii_only=True).lines(status, 80)).isascii()


def test_one_look(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.subscribe("status/a", "/status-a")
    service.publish("<status-a/>")
    url = f"http://127.0.0.1:{service.port}"
    assert main(["status", "--network", "--url", url]) == 1
    assert capsys.readouterr().err == f"treecast: TC430 {url} is one broker, no network\n  hint: leave out --network\n"
    assert main(["status", "--url", url]) == 0  # in a pipe, --once is not needed
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and max(map(len, shown.splitlines())) <= COLUMNS
    for word in ("published", "delivered", "refused", "lag", "disk", "dead letter", "status/a"):
        assert word in shown
    assert main(["status", "--url", url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sizes"]["documents"] > 0
    assert main(["status", "--url", "http://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("treecast: TC407 ")


class Terminal:
    """A screen that a command draws on; all that it was sent."""

    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        command = ["-m", "treecast", *arguments]
        environment = {**os.environ, "TERM": "xterm", "PYTHONUTF8": "1"}
        self.process = QuickProcess(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.shown = ""

    def wait_for(self, text: str) -> str:
        """All up to there; what follows is looked at next."""
        end = time.monotonic() + 30
        while text not in self.shown:
            assert time.monotonic() < end, self.shown
            if select.select([self._ours], [], [], 0.1)[0]:
                self.shown += os.read(self._ours, 1 << 16).decode("utf-8", "replace")
        before, _, self.shown = self.shown.partition(text)
        return before

    def press(self, key: str) -> None:
        os.write(self._ours, key.encode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.theirs)
        os.close(self._ours)


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_the_live_screen(tmp_path: Path, is_interrupted: bool) -> None:
    """It follows what happens, outlives the service, and leaves the terminal as it was."""
    with Service(tmp_path / "data", status_ms=1) as own:
        terminal = Terminal("status", "--url", f"http://127.0.0.1:{own.port}")
        try:
            terminal.wait_for("\x1b[?1049h")
            assert "nothing waits" in terminal.wait_for("q leaves")
            own.subscribe("live", "/live")
            own.publish("<live/>")
            terminal.wait_for("live  ")
            if is_interrupted:
                terminal.process.send_signal(signal.SIGINT)
            else:
                own.end()
                terminal.wait_for("TC407")
                own.start()
                terminal.wait_for("q leaves")
                terminal.press("q")
            terminal.wait_for("\x1b[?25h\x1b[?1049l")
            assert terminal.process.wait(30) == (130 if is_interrupted else 0)
            assert termios.tcgetattr(terminal.theirs) == terminal.before
        finally:
            terminal.close()
