"""`treecast experiment`: see a finding of a paper again. A table, a CSV, a picture, and a verdict."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast.cli.console import BAR_CHARS, Console

if TYPE_CHECKING:
    from treecast.experiments import Experiment, Sizes

DESCRIPTION = """\
Runs experiments of the papers: prints a table and a verdict (what the paper
found, what we see, agree or not, and why), writes NAME.csv, .png and .md (and
NAME-runs.csv). 'all' runs every one. A run that was cut off goes on."""
EPILOG = """\
example:
  treecast experiment --list
  treecast experiment yfilter-rivals --quick
  treecast experiment yfilter-rivals xtrie-filters --data data -o results"""
NUMBERS_MAX = 50


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "experiment",
        usage="treecast experiment [options] NAME …",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = parser.add_argument
    option("names", nargs="*", metavar="NAME", help=argparse.SUPPRESS)
    option("--list", action="store_true", help="list the experiments and do nothing else")
    option("--data", metavar="DIR", help="what the papers used (default: $TREECAST_DATA)")
    option("-o", "--output", metavar="DIR", default="results/experiments", help="where to (default %(default)s)")
    option("--quick", action="store_true", help="seconds, and mostly too small for a verdict")
    option("--queries", metavar="N,N", type=_numbers, help="other numbers of queries than the experiment's")
    option("--documents", metavar="N", type=_number, help="another number of documents")
    option("--runs", metavar="N", type=_number, help="measure everything so often; rows are medians")
    option("--seed", metavar="N", type=int, default=1, help="of everything that is drawn (default 1)")
    option("--anew", action="store_true", help="begin anew what was cut off")
    option("--quiet", action="store_true", help="no progress on stderr")
    parser.set_defaults(run=lambda options: run(parser, options))


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from treecast import experiments

    if options.list:
        return _list()
    if not options.names:
        parser.error("which? Name one, or 'all'; --list lists them")
    names = experiments.names() if options.names == ["all"] else list(dict.fromkeys(options.names))
    for name in names:
        if not experiments.is_known(name):
            meant = experiments.nearest(name)
            parser.error(
                f"no experiment is called {name!r}" + (f"; did you mean {meant}?" if meant else "; try --list")
            )
    data = options.data or os.environ.get("TREECAST_DATA") or None
    if data is not None and not Path(data).is_dir():
        parser.error(f"there is no directory {data!r}; --data names one with dtd/, docs/ and queries/")
    if find_spec("matplotlib") is None:  # fails before the work, not when its picture is drawn
        raise ModuleNotFoundError(name="matplotlib")
    Path(options.output).mkdir(parents=True, exist_ok=True)  # fails before the work, if it cannot be written
    status = 0
    for name in names:
        status = max(status, _run_one(experiments.find(name), options, Path(data) if data else None))
    return status


def _list() -> int:
    from treecast import experiments

    for name, experiment in [(name, experiments.find(name)) for name in experiments.names()]:
        print(f"{name:20}  {experiment.paper + ', ' + experiment.section:30}  {experiment.title}")
    return 0


def _run_one(experiment: Experiment, options: argparse.Namespace, data: Path | None) -> int:
    from treecast.experiments import output, perform

    console = _Progress(experiment.name, options)
    journal = Path(options.output) / f"{experiment.name}.partial"
    if options.anew:
        journal.unlink(missing_ok=True)
    outcome = perform(
        experiment, _sizes(experiment, options), data=data, seed=options.seed, progress=console.update, journal=journal
    )
    console.clear()
    files = output.write(outcome, Path(options.output), _command(experiment.name, options, data))
    journal.unlink()
    print(f"== {experiment.name}: {experiment.title} ({experiment.paper}, {experiment.section})")
    for line in (*output.machine(), f"here: {experiment.parameters}", *outcome.notes):
        print(f"# {line}")
    print(f"\n{output.table_text(outcome)}\n\n{output.verdict_text(outcome)}")
    print(f"({outcome.seconds:.0f} s; {', '.join(map(str, files))})\n", flush=True)
    for problem in outcome.problems:
        Console(options.words).say(f"treecast: {experiment.name}: wrong answers: {problem}")
    return 1 if outcome.problems else 0


def _sizes(experiment: Experiment, options: argparse.Namespace) -> Sizes:
    sizes = experiment.quick if options.quick else experiment.full
    if options.queries:
        sizes = replace(sizes, queries=options.queries)
    if options.runs:
        sizes = replace(sizes, runs=options.runs)
    return replace(sizes, documents=options.documents) if options.documents else sizes


def _command(name: str, options: argparse.Namespace, data: Path | None) -> str:
    """The command that repeats this run, for the record; without the place of the data."""
    words = ["treecast", "experiment", name]
    words += ["--data", "DIR"] if data else []
    words += ["--quick"] * options.quick
    words += ["--queries", ",".join(map(str, options.queries))] if options.queries else []
    words += ["--documents", str(options.documents)] if options.documents else []
    words += ["--runs", str(options.runs)] if options.runs else []
    words += ["--seed", str(options.seed)] if options.seed != 1 else []
    return shlex.join(words)


class _Progress:
    """On a terminal a bar that is redrawn; otherwise a line for each tenth, so that a log shows progress."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self._name, self._quiet = name, options.quiet
        self._console = Console(options.words, progress=not options.quiet)
        self._begin = time.monotonic()
        self._said = -1

    def update(self, done: int, total: int, what: str) -> None:
        if self._console.shows_progress:
            seconds = time.monotonic() - self._begin
            bar_length = done * BAR_CHARS // total
            bar = f"[{'#' * bar_length}{'.' * (BAR_CHARS - bar_length)}]"
            self._console.status(f"{self._name} {bar} {done} of {total} points, {seconds:.0f} s; {what}")
        elif not self._quiet and done * 10 // total > self._said:
            self._said = done * 10 // total
            self._console.say(f"{self._name}: {done} of {total} points; {what}")

    def clear(self) -> None:
        self._console.clear()


def _number(text: str) -> int:
    try:
        number = int(text.replace("_", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return number


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) > NUMBERS_MAX:
        raise argparse.ArgumentTypeError(f"at most {NUMBERS_MAX} numbers")
    return tuple(sorted({_number(part) for part in parts}))
