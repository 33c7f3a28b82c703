"""`treecast subscribe`: what subscriptions match, as it comes.

Without `--ack` an event stream is read: any number of readers get everything, and a lost connection is opened again
where it ended. With `--ack` deliveries are pulled and acknowledged once they are dealt with, so that several processes
share the work.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast.cli.client_options import add_client_options, client_maker
from treecast.cli.console import Console
from treecast.cli.delivery_output import FORMATS, Output, printing, read_envelope, running, writing
from treecast.cli.match import namespaces_of
from treecast.names import printable

if TYPE_CHECKING:
    from treecast.serve.http_client import HttpClient

DESCRIPTION = """\
Receives what the subscriptions with these IDs match, and prints it. With -q
the subscription is registered first. After a lost connection it goes on where
it was. End it with Ctrl-C."""

EPILOG = """\
WHERE is beginning, now, the number of a document, a time (2026-11-16T14:00),
or how long ago (90s, 10m, 2h, 7d). Else: what was not delivered yet.

example:
  treecast subscribe goals -q '//item[@topic="sport"]' --deliver elements
  treecast subscribe goals --ack --exec 'mail -s "$TREECAST_DOCUMENT" me'"""

PULL_MAX, PULL_WAIT_MS = 100, 10_000
FROM_NOW = 1 << 62
"""No document has this number: what follows the last one is meant."""
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "subscribe",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast subscribe [options] ID …",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=24),
    )
    option = parser.add_argument
    option("ids", metavar="ID", nargs="+", help=argparse.SUPPRESS)
    option("-q", "--query", metavar="QUERY", help="register it, or change its query")
    option("--namespace", metavar="P=URI", action="append", default=[], help="bind a prefix of the query")
    option("--deliver", metavar="WHAT", choices=("document", "elements"), help="document (default) or elements")
    option("--from", dest="start", metavar="WHERE", type=_start, help="begin there: see below")
    option("--format", metavar="FORMAT", choices=FORMATS, help="text (default), json or payload")
    option("-o", "--output", metavar="DIR", help="a file for each delivery, in DIR/ID/")
    option("--exec", metavar="COMMAND", dest="command", help="run it for each, with the payload as its input")
    option("--ack", action="store_true", help="share with others: each delivery to one of them")
    option("--count", metavar="N", type=_count, help="end after so many deliveries")
    option("--delete-after", action="store_true", help="with -q: remove the subscription at the end")
    option("--quiet", action="store_true", help="no notes on stderr")
    add_client_options(parser)
    parser.set_defaults(run=lambda options: run(parser, options))


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text[:18]) >= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text[:18])


def _start(text: str) -> dict[str, int]:
    """The body of a replay.

    >>> _start("beginning"), _start("17"), _start("1970-01-01T00:01:00Z")
    ({}, {'from_document': 17}, {'from_ms': 60000})
    """
    if text == "beginning":
        return {}
    if text == "now":
        return {"from_document": FROM_NOW}
    if re.fullmatch(r"[0-9]{1,18}", text):
        return {"from_document": int(text)}
    ago = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    try:
        if ago:
            when = datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])})
        else:
            when = datetime.fromisoformat(text).astimezone(UTC)
        return {"from_ms": max(int(when.timestamp() * 1000), 0)}
    except (ValueError, OverflowError):
        what = "beginning, now, a document's number, a time or how long ago"
        raise argparse.ArgumentTypeError(f"{text!r} is none of these: {what}") from None


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    _check(parser, options)
    namespaces = namespaces_of(parser, options.namespace)
    console = Console(options.words, progress=False)

    def say(message: str) -> None:
        console.say(f"treecast: {printable(message)}")

    def note(message: str) -> None:
        if not options.quiet:
            say(message)

    with client_maker(parser, options, note)() as client:
        if options.query is not None:
            _register(client, options, namespaces, note)
        try:
            if options.start is not None:
                _replay(client, options, note)
            output = _output(options, say)
            failed = _pull(client, options, output) if options.ack else _follow(client, options, output, note)
        finally:
            if options.delete_after:
                from treecast.serve.http_client import subscription_path

                client.close()  # an event stream may be open on it
                client.ask_again("DELETE", subscription_path(options.ids[0]))
    return 1 if failed else 0


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exits with 2 where options contradict."""
    options.ids = list(dict.fromkeys(options.ids))
    if not all(options.ids):
        parser.error("an ID is empty")
    if options.query is not None and len(options.ids) > 1:
        parser.error("-q QUERY is that of one subscription: give one ID")
    if options.ack and len(options.ids) > 1:
        parser.error("--ack takes one ID")
    for flag, given in (
        ("--namespace", options.namespace),
        ("--deliver", options.deliver),
        ("--delete-after", options.delete_after),
    ):
        if given and options.query is None:
            parser.error(f"{flag} is about a query: add -q QUERY")
    chosen = [flag for flag, given in (("--output", options.output), ("--exec", options.command)) if given]
    chosen += ["--format"] if options.format else []
    if len(chosen) > 1:
        parser.error(f"give one of {' and '.join(chosen)}")


def _output(options: argparse.Namespace, say: Callable[[str], None]) -> Output:
    if options.output:
        return writing(Path(options.output))
    return running(options.command, say) if options.command else printing(options.format or "text")


def _register(
    client: HttpClient, options: argparse.Namespace, namespaces: dict[str, str], note: Callable[[str], None]
) -> None:
    from treecast.serve.http_client import subscription_path

    form = {"query": options.query, "namespaces": namespaces, "deliver": options.deliver or "document"}
    answer = client.ask("PUT", subscription_path(options.ids[0]), form)
    note(f"{options.ids[0]} is {'registered' if answer.status == 201 else 'changed'}; waiting for what it matches")


def _replay(client: HttpClient, options: argparse.Namespace, note: Callable[[str], None]) -> None:
    """All from there counts as not delivered."""
    from treecast.serve.http_client import subscription_path

    wanted = options.start.get("from_document", 1)
    for id in options.ids:
        first = client.ask("POST", subscription_path(id, ":replay"), options.start).json["first"]
        if "from_ms" not in options.start and wanted < first < FROM_NOW:
            note(f"documents before {first} are no longer kept")


def _follow(client: HttpClient, options: argparse.Namespace, output: Output, note: Callable[[str], None]) -> int:
    """From an event stream; returns how many could not be dealt with."""
    from treecast.serve.event_reader import EventReader

    failures = count = 0
    for event in EventReader(client, options.ids, note).events():
        if event.name == "gone":
            note("documents in between are no longer kept, or belong to other data")
        if event.name != "delivery":
            continue
        failures += not output(read_envelope(event.data))
        count += 1
        if count == options.count:
            break
    return failures


def _pull(client: HttpClient, options: argparse.Namespace, output: Output) -> int:
    """By pulling and acknowledging; returns how many attempts failed."""
    failures = done = 0
    # A command may take long: others should get what it does not get to.
    most = 1 if options.command else PULL_MAX
    while options.count is None or done < options.count:
        batch_size = most if options.count is None else min(most, options.count - done)
        successes, new_failures = _pull_some(client, options.ids[0], batch_size, output)
        done += successes
        failures += new_failures
    return failures


def _pull_some(client: HttpClient, id: str, most: int, output: Output) -> tuple[int, int]:
    """Deal with some deliveries; returns how many succeeded and failed."""
    from treecast.serve.http_client import subscription_path

    answer = client.ask_again("POST", subscription_path(id, ":pull"), {"max": most, "wait_ms": PULL_WAIT_MS})
    waiting = [read_envelope(envelope) for envelope in answer.json["deliveries"]]
    successes: list[str] = []
    failures: list[str] = []
    try:
        while waiting:
            is_done = output(waiting[0])
            (successes if is_done else failures).append(waiting.pop(0).id)
        return len(successes), len(failures)
    finally:  # also after Ctrl-C: what was not dealt with is for others, at once
        failures += [delivery.id for delivery in waiting]
        for action, ids in ((":ack", successes), (":fail", failures)):
            if ids:
                client.ask_again("POST", subscription_path(id, action), {"deliveries": ids})
