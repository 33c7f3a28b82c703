"""Run the named workloads one after another: `python -m bench yfilter million --quick --record`.

Each workload is a module of this package of the same name, and can be run alone: `python -m bench.yfilter --help`.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time
from pathlib import Path

from bench.measure import Report

NAMES = (
    "reading",
    "yfilter",
    "engines",
    "million",
    "ten_million",
    "churn",
    "thrash",
    "threads",
    "command",
    "stages",
    "values",
    "trees",
    "places",
    "mixed",
    "shapes",
    "language",
    "matches",
    "doubling",
    "saved",
    "churn_mixed",
    "generating",
    "growth",
    "on_spark",
    "populations",
    "rendering",
    "store",
    "broker",
    "broker_restart",
    "broker_stalled",
    "broker_soak",
    "replica",
    "http",
    "http_streams",
    "fleet",
    "hooks",
    "validation",
    "wire",
    "onyx_routing",
    "selective",
    "network",
    "network_cpu",
    "network_frame",
    "network_whole",
    "network_million",
    "network_kill",
)


def run_reading(quick: bool, record: bool) -> int:
    """bench/reading.py has options of its own; its output becomes the record."""
    command = [sys.executable, str(Path(__file__).with_name("reading.py")), *(["--passes", "3"] if quick else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    print(f"== reading\n{done.stdout}{done.stderr}", end="", flush=True)
    if record and not done.returncode:
        report = Report("reading", command[2:], notes=done.stdout.splitlines())
        print(f"# recorded in {report.write().name}")
    return done.returncode


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure treecast beside lxml. Without names, every workload runs.",
        epilog="example: python -m bench yfilter million --quick",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="smaller inputs and fewer repetitions")
    parser.add_argument("--data", metavar="DIR", help="a directory of real inputs (default: $TREECAST_DATA)")
    parser.add_argument("--record", action="store_true", help="write the results to bench/record/")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no workload is called {unknown[0]!r}; there are {', '.join(NAMES)}")
    passed_on = ["--quick"] * options.quick + ["--record"] * options.record
    passed_on += ["--data", options.data] if options.data else []
    for name in options.names or NAMES:
        begun = time.perf_counter()
        if name == "reading":
            status = run_reading(options.quick, options.record)
        else:
            status = int(importlib.import_module(f"bench.{name}").main(passed_on))
        if status:
            return status
        print(f"({name}: {time.perf_counter() - begun:.0f} s in all)\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
