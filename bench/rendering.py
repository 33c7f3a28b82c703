"""The cost of payloads: 100,000 transformations in 1,000 shapes, about 100 of which match each document.

Rendering is the time to match and build minus the time to match, in the same batches. The floor is native too: it scans
as many bytes as all payloads have for characters to escape, and copies them. With sharing off, every payload is built
separately.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from bench.measure import Report, Seconds, clock, finish, median, options_of, run
from treecast import Index, _native

SHAPES = 1000
CODES = 1000
BATCH = 20
WORDS = ("market", "report", "storm", "harbour", "council", "budget", "river", "<b>vote</b>", "&amp;", "price", "tea")


def draw_documents(count: int, words_each: int, seed: int = 11) -> list[bytes]:
    """Articles: a code that decides who wants it, a head, and paragraphs with markup inside."""
    chance = random.Random(seed)

    def words(number: int) -> str:
        return " ".join(chance.choice(WORDS) for _ in range(number))

    documents = []
    for number in range(count):
        paragraphs = "".join(f'<p n="{i}">{words(words_each)}</p>' for i in range(12))
        fields = "".join(f'<f{i} at="{i}">{words(6)}</f{i}>' for i in range(10))
        head = f"<head><title>{words(8)}</title><by>{words(2)}</by></head>"
        code = chance.randrange(CODES)
        text = f'<news><item code="c{code}" id="{number}">{head}{fields}<body>{paragraphs}</body></item></news>'
        documents.append(text.encode())
    return documents


def shape(number: int) -> str:
    """A return clause, one of a thousand that have parts in common."""
    one, two, three = number % 10, number // 10 % 10, number // 100
    parts = f"<head>{{$n/head/title}}{{$n/f{one}}}</head>"
    body = f"<text>{{$n/body/p[@n < {two + 1}]}}</text>"
    return f'<alert kind="{three}" id="{{$n/@id}}">{parts}{body}<by>{{string($n/head/by)}}</by></alert>'


def draw_subscriptions(count: int, seed: int = 7) -> list[tuple[str, str]]:
    chance = random.Random(seed)
    return [
        (
            f"s{i}",
            f'for $n in $msg/news/item where $n/@code = "c{chance.randrange(CODES)}" return {shape(i % SHAPES)}',
        )
        for i in range(count)
    ]


def in_batches(documents: Sequence[bytes], action: Callable[[Sequence[bytes]], object]) -> Seconds:
    """The time of all batches, as a pipeline would hand them over."""

    def all_of_them() -> None:
        for start in range(0, len(documents), BATCH):
            action(documents[start : start + BATCH])

    return clock(all_of_them)


def measure(report: Report, index: Index, documents: list[bytes], repeats: int) -> None:
    part = index.render_part(documents, report=False, bytes_max=1 << 40)
    payloads = part.deliveries.values.field("payload").to_pylist()
    deliveries = len(payloads) / len(documents)
    size = sum(map(len, payloads)) / len(payloads)
    report.note(
        f"{len(documents)} documents of {len(documents[0])} bytes, {BATCH} a call: {deliveries:.0f} deliveries each, "
        f"of {size:.0f} bytes"
    )
    copying = _native.testing.CopyFloor(payloads, int(size * deliveries * BATCH))
    copying.run()
    floors, matched, shared, apart = [], [], [], []
    for _ in range(repeats):
        floors.append(clock(copying.run))
        matched.append(in_batches(documents, partial(index.match_part, report=False)))
        shared.append(in_batches(documents, partial(index.render_part, report=False)))
        apart.append(in_batches(documents, partial(index.render_part, report=False, share=False)))
    floor, match = median(floors), median(matched)
    label = f"{size / 1000:.1f} KB"
    for what, spent, bar in (("shared", median(shared), 4.0), ("sharing off", median(apart), None)):
        add(report, f"rendering {label}, {what}", spent - match, floor, len(documents), deliveries, bar)
    add(report, f"matching, {label}", match, floor, len(documents), deliveries, None)
    report.figure(f"a delivery of {label}", (median(shared) - match).cpu / len(payloads) * 1e6, "µs")
    one_by_one, together = [], []
    for _ in range(repeats):
        one_by_one.append(clock(lambda: [index.render(document) for document in documents]))
        together.append(clock(lambda: index.render_many(documents, threads=2)))
    add_threads(report, label, median(together), median(one_by_one), len(documents), deliveries)
    report.figure(f"its bytes alone, {label}", floor.cpu / len(payloads) * 1e6, "µs")


def add_threads(
    report: Report, label: str, together: Seconds, alone: Seconds, documents: int, deliveries: float
) -> None:
    """`render_many` with two threads beside a loop of `render`; by the wall, as threads spend time at once."""
    report.add(
        f"render_many threads=2, {label}",
        f"{together.wall / documents * 1e6:.1f}",
        "µs/doc",
        lxml=f"loop {alone.wall / documents * 1e6:.1f}",
        wall=f"{together.wall / alone.wall:.2f}x",
        matches=f"{deliveries:.0f}",
    )


def main(arguments: list[str]) -> int:
    options, report = options_of("rendering", __doc__.partition("\n")[0], arguments)
    repeats, count = (3, 20_000) if options.quick else (7, 100_000)
    index = Index()
    built = clock(lambda: index.add_many(draw_subscriptions(count)))
    report.note(f"{count:,} transformations in {SHAPES:,} shapes, with {CODES:,} values in their where clauses")
    report.figure("adding them", built.cpu, f"s (wall {built.wall:.3g})")
    report.note(
        "a delivery costs about half a microsecond besides its bytes, whatever its size: what was made before is "
        "looked up, a dozen ops run, paths are followed; of small payloads that is the larger part"
    )
    for words in (40, 200, 1000):
        measure(report, index, draw_documents(100 if options.quick else 400, words), repeats)
    return finish(options, report)


def add(
    report: Report, figure: str, spent: Seconds, floor: Seconds, documents: int, deliveries: float, bar: float | None
) -> None:
    """A row compared with the floor, which takes the column of lxml."""
    ratio = spent.cpu / floor.cpu
    report.add(
        figure,
        f"{spent.cpu / documents * 1e6:.1f}",
        "µs/doc",
        lxml=f"floor {floor.cpu / documents * 1e6:.1f}",
        cpu=f"{ratio:.2f}x",
        wall=f"{spent.wall / floor.wall:.2f}x",
        matches=f"{deliveries:.0f}",
        bar="" if bar is None else f"<= {bar:g}x",
        met=None if bar is None else ratio <= bar,
    )


if __name__ == "__main__":
    run(main)
