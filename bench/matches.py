"""10,000 subscriptions with `matches()` on one attribute, beside lxml's parsing of the same documents.

Kinds of patterns: with a text of their own, which the shared machines look for; the same without regard to case, where
the first letters in every spelling are looked for; alternatives; a text in the middle; and without any text, so that
each is run on each value.
"""

from __future__ import annotations

from random import Random

from bench.inputs import as_table
from bench.measure import Report, clock, finish, median, options_of, parse_all, run
from treecast import Index

COUNT, ITEMS, DOCUMENTS = 10_000, 40, 20

KINDS = {
    "a text": '//item[matches(@code, "^[A-Z]+-{word}[0-9]*$")]',
    "any case": '//item[matches(@code, "^[A-Z]+-{word}[0-9]*$", "i")]',
    "alternatives": '//item[matches(@code, "({word}|{other})x?$")]',
    "a text, deep inside": '//item[matches(., "[a-z]+ {word} .*[0-9]{2}")]',
    "no text": '//item[matches(@code, "^[A-Z]{{number},}[a-z]+[0-9]+$")]',
}


def word(number: int) -> str:
    """Four letters and more, no two alike."""
    letters = ""
    for _ in range(4):
        number, letter = divmod(number, 26)
        letters += chr(ord("a") + letter)
    return letters + "qz"


def document(random: Random) -> bytes:
    def item() -> str:
        return (
            f'<item code="AB-{word(random.randrange(26**4))}17"><n>some {word(random.randrange(26**4))} 23</n></item>'
        )

    return f"<feed>{''.join(item() for _ in range(ITEMS))}</feed>".encode()


def queries(shape: str, count: int) -> list[str]:
    def filled(number: int) -> str:
        text = shape.replace("{word}", word(number * 37)).replace("{other}", word(number * 41 + 7))
        return text.replace("{number}", str(number + 3))

    return [filled(number) for number in range(count)]


def measure_kind(report: Report, kind: str, count: int, passes: int) -> None:
    random = Random(1)
    few = kind == "no text"
    documents = [document(random) for _ in range(2 if few else DOCUMENTS)]
    count = count // 10 if few else count
    index = Index()
    index.add_many(as_table(queries(KINDS[kind], count)))
    rows = index.match_many(documents, threads=1).num_rows
    lxml = median([clock(lambda: parse_all(documents)) for _ in range(passes)])
    ours = median([clock(lambda: index.match_many(documents, threads=1)) for _ in range(passes)])
    report.add(
        f"{kind}, {count:,}: {ours.cpu / len(documents) / count * 1e6:.3f} µs a subscription",
        f"{ours.cpu / len(documents) * 1e6:.1f}",
        "µs/doc",
        lxml=f"{lxml.cpu / len(documents) * 1e6:.1f}",
        cpu=f"{ours.cpu / lxml.cpu:.2f}x",
        matches=f"{rows / len(documents):.1f}",
    )


def measure(report: Report, count: int = COUNT, passes: int = 3) -> None:
    report.note(f"documents of {ITEMS} items")
    for kind in KINDS:
        measure_kind(report, kind, count, passes)


def main(arguments: list[str]) -> int:
    options, report = options_of("matches", __doc__.partition("\n")[0], arguments)
    measure(report, COUNT // 10 if options.quick else COUNT)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
