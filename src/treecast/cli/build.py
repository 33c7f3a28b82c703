"""`treecast build`: subscriptions in, one saved index out, which loads at once wherever subscriptions are given."""

from __future__ import annotations

import argparse
import functools
import time
from pathlib import Path
from typing import Any

from treecast.cli.console import Console, notes
from treecast.cli.match import SUBSCRIPTIONS_FORMAT, check_formats, describe_refusal, namespaces_of
from treecast.cli.wording import plural
from treecast.errors import QueryError
from treecast.inputs import subscriptions
from treecast.names import printable

DESCRIPTION = """\
Writes an index of all subscriptions to one file. It is mapped, not read, so it
is ready at once: for treecast match -s, for treecast.Index.load, on Spark."""

EPILOG = """\
example:
  treecast build -o alerts.tcx subscriptions.csv more.jsonl
  treecast match -s alerts.tcx docs/"""


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "build",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast build -o FILE.tcx [options] FILE …",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30),
    )
    option = parser.add_argument
    option("files", metavar="FILE", nargs="+", help=argparse.SUPPRESS)
    option("-o", "--output", metavar="FILE", required=True, help="the file to write, such as alerts.tcx")
    option("--subscriptions-format", metavar="F", choices=subscriptions.FORMATS, help=SUBSCRIPTIONS_FORMAT)
    several = functools.partial(option, action="append", default=[])
    several("--namespace", metavar="P=URI", help="bind a prefix; =URI for names without one")
    option("--entities", metavar="html", choices=("html",), help="its documents may use the entities of HTML")
    option("--quiet", action="store_true", help="no progress or summary on stderr")
    parser.set_defaults(run=lambda options: run(parser, options))


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    check_formats(parser, options.files, options.subscriptions_format)
    namespaces = namespaces_of(parser, options.namespace)
    console = Console(options.words, progress=not options.quiet)
    note = notes(console, quiet=options.quiet)

    begin = time.monotonic()
    console.status("reading subscriptions …")
    try:
        index = subscriptions.index_of(
            options.files,
            format=options.subscriptions_format,
            note=note,
            namespaces=namespaces,
            entities=options.entities,
        )
    except QueryError as error:
        console.say("\n".join(describe_refusal(error)))
        return 1
    console.status("writing …")
    index.save(options.output)
    console.clear()
    if not options.quiet:
        size, count, seconds = Path(options.output).stat().st_size, len(index), time.monotonic() - begin
        counts = f"{plural(count, 'subscription')}, {size:,} bytes"
        console.say(f"{counts} in {seconds:.2f} s: {printable(options.output)}")
    return 0
