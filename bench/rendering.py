"""What payloads cost: 100,000 transformations in 1,000 shapes, about 100 of which match each document.

Rendering is the time of matching and building less the time of matching alone, in the same batches. The floor beside it
is native too: it scans as many bytes as the payloads of all deliveries have for characters to escape, and copies them.
With sharing off every payload is built for itself.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from bench.measure import Report, Seconds, clock, finish, median, options_of, run
from treecast import Index, _native

SHAPES = 1000
CODES = 1000
WORDS = ("market", "report", "storm", "harbour", "council", "budget", "river", "<b>vote</b>", "&amp;", "price", "tea")


def draw_documents(count: int, seed: int = 11) -> list[bytes]:
    """Articles of about 4 KB: a code that decides who wants it, a head, and paragraphs with markup inside."""
    chance = random.Random(seed)

    def words(number: int) -> str:
        return " ".join(chance.choice(WORDS) for _ in range(number))

    documents = []
    for number in range(count):
        paragraphs = "".join(f'<p n="{i}">{words(40)}</p>' for i in range(12))
        fields = "".join(f'<f{i} at="{i}">{words(6)}</f{i}>' for i in range(10))
        head = f"<head><title>{words(8)}</title><by>{words(2)}</by></head>"
        code = chance.randrange(CODES)
        text = f'<news><item code="c{code}" id="{number}">{head}{fields}<body>{paragraphs}</body></item></news>'
        documents.append(text.encode())
    return documents


def shape(number: int) -> str:
    """A return clause: a thousand of them, which have parts in common as the wishes of people have."""
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


def rendering_time(index: Index, documents: Sequence[bytes], share: bool) -> Seconds:
    return clock(lambda: index.render_part(documents, report=False, bytes_max=1 << 40, share=share))


def main(arguments: list[str]) -> int:
    options, report = options_of("rendering", __doc__.partition("\n")[0], arguments)
    repeats, count = (3, 20_000) if options.quick else (7, 100_000)
    documents = draw_documents(100 if options.quick else 400)
    index = Index()
    built = clock(lambda: index.add_many(draw_subscriptions(count)))
    part = index.render_part(documents, report=False, bytes_max=1 << 40)
    payloads = part.deliveries.values.field("payload")
    sizes = [len(payload) for payload in payloads.to_pylist()]
    deliveries = len(sizes) / len(documents)
    report.note(
        f"{count:,} transformations in {SHAPES:,} shapes; {len(documents)} documents of {len(documents[0])} bytes; "
        f"{deliveries:.0f} deliveries a document, {sum(sizes) / len(sizes):.0f} bytes each"
    )
    report.figure("adding them", built.cpu, f"s (wall {built.wall:.3g})")
    copying = _native.CopyFloor(payloads.to_pylist())
    floors, matched, shared, apart = [], [], [], []
    for _ in range(repeats):
        floors.append(clock(copying.run))
        matched.append(clock(lambda: index.match_part(documents, report=False)))
        shared.append(rendering_time(index, documents, True))
        apart.append(rendering_time(index, documents, False))
    floor, match = median(floors), median(matched)
    for label, spent, bar in (("shared", median(shared), 4.0), ("sharing off", median(apart), None)):
        add(report, f"rendering, {label}", spent - match, floor, len(documents), deliveries, bar)
    add(report, "matching", match, floor, len(documents), deliveries, None)
    return finish(options, report)


def add(
    report: Report, figure: str, spent: Seconds, floor: Seconds, documents: int, deliveries: float, bar: float | None
) -> None:
    """A row beside the floor; the column that other workloads give to lxml holds the floor."""
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
