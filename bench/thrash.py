"""A cache that is far too small: how much slower is it than no cache, on documents that keep bringing new paths?"""

from __future__ import annotations

from bench.inputs import as_table, draw_documents, draw_queries, load_schema
from bench.measure import Seconds, clock, finish, lxml_time, options_of, run
from treecast import Index

SIZES_MIB = (0, 1, 8, 64, 256)


def one_pass(index: Index, documents: list[bytes]) -> tuple[Seconds, int]:
    """Documents not seen before, 50 a call: a second pass would not be the same."""
    rows = 0

    def action() -> None:
        nonlocal rows
        for start in range(0, len(documents), 50):
            rows += index.match_many(documents[start : start + 50], threads=1).num_rows

    return clock(action), rows


def main(arguments: list[str]) -> int:
    options, report = options_of("thrash", __doc__.partition("\n")[0], arguments)
    schema = load_schema(options.data, report)
    before, counted = (100, 200) if options.quick else (300, 500)
    documents = draw_documents(schema, before + counted, seed=3)
    report.note(f"one pass over {counted} documents of about 30 KB each, after {before} others")
    lxml = lxml_time(documents[before:], 3)
    queries = draw_queries(schema, 1_000_000)
    for count in (100_000,) if options.quick else (100_000, 1_000_000):
        table = as_table(queries[:: len(queries) // count])
        plain = Seconds(0, 0)
        for size in SIZES_MIB:
            index = Index(cache_bytes_max=size << 20)
            index.add_many(table)
            for start in range(0, before, 50):
                index.match_many(documents[start : start + 50], threads=1)
            spent, rows = one_pass(index, documents[before:])
            plain = spent if size == 0 else plain
            name = f"{count // 1000:,}k queries, " + (f"cache of {size} MiB" if size else "no cache (plain NFA)")
            report.ratio(name, spent, lxml, counted, rows / counted)
            if size:
                ratio = spent.cpu / plain.cpu
                bar, met = ("<= 1.5x", ratio <= 1.5) if size == 1 else ("", None)
                report.add(f"{name}: against no cache", f"{ratio:.2f}", "x plain NFA", bar=bar, met=met)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
