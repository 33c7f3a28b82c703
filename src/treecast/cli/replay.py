"""`treecast replay`: what would subscriptions have matched in documents that are there already?

For each: how many documents, one in how many, and examples with the place of the match marked; of one that matched
nothing, the document in which it came furthest. Bad documents are reported, and the rest goes on.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from treecast import _native
from treecast.cli.console import Console, notes
from treecast.cli.explain import coloured, count, show
from treecast.cli.match import (
    SUBSCRIPTIONS_FORMAT,
    add_limit_options,
    build_index,
    check_formats,
    cores,
    describe_refusal,
    namespaces_of,
    positive,
    read_limits,
    read_settings,
)
from treecast.document import native_entities
from treecast.errors import QueryError, TreecastError
from treecast.inputs import document_files, subscriptions
from treecast.inputs.archives import ReadProgress
from treecast.names import printable

if TYPE_CHECKING:
    from treecast import Index

SHOWN_MAX = 50
"""Subscriptions that text shows, the most matches first; JSON has all."""
EXPLAINED_MAX = 5
"""Subscriptions of which text shows the lines of a document."""
NEAR_DOCUMENTS_MAX = 20
EXAMPLE_BYTES_MAX = 1 << 20
"""Larger documents are named, not shown."""

DESCRIPTION = """\
Says what subscriptions would have matched in documents that are there already:
how many, one in how many, and examples; of one that matched nothing, how near
it came. DOCUMENT is an XML file (also compressed), an archive (zip, tar), a
directory, a pattern, or - for standard input."""

EPILOG = """\
example:
  treecast replay -q '//item[@topic="sport"]' archive/2026/ old.zip
  treecast replay -s subscriptions.csv --id alert/17 archive/"""


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "replay",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast replay (-q QUERY | -s FILE [--id ID]) [options] DOCUMENT …",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30),
    )
    option = parser.add_argument
    option("documents", metavar="DOCUMENT", nargs="+", help=argparse.SUPPRESS)
    several = functools.partial(option, action="append", default=[])
    several("-q", "--query", metavar="QUERY", help="a query, its own id; repeatable")
    several("-s", "--subscriptions", metavar="FILE", help="file of subscriptions; repeatable")
    several("--id", metavar="ID", help="only this subscription of the files; repeatable")
    option("--subscriptions-format", metavar="F", choices=subscriptions.FORMATS, help=SUBSCRIPTIONS_FORMAT)
    several("--namespace", metavar="P=URI", help="bind a prefix; =URI for names without one")
    several("--record", metavar="NAME", help="split files into these elements; *: every child")
    option("--pattern", metavar="P", default="*", help="which names of directories and archives")
    option("--entities", metavar="html", choices=("html",), help="accept the entities of HTML, such as &nbsp;")
    option("--examples", metavar="N", type=count, default=3, help="documents of each; default %(default)s")
    option("--format", metavar="F", choices=("text", "json"), default="text", help="text, or json: all subscriptions")
    option("--threads", metavar="N", type=positive, default=cores(), help="default: all cores (%(default)s)")
    option("--quiet", action="store_true", help="no progress, notes or summary on stderr")
    add_limit_options(parser)
    parser.set_defaults(run=lambda options: run(parser, options), payload_bytes_max=None, deliver="document")


@dataclass
class Replay:
    """What was seen of one subscription."""

    matched: int = 0
    examples: list[tuple[str, bytes]] = field(default_factory=list)
    """Names and bytes of the first documents that matched."""


@dataclass
class Totals:
    """What was seen of all documents."""

    replays: dict[str, Replay]
    documents: int = 0
    errors: int = 0
    first: list[tuple[str, bytes]] = field(default_factory=list)
    """The first documents: for subscriptions that match nothing."""


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    check(parser, options)
    console = Console(options.words, progress=not options.quiet)
    console.status("reading subscriptions …")
    try:
        index = choose(build_index(options, notes(console, quiet=options.quiet)), options.id)
    except QueryError as error:
        console.say("\n".join(describe_refusal(error)))
        return 1
    begin = time.monotonic()
    totals = replay(index, options, console)
    seconds = time.monotonic() - begin
    console.clear()
    lines = in_json(index, totals) if options.format == "json" else in_text(index, totals, options)
    for line in lines:
        print(line)
    if not options.quiet:
        errors = f", {totals.errors:,} of them bad" if totals.errors else ""
        rate = totals.documents / max(seconds, 1e-9)
        noun = "document" if totals.documents == 1 else "documents"
        console.say(f"{totals.documents:,} {noun}{errors} in {seconds:.2f} s ({rate:,.0f} documents/s)")
    return 1 if totals.errors else 0


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with 2 where options contradict. Sets `namespaces`, `limits` and `rule`."""
    if not options.subscriptions and not options.query:
        parser.error("no subscriptions: give -q QUERY or -s FILE")
    if options.id and not options.subscriptions:
        parser.error("--id names a subscription of a file: add -s FILE")
    if (options.subscriptions + options.documents).count("-") > 1:
        parser.error("standard input can be read once: give - once")
    check_formats(parser, options.subscriptions, options.subscriptions_format)
    options.namespaces = namespaces_of(parser, options.namespace)
    read_limits(parser, options)


def choose(index: Index, ids: list[str]) -> Index:
    """The subscriptions of these ids, or all. Raises QueryError (TC143)."""
    if not ids:
        return index
    for id in index.missing(ids):
        raise QueryError(f"there is no subscription {id!r}", code="TC143", hint="check the id")
    return index.part([index[id] for id in dict.fromkeys(ids)])


def replay(index: Index, options: argparse.Namespace, console: Console) -> Totals:
    """Match all documents, a batch at a time."""
    totals = Totals({id: Replay() for id in index})

    def report(name: str, error: TreecastError | str) -> None:
        totals.errors += 1
        console.say(f"treecast: {printable(name)}: {error}")

    settings = read_settings(options, index.limits)
    read = document_files.progress_of(options.documents, settings) if console.shows_progress else ReadProgress(None)
    for batch in document_files.batches(options.documents, settings, report, read):
        for name, data in zip(batch.names, batch.documents, strict=True):
            if len(totals.first) >= NEAR_DOCUMENTS_MAX:
                break
            totals.first.append((name, data))
        for matches, errors in index.match_batches(batch.documents, on_error="report", threads=options.threads):
            for row in errors.to_pylist():
                report(batch.names[row["document"]], row["message"])
            _add(totals, matches, batch, options.examples)
        totals.documents += len(batch.documents)
        console.update(totals.documents, None, totals.errors, read.share)
    return totals


def _add(totals: Totals, matches: Any, batch: document_files.Batch, examples_max: int) -> None:
    """Count the matches of a table, and keep the first documents of each subscription."""
    import pyarrow.compute as pc

    ids = set()
    for row in pc.value_counts(matches["subscription"]).to_pylist():
        entry = totals.replays[row["values"]]
        entry.matched += row["counts"]
        if len(entry.examples) < examples_max:
            ids.add(row["values"])
    if not ids:
        return
    columns = (matches[name].to_pylist() for name in ("document", "subscription"))
    for document, id in sorted(zip(*columns, strict=True)):
        entry = totals.replays[id]
        if id in ids and len(entry.examples) < examples_max:
            data = batch.documents[document]
            entry.examples.append((batch.names[document], data if len(data) <= EXAMPLE_BYTES_MAX else b""))


def in_json(index: Index, totals: Totals) -> Iterator[str]:
    """One object a line."""
    for id, entry in totals.replays.items():
        fields = {
            "subscription": id,
            "query": index[id].query,
            "documents": totals.documents,
            "matched": entry.matched,
            "examples": [name for name, _ in entry.examples],
        }
        yield json.dumps(fields)


def in_text(index: Index, totals: Totals, options: argparse.Namespace) -> Iterator[str]:
    """A line for each subscription, the most matches first; of a few also lines of documents."""
    pairs = sorted(totals.replays.items(), key=lambda pair: -pair[1].matched)
    for id, entry in pairs[:SHOWN_MAX]:
        query = index[id].query
        name = printable(id) if id == query else f"{printable(id)}: {printable(query)}"
        yield f"{name}\n  matches {entry.matched:,} of {totals.documents:,} documents{_rate(entry, totals)}"
        if len(pairs) > EXPLAINED_MAX:
            yield from (f"  {printable(document)}" for document, _ in entry.examples)
            continue
        examples = entry.examples or _nearest(index, id, totals.first)
        for document, data in examples[: options.examples]:
            yield ""
            yield from _explain(index, id, document, data, options)
    if len(pairs) > SHOWN_MAX:
        yield f"… and {len(pairs) - SHOWN_MAX:,} more; --format json has all"


def _rate(entry: Replay, totals: Totals) -> str:
    if not entry.matched:
        return ""
    share = entry.matched / totals.documents
    return f": {share:.2%}" + (f", one in {round(1 / share):,}" if share <= 0.5 else "")


def _nearest(index: Index, id: str, documents: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """The document in which a query that matched nothing came furthest, of the first ones."""
    best: list[tuple[str, bytes]] = []
    furthest = (-1, False)
    for name, data in documents:
        if len(data) > EXAMPLE_BYTES_MAX:
            continue
        try:
            explanation = index.explain(data, id)
        except TreecastError:
            continue
        # A predicate that had something to look at came further than one that had nothing.
        distance = len(explanation.steps), explanation.failed is not None and any(explanation.failed.places())
        if distance > furthest:
            furthest, best = distance, [(name, data)]
    return best


def _explain(index: Index, id: str, name: str, data: bytes, options: argparse.Namespace) -> Iterator[str]:
    if not data:
        yield f"{printable(name)} (too large to be shown)"
        return
    explanation = index.explain(data, id)
    source = _native.source_text(data, index.limits.native(), native_entities(options.entities))
    yield from show(explanation, name, source, 1, colour=coloured())
