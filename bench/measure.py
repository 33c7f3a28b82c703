"""How every workload measures: medians of several passes, next to lxml's parsing of the same documents.

Two clocks run at once. Wall-clock time is what a user waits for; CPU time is reliable on a shared machine. Ratios are
given in both. Targets apply to CPU time, which is disturbed less, except where threads are measured. A row is one
figure, with the number of matches per document.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow
from lxml import etree

import treecast
from treecast.measure.seconds import Seconds as Seconds
from treecast.measure.seconds import clock as clock
from treecast.measure.seconds import median as median

RECORD = Path(__file__).parent / "record"
HEADINGS = ("figure", "value", "unit", "lxml", "ratio (CPU)", "ratio (wall)", "matches/doc", "bar", "verdict")


def parse_all(documents: Sequence[bytes]) -> None:
    """The peer: lxml's time to parse the same documents, dropping the trees."""
    parse = etree.fromstring
    for document in documents:
        parse(document)


def lxml_time(documents: Sequence[bytes], repeats: int) -> Seconds:
    parse_all(documents[:50])
    return median([clock(lambda: parse_all(documents)) for _ in range(repeats)])


@dataclass
class Report:
    """The rows of one workload, printed as they come and written to bench/record/ at the end."""

    name: str
    arguments: list[str]
    notes: list[str] = field(default_factory=list)
    rows: list[tuple[str, ...]] = field(default_factory=list)
    barred: bool = True

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(f"# {text}", flush=True)

    def stand_in(self, text: str) -> None:
        """Note that the inputs are not those that the targets were set for, and drop the targets."""
        self.barred = False
        self.note(f"{text}; the bars are for the real inputs, and left out")

    def ratio(
        self, figure: str, ours: Seconds, lxml: Seconds, documents: int, matches: float, bar: float | None = None
    ) -> None:
        """Microseconds per document next to lxml's."""
        cpu, wall = ours.cpu / lxml.cpu, ours.wall / lxml.wall
        self.add(
            figure,
            f"{ours.cpu / documents * 1e6:.1f}",
            "µs/doc",
            lxml=f"{lxml.cpu / documents * 1e6:.1f}",
            cpu=f"{cpu:.2f}x",
            wall=f"{wall:.2f}x",
            matches=f"{matches:.0f}",
            bar="" if bar is None else f"<= {bar:g}x",
            met=None if bar is None else cpu <= bar,
        )

    def figure(
        self, figure: str, value: float, unit: str, bar: float | None = None, matches: float | None = None
    ) -> None:
        """A figure without a peer; `bar` is its maximum."""
        self.add(
            figure,
            f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}",
            unit,
            matches="" if matches is None else f"{matches:.0f}",
            bar="" if bar is None else f"< {bar:g}",
            met=None if bar is None else value < bar,
        )

    def add(
        self,
        figure: str,
        value: str,
        unit: str,
        *,
        lxml: str = "",
        cpu: str = "",
        wall: str = "",
        matches: str = "",
        bar: str = "",
        met: bool | None = None,
    ) -> None:
        if not self.barred:
            bar, met = "", None
        verdict = "" if met is None else "met" if met else "MISSED"
        row = (figure, value, unit, lxml, cpu, wall, matches, bar, verdict)
        if not self.rows:
            print(" | ".join(HEADINGS))
        self.rows.append(row)
        print(" | ".join(row), flush=True)

    def write(self) -> Path:
        """bench/record/DATE-NAME.md: the command, the machine, the notes and the rows."""
        RECORD.mkdir(exist_ok=True)
        path = RECORD / f"{datetime.date.today().isoformat()}-{self.name}.md"
        lines = [
            f"# {self.name}, {datetime.date.today().isoformat()}",
            "",
            f"    python -m bench.{shlex.join([self.name, *self.arguments])}",
            "",
            *[f"- {line}" for line in (*machine(), *self.notes)],
            "",
        ]
        if self.rows:
            table = [HEADINGS, ("---",) * len(HEADINGS), *self.rows]
            lines += ["| " + " | ".join(row) + " |" for row in table] + [""]
        path.write_text("\n".join(lines), encoding="utf-8")
        return path


def machine() -> list[str]:
    """The machine behind the figures."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    libxml = ".".join(map(str, etree.LIBXML_VERSION))
    return [
        f"{model}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {platform.system()} {platform.release()}",
        f"Python {platform.python_version()}, treecast {treecast.__version__}, lxml {etree.__version__} "
        f"(libxml2 {libxml}), pyarrow {pyarrow.__version__}",
        "µs are CPU time, medians of several passes unless noted, one process; bars are held against CPU time; lxml is "
        "etree.fromstring of the same documents in the same run",
    ]


def options_of(name: str, description: str, arguments: list[str]) -> tuple[argparse.Namespace, Report]:
    """The options that every workload has, and its report."""
    parser = argparse.ArgumentParser(
        prog=f"python -m bench.{name}", description=description, epilog=f"example: python -m bench.{name} --quick"
    )
    parser.add_argument("--quick", action="store_true", help="smaller inputs and fewer repetitions")
    parser.add_argument("--data", metavar="DIR", help="a directory of real inputs (default: $TREECAST_DATA)")
    parser.add_argument("--record", action="store_true", help="write the result to bench/record/")
    options = parser.parse_args(arguments)
    options.data = options.data or os.environ.get("TREECAST_DATA")
    shown = [argument for argument in arguments if argument not in ("--data", options.data)]
    if options.data:
        shown += ["--data", "DIR"]
    report = Report(name, shown)
    print(f"== {name}")
    for line in machine():
        print(f"# {line}")
    return options, report


def finish(options: argparse.Namespace, report: Report) -> int:
    if options.record:
        print(f"# recorded in {report.write().name}")
    return 0


def run(main: Callable[[list[str]], int]) -> None:
    sys.exit(main(sys.argv[1:]))
