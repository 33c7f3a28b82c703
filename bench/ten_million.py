"""Ten million distinct queries on one machine: built, saved, loaded and matched; time, memory and its peak.

The queries lie in an Arrow table, which is the input and does not count. They are added in parts of a million, as a
table that is read from a file would be: what adding needs beside the index follows the part, not the whole.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa

from bench.inputs import draw_documents, load_schema
from bench.measure import clock, finish, lxml_time, median, options_of, run
from treecast import Index
from treecast.workload import QuerySettings, generate_queries

PART = 1_000_000
BATCH = 10
PEAK_BYTES_MAX = 3e9


def memory(field: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(rows[field].split()[0]) * 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def draw_parts(schema: object, count: int) -> list[pa.RecordBatch]:
    """Columns id and query, PART rows each; made one by one, so that there is never a list of all strings."""
    queries = generate_queries(schema, count, QuerySettings(depth_max=12), seed=1)  # type: ignore[arg-type]
    parts: list[pa.RecordBatch] = []
    ids: list[str] = []
    texts: list[str] = []
    for place, query in enumerate(queries):
        ids.append(f"s{place}")
        texts.append(query)
        if len(texts) == min(PART, count):
            parts.append(pa.record_batch({"id": pa.array(ids), "query": pa.array(texts)}))
            ids, texts = [], []
    return parts


def main(arguments: list[str]) -> int:
    options, report = options_of("ten_million", __doc__.partition("\n")[0], arguments)
    schema = load_schema(options.data, report)
    count = 200_000 if options.quick else 10_000_000
    parts = draw_parts(schema, count)
    documents = draw_documents(schema, 20 if options.quick else 100)
    lxml = lxml_time(documents, 3)
    before = memory("VmRSS")
    forget_peak()
    indexes = [Index()]

    def build() -> None:
        for part in parts:
            indexes[0].add_many(pa.Table.from_batches([part]))

    built = clock(build)
    label = f"{count:,} queries"
    report.figure(f"{label}: build", built.cpu, f"s (wall {built.wall:.3g})")
    report.figure(f"{label}: peak while building", (memory("VmHWM") - before) / 1e9, "GB", bar=PEAK_BYTES_MAX / 1e9)
    report.figure(f"{label}: memory", indexes[0].stats().bytes / count, "bytes/query", bar=100)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "index.tcx")
        spent = clock(lambda: indexes[0].save(path))
        report.figure(f"{label}: save", spent.cpu, f"s (wall {spent.wall:.3g})")
        report.figure(f"{label}: file", path.stat().st_size / 1e9, "GB")
        indexes.clear()
        spent = clock(lambda: indexes.append(Index.load(path)))
        report.figure(f"{label}: load", spent.cpu, f"s (wall {spent.wall:.3g})")

        def match() -> int:
            return sum(
                indexes[0].match_many(documents[start : start + BATCH], threads=1).num_rows
                for start in range(0, len(documents), BATCH)
            )

        first = clock(match)
        rows = match()
        report.ratio(f"{label}: loaded, first pass", first, lxml, len(documents), rows / len(documents))
        warm = median([clock(match) for _ in range(3)])
        report.ratio(f"{label}: loaded, warm", warm, lxml, len(documents), rows / len(documents))
        spent = clock(lambda: indexes[0].add("one more", "/a/b/c"))
        report.figure(f"{label}: first addition after loading", spent.cpu * 1000, f"ms (wall {spent.wall * 1000:.3g})")
    return finish(options, report)


if __name__ == "__main__":
    run(main)
