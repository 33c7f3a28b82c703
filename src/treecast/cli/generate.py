"""`treecast generate documents` and `treecast generate queries`: a workload from a DTD.

Options are the fields of `treecast.workload.DocumentSettings` and `QuerySettings`. What is given on the command line
is passed on, everything else keeps its default, so the two cannot disagree; the help repeats the defaults, and a test
compares them.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from treecast.cli.console import Console
from treecast.cli.sizes import size_or_zero
from treecast.names import printable

if TYPE_CHECKING:
    from treecast.workload import Schema, Values

QUERY_FORMATS = ("csv", "jsonl", "lines")
PROGRESS_AFTER_SECONDS = 2.0
COUNT_MAX = 1_000_000_000
QUERIES_DEFAULT = 1000

DOCUMENTS_DESCRIPTION = """\
Writes random documents that are valid against a DTD, into a directory, a .zip
file or one large XML file."""
DOCUMENTS_EPILOG = """\
example:
  treecast generate documents --dtd news --count 1000 --bytes 5K -o docs
  treecast generate documents --dtd my.dtd --values price=1..500 -o docs.zip"""

QUERIES_DESCRIPTION = """\
Writes random path queries that documents of a DTD can match."""
QUERIES_EPILOG = """\
example:
  treecast generate queries --dtd news --count 100000 -o subscriptions.csv
  treecast generate queries --predicates 1 --selectivity 0.05 -o some.jsonl"""

Item = TypeVar("Item")


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "generate",
        help=help,
        description="Draws a workload from a DTD: valid documents, and queries that they can match.",
        epilog="example:\n  treecast generate documents --dtd news --count 100 -o docs\n"
        "  treecast generate queries --dtd news --count 10000 -o subscriptions.csv\n"
        "  treecast match -s subscriptions.csv docs",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = parser.add_subparsers(title="what", metavar="documents|queries", required=True)
    _add_documents(kinds)
    _add_queries(kinds)


def _add(kinds: argparse._SubParsersAction[Any], name: str, **texts: Any) -> argparse.ArgumentParser:
    formatter = functools.partial(argparse.RawDescriptionHelpFormatter, max_help_position=26)
    usage = f"treecast generate {name} [options]"
    parser: argparse.ArgumentParser = kinds.add_parser(name, usage=usage, formatter_class=formatter, **texts)
    several = functools.partial(parser.add_argument, action="append", default=[])
    several("--dtd", metavar="DTD", help="news, records or a path; repeatable (default news)")
    several("--dtd-directory", metavar="DIR", help="where else parts of the DTD lie; repeatable")
    parser.add_argument("--root", metavar="NAME", help="the root element, if the DTD does not say")
    parser.add_argument("--shares", metavar="N,N", type=_numbers, help="of several DTDs (default: even)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="equal seeds draw the same (default 0)")
    return parser


def _add_settings(group: Any, options: Iterable[tuple[str, str, Callable[[str], Any], str]]) -> None:
    for flag, metavar, kind, text in options:
        group.add_argument(flag, metavar=metavar, type=kind, default=argparse.SUPPRESS, help=text)


def _add_values(group: Any) -> None:
    group.add_argument(
        "--values",
        metavar="NAME=VALUES",
        action="append",
        default=[],
        type=_values,
        help="of NAME, @NAME or ELEMENT/@NAME: a,b or 1..100",
    )
    group.add_argument("--value-skew", metavar="T", type=float, default=0.0, help="theta of Zipf's law (default 0)")
    group.add_argument("--text-words-max", metavar="N", type=int, default=8, help="words in a text (default 8)")


def _add_documents(kinds: argparse._SubParsersAction[Any]) -> None:
    texts = {"help": "valid documents", "description": DOCUMENTS_DESCRIPTION, "epilog": DOCUMENTS_EPILOG}
    parser = _add(kinds, "documents", **texts)
    option = parser.add_argument
    option("--count", metavar="N", type=_count, default=1, help="how many (default 1)")
    option("-o", "--output", metavar="PLACE", help="new directory or FILE.zip; stdout for one document")
    option("--record-file", metavar="FILE", help="one XML file, all documents below one root")
    option("--quiet", action="store_true", help="no progress, notes or summary on stderr")
    shape = parser.add_argument_group("shape")
    _add_settings(
        shape,
        [
            ("--bytes", "N", size_or_zero, "size on average; 0: as it comes (default 30000)"),
            ("--depth-max", "N", int, "levels (default 10)"),
            ("--repeats-max", "N", int, "of parts marked * or + (default 4)"),
            ("--recursion-max", "N", int, "ancestors of the same name (default: any)"),
            ("--optional", "P", float, "probability of parts marked ? (default 0.6)"),
            ("--attributes", "P", float, "of attributes not required (default 0.25)"),
            ("--skew", "T", float, "theta of Zipf's law over alternatives (default 0)"),
        ],
    )
    shape.add_argument(
        "--weight",
        metavar="NAME=W",
        action="append",
        default=[],
        type=_weight,
        help="weight in choices; repeatable (default 1)",
    )
    _add_values(parser.add_argument_group("values (give queries the same)"))
    parser.set_defaults(run=lambda options: run_documents(parser, options))


def _add_queries(kinds: argparse._SubParsersAction[Any]) -> None:
    texts = {"help": "path queries", "description": QUERIES_DESCRIPTION, "epilog": QUERIES_EPILOG}
    parser = _add(kinds, "queries", **texts)
    option = parser.add_argument
    option("--count", metavar="N", type=_count, default=QUERIES_DEFAULT, help="how many (default 1000)")
    option("-o", "--output", metavar="FILE", help="write there, not to stdout")
    option("--format", metavar="F", choices=QUERY_FORMATS, help="csv, jsonl or lines; default: by suffix, then csv")
    option("--duplicates", action="store_true", help="queries may come more than once")
    option("--quiet", action="store_true", help="no progress, notes or summary on stderr")
    shape = parser.add_argument_group("steps, predicates and values (give documents the same values)")
    _add_settings(
        shape,
        [
            ("--depth-min", "N", int, "fewest steps (default 1)"),
            ("--depth-max", "N", int, "most steps (default 10)"),
            ("--wildcard", "P", float, "probability of * (default 0.2)"),
            ("--descendant", "P", float, "probability of // (default 0.2)"),
            ("--skip", "P", float, "that // skips one more level (default 0.5)"),
            ("--stop", "P", float, "that a query ends at a step (default 0.1)"),
            ("--attribute", "P", float, "of a final /@name (default 0)"),
            ("--text", "P", float, "of a final /text() (default 0)"),
            ("--skew", "T", float, "theta of Zipf's law over element names (default 0)"),
            ("--predicates", "N", float, "per query, on average (default 0)"),
            ("--kinds", "KIND=W,…", _kinds, "attribute, text, position (default attribute=1)"),
            ("--position-max", "N", int, "largest position (default 3)"),
            ("--nested", "N", float, "nested paths per query, on average (default 0)"),
            ("--nested-depth-max", "N", int, "most steps of a nested path (default 3)"),
            (
                "--selectivity",
                "P",
                float,
                "share of values that satisfy it (default: one value)",
            ),
        ],
    )
    _add_values(shape)
    parser.set_defaults(run=lambda options: run_queries(parser, options))


# What runs.


def run_documents(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from treecast.cli.generate_output import open_documents
    from treecast.workload import DocumentSettings, generate_documents

    if options.output is not None and options.record_file is not None:
        parser.error("give --output or --record-file, not both")
    if options.output is None and options.record_file is None and options.count != 1:
        parser.error("where to? Give -o DIRECTORY, -o FILE.zip or --record-file FILE")
    console, begin = _console(options, "documents"), time.monotonic()
    schemas = _schemas(parser, options, console)
    names = ("depth_max", "repeats_max", "recursion_max", "optional", "attributes", "skew")
    given = _values_set(options, names)
    if "bytes" in options:
        given["bytes_target"] = options.bytes or None
    try:
        settings = DocumentSettings(**given, weights=dict(options.weight), values=_values_of(options))
        documents = generate_documents(schemas, options.count, settings, seed=options.seed, weights=options.shares)
    except ValueError as error:
        parser.error(str(error))
    size = 0
    with open_documents(options.output, options.record_file, options.count) as sink:
        for number, document in enumerate(documents, 1):
            sink.write(number, document)
            size += len(document)
            console.update(number, options.count, 0)
    _say_done(console, options, options.count, f", {size / 1e6:,.1f} MB,", begin)
    return 0


def run_queries(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from treecast.cli.generate_output import write_queries
    from treecast.workload import QuerySettings, generate_queries

    suffix = os.path.splitext(options.output or "")[1].lower()  # noqa: PTH122
    by_suffix = {".json": "jsonl", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "lines", ".xpath": "lines"}
    form = options.format or by_suffix.get(suffix, "csv")
    console, begin = _console(options, "queries"), time.monotonic()
    schemas = _schemas(parser, options, console)
    namespaces = _namespaces(parser, schemas)
    names = (
        "depth_min", "depth_max", "wildcard", "descendant", "skip", "stop", "attribute", "text", "skew", "predicates",
        "kinds", "position_max", "nested", "nested_depth_max", "selectivity",
    )  # fmt: skip
    note = _note(options, console)
    try:
        settings = QuerySettings(
            **_values_set(options, names), distinct=not options.duplicates, values=_values_of(options)
        )
        queries = generate_queries(
            schemas, options.count, settings, seed=options.seed, weights=options.shares, note=note
        )
    except ValueError as error:
        parser.error(str(error))
    if namespaces and form == "lines":
        flags = " ".join(f"--namespace {prefix}={uri}" for prefix, uri in namespaces.items())
        note(f"bare lines carry no namespaces; match them with {flags}")
    count = write_queries(_watch(queries, console, options.count), form, options.output, namespaces)
    _say_done(console, options, count, "", begin)
    return 0


def _values_set(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names if name in options}


def _values_of(options: argparse.Namespace) -> Values:
    from treecast.workload import Values

    return Values(dict(options.values), options.value_skew, options.text_words_max)


def _schemas(parser: argparse.ArgumentParser, options: argparse.Namespace, console: Console) -> list[Schema]:
    from treecast.workload import Schema
    from treecast.workload.schema import SHIPPED

    paths = options.dtd or ["news"]
    if options.root is not None and len(paths) > 1:
        parser.error("--root is for one DTD")
    note = _note(options, console)
    schemas = []
    for path in paths:
        if path in SHIPPED and options.root is None:
            schema = Schema.shipped(path)
        elif path in SHIPPED:
            parser.error(f"--root is not for {path}, whose root is known")
        else:
            schema = Schema.from_dtd(path, root=options.root, directories=options.dtd_directory)
        if schema.missing:
            note(f"{schema.name}: parts of the DTD are not on disk and left out: {', '.join(schema.missing)}")
        note(f"{schema.summary()}; the root is {schema.root}")
        schemas.append(schema)
    return schemas


def _namespaces(parser: argparse.ArgumentParser, schemas: Iterable[Schema]) -> dict[str, str]:
    uris: dict[str, str] = {}
    for schema in schemas:
        for prefix, uri in schema.namespaces.items():
            if uris.setdefault(prefix, uri) != uri:
                parser.error(
                    f"the DTDs bind the prefix '{prefix}' to different namespaces: generate their queries apart"
                )
    return uris


def _watch(items: Iterable[Item], console: Console, total: int) -> Iterator[Item]:
    """The same items, with progress."""
    for number, item in enumerate(items, 1):
        if number % 1000 == 0:
            console.update(number, total, 0)
        yield item


def _console(options: argparse.Namespace, noun: str) -> Console:
    return Console(options.words, progress=not options.quiet, noun=noun, after_seconds=PROGRESS_AFTER_SECONDS)


def _note(options: argparse.Namespace, console: Console) -> Callable[[str], None]:
    def note(message: str) -> None:
        if not options.quiet:
            console.say(f"treecast: {printable(message)}")

    return note


def _say_done(console: Console, options: argparse.Namespace, count: int, size: str, begin: float) -> None:
    console.clear()
    if not options.quiet:
        sys.stdout.flush()
        noun = console.noun if count != 1 else console.noun.removesuffix("s").replace("querie", "query")
        console.say(f"{count:,} {noun}{size} in {time.monotonic() - begin:.1f} s")


# Types of options.


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > COUNT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {COUNT_MAX:,}")
    return int(text)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers such as 3,1,1") from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=…")
    return name, value


def _weight(text: str) -> tuple[str, float]:
    name, value = _pair(text)
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r} is no number") from None


def _kinds(text: str) -> dict[str, float]:
    return dict(_weight(part) for part in text.split(","))


def _values(text: str) -> tuple[str, Any]:
    from treecast.workload.values import parse_source

    name, value = _pair(text)
    try:
        return name, parse_source(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
