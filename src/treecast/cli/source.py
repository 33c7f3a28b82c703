"""`treecast source`: the sources of a network, at its registry: add, list, remove."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast.cli.network_options import add_registry_option, add_tls_options, location, read_registries, read_tls
from treecast.cli.serving import add_subcommand
from treecast.durable import unused_name
from treecast.errors import PeerError, TreecastError
from treecast.names import printable

if TYPE_CHECKING:
    from treecast.serve.blocking_client import BlockingConnection


DESCRIPTION = """\
Documents of a network belong to sources. The registry gives each source its
root: the broker that takes its documents."""

EPILOG = """\
example:
  treecast source add news --registry 127.0.0.1:7410 --location 2,0
  treecast source list --registry 127.0.0.1:7410
  treecast source remove news --registry 127.0.0.1:7410"""

Action = Callable[[argparse.Namespace, "BlockingConnection"], str]
CONNECT_SECONDS = 5.0
TRY_SECONDS = 1.0
"""Of two registries each is asked for so long at first: one of them may be down."""
NOTE_SECONDS = 2.0
"""Whoever waits longer is told for what."""
ROWS_AT_ONCE = 1_000


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = add_subcommand(verbs, "source", help, DESCRIPTION, EPILOG)
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    example = "example:\n  treecast source "
    add = add_subcommand(
        *(actions, "add", "add a source, or change it", "Adds a source, or changes it, and prints its root."),
        f"{example}add news --registry 127.0.0.1:7410 --schema news.dtd",
    )
    add.add_argument("source", metavar="NAME")
    option = add.add_argument
    option("--schema", metavar="FILE", help="a DTD that its documents follow")
    option("--description", metavar="TEXT", default="", help="for those who read the list")
    option("--location", metavar="X,Y", type=location, default=(0.0, 0.0), help="the root is near; default 0,0")
    option("--messages-per-second", metavar="N", type=_count, default=0, help="documents that are expected")
    option("--message-bytes", metavar="N", type=_count, default=0, help="of one of them")
    _finish(add, _add_source)
    shown = add_subcommand(
        *(actions, "list", "show sources and their roots", "Shows the sources of a network."),
        f"{example}list --registry 127.0.0.1:7410",
    )
    shown.add_argument("--format", metavar="FORMAT", choices=("text", "json"), default="text", help="text or json")
    _finish(shown, _list)
    remove = add_subcommand(
        *(actions, "remove", "end a source", "Removes a source; its documents are still delivered."),
        f"{example}remove news --registry 127.0.0.1:7410",
    )
    remove.add_argument("source", metavar="NAME")
    _finish(remove, _remove)


def _finish(parser: argparse.ArgumentParser, action: Action) -> None:
    add_registry_option(parser, "where it is; again for a second one", is_needed=True)
    parser.add_argument("--name", metavar="NAME", help="yours; default that in your certificate")
    add_tls_options(parser, "of yours", "CA of the registry")

    def run(options: argparse.Namespace) -> int:
        print(_ask(parser, options, action), end="")
        return 0

    parser.set_defaults(run=run)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number such as 1000")
    return int(text)


def _ask(parser: argparse.ArgumentParser, options: argparse.Namespace, action: Action) -> str:
    """Of two registries one answers: that in charge. Raises TransportError, RefusedError."""
    from treecast.serve.blocking_client import BlockingConnection
    from treecast.serve.tls import own_name
    from treecast.serve.transport_error import TransportError

    addresses = list(read_registries(parser, options.registry).values())
    tls = read_tls(parser, options)
    name = options.name or (own_name(tls.certificate) if tls is not None else "") or unused_name("source-")

    def ask(address: str, seconds: float) -> str:
        with (
            _note_if_slow(f"{address} does not answer yet; trying for {seconds:g} s"),
            BlockingConnection(address, name, tls=tls, connect_s=seconds) as connection,
        ):
            return action(options, connection)

    *others, last = addresses
    tries = [(address, TRY_SECONDS) for address in addresses] if others else []
    for address, seconds in [*tries, *((address, CONNECT_SECONDS) for address in others)]:
        try:
            return ask(address, seconds)
        except TransportError:
            continue
    return ask(last, CONNECT_SECONDS)


@contextmanager
def _note_if_slow(text: str) -> Iterator[None]:
    timer = threading.Timer(NOTE_SECONDS, lambda: print(f"treecast: {printable(text)}", file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _add_source(options: argparse.Namespace, connection: BlockingConnection) -> str:
    from treecast.overlay.messages import RegisterSource
    from treecast.workload.dtd_source import read_source

    schema = read_source(Path(options.schema), options.schema).text if options.schema else ""
    command = RegisterSource(
        *(options.source, schema, options.description, options.location),
        *(options.messages_per_second, options.message_bytes),
    )
    places = connection.request(command).places
    if not places:
        raise _no_registry("a broker without a network, which takes its documents itself now")
    (place,) = places
    return f"{printable(options.source)}: publish at {printable(place.broker)}, {printable(place.address)}\n"


def _no_registry(what: str) -> TreecastError:
    hint = "--registry is the address of treecast registry"
    return PeerError(f"TC480 no registry listens there, but {what}\n  hint: {hint}", code="TC480", hint=hint)


def _list(options: argparse.Namespace, connection: BlockingConnection) -> str:
    rows: list[dict[str, Any]] = []
    while some := connection.inspect("sources", after=rows[-1]["key"] if rows else "", count_max=ROWS_AT_ONCE):
        if "root" not in some[0]:
            raise _no_registry("a broker")
        rows += some
    if not rows:
        print("treecast: the network has no sources", file=sys.stderr)
    if options.format == "json":
        return "".join(json.dumps({"source": row.pop("key"), **row}) + "\n" for row in rows)
    return "".join(
        f"{printable(row['key']):<24} {printable(row['root']):<16} {printable(row['description'])}".rstrip() + "\n"
        for row in rows
    )


def _remove(options: argparse.Namespace, connection: BlockingConnection) -> str:
    connection.remove_source(options.source)
    return ""
