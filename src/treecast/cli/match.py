"""`treecast match`: which subscriptions match each document?

Documents are read and matched a batch at a time, so a million files need no more memory than one batch, its results
and the index. A bad document is reported and the rest goes on, but `--output` is written only if none is bad, or with
`--skip-bad`; a refused subscription stops the command before anything is matched. Results of a part would look like
results of the whole.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treecast.cli.console import Console, notes
from treecast.cli.output_file import DiscardedError, appears_at_the_end
from treecast.cli.sizes import size
from treecast.cli.wording import in_words, namespace_hint, plural
from treecast.document import Limits
from treecast.errors import QueryError, TreecastError
from treecast.inputs import document_files, subscriptions
from treecast.inputs.archives import ReadProgress
from treecast.inputs.document_files import ReadSettings
from treecast.inputs.inflate import RATIO_MAX
from treecast.inputs.listing import EVERY_FILE
from treecast.inputs.subscription_files import parse_namespaces
from treecast.model import DeliveryLimits
from treecast.names import printable

if TYPE_CHECKING:
    from treecast import Index
    from treecast.cli.deliveries import DeliveryWriter
    from treecast.cli.match_output import MatchWriter
    from treecast.inputs.records import Rule

FORMATS = ("tsv", "json", "parquet", "files")
PAYLOAD_FORMATS = ("payload", "json", "parquet", "files")
DELIVER = ("elements", "document")
REFUSED_SHOWN_MAX = 20
THREADS_MAX = 1024

LIMITS = {
    "document_bytes_max": "64M",
    "depth_max": "512",
    "attributes_max": "256",
    "name_bytes_max": "1K",
    "attribute_bytes_max": "1M",
    "names_max": "500000",
    "work_per_item_max": "16",
}

DESCRIPTION = """\
Writes a line document<TAB>subscription for each subscription that matches a
document. DOCUMENT is an XML file (also compressed), an archive (zip, tar), a
directory, a pattern, or - for standard input."""

SUBSCRIPTIONS_FORMAT = "csv, json, jsonl, parquet, lines, tcx"

EPILOG = """\
example:
  treecast match -s subscriptions.csv -o matches.jsonl docs/ new/*.xml.gz
  treecast match --render -o outbox/ -s subscriptions.jsonl docs/
  curl -s https://example.org/feed | treecast match -q //item -q //entry -"""


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "match",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast match (-s FILE | -q QUERY) [options] DOCUMENT …",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30),
    )
    add_options(parser, renders=False)
    parser.set_defaults(run=lambda options: run(parser, options), deliver="document", plain_form="json")


def add_options(parser: argparse.ArgumentParser, *, renders: bool) -> None:
    """The options of `treecast match`, or of `treecast render`."""
    option = parser.add_argument
    option("documents", metavar="DOCUMENT", nargs="+", help=argparse.SUPPRESS)
    several = functools.partial(option, action="append", default=[])
    several("-s", "--subscriptions", metavar="FILE", help="file of subscriptions; repeatable")
    option("--subscriptions-format", metavar="F", choices=subscriptions.FORMATS, help=SUBSCRIPTIONS_FORMAT)
    several("-q", "--query", metavar="QUERY", help="a query, its own id; repeatable")
    several("--namespace", metavar="P=URI", help="bind a prefix; =URI for names without one")
    several("--record", metavar="NAME", help="split files into these elements; *: every child")
    option("--pattern", metavar="P", default="*", help="which names of directories and archives")
    if renders:
        option(
            "--deliver", metavar="D", choices=DELIVER, default="elements", help="of -q: elements (default) or document"
        )
        option(
            "--format", metavar="F", choices=PAYLOAD_FORMATS, help="payload, json, parquet, files; default: by suffix"
        )
    else:
        option("--render", action="store_true", help="payloads: what each subscriber gets")
        option("--format", metavar="F", choices=FORMATS, help="tsv, json, parquet, files; default: by suffix")
    option("-o", "--output", metavar="FILE", help="write there, not to stdout; files: a directory")
    option("--entities", metavar="html", choices=("html",), help="accept the entities of HTML, such as &nbsp;")
    option("--threads", metavar="N", type=positive, default=cores(), help="default: all cores (%(default)s)")
    option("--skip-bad", action="store_true", help="errors are no failure: write the rest, end with 0")
    option("--quiet", action="store_true", help="no progress, notes or summary on stderr")
    limits = add_limit_options(parser)
    limits("--payload-bytes-max", metavar="N", type=size, help="of a payload; default 16M")


def add_limit_options(parser: argparse.ArgumentParser) -> Callable[..., argparse.Action]:
    """The options of what reads documents; `read_limits` reads them. Returns what adds an option to their group."""
    option = parser.add_argument_group("limits of a document (K, M, G: times 1024)").add_argument
    for name, default in LIMITS.items():
        option("--" + name.replace("_", "-"), metavar="N", type=size, help=f"default {default}")
    option("--ratio-max", metavar="N", type=size, default=RATIO_MAX, help="unpacked size by packed size")
    return option


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    form = check(parser, options)
    console = Console(options.words, progress=not options.quiet)
    note = notes(console, quiet=options.quiet)

    console.status("reading subscriptions …")
    try:
        index = build_index(options, note)
    except QueryError as error:
        console.say("\n".join(describe_refusal(error)))
        return 1

    begin = time.monotonic()  # the rate is that of documents: how long subscriptions took is another matter
    totals = Totals(("delivery", "deliveries") if options.render else ("match", "matches"))
    with suppress(DiscardedError):
        if options.render:
            from treecast.cli import deliveries

            with deliveries.open_writer(form, options.output) as delivery_writer:
                render_all(index, options, delivery_writer, console, totals)
                _check_complete(options, totals, console)
        else:
            from treecast.cli.match_output import open_writer

            with open_writer(form, options.output) as writer:
                match_all(index, options, writer, console, totals)
                _check_complete(options, totals, console)
    console.clear()
    if not options.quiet:
        console.say(totals.summary(time.monotonic() - begin))
        hint = None if totals.matches or totals.example is None else namespace_hint(index, totals.example)
        if hint is not None:
            console.say(f"treecast: {hint}")
    return 1 if totals.errors and not options.skip_bad else 0


def _check_complete(options: argparse.Namespace, totals: Totals, console: Console) -> None:
    """Raise DiscardedError where the output would be that of some documents, and look like that of all."""
    if totals.errors and not options.skip_bad and options.output is not None and appears_at_the_end(options.output):
        output = printable(options.output)
        console.say(f"treecast: nothing is written to {output}: {plural(totals.errors, 'error')}; add --skip-bad")
        raise DiscardedError


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """The output format; exits with 2 where options contradict. Sets `namespaces`, `limits` and `rule`."""
    if not options.subscriptions and not options.query:
        parser.error("no subscriptions: give -s FILE or -q QUERY")
    if not all(options.query):
        parser.error("-q QUERY is empty: give a query such as //item")
    if (options.subscriptions + options.documents).count("-") > 1:
        parser.error("standard input can be read once: give - once")
    check_formats(parser, options.subscriptions, options.subscriptions_format)
    options.namespaces = namespaces_of(parser, options.namespace)
    read_limits(parser, options)
    return output_format(parser, options)


def read_limits(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Set `limits` and `rule`; exits with 2 where they cannot be."""
    limits = {name: getattr(options, name) for name in LIMITS if getattr(options, name) is not None}
    try:
        options.limits = Limits(**limits) if limits else None  # a saved index has its own
        options.rule = _record_rule(options)
    except ValueError as error:
        parser.error(in_words(str(error), options.words))


def check_formats(parser: argparse.ArgumentParser, paths: Sequence[str], given: str | None) -> None:
    """Exit with 2 where the format of a file of subscriptions cannot be inferred."""
    for path in paths if given is None else ():
        try:
            subscriptions.infer_format(path)
        except QueryError as error:
            if error.code != "TC194":
                raise
            formats = "|".join(subscriptions.FORMATS)
            parser.error(f"TC194 cannot infer the format of {path!r}: add --subscriptions-format {formats}")


def namespaces_of(parser: argparse.ArgumentParser, texts: Sequence[str]) -> dict[str, str]:
    """The bindings of all --namespace options; exits with 2 where one is invalid."""
    namespaces: dict[str, str] = {}
    for text in texts:
        try:
            namespaces.update(parse_namespaces(text))
        except ValueError as error:
            parser.error(f"--namespace: {error}")
    return namespaces


def _record_rule(options: argparse.Namespace) -> Rule | None:
    """How files are split into records; None where they are not. Raises ValueError."""
    if not options.record:
        return None
    from treecast.inputs.records import Rule

    record_bytes_max = (options.limits or Limits()).document_bytes_max
    return Rule(options.record, options.entities, record_bytes_max)


def read_settings(options: argparse.Namespace, limits: Limits) -> ReadSettings:
    """How documents are read; the limits of a saved index are its own."""
    pattern = getattr(options, "pattern", EVERY_FILE)
    return ReadSettings(pattern, options.rule, limits.document_bytes_max, options.ratio_max)


def output_format(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """The output format; exits with 2 where the other options do not allow it."""
    output = options.output or ""
    suffix = os.path.splitext(output)[1].lower()  # noqa: PTH122
    by_suffix = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".tsv": "tsv"}
    form = options.format or by_suffix.get(suffix)
    if form is None and options.render:
        form = "files" if output.endswith("/") or os.path.isdir(output) else options.plain_form  # noqa: PTH112
    form = form or "tsv"
    if form == "tsv" and options.render:
        parser.error("lines of tsv hold no payloads: give --format json, parquet or files with --render")
    if form == "files" and not options.render:
        parser.error("--format files writes payloads: add --render")
    if options.payload_bytes_max is not None and not options.render:
        parser.error("--payload-bytes-max is about payloads: add --render")
    if form in ("parquet", "files") and options.output is None:
        parser.error(f"--format {form} needs --output {'DIRECTORY' if form == 'files' else 'FILE'}")
    return form


def build_index(options: argparse.Namespace, note: subscriptions.Note) -> Index:
    payload_bytes_max = options.payload_bytes_max
    sources: list[Any] = [*options.subscriptions]
    if options.query:
        sources.append(subscriptions.from_queries(options.query, deliver=options.deliver))
    index = subscriptions.index_of(
        sources,
        format=options.subscriptions_format,
        note=note,
        namespaces=options.namespaces,
        limits=options.limits,
        entities=options.entities,
        delivery_limits=None if payload_bytes_max is None else DeliveryLimits(payload_bytes_max=payload_bytes_max),
    )
    if not len(index):
        note("there are no subscriptions: nothing can match")
    return index


@dataclass
class Totals:
    """Counts of the documents so far."""

    noun: tuple[str, str]
    documents: int = 0
    matches: int = 0
    errors: int = 0
    example: bytes | None = None
    """The first document, for a hint if none matches."""

    def summary(self, seconds: float) -> str:
        counts = ", ".join(
            f"{number:,} {noun if number == 1 else plural}"
            for number, noun, plural in (
                (self.documents, "document", "documents"),
                (self.matches, *self.noun),
                (self.errors, "error", "errors"),
            )
        )
        return f"{counts} in {seconds:.2f} s ({self.documents / max(seconds, 1e-9):,.0f} documents/s)"


def render_all(
    index: Index, options: argparse.Namespace, writer: DeliveryWriter, console: Console, totals: Totals
) -> None:
    from treecast.cli.deliveries import render_batch

    def report(name: str, error: TreecastError | str) -> None:
        totals.errors += 1
        console.say(f"treecast: {printable(name)}: {error}")

    def refuse(name: str, subscription: str, message: str) -> None:
        report(name, f"{printable(subscription)}: {message}")

    settings = read_settings(options, index.limits)
    read = document_files.progress_of(options.documents, settings) if console.shows_progress else ReadProgress(None)
    console.update(0, None, 0, read.share)
    for batch in document_files.batches(options.documents, settings, report, read):
        for progress in render_batch(index, batch, options.threads, writer, refuse):
            for number, message in progress.errors:
                report(batch.names[number], message)
            totals.matches += progress.deliveries
            console.update(totals.documents, None, totals.errors, read.share)
        totals.documents += len(batch.documents)
        console.update(totals.documents, None, totals.errors, read.share)


def match_all(index: Index, options: argparse.Namespace, writer: MatchWriter, console: Console, totals: Totals) -> None:
    def report(name: str, error: TreecastError) -> None:
        totals.errors += 1
        console.say(f"treecast: {printable(name)}: {error}")

    settings = read_settings(options, index.limits)
    read = document_files.progress_of(options.documents, settings) if console.shows_progress else ReadProgress(None)
    console.update(0, None, 0, read.share)
    for batch in document_files.batches(options.documents, settings, report, read):
        results = index.match_batches(batch.documents, on_error="report", threads=options.threads)
        for matches, errors in results:
            for row in errors.to_pylist():
                totals.errors += 1
                console.say(f"treecast: {printable(batch.names[row['document']])}: {row['message']}")
            if sys.stdout.isatty():
                console.clear()
            writer.write(batch.names, matches)
            totals.matches += matches.num_rows
        totals.documents += len(batch.documents)
        console.update(totals.documents, None, totals.errors, read.share)
        if totals.example is None and batch.documents:
            totals.example = bytes(batch.documents[0])


def describe_refusal(error: QueryError) -> list[str]:
    """How many subscriptions were refused, as the error's first line says, and up to twenty of them with the reason."""
    if not error.refused:
        return [f"treecast: {error}"]
    lines = [f"{printable(subscription)}: {message}" for subscription, message in error.refused]
    if len(lines) == 1:
        return [f"treecast: {lines[0]}"]
    first = "; the first of them:" if len(lines) >= REFUSED_SHOWN_MAX else ":"
    return [f"treecast: {str(error).splitlines()[0]}{first}", *lines[:REFUSED_SHOWN_MAX]]


def cores() -> int:
    return len(os.sched_getaffinity(0))


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= THREADS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {THREADS_MAX}")
    return int(text)
