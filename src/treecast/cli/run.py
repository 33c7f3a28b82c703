"""`treecast run`: the main job on Spark, described by a pipeline.toml, or the embedded sample without one.

Everything that can be checked is checked before Spark starts, and all problems are reported at once. Spark's own
messages go to a log file in the output directory.

Codes: TC736 an output directory that cannot be used.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast.cli.console import Console
from treecast.cli.match import describe_refusal
from treecast.errors import PipelineError, QueryError, TreecastError
from treecast.names import printable

if TYPE_CHECKING:
    from treecast import Index
    from treecast.cli.run_progress import RunProgress
    from treecast.report import Figures
    from treecast.spark.job.pipeline import Pipeline

LOG_FILE, PAGE_FILE, CHART_FILE = "spark.log", "report.html", "report.png"
REFUSED_LISTED_MAX = 10_000
REFUSED_SHOWN_MAX = 3
LOOKED_INTO_MAX, LOOKED_INTO_BYTES_MAX = 100, 64 << 20
"""Documents that a dry run reads."""
NO_DOCUMENT = "TC710"
RESERVED_BYTES = 16 << 10  # of run.json: an error's message is at most 2,000 characters

DESCRIPTION = """\
Matches documents on Spark, as PIPELINE (a TOML file) describes; without one,
the embedded sample. The output directory then holds the matches as Parquet, a
report (HTML and PNG) and Spark's log. With --render, or render = true below
[sinks], each match has a payload: what the subscriber gets."""

EPILOG = """\
example:
  treecast run
  treecast run pipeline.toml --dry-run
  treecast run pipeline.toml --master 'local[4]' --output results

where pipeline.toml is, at its shortest:
  [source]
  path = "docs"
  [subscriptions]
  path = "subscriptions.csv"

docs/guide/run.md has all of it."""


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "run",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast run [options] [PIPELINE]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = parser.add_argument
    option("pipeline", metavar="PIPELINE", nargs="?", help=argparse.SUPPRESS)
    option("--dry-run", action="store_true", help="check everything and start nothing")
    option("--master", metavar="M", help="Spark's master, such as local[4] or spark://host:7077")
    option("-o", "--output", metavar="DIR", help="the output directory (default results)")
    option("--render", action="store_true", help="payloads too: what each subscriber gets")
    option("--quiet", action="store_true", help="no progress, notes or table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from treecast.cli import pipeline_file

    options.words |= pipeline_file.WORDS
    console = Console(options.words, progress=not options.quiet)

    def note(message: str) -> None:
        if not options.quiet:
            console.say(f"treecast: {printable(message)}")

    pipeline, problems = pipeline_of(options)
    console.status("checking …")
    index: Index | None = None
    if pipeline is not None:
        index, others = check(pipeline, note, lists_all=options.dry_run)
        problems += others
    console.clear()
    if pipeline is None or index is None or problems:
        for problem in problems:
            console.say(f"treecast: {problem}")
        return 1
    if options.dry_run:
        looked_into = look_into_documents(pipeline)
        for name, error in looked_into.refused[:REFUSED_SHOWN_MAX]:
            console.say(f"treecast: {printable(name)}: {error}")
        verdict = f"{looked_into.verdict()}, and nothing was started"
        print(f"{printable(pipeline.name)}: {len(index):,} subscriptions; {verdict}")
        print("\n".join(f"  {name:<26} {printable(value)}" for name, value in pipeline.describe()))
        return 0 if looked_into.accepted or looked_into.is_waiting else 1
    try:
        figures = execute(pipeline, index, console, quiet=options.quiet)
    except QueryError as error:
        console.say("\n".join(describe_refusal(error)))
        return 1
    if not options.quiet:
        from treecast.cli.run_table import table

        print("\n".join(table(figures)))
    return 0


def pipeline_of(options: argparse.Namespace) -> tuple[Pipeline | None, list[str]]:
    """The pipeline of the file, or of the sample, with what the command line changes in it; and the file's mistakes."""
    from treecast.cli import pipeline_file
    from treecast.spark.job.pipeline import Pipeline, Sinks, Source, Subscriptions

    problems: list[str] = []
    pipeline: Pipeline | None
    if options.pipeline is not None:
        pipeline, mistakes = pipeline_file.read_all(options.pipeline)
        problems = [str(mistake) for mistake in mistakes]
        if pipeline is None:
            return None, problems
    else:
        from treecast import sample

        source = Source((str(sample.path() / "documents"),))
        subscriptions = Subscriptions((str(sample.path() / "subscriptions.csv"),))
        # Such a small job ends before the JVM's optimising compiler pays off.
        quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
        pipeline = Pipeline(source, subscriptions, Sinks(), name="the embedded sample", spark=quick)
    if options.output is not None:
        pipeline = replace(pipeline, sinks=replace(pipeline.sinks, output=options.output))
    if options.render:
        pipeline = replace(pipeline, sinks=replace(pipeline.sinks, render=True))
    return pipeline if options.master is None else replace(pipeline, master=options.master), problems


# -- checks: all of them run, even if one fails


def check(
    pipeline: Pipeline, note: Callable[[str], None], *, lists_all: bool = False
) -> tuple[Index | None, list[str]]:
    """The index, and the problems that prevent the job. Starts nothing and creates nothing.

    If many subscriptions are refused, `lists_all` says whether all are listed, or the first ones.
    """
    from treecast.spark import session
    from treecast.spark.job.output_directory import check_output

    problems: list[str] = []
    index: Index | None = None
    for attempt in (session.check, lambda: check_source(pipeline), lambda: check_output(pipeline)):
        try:
            attempt()
        except TreecastError as error:
            problems.append(str(error))
    try:
        check_writable(Path(pipeline.sinks.output))
    except PipelineError as error:
        problems.append(str(error))
    try:
        index = build_index(pipeline, note)
    except QueryError as error:
        lines = all_refusals(pipeline) if lists_all and len(error.refused) > 1 else describe_refusal(error)
        problems.append("\n".join(lines).removeprefix("treecast: "))
    except TreecastError as error:
        problems.append(str(error))
    return index, problems


def all_refusals(pipeline: Pipeline) -> list[str]:
    """Every subscription that is refused, and why."""
    from treecast.cli import lint
    from treecast.index import Index
    from treecast.inputs import subscriptions

    source, later = pipeline.subscriptions, sparks_own(pipeline)
    read = [subscriptions.read_subscriptions(path, format=source.format) for path in source.path if path not in later]
    index = Index(namespaces=source.namespaces, limits=pipeline.limits)
    findings = lint.refusals(index, subscriptions.join(read))
    lines = [f"{printable(each.subscription)}: {each.message}" for each in findings[:REFUSED_LISTED_MAX]]
    if len(findings) > len(lines):
        lines.append(f"… and {len(findings) - len(lines):,} more; treecast check lists them")
    return [f"TC140 {len(findings):,} subscriptions are refused:", *lines]


@dataclass
class LookedInto:
    """The first documents of a pipeline, as the job would read them."""

    accepted: int = 0
    refused: list[tuple[str, TreecastError]] = field(default_factory=list)
    """What the job would reject, and why."""
    is_waiting: bool = False
    """A stream, whose documents may come later."""

    @property
    def count(self) -> int:
        return self.accepted + len(self.refused)

    def verdict(self) -> str:
        if not self.refused:
            return "everything is in order" if self.accepted or self.is_waiting else "no document was found"
        if self.accepted:
            return f"{len(self.refused):,} of the {self.count:,} documents looked into would be rejected"
        documents = "the only document" if self.count == 1 else f"all {self.count:,} documents"
        return f"{documents} looked into would be rejected"


def look_into_documents(pipeline: Pipeline) -> LookedInto:
    """Read the first documents of the source."""
    from treecast.document import read
    from treecast.inputs import document_files
    from treecast.spark.job.example_documents import read_settings

    looked_into = LookedInto(is_waiting=pipeline.source.stream)

    def refuse(name: str, error: TreecastError) -> None:
        if not (looked_into.is_waiting and error.code == NO_DOCUMENT):
            looked_into.refused.append((name, error))
        if looked_into.count >= LOOKED_INTO_MAX:
            raise _EnoughError

    size = 0
    with suppress(_EnoughError):
        for name, data in document_files.documents(pipeline.source.path, read_settings(pipeline), refuse):
            try:
                read(data, limits=pipeline.limits, entities=pipeline.source.entities)
                looked_into.accepted += 1
            except TreecastError as error:
                refuse(name, error)
            size += len(data)
            if looked_into.count >= LOOKED_INTO_MAX or size >= LOOKED_INTO_BYTES_MAX:
                break
    return looked_into


class _EnoughError(Exception):
    """As many documents were looked into as are wanted."""


def check_source(pipeline: Pipeline) -> None:
    from treecast.inputs.listing import check_exists

    for path in pipeline.source.path:
        check_exists(path, may_be_empty=pipeline.source.stream)


def check_writable(output: Path) -> None:
    """Whether the output directory can be written to, or made: by looking at the first directory that is there."""
    place = output.absolute()
    while not place.exists():
        place = place.parent
    if place.is_dir() and not os.access(place, os.W_OK | os.X_OK):
        hint = "choose a place that you may write to"
        raise PipelineError(f"sinks.output: {place} is not writable", code="TC736", hint=hint)


def build_index(pipeline: Pipeline, note: Callable[[str], None]) -> Index:
    """The subscriptions as an index, with the limits and entities of the pipeline."""
    from treecast.inputs import subscriptions

    settings = pipeline.subscriptions
    later = sparks_own(pipeline)
    index = subscriptions.index_of(
        [path for path in settings.path if path not in later],
        format=settings.format,
        note=note,
        namespaces=settings.namespaces,
        limits=pipeline.limits,
        entities=pipeline.source.entities,
        delivery_limits=pipeline.delivery_limits,
        cache_bytes_max=pipeline.cache_bytes_max,
    )
    for path in later:
        note(f"subscriptions.path: {path} is read by Spark, when the job has started")
    if not later and not len(index):
        note("there are no subscriptions: nothing can match")
    return index


def supply_of(pipeline: Pipeline, spark: Any) -> Callable[[], Any] | None:
    """For a stream: its subscriptions as they are when it asks. None where they stay: in a batch, and far away."""
    from treecast.inputs import subscriptions
    from treecast.spark.job import job
    from treecast.spark.stream.batches import is_elsewhere
    from treecast.spark.stream.match_stream import when_changed

    settings = pipeline.subscriptions
    if not pipeline.source.stream or any(is_elsewhere(path) for path in settings.path):
        return None
    later = sparks_own(pipeline)

    def table(path: str) -> Any:
        if path in later:
            return job.subscriptions_at(spark, path)
        return subscriptions.read_subscriptions(path, format=settings.format)

    def read() -> Any:
        (first, *others) = settings.path
        if (
            not others
            and not settings.namespaces
            and first not in later
            and subscriptions.is_saved(first, settings.format)
        ):
            return subscriptions.load_saved(
                first,
                limits=pipeline.limits,
                entities=pipeline.source.entities,
                delivery_limits=pipeline.delivery_limits,
            )
        return subscriptions.join([table(path) for path in settings.path])

    return when_changed([Path(path) for path in settings.path], read)


def sparks_own(pipeline: Pipeline) -> list[str]:
    """The Parquet that only Spark can read: directories, and what lies elsewhere."""
    from treecast.spark.stream.batches import is_elsewhere

    settings = pipeline.subscriptions
    paths = []
    for path in settings.path:
        parquet = settings.format == "parquet" or (
            settings.format is None and Path(path).suffix.lower() in ("", ".parquet")
        )
        if is_elsewhere(path) and not parquet:
            message = f"subscriptions.path: {path}: only Parquet is read from there"
            raise PipelineError(message, code="TC732", hint="copy it to this machine, or write it as Parquet")
        if parquet and (is_elsewhere(path) or Path(path).is_dir()):
            paths.append(path)
    return paths


# -- the job


def execute(pipeline: Pipeline, index: Index, console: Console, *, quiet: bool = False) -> Figures:
    """Start Spark, run the job, write its results."""
    from treecast.cli.run_progress import RunProgress
    from treecast.spark import failure
    from treecast.spark.job import job

    output = Path(pipeline.sinks.output)
    output.mkdir(parents=True, exist_ok=True)
    log = output / LOG_FILE
    with log.open("a", encoding="utf-8") as file:  # a stream that starts again must not lose why it ended
        file.write(f"---- {time.strftime('%Y-%m-%d %H:%M:%S %Z')} treecast run\n")
    note_run(output, {"state": "running"})
    progress = RunProgress(console, quiet=quiet)
    began = time.monotonic()
    try:
        with chatter_to(log), interruptible() as listen, start_session(pipeline, log, progress) as spark:
            listen()
            startup = time.monotonic() - began
            for path in sparks_own(pipeline):
                index.add_many(job.subscriptions_at(spark, path))
            figures = job.run(spark, pipeline, index, progress.tell, supply_of(pipeline, spark))
            figures = replace(
                figures,
                versions=versions(spark),
                places=places(pipeline),
                directory=pipeline.sinks.output,
                startup=(("starting Spark", startup), *figures.startup),
            )
        console.clear()
        write_report(pipeline, figures)
        note_run(output, summary(figures))
    except KeyboardInterrupt:
        console.clear()
        with suppress(OSError):
            note_run(output, {"state": "interrupted"})
        raise
    except Exception as error:
        console.clear()
        failure.write_stack(error, log)
        sentence = failure.to_pipeline_error(error, log)
        with suppress(OSError):  # the disk may be full, or gone; what went wrong first is what counts
            note_run(output, {"state": "failed", "code": sentence.code, "message": str(sentence)})
        raise sentence from None
    return figures


@contextmanager
def start_session(pipeline: Pipeline, log: Path, progress: RunProgress) -> Iterator[Any]:
    """The session of the job; while Spark starts, which takes seconds, something is seen to go on."""
    with contextlib.ExitStack() as session:
        with progress.waiting(f"starting Spark on {pipeline.master}"):
            from treecast.spark.job import job  # the import alone takes a second or more

            spark = session.enter_context(job.open_session(pipeline, log))
        yield spark


@contextmanager
def chatter_to(log: Path) -> Iterator[None]:
    """Put what Python's side of Spark logs, warns and prints into the log; the console keeps the real stream."""
    with log.open("a", encoding="utf-8", errors="backslashreplace") as file, redirect_stderr(file):
        handler = logging.StreamHandler(file)
        logging.getLogger().addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Let an interruption, also one by SIGTERM, be a KeyboardInterrupt here.

    Spark installs its own handler when it starts, which cancels all jobs: call the returned function after that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def listen() -> None:
        for number in numbers:
            signal.signal(number, _interrupt)

    listen()
    try:
        yield listen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def versions(spark: Any) -> tuple[tuple[str, str], ...]:
    import platform

    from treecast import __version__
    from treecast.spark.internals import java_version

    versions = {
        "treecast": __version__,
        "Spark": spark.version,
        "Java": java_version(spark),
        "Python": platform.python_version(),
    }
    return (*versions.items(), ("system", f"{platform.system()} {platform.release()} {platform.machine()}"))


def places(pipeline: Pipeline) -> tuple[tuple[str, str], ...]:
    from treecast.report.subscription_counts import COUNTS_FILE

    sinks = pipeline.sinks
    what = "deliveries" if sinks.render else "matches"
    rows = [(f"{what} (Parquet)", sinks.matches_path)]
    if sinks.by_subscription:
        rows.append((f"{what} by subscription", sinks.by_subscription_path))
    if sinks.report:
        files = (("matches of each subscription", COUNTS_FILE), ("report", PAGE_FILE), ("picture", CHART_FILE))
        rows += [(name, str(Path(sinks.output, file))) for name, file in files]
    return (*rows, ("Spark's log", str(Path(sinks.output, LOG_FILE))))


def write_report(pipeline: Pipeline, figures: Figures) -> None:
    from treecast.report import write_chart, write_page

    if not pipeline.sinks.report:
        return
    try:
        write_page(figures, Path(pipeline.sinks.output, PAGE_FILE))
        write_chart(figures, Path(pipeline.sinks.output, CHART_FILE))
    except OSError as error:
        place = error.filename or pipeline.sinks.output
        message = f"the report cannot be written to {place}: {error.strerror or error}"
        hint = "the matches are complete; free some space, or choose another output directory"
        raise PipelineError(message, code="TC736", hint=hint) from None


def summary(figures: Figures) -> dict[str, Any]:
    """What run.json says of a job that is done, for programs."""
    delivery_counts = {"payload_bytes": figures.payload_bytes, "refused_deliveries": figures.refused_deliveries}
    return {
        "state": "done",
        "began": figures.began,
        "seconds": round(figures.seconds, 3),
        "startup_seconds": round(figures.startup_seconds, 3),
        "matching_seconds": round(figures.throughput_seconds, 3),
        "documents": figures.documents,
        "matches": figures.matches,
        "refused": figures.errors,
        "bytes": figures.size_bytes,
        **({} if figures.payload_bytes is None else delivery_counts),
        "subscriptions": figures.subscriptions,
        "subscriptions_matched": figures.subscriptions_matched,
        "places": dict(figures.places),
        "versions": dict(figures.versions),
    }


def note_run(output: Path, content: dict[str, Any]) -> None:
    """Write run.json. While a job runs it takes more room than it needs: for what to say when the disk is full."""
    from treecast import durable
    from treecast.spark.job.output_directory import RUN_FILE

    text = json.dumps(content, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    if content["state"] == "running":
        text = text.ljust(RESERVED_BYTES)
    try:
        durable.write(output / RUN_FILE, text)
    except OSError:
        if len(text) > RESERVED_BYTES:
            raise
        with (output / RUN_FILE).open("r+b") as file:  # no new blocks are needed for this
            file.write(text)
            file.truncate()
