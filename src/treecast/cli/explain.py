"""`treecast explain`: why does a query match a document, or how near did it come?

The answer in words, then the lines of the document that it is about, with marks under what was found.
On a terminal the marks are coloured, unless NO_COLOR is set.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from treecast import _native
from treecast.cli.console import Console
from treecast.cli.excerpt import Mark, excerpt
from treecast.cli.match import add_limit_options, check_formats, namespaces_of, read_limits, read_settings
from treecast.document import Limits, native_entities
from treecast.errors import DocumentError, PipelineError, QueryError
from treecast.index.explain import Explanation, explain
from treecast.index.subscription_forms import from_arrow
from treecast.inputs import document_files, subscriptions
from treecast.inputs.document_files import ReadSettings
from treecast.names import printable

DESCRIPTION = """\
Shows which elements of DOCUMENT satisfy each step and predicate of a query;
if it does not match, how far it came and the first thing that failed. The
exit status is 0 either way. DOCUMENT is an XML file (compressed too), a
member of an archive (a.zip!/x.xml), or - for standard input."""

EPILOG = """\
example:
  treecast explain -q '/a/b[@c=1]' doc.xml
  treecast explain -s subscriptions.csv --id q17 a.zip!/doc.xml
  treecast explain -q //author --record article dblp.xml.gz#17"""

CONTEXT_LINES = 2


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "explain",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast explain (-q QUERY | -s FILE --id ID) [options] DOCUMENT",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30),
    )
    option = parser.add_argument
    option("document", metavar="DOCUMENT", help=argparse.SUPPRESS)
    option("-q", "--query", metavar="QUERY", help="the query")
    option("-s", "--subscriptions", metavar="FILE", help="file of subscriptions, one of which is meant")
    option("--subscriptions-format", metavar="F", choices=subscriptions.FORMATS, help="default: by suffix")
    option("--id", metavar="ID", help="the id of that subscription")
    bind = "bind a prefix; =URI for names without one"
    option("--namespace", metavar="P=URI", action="append", default=[], help=bind)
    record = "split the file into these elements; DOCUMENT is file.xml#17"
    option("--record", metavar="NAME", action="append", default=[], help=record)
    option("--ordered", action="store_true", help="branches must come in the order of the query")
    option("--entities", metavar="html", choices=("html",), help="accept the entities of HTML, such as &nbsp;")
    option("--context", metavar="N", type=count, default=CONTEXT_LINES, help="lines around a mark; default %(default)s")
    option("--format", metavar="F", choices=("text", "json"), default="text", help="text or json")
    add_limit_options(parser)
    parser.set_defaults(run=lambda options: run(parser, options))


@dataclass(frozen=True)
class Question:
    """What is to be explained."""

    query: str
    namespaces: dict[str, str]
    ordered: bool


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    read_limits(parser, options)
    limits = options.limits or Limits()
    question = _question(parser, options)
    try:
        data = _read(options, read_settings(options, limits))
        explanation = explain(
            data,
            question.query,
            namespaces=question.namespaces,
            ordered=question.ordered,
            limits=limits,
            entities=options.entities,
        )
    except (DocumentError, PipelineError) as error:
        Console(options.words).say(f"treecast: {printable(options.document)}: {error}")
        return 1
    if options.format == "json":
        print(json.dumps({"document": printable(options.document), **explanation.to_dict()}))
        return 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # documents have characters that a terminal may lack
    source = _native.source_text(data, limits.native(), native_entities(options.entities))
    for line in show(explanation, options.document, source, options.context, colour=coloured()):
        print(line)
    return 0


def _read(options: argparse.Namespace, settings: ReadSettings) -> bytes:
    """The document, or the record of a file."""
    read = document_files.read_document if settings.rule is None else document_files.read_record
    return read(options.document, settings)


def show(explanation: Explanation, name: str, source: str, context: int, *, colour: bool) -> Iterator[str]:
    """The explanation in words, then the lines of the document."""
    words = explanation.lines()
    yield f"{printable(name)} {printable(next(words))}"
    yield from map(printable, words)
    lines = list(excerpt(source, list(marks(explanation)), context, colour=colour))
    if lines:
        yield ""
        yield from lines


def marks(explanation: Explanation) -> Iterator[Mark]:
    """What is marked: the elements of the steps, what made predicates true, and what failed."""
    for step in explanation.steps:
        failed = explanation.miss is not None and step is explanation.steps[-1]
        yield Mark.of(step.place, "stop" if failed else "step")
        for condition in step.conditions:
            for place in condition.places():
                yield Mark.of(place, "condition" if condition.holds else "miss")
            for place in condition.others():
                yield Mark.of(place, "miss")
    if explanation.miss is not None and explanation.miss.other is not None:
        yield Mark.of(explanation.miss.other, "miss")


def _question(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Question:
    if (options.query is None) == (options.subscriptions is None):
        parser.error("give either -q QUERY or -s FILE with --id ID")
    if (options.subscriptions is None) != (options.id is None):
        parser.error("-s FILE and --id ID go together")
    if options.subscriptions == options.document == "-":
        parser.error("standard input can be read once: give - once")
    namespaces = namespaces_of(parser, options.namespace)
    if options.query is not None:
        return Question(options.query, namespaces, options.ordered)
    check_formats(parser, [options.subscriptions], options.subscriptions_format)
    return _find(options, namespaces)


def _find(options: argparse.Namespace, namespaces: dict[str, str]) -> Question:
    """The subscription with that id; the others may be invalid."""

    def note(message: str) -> None:
        Console(options.words).say(f"treecast: {printable(message)}")

    table = subscriptions.read_subscriptions(options.subscriptions, format=options.subscriptions_format, note=note)
    rows = [number for number, id in enumerate(table.column("id").to_pylist()) if str(id) == options.id]
    if not rows:
        message = f"{printable(options.subscriptions)}: there is no subscription {options.id!r}"
        raise QueryError(message, code="TC143", hint="check the id")
    columns = from_arrow(table.slice(rows[0], 1))
    bindings, ordered, _ = columns.settings[0] if columns.settings else ({}, False, "")
    return Question(columns.queries[0].as_py(), {**namespaces, **bindings}, ordered or options.ordered)


def coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines from 0 to 1000")
    return int(text)
