"""`treecast publish`: documents from wherever they lie to a service, each acknowledged or reported."""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from treecast.cli.client_options import add_client_options, client_maker
from treecast.cli.console import Console
from treecast.errors import TreecastError
from treecast.inputs import document_files
from treecast.inputs.archives import ReadProgress
from treecast.inputs.document_files import ReadSettings
from treecast.names import hashed, printable, text_of

if TYPE_CHECKING:
    from treecast.serve.batch_publisher import BatchPublisher, Counts, Finished
    from treecast.serve.http_client import HttpClient

DESCRIPTION = """\
Publishes documents, and waits until the service has them on disk. DOCUMENT is
an XML file (also compressed), an archive (zip, tar), a directory, a pattern,
or - for standard input. Each has an id, so that sending it again does no harm:
the service drops the copy."""

EPILOG = """\
example:
  treecast publish docs/ new/*.xml.gz
  curl -s https://example.org/feed | treecast publish --source feeds -"""

IDS = ("content", "name", "none")
COMPRESSIONS = ("auto", "gzip", "zstd", "none")
CONNECTIONS_MAX = 16
UNREACHABLE_SHOWN = 5
ID_CHARS_MAX = 1_000
PROGRESS_AFTER_S = 2.0


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "publish",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast publish [options] DOCUMENT …",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=26),
    )
    option = parser.add_argument
    option("documents", metavar="DOCUMENT", nargs="+", help=argparse.SUPPRESS)
    option("--source", metavar="NAME", default="default", help="they belong to; default %(default)s")
    option("--register", action="store_true", help="add the source, if there is none of this name")
    option("--id-from", metavar="WHAT", choices=IDS, default="content", help="content (default), name or none")
    option(
        "--record", metavar="NAME", action="append", default=[], help="split files into these elements; *: every child"
    )
    option("--pattern", metavar="P", default="*", help="which names of directories and archives")
    option("--entities", metavar="html", choices=("html",), help="with --record: keep the entities of HTML")
    option("--compress", metavar="HOW", choices=COMPRESSIONS, default="auto", help="auto (default), gzip, zstd or none")
    option("--connections", metavar="N", type=_connections, default=1, help="more than 1: faster, in any order")
    option("--quiet", action="store_true", help="no progress, notes or summary on stderr")
    add_client_options(parser)
    parser.set_defaults(run=lambda options: run(parser, options))


def _connections(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= CONNECTIONS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {CONNECTIONS_MAX}")
    return int(text)


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from treecast.serve.batch_publisher import BatchPublisher, PublishSettings

    settings = _read_settings(parser, options)
    console = Console(options.words, progress=not options.quiet, after_seconds=PROGRESS_AFTER_S)

    def note(message: str) -> None:
        if not options.quiet:
            console.say(f"treecast: {printable(message)}")

    make_client = client_maker(parser, options, note)
    with make_client() as client:
        client.ask("GET", "/healthz")  # a wrong address is said at once; what is lost later is tried again
        compression = _compression(options.compress, client)
        if options.register:
            _register(client, options.source)
    publishing = _Publishing(console, options)
    publisher = BatchPublisher(
        make_client,
        options.source,
        publishing.finished,
        PublishSettings(connections_max=options.connections, compression=compression),
    )
    if console.shows_progress:
        publishing.read = document_files.progress_of(options.documents, settings)
    try:
        with publisher:
            publishing.add_all(publisher, settings)
    finally:
        console.clear()
        if not options.quiet:
            console.say(publishing.summary(publisher.counts))
    return 1 if publisher.counts.refused or publishing.unreadable else 0


def _read_settings(parser: argparse.ArgumentParser, options: argparse.Namespace) -> ReadSettings:
    """How documents are read; exits with 2 where options contradict."""
    if options.documents.count("-") > 1:
        parser.error("standard input can be read once: give - once")
    if options.id_from == "name" and "-" in options.documents:
        parser.error("standard input has no name: give --id-from content or none")
    if options.entities and not options.record:
        parser.error("--entities is about records: add --record NAME")
    rule = None
    if options.record:
        from treecast.inputs.records import Rule

        try:
            rule = Rule(options.record, options.entities)
        except ValueError as error:
            parser.error(str(error))
    return ReadSettings(options.pattern, rule)


def _compression(choice: str, client: HttpClient) -> str:
    """On the way to this machine itself, compressing takes longer than sending."""
    if choice != "auto":
        return choice
    return "none" if client.url.is_local else "gzip"


def _register(client: HttpClient, source: str) -> None:
    """Not if it is there already: its schema and description stay as they are."""
    from treecast.serve.http_client import AnswerError

    path = f"/v1/sources/{quote(source, safe='')}"
    try:
        client.ask_again("GET", path)
    except AnswerError as error:
        if error.status != 404:
            raise
        client.ask_again("PUT", path, {})


def document_id(kind: str, name: str, body: bytes) -> str:
    """
    >>> document_id("name", "docs/a.xml", b"<a/>"), document_id("none", "docs/a.xml", b"<a/>")
    ('docs/a.xml', '')
    """
    if kind == "none":
        return ""
    if kind == "content":
        return f"sha256-{hashlib.sha256(body).hexdigest()}"
    text = text_of(name)
    return text if len(text) <= ID_CHARS_MAX and text.isprintable() and not text.startswith("sha256-") else hashed(text)


class _Publishing:
    """What is shown of it. `finished` comes from other threads."""

    def __init__(self, console: Console, options: argparse.Namespace) -> None:
        self.read = ReadProgress(None)
        self.unreadable = 0
        self._console = console
        self._documents: Sequence[str] = options.documents
        self._id_from = options.id_from
        self._begin = time.monotonic()
        self._done = self._refused = 0

    def add_all(self, publisher: BatchPublisher, settings: ReadSettings) -> None:
        for name, body in document_files.documents(self._documents, settings, self._report, self.read):
            publisher.add(name, body, document_id(self._id_from, name, body))
            self._update()

    def _report(self, name: str, error: TreecastError) -> None:
        self.unreadable += 1
        self._console.say(f"treecast: {printable(name)}: {error}")

    def finished(self, one: Finished) -> None:
        self._done += 1
        if one.code:
            self._refused += 1
            self._console.say(f"treecast: {printable(one.name)}: {one.message}")
        elif one.unreachable:
            missing = printable(", ".join(one.unreachable[:UNREACHABLE_SHOWN]))
            self._console.say(f"treecast: {printable(one.name)}: partial, the ring goes on trying to reach {missing}")
        self._update()

    def _update(self) -> None:
        self._console.update(self._done, None, self._refused + self.unreadable, self.read.share)

    def summary(self, counts: Counts) -> str:
        seconds = time.monotonic() - self._begin
        parts = [f"{counts.accepted:,} accepted", f"{counts.copies:,} copies", f"{counts.refused:,} refused"]
        if counts.partial:
            parts.append(f"{counts.partial:,} partial")
        if self.unreadable:
            parts.append(f"{self.unreadable:,} unreadable")
        return f"{', '.join(parts)} in {seconds:.2f} s ({counts.total / max(seconds, 1e-9):,.0f} documents/s)"
