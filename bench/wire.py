"""The formats of links beside lxml: encoding, decoding and size, and passing on a document that is for others.

Batches of 64 documents of about 5 KB, as in a frame, all Python included. `text` is decoded by reading it. `pass on` is
what a broker does with a document in binary that is for others: it decodes it and looks for the links that want it.
lxml is etree.fromstring of the same documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bench.inputs import draw_queries, load_schema
from bench.measure import Report, Seconds, clock, finish, lxml_time, median, options_of, run
from bench.reading import news_document
from treecast import Index, read
from treecast.document import Document, read_many
from treecast.wire import FORMATS, Codec, Dictionary
from treecast.workload import DocumentSettings, Schema, generate_documents

FRAME = 64
BYTES = 5_000
HALF = 0.5


def timed(work: Callable[[], object], repeats: int) -> Seconds:
    work()
    return median([clock(work) for _ in range(repeats)])


def each(work: Callable[[Any], object], batches: Sequence[object]) -> None:
    for batch in batches:
        work(batch)


def frames(documents: list[bytes]) -> list[list[bytes]]:
    return [documents[begin : begin + FRAME] for begin in range(0, len(documents), FRAME)]


def measure(report: Report, name: str, documents: list[bytes], repeats: int) -> None:
    """The rows of all formats for one kind of document; what is learnt is learnt from other documents."""
    lxml = lxml_time(documents, repeats)
    half = len(documents) // 2
    dictionary = Dictionary.learn([read(data) for data in documents[:half]])
    given = [one for one in read_many(documents) if isinstance(one, Document)]
    size = sum(map(len, documents))
    reading = timed(lambda: [read_many(frame) for frame in frames(documents)], repeats)
    report.ratio(f"{name}: documents read once, kept", reading, lxml, len(documents), 0)
    for format in FORMATS:
        codec = Codec(format, dictionary=dictionary)
        batches = [given[begin : begin + FRAME] for begin in range(0, len(given), FRAME)]
        bodies = [codec.encode_many(batch) for batch in batches]
        packed = sum(len(body) for batch in bodies for body in batch)
        report.figure(f"{name}: {format}, size", 100 * packed / size, "% of text")
        encoding = timed(partial(each, codec.encode_many, batches), repeats)
        report.ratio(f"{name}: {format}, encode", encoding, lxml, len(documents), 0)
        decoding = timed(partial(each, codec.decode_many, bodies), repeats)
        report.ratio(f"{name}: {format}, decode", decoding, lxml, len(documents), 0)


def pass_on(report: Report, schema: Schema, documents: list[bytes], queries: int, repeats: int) -> None:
    """Decode and route with queries that no document satisfies, as a broker does for its links."""
    index = Index()
    index.add_many([(str(n), f"{query}/no-such-element") for n, query in enumerate(draw_queries(schema, queries))])
    lxml = lxml_time(documents, repeats)
    given = [one for one in read_many(documents) if isinstance(one, Document)]
    dictionary = Dictionary.learn(given[: len(given) // 2], schema=schema)
    for format in ("text", "binary", "dictionary", "dictionary-zstd"):
        codec = Codec(format, dictionary=dictionary)
        bodies = [codec.encode_many(given[begin : begin + FRAME]) for begin in range(0, len(given), FRAME)]

        def work(codec: Codec = codec, bodies: list[list[bytes]] = bodies) -> None:
            for batch in bodies:
                decoded = [one for one in codec.decode_many(batch) if isinstance(one, Document)]
                assert index.match_part(decoded, report=True).matches.flatten().null_count == 0

        seconds = timed(work, repeats)
        bar = None if codec.format.compression else HALF
        report.ratio(f"{format}: pass on, {queries:,} queries", seconds, lxml, len(documents), 0, bar=bar)


def main(arguments: list[str]) -> int:
    options, report = options_of("wire", __doc__.partition("\n")[0], arguments)
    repeats, count = (3, 4 * FRAME) if options.quick else (7, 16 * FRAME)
    measure(report, "prose", [news_document(BYTES, seed) for seed in range(count)], repeats)
    schema = load_schema(options.data, report)
    drawn = list(generate_documents(schema, count, DocumentSettings(bytes_target=BYTES), seed=1))
    measure(report, schema.name, drawn, repeats)
    pass_on(report, schema, drawn, 1_000, repeats)
    pass_on(report, schema, drawn, 100_000, repeats)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
