"""`treecast demo`: a firehose of small stories against what very many people want to hear, with its rate and a report.

It needs no Spark and no file: documents and subscriptions are drawn (`treecast.workload.newswire`), matched in this
process on all cores, and what came of it is a table here and a page to look at. Start-up is told apart from the rate.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast import durable
from treecast.cli.console import Console
from treecast.cli.match import cores, positive
from treecast.errors import PipelineError
from treecast.names import printable

if TYPE_CHECKING:
    import pyarrow as pa

    from treecast import Index
    from treecast.report import DocumentDetail, Figures, Moment

BATCH_DOCUMENTS = 500
DETAILS_FIRST, DETAILS_MOST = 30, 10
COUNT_MAX = 10_000_000
RUN_FILE, PAGE_FILE = "run.json", "report.html"

DESCRIPTION = """\
Draws small news stories, and subscriptions of people who each want to hear of
a few of them; matches all of them here, on all cores, and says how fast that
was. The output directory then holds a report to open in a browser."""

EPILOG = """\
example:
  treecast demo
  treecast demo --documents 100000 --subscriptions 1000000 -o results/large"""


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "demo",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast demo [options]",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=26),
    )
    option = parser.add_argument
    option("--documents", metavar="N", type=_count, default=20_000, help="how many (default %(default)s)")
    option("--subscriptions", metavar="N", type=_count, default=100_000, help="how many (default %(default)s)")
    option("--seed", metavar="N", type=int, default=0, help="equal seeds draw the same (default 0)")
    option("--threads", metavar="N", type=positive, default=cores(), help="default: all cores (%(default)s)")
    option("-o", "--output", metavar="DIR", default="results/firehose", help="default %(default)s")
    option("--quiet", action="store_true", help="no progress and no table")
    parser.set_defaults(run=run)


@dataclass
class Measurements:
    """What was seen while documents were matched."""

    began: str
    matching_seconds: float = 0.0
    busy_seconds: float = 0.0
    matches: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """Matches by subscription."""
    each: list[int] = field(default_factory=list)
    """Matches by document."""
    moments: list[Moment] = field(default_factory=list)


def run(options: argparse.Namespace) -> int:
    from treecast.report import write_page
    from treecast.report.subscription_counts import COUNTS_FILE, write_counts

    output = Path(options.output)
    check_output(output)
    console = Console(options.words, progress=not options.quiet)
    index, stories, startup = prepare(options, console)
    measurements = match_all(index, stories, options.threads, console)
    console.status("writing the report …")
    figures, counts = figures_of(options, index, stories, measurements)
    places = (("matches of each subscription", COUNTS_FILE), ("report", PAGE_FILE))
    figures = replace(
        figures,
        startup=startup,
        directory=str(output),
        places=tuple((what, str(output / file)) for what, file in places),
    )
    output.mkdir(parents=True, exist_ok=True)
    durable.write(output / RUN_FILE, json.dumps(summary(figures), indent=2).encode() + b"\n")
    write_counts(counts, output / COUNTS_FILE)
    write_page(figures, output / PAGE_FILE)
    console.clear()
    if not options.quiet:
        print("\n".join(table(figures)))
    return 0


def check_output(output: Path) -> None:
    """Raise PipelineError (TC736) where the report would go among other files."""
    if output.exists() and not output.is_dir():
        raise PipelineError(f"{output} is not a directory", code="TC736", hint="name another output directory")
    if output.is_dir() and any(output.iterdir()) and not (output / RUN_FILE).exists():
        hint = "name another output directory, or empty it"
        raise PipelineError(f"{output} holds something that is not of treecast", code="TC736", hint=hint)


def prepare(options: argparse.Namespace, console: Console) -> tuple[Index, list[bytes], tuple[tuple[str, float], ...]]:
    """The index and the documents, and how long it took to have each."""
    from treecast import Index
    from treecast.workload import newswire

    times: list[tuple[str, float]] = []

    def step(words: str, begin: float) -> None:
        times.append((words, time.monotonic() - begin))

    begin = time.monotonic()
    console.status(f"drawing {options.subscriptions:,} subscriptions …")
    wishes = list(newswire.wishes(options.subscriptions, seed=options.seed))
    console.status(f"drawing {options.documents:,} documents …")
    stories = list(newswire.stories(options.documents, seed=options.seed))
    step("drawing stories and subscriptions", begin)
    begin = time.monotonic()
    console.status(f"building an index of {options.subscriptions:,} subscriptions …")
    index = Index()
    index.add_many(wishes)
    step("building the index", begin)
    return index, stories, tuple(times)


def match_all(index: Index, stories: list[bytes], threads: int, console: Console) -> Measurements:
    """Match all of them, a batch at a time; only that is measured, not what is counted between."""
    import pyarrow.compute as pc

    from treecast.report import Moment

    measurements = Measurements(time.strftime("%Y-%m-%d %H:%M:%S %Z"), moments=[Moment(0.0, 0, 0)])
    for first in range(0, len(stories), BATCH_DOCUMENTS):
        batch = stories[first : first + BATCH_DOCUMENTS]
        begin, busy = time.monotonic(), time.process_time()
        tables = [matches for matches, _ in index.match_batches(batch, on_error="report", threads=threads)]
        measurements.matching_seconds += time.monotonic() - begin
        measurements.busy_seconds += time.process_time() - busy
        each = [0] * len(batch)
        for table in tables:
            for row in pc.value_counts(table["document"]).to_pylist():
                each[row["values"]] += row["counts"]
            for row in pc.value_counts(table["subscription"]).to_pylist():
                measurements.counts[row["values"]] = measurements.counts.get(row["values"], 0) + row["counts"]
        measurements.matches += sum(each)
        measurements.each += each
        measurements.moments.append(Moment(measurements.matching_seconds, len(measurements.each), measurements.matches))
        console.update(len(measurements.each), len(stories), 0)
    return measurements


def figures_of(
    options: argparse.Namespace, index: Index, stories: list[bytes], measurements: Measurements
) -> tuple[Figures, pa.Table]:
    """What the report shows, and the matches of each subscription."""
    import pyarrow as pa

    from treecast import __version__
    from treecast.report import Figures
    from treecast.report.subscription_counts import join_counts, with_counts

    ids = pa.chunked_array([pa.array(list(measurements.counts), pa.string())])
    numbers = pa.chunked_array([pa.array(list(measurements.counts.values()), pa.int64())])
    counts = join_counts(index.subscriptions(), ids, numbers)
    figures = Figures(
        title="a newswire firehose",
        command="treecast demo",
        began=measurements.began,
        documents=len(stories),
        matches=measurements.matches,
        errors=0,
        size_bytes=sum(map(len, stories)),
        seconds=measurements.matching_seconds,
        matching_seconds=measurements.matching_seconds,
        subscriptions=len(index),
        busy_nanoseconds=round(measurements.busy_seconds * 1e9),
        moments=tuple(measurements.moments),
        details=tuple(details(index, stories, measurements)),
        payload_bytes=None,
        settings=(("threads", str(options.threads)), ("seed", str(options.seed))),
        versions=(("treecast", __version__),),
    )
    return with_counts(figures, counts), counts


def details(index: Index, stories: list[bytes], measured: Measurements) -> Iterator[DocumentDetail]:
    """The first stories, and those that most people wanted."""
    from treecast.report import detail_of

    most = sorted(range(len(stories)), key=lambda number: -measured.each[number])[:DETAILS_MOST]
    for number in sorted({*range(min(DETAILS_FIRST, len(stories))), *most}):
        part = index.match_part([stories[number]], report=True, matches_max=COUNT_MAX, timed=True)
        nanoseconds = 0 if part.nanoseconds is None else part.nanoseconds[0].as_py()
        yield detail_of(f"story {number:,}", stories[number], index, rendered=True, nanoseconds=nanoseconds)


def summary(figures: Figures) -> dict[str, Any]:
    """What run.json says, for programs."""
    return {
        "state": "done",
        "began": figures.began,
        "documents": figures.documents,
        "subscriptions": figures.subscriptions,
        "matches": figures.matches,
        "bytes": figures.size_bytes,
        "startup_seconds": round(figures.startup_seconds, 3),
        "matching_seconds": round(figures.matching_seconds, 3),
        "documents_per_second": round(figures.documents_per_second),
    }


def table(figures: Figures) -> Iterator[str]:
    """What came of it, for the terminal."""
    from treecast.report.figures import short_number, short_size, short_time

    seconds = figures.matching_seconds
    pairs = figures.documents * figures.subscriptions / seconds if seconds > 0 else 0.0
    each = figures.matches / figures.documents
    yield f"{figures.documents:,} stories against {figures.subscriptions:,} subscriptions"
    for what, took in figures.startup:
        yield f"  {what:<36}{took:>8.2f} s"
    yield f"  {'matching':<36}{seconds:>8.2f} s"
    yield f"    {short_number(figures.documents_per_second)} documents/s, {short_size(figures.size_bytes)} in all"
    yield f"    {figures.matches:,} matches, {short_number(each)} a document"
    many = f"{pairs / 1e9:,.1f} billion" if pairs >= 1e9 else short_number(pairs)
    yield f"    {many} pairs of a document and a subscription decided per second"
    yield f"    {short_time(round(figures.busy_nanoseconds / figures.documents))} of CPU time per document"
    yield "results:"
    for what, place in figures.places:
        yield f"  {what:<36}{printable(place)}"


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= COUNT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {COUNT_MAX:,}")
    return int(text)
