"""`treecast status`: a live screen of how a service is doing, or one look at it."""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from treecast.cli.client_options import add_client_options, client_maker
from treecast.cli.network import network_lines
from treecast.cli.status_screen import DIM, YELLOW, StatusScreen, fit
from treecast.errors import TreecastError
from treecast.names import printable

if TYPE_CHECKING:
    from treecast.serve.http_client import HttpClient

DESCRIPTION = """\
Shows rates, lag, queues and sizes of a service, every second. Press q to
leave. In a pipe, or with --once, it looks once."""

EPILOG = """\
example:
  treecast status --url http://127.0.0.1:8080
  treecast status --json | jq .totals
  treecast status --network"""

EVERY_S = 1.0
COLUMNS = 80
"""Where there is no terminal."""
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
LEAVING = frozenset("qQ\x1b\x03\x04")


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "status",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast status [options]",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=24),
    )
    option = parser.add_argument
    option("--once", action="store_true", help="look once, and end")
    option("--json", action="store_true", help="once, as the service answers")
    option("--network", action="store_true", help="once: brokers, trees and links of a network")
    add_client_options(parser)
    parser.set_defaults(run=lambda options: run(parser, options))


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from treecast.serve.http_client import HttpClientSettings

    settings = HttpClientSettings(connect_ms=3_000, answer_ms=10_000)
    with client_maker(parser, options, lambda _: None, settings)() as client:
        if options.network:
            picture = _network(client)
            print(json.dumps(picture) if options.json else "\n".join(network_lines(picture)))
            return 0
        status = _look(client)
        if options.json:
            print(json.dumps(status))
            return 0
        is_terminal = sys.stdout.isatty()
        screen = StatusScreen(
            str(client.url),
            colour=is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
            ascii_only="utf" not in (sys.stdout.encoding or "").lower(),
        )
        if options.once or not is_terminal or os.environ.get("TERM") == "dumb":
            columns = shutil.get_terminal_size().columns if is_terminal else COLUMNS
            note = _network_note(client)
            _write("\n".join([*screen.lines(status, columns), *(["", note] if note else [])]) + "\n")
            return 0
        with _full_screen():
            _watch(client, screen, status)
    return 0


def _network(client: HttpClient) -> Any:
    """Raises TreecastError."""
    try:
        return client.ask("GET", "/v1/network").json
    except TreecastError as error:
        if error.code != "TC430":  # there is no such page
            raise
        hint = "leave out --network"
        message = f"TC430 {client.url} is one broker, no network\n  hint: {hint}"
        raise TreecastError(message, code=error.code, hint=hint) from None


def _network_note(client: HttpClient) -> str:
    """What the door of a network answers is the status of one of its brokers."""
    try:
        count = len(client.ask("GET", "/v1/network").json["brokers"])
    except TreecastError:
        return ""
    return f"one broker of a network of {count}: treecast status --network shows all"


def _look(client: HttpClient) -> dict[str, Any]:
    """Raises TreecastError."""
    status: dict[str, Any] = client.ask("GET", "/v1/status").json
    return status


def _write(text: str) -> None:
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


@contextmanager
def _full_screen() -> Iterator[None]:
    """A screen of our own; keys come one by one and are not shown. Both are as before at the end."""
    before = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None
    try:
        if before is not None:
            tty.setcbreak(sys.stdin, termios.TCSANOW)
        _write(ENTER)
        yield
    finally:
        _write(LEAVE)
        if before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def _watch(client: HttpClient, screen: StatusScreen, status: dict[str, Any]) -> None:
    """Until somebody presses q."""
    problem = ""
    note = _network_note(client)
    while True:
        columns, rows = shutil.get_terminal_size()
        last = screen.paint(fit(f"q leaves; {note}" if note else "q leaves", columns), DIM)
        if problem:
            last = screen.paint(fit(printable(problem), columns), YELLOW)
        lines = [*screen.lines(status, columns, max(rows - 2, 1)), "", last][:rows]
        _write(HOME + "\n".join(f"{line}{CLEAR_LINE}" for line in lines) + CLEAR_BELOW)
        if _has_left(time.monotonic() + EVERY_S):
            return
        try:
            status, problem = _look(client), ""
        except TreecastError as error:
            problem = f"{error}".partition("\n")[0] + "; trying again"


def _has_left(end: float) -> bool:
    """Wait until then for a key that ends it."""
    while (left := end - time.monotonic()) > 0:
        if not sys.stdin.isatty():
            time.sleep(left)
            return False
        ready, _, _ = select.select([sys.stdin], [], [], left)
        if ready and (not (key := os.read(sys.stdin.fileno(), 1).decode("latin-1")) or key in LEAVING):
            return True
    return False
