"""`treecast bench`: how fast, how large, and whether right: engines and peers on a named workload or on your own.

Files and the environment are read here; what is measured, and how, is `treecast.measure`.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast.cli.bench_inputs import queries_of_file, read_documents
from treecast.cli.console import BAR_CHARS, Console
from treecast.cli.generate import _count
from treecast.cli.output_file import file_beside
from treecast.cli.sizes import size_or_zero
from treecast.extras import install_command
from treecast.names import printable

if TYPE_CHECKING:
    from treecast.measure import Effort, Inputs
    from treecast.measure.suite import Plan, Row

DESCRIPTION = """\
Measures engines of treecast and other tools on the same documents and queries,
and compares their answers.

  nitf        news articles: the NITF DTD of DIR, else a built-in one
  aggregated  ten DTDs of DIR, else the two built-in ones
  record      flat records with values
  values      one value predicate a query
  trees       one or two nested paths a query
  PATH        a DTD, or a directory of documents (with --queries FILE)"""
EPILOG = """\
Prints a table and writes NAME.csv, NAME.md and NAME.png. Several NAMEs are
done in turn. The exit status is 1 if answers differ.

example:
  treecast bench nitf --engines auto,yfilter --queries 1000,10000,100000
  treecast bench my.dtd --quick"""
QUERIES, QUERIES_QUICK = (1_000, 10_000), (1_000,)
DOCUMENTS, DOCUMENTS_QUICK = 200, 40
BUDGET, BUDGET_QUICK = 10.0, 2.0
PASSES, PASSES_QUICK = 5, 3
BYTES = 5_000


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "bench",
        help=help,
        usage="treecast bench NAME … [options]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=functools.partial(argparse.RawDescriptionHelpFormatter, max_help_position=24),
    )
    option = parser.add_argument
    option("names", metavar="NAME", nargs="+", help=argparse.SUPPRESS)
    option("--data", metavar="DIR", help="real DTDs, below DIR/dtd (default: $TREECAST_DATA)")
    option("--engines", metavar="A,B", type=_names, default=["auto"], help="or all (default auto)")
    peers = "lxml, saxonche, spark-xpath, spark-lxml or none (default lxml)"
    option("--peers", metavar="A,B", type=_names, help=peers)
    option(
        "--queries",
        metavar="N,N|FILE",
        action="append",
        default=[],
        help="how many, in steps (default 1000,10000), or a file",
    )
    option("--documents", metavar="N", type=_count, help=f"how many (default {DOCUMENTS})")
    option(
        "--bytes",
        metavar="N",
        type=size_or_zero,
        default=BYTES,
        help="size of drawn documents, K, M (default 5000)",
    )
    option("--seed", metavar="N", type=int, default=0, help="equal seeds draw the same (default 0)")
    option("--budget", metavar="SECONDS", type=_seconds, help=f"for one engine and one step (default {BUDGET:g})")
    option("-o", "--output", metavar="DIR", default="results/bench", help="where to (default %(default)s)")
    option("--quick", action="store_true", help="less: 1000 queries, 40 documents, a budget of 2 s")
    option("--quiet", action="store_true", help="no progress and notes on stderr")
    parser.set_defaults(run=lambda options: run(parser, options))


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from treecast.measure.suite import measure_all

    console = Console(options.words, progress=not options.quiet, noun="cells")
    engines, peers = _engines(parser, options.engines), _peers(parser, options, console)
    # Report wrong usage before anything is done.
    _check_numbers(parser, options)
    targets = [_target(parser, options, name) for name in options.names]
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    bad = False
    for name, target in zip(options.names, targets, strict=True):
        notes: list[str] = []
        inputs, title = _inputs(options, target, notes)
        plan = _plan(options, title, inputs, engines, peers)
        about = [*_about(options, plan), *notes]
        _say(options, console, f"{title}: {'; '.join(notes)}")
        rows = []
        for row in measure_all(plan, functools.partial(_watch, options, console, title)):
            rows.append(row)
        console.clear()
        _print(rows, about, title)
        _write(output, Path(name).stem, rows, plan, about, options, console)
        bad = bad or any(row.bad for row in rows)
    return 1 if bad else 0


# The plan of a measurement.


def _check_numbers(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if 0 in [size for text in options.queries for size in _numbers(text) or []] or options.documents == 0:
        parser.error("there is nothing to measure without queries or documents")
    if options.bytes == 0:
        parser.error("--bytes is at least 1")
    if len([text for text in options.queries if _numbers(text) is None]) > 1:
        parser.error("--queries takes one file")
    titles = [Path(name).stem for name in options.names]
    if len(set(titles)) < len(titles):
        parser.error("two workloads would write to files of the same name: measure them one after the other")


def _engines(parser: argparse.ArgumentParser, names: Sequence[str]) -> list[str]:
    from treecast import engines

    if list(names) == ["all"]:
        return engines.names(variants=True)
    for name in names:
        try:
            engines.check(name)
        except ValueError as error:
            parser.error(str(error))
    return list(names)


def _peers(parser: argparse.ArgumentParser, options: argparse.Namespace, console: Console) -> list[str]:
    from treecast.errors import PipelineError
    from treecast.measure.peers import check_peer

    names = ["lxml"] if options.peers is None else [] if options.peers == ["none"] else list(options.peers)
    for name in names:
        try:
            check_peer(name)
        except ValueError as error:
            parser.error(str(error))
        except PipelineError as error:
            if options.peers is not None:
                raise
            _say(options, console, f"without a peer: {str(error).splitlines()[0]}")
            return []
    return names


def _target(parser: argparse.ArgumentParser, options: argparse.Namespace, name: str) -> Any:
    """A workload to draw from, or the path of a directory of documents."""
    from treecast.measure.named import NAMES, named, of_dtd

    data = options.data or os.environ.get("TREECAST_DATA")
    if name in NAMES:
        return named(name, Path(data) if data else None)
    path = Path(name)
    if path.is_dir():
        if _query_file(options) is None:
            parser.error(f"{printable(name)} is a directory of documents; give the queries with --queries FILE")
        return path
    if not path.exists():
        parser.error(f"no workload and no file is called {printable(name)!r}; workloads are {', '.join(NAMES)}")
    return of_dtd(path)


def _inputs(options: argparse.Namespace, target: Any, notes: list[str]) -> tuple[Inputs, str]:
    from treecast.measure import Inputs

    count = options.documents or (DOCUMENTS_QUICK if options.quick else DOCUMENTS)
    file = _query_file(options)
    from_file = None if file is None else queries_of_file(file, notes.append)
    if isinstance(target, Path):
        documents = read_documents(target, count, notes.append)
        title = target.name
        inputs = Inputs(["/*"], documents)
    else:
        notes += target.notes
        wanted = 1 if from_file else max(_sizes(options))
        inputs = target.inputs(wanted, count, options.bytes, options.seed, notes.append)
        title = target.name
    notes.append(f"documents: {len(inputs.documents):,} of {inputs.document_bytes:,.0f} bytes on average")
    if from_file is None:
        return inputs, title
    queries, namespaces = from_file
    return Inputs(queries, inputs.documents, {**inputs.namespaces, **namespaces}), title


def _plan(options: argparse.Namespace, title: str, inputs: Inputs, engines: list[str], peers: list[str]) -> Plan:
    from treecast.measure.suite import Plan

    numbers = [size for text in options.queries for size in _numbers(text) or []]
    sizes = [len(inputs.queries)] if _query_file(options) and not numbers else _sizes(options)
    sizes = sorted({min(size, len(inputs.queries)) for size in sizes})
    return Plan(title, inputs, sizes, engines, peers, _effort(options))


def _effort(options: argparse.Namespace) -> Effort:
    from treecast.measure import Effort

    budget = options.budget or (BUDGET_QUICK if options.quick else BUDGET)
    return Effort(budget_seconds=budget, passes=PASSES_QUICK if options.quick else PASSES)


def _sizes(options: argparse.Namespace) -> list[int]:
    sizes = [size for text in options.queries for size in _numbers(text) or []]
    return sizes or [*(QUERIES_QUICK if options.quick else QUERIES)]


def _query_file(options: argparse.Namespace) -> str | None:
    files = [text for text in options.queries if _numbers(text) is None]
    return files[-1] if files else None


def _numbers(text: str) -> list[int] | None:
    """The numbers of queries, or None if this is the name of a file."""
    parts = text.split(",")
    return [int(part) for part in parts] if all(part.isascii() and part.isdigit() for part in parts) else None


# Messages.


def _about(options: argparse.Namespace, plan: Plan) -> list[str]:
    from treecast.measure.machine import describe

    return [
        f"command: {_command(options)}",
        *describe(),
        f"budget {plan.effort.budget_seconds:g} s, {plan.effort.passes} passes",
    ]


def _command(options: argparse.Namespace) -> str:
    """The command line as given, without the names of local directories."""
    words = ["treecast", "bench", *(Path(name).name for name in options.names)]
    words += ["--data", "DIR"] if options.data or os.environ.get("TREECAST_DATA") else []
    words += ["--engines", ",".join(options.engines)]
    words += ["--peers", ",".join(options.peers)] if options.peers is not None else []
    for text in options.queries:
        words += ["--queries", text if _numbers(text) else Path(text).name]
    words += ["--documents", str(options.documents)] if options.documents else []
    words += ["--bytes", str(options.bytes)] if options.bytes != BYTES else []
    words += ["--seed", str(options.seed)] if options.seed else []
    words += ["--budget", f"{options.budget:g}"] if options.budget else []
    words += ["--quick"] if options.quick else []
    return shlex.join(words)


def _say(options: argparse.Namespace, console: Console, message: str) -> None:
    if not options.quiet:
        console.say(f"treecast: {printable(message)}")


def _watch(options: argparse.Namespace, console: Console, title: str, done: int, total: int, what: str) -> None:
    if not what:
        return
    bar_length = BAR_CHARS * done // max(1, total)
    if console.shows_progress:
        console.status(f"[{'#' * bar_length}{'.' * (BAR_CHARS - bar_length)}] {done} of {total} cells  {title}: {what}")
    else:
        _say(options, console, f"{title}: cell {min(done + 1, total)} of {total}: {what}")


def _print(rows: Sequence[Row], about: Sequence[str], title: str) -> None:
    from treecast.measure.table import LEGEND, table

    print(f"== {printable(title)}")
    for line in about:
        print(f"# {printable(line)}")
    print(table(rows))
    print("\n".join(f"# {line}" for line in LEGEND))


def _write(
    output: Path,
    stem: str,
    rows: Sequence[Row],
    plan: Plan,
    about: Sequence[str],
    options: argparse.Namespace,
    console: Console,
) -> None:
    from treecast.measure.table import LEGEND, csv_text, table

    page = [f"# {plan.workload}", "", *(f"- {line}" for line in about), "", "```", table(rows), "```", "", *LEGEND]
    for suffix, text in ((".csv", csv_text(rows, about)), (".md", "\n".join(page) + "\n")):
        with file_beside(str(output / f"{stem}{suffix}")) as file:
            file.write(text.encode())
    written = [f"{stem}.csv", f"{stem}.md"]
    if importlib.util.find_spec("matplotlib") is None:
        _say(options, console, f"no picture: matplotlib is not installed; {install_command('bench')}")
    else:
        _draw(output / f"{stem}.png", rows, plan)
        written.append(f"{stem}.png")
    _say(options, console, f"{', '.join(written)} are in {output}")


def _draw(path: Path, rows: Sequence[Row], plan: Plan) -> None:
    from treecast.measure.machine import processor
    from treecast.report.curves import write_curves

    mean = plan.inputs.document_bytes
    write_curves(
        list(_curves(rows)),
        path,
        title=f"{plan.workload}: unseen documents",
        subtitle=f"documents of {mean / 1000:,.1f} KB on average; {processor()}",
        x="queries",
        y="µs of CPU time a document",
        footnote="dashed: other tools; hollow: scaled up from a sample of the queries",
    )


def _curves(rows: Sequence[Row]) -> Iterator[Any]:
    from treecast.report.curves import Curve

    for name in dict.fromkeys(row.cell.engine for row in rows):
        cells = [row.cell for row in rows if row.cell.engine == name and not row.cell.failure]
        points = [(float(cell.queries), cell.unseen.cpu * 1e6) for cell in cells]
        hollow = frozenset(place for place, cell in enumerate(cells) if cell.extrapolated)
        peer = any(row.peer for row in rows if row.cell.engine == name)
        yield Curve(name, points, dashed=peer, hollow=hollow)
    parse = [(float(row.cell.queries), row.cell.lxml_parse.cpu * 1e6) for row in rows if row.cell.engine == "lxml"]
    yield Curve("lxml, parsing only", [point for point in parse if point[1] > 0], dashed=True)


# Types of options.


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names such as auto,yfilter")
    return list(dict.fromkeys(names))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value
