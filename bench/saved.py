"""An index of a million queries, saved and loaded: time, size, and the memory that two processes sharing the file add.

Pages are warm: the file was just written and is read once before. Loads are given in CPU time, because the machine may
be shared, and in wall-clock time. The two processes load at the same time, match documents and wait for each other
before they measure their own memory, so that pages in use by both count as shared. What counts is the growth since
before the load, minus the caches that `stats()` reports.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.inputs import as_table, draw_documents, draw_queries, load_schema
from bench.measure import Report, clock, finish, median, options_of, run
from bench.patterns import draw_values
from bench.unseen import Sizes, batches
from treecast import Index
from treecast.workload import Schema

# Runs with the file of the index, the documents and a Python that has nothing else loaded.
READER = """
import json, sys
from pathlib import Path
from treecast import Index

def private():
    rows = dict(line.split(":", 1) for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return {name: int(rows[name].split()[0]) * 1024 for name in ("Private_Dirty", "Private_Clean")}

def match(index):
    rows = 0
    for start in range(0, len(documents), 25):
        rows += index.match_many(documents[start : start + 25], threads=1).num_rows
    return rows

documents = [path.read_bytes() for path in sorted(Path(sys.argv[2]).iterdir())]
empty = Index()
empty.add("a", "//*")
match(empty)
before = private()
index = Index.load(sys.argv[1])
rows = match(index)
print("ready", flush=True)
sys.stdin.readline()
grown = {name: size - before[name] for name, size in private().items()}
print(json.dumps({"rows": rows, "caches": index.stats().cache_bytes, **grown}), flush=True)
sys.stdin.readline()
"""


def two_processes(file: Path, documents: Path) -> list[dict[str, int]]:
    """Both at once; each answers only when the other has matched everything too."""
    command = [sys.executable, "-c", READER, str(file), str(documents)]
    readers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        answers = []
        for reader in readers:
            assert reader.stdout
            if reader.stdout.readline() != "ready\n":
                raise RuntimeError("a process that loads the index failed")
        for reader in readers:
            assert reader.stdin and reader.stdout
            reader.stdin.write("tell\n")
            reader.stdin.flush()
            answers.append(json.loads(reader.stdout.readline()))
        return answers
    finally:
        for reader in readers:
            reader.communicate("leave\n")


def measure_one(report: Report, label: str, queries: list[str], documents: list[bytes], sizes: Sizes) -> None:
    label = f"{len(queries):,} {label}"
    with tempfile.TemporaryDirectory() as name:
        file, folder = Path(name, "index.tcx"), Path(name, "documents")
        folder.mkdir()
        for place, document in enumerate(documents):
            Path(folder, f"{place:06}.xml").write_bytes(document)
        index = Index()
        index.add_many(as_table(queries))
        rows = sum(index.match_many(batch, threads=1).num_rows for batch in batches(documents))
        spent = clock(lambda: index.save(file))
        report.figure(f"{label}: save", spent.cpu, f"s (wall {spent.wall:.3g})")
        size = file.stat().st_size
        report.figure(f"{label}: file", size / 1e6, "MB")
        report.figure(f"{label}: file", size / len(queries), "bytes/query")
        file.read_bytes()
        loads: tuple[tuple[str, float, Callable[[], object]], ...] = (
            ("load with the full check", 150, lambda: Index.load(file)),
            ("load without it", 50, lambda: Index.load(file, verify=False)),
        )
        for what, bar, load in loads:
            load()
            taken = median([clock(load) for _ in range(2 * sizes.passes + 1)])
            report.figure(f"{label}: {what}", taken.cpu * 1e3, f"ms (wall {taken.wall * 1e3:.3g})", bar=sizes.bar(bar))
        first = clock(lambda: Index.load(file, verify=False).match(documents[0]))
        report.figure(f"{label}: load without it and match one", first.cpu * 1e3, f"ms (wall {first.wall * 1e3:.3g})")
        answers = two_processes(file, folder)
        if any(answer["rows"] != rows for answer in answers):
            raise AssertionError(f"{label}: the loaded index matched {answers} instead of {rows}")
        matches = rows / len(documents)
        for what, kind in (("dirty", "Private_Dirty"), ("clean", "Private_Clean")):
            grown = sum(answer[kind] - (answer["caches"] if what == "dirty" else 0) for answer in answers)
            report.figure(
                f"{label}: private {what} memory of two processes, caches apart",
                grown / size * 100,
                f"% of the file ({grown / 1e6:.1f} MB)",
                bar=sizes.bar(20) if what == "dirty" else None,
                matches=matches,
            )
        report.figure(f"{label}: caches of the two", sum(answer["caches"] for answer in answers) / 1e6, "MB")


def measure(report: Report, schema: Schema, sizes: Sizes) -> None:
    documents = draw_documents(schema, min(100, sizes.documents), seed=9)
    measure_one(report, "paths", draw_queries(schema, sizes.queries(1_000_000)), documents, sizes)
    measure_one(report, "values", draw_values(schema, sizes.queries(20_000), 50)[0], documents, sizes)


def main(arguments: list[str]) -> int:
    options, report = options_of("saved", __doc__.partition("\n")[0], arguments)
    measure(report, load_schema(options.data, report), Sizes.of(options.quick))
    return finish(options, report)


if __name__ == "__main__":
    run(main)
