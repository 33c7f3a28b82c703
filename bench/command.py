"""`treecast match` on 10,000 files: CPU time of the whole command, to nowhere and into a file of lines."""

from __future__ import annotations

import csv
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.inputs import load_yfilter
from bench.measure import Report, Seconds, clock, finish, median, options_of, run


def command_time(arguments: list[str], directory: str) -> Seconds:
    """Wall-clock time, and the CPU time of the process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "treecast", *arguments]
    spent = clock(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=directory))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Seconds(spent.wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def measure(report: Report, queries: list[str], documents: list[bytes], copies: int, bar: float | None) -> None:
    with tempfile.TemporaryDirectory() as directory:
        place, subscriptions = Path(directory, "documents"), Path(directory, "subscriptions.csv")
        place.mkdir()
        for copy in range(copies):
            for number, document in enumerate(documents):
                (place / f"{copy:02}-{number:03}.xml").write_bytes(document)
        with subscriptions.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(("id", "query"))
            rows.writerows((f"q{number}", query) for number, query in enumerate(queries))
        arguments = ["match", "-s", str(subscriptions), "--quiet", place.name]
        output = Path(directory, "matches.tsv")
        name = f"treecast match, {copies * len(documents):,} files, {len(queries):,} queries"
        for target, options, most in (("to nowhere", [], None), ("into a file", ["-o", str(output)], bar)):
            spent = median([command_time([*arguments, *options], directory) for _ in range(3)])
            report.figure(f"{name}, {target}", spent.cpu, "s of CPU", bar=most)
            report.figure(f"{name}, {target}", spent.wall, "s (wall)")
        report.figure("lines", output.stat().st_size / 2**20, "MiB")


def main(arguments: list[str]) -> int:
    options, report = options_of("command", __doc__, arguments)
    queries, documents = load_yfilter(options.data, report)
    measure(report, queries, documents, 2 if options.quick else 20, None if options.quick else 4.0)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
