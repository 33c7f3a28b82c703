"""The speed of reading documents, next to lxml in the same run.

    python bench/reading.py                      # synthetic news documents of about 30 KB and 5 KB
    python bench/reading.py FILE_OR_DIRECTORY …  # your own

Each figure is the median of several passes over the batch. `native` reads all documents into columns with every check
on, keeping one document at a time; `lxml` is etree.fromstring of the same documents, one after the other.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from lxml import etree

from treecast import DocumentError, _native
from treecast.document import Limits, read

PROSE = (
    "market shares rose after the central bank said it would keep rates low until spring while analysts in Zürich "
    "warned of slower growth and a weak currency the minister declined to comment on the report published on Monday"
)
WORDS = PROSE.split()
INLINE = ("em", "person", "location", "org", "chron", "money")


def news_document(bytes_wanted: int, seed: int) -> bytes:
    """A document like NITF: a head of metadata, then paragraphs with inline markup, and tables."""
    rng = random.Random(seed)

    def sentence(low: int, high: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(low, high)))

    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<!DOCTYPE nitf SYSTEM "nitf.dtd">',
        f'<nitf version="-//IPTC//DTD NITF 3.0//EN" change.date="10 January 2020" uno="{seed:08d}">',
        f"<head>\n<title>{sentence(4, 9)}</title>",
        '<tobject tobject.type="news"><tobject.subject tobject.subject.refnum="04000000" '
        f'tobject.subject.type="{rng.choice(WORDS)}" tobject.subject.matter="Stock"/></tobject>',
        f'<docdata><doc-id id-string="{seed}"/><urgency ed-urg="{rng.randint(1, 8)}"/>'
        '<date.issue norm="20200110T101500Z"/><doc.copyright holder="treecast" year="2020"/></docdata>\n</head>',
        f"<body>\n<body.head><hedline><hl1>{sentence(5, 9)}</hl1></hedline>"
        f"<byline>By <person>{sentence(2, 2)}</person></byline></body.head>\n<body.content>",
    ]
    size = sum(map(len, lines))
    while size < bytes_wanted:
        lines.append(_table(rng) if rng.random() < 0.1 else _paragraph(rng, sentence))
        size += len(lines[-1])
    lines.append("</body.content>\n<body.end><tagline>treecast</tagline></body.end>\n</body>\n</nitf>\n")
    return "\n".join(lines).encode()


def _paragraph(rng: random.Random, sentence: Callable[[int, int], str]) -> str:
    parts = [f'    <p lede="{rng.choice(("true", "false"))}">']
    for _ in range(rng.randint(1, 5)):
        tag = rng.choice(INLINE)
        attribute = f' idsrc="iptc" value="{rng.randint(1, 99999)}"' if rng.random() < 0.4 else ""
        parts.append(f"{sentence(3, 14)} <{tag}{attribute}>{sentence(1, 3)}</{tag}> ")
    parts.append(f"{sentence(2, 8)}.</p>")
    return "".join(parts)


def _table(rng: random.Random) -> str:
    rows = []
    for _ in range(rng.randint(2, 6)):
        cells = "".join(f'<td align="right">{rng.randint(1, 9999)}</td>' for _ in range(rng.randint(2, 5)))
        rows.append(f"      <tr>{cells}</tr>")
    return "    <table>\n" + "\n".join(rows) + "\n    </table>"


def load(paths: list[Path]) -> list[bytes]:
    """The readable documents among the files; says how many were left out."""
    files = [f for path in paths for f in (sorted(path.rglob("*.xml")) if path.is_dir() else [path])]
    documents, refused = [], 0
    for file in files:
        data = file.read_bytes()
        try:
            read(data)
            etree.fromstring(data)
            documents.append(data)
        except (DocumentError, etree.XMLSyntaxError):
            refused += 1
    print(f"{len(documents)} documents; {refused} left out because one of the readers refuses them")
    return documents


def median_seconds(work: Callable[[], object], passes: int) -> float:
    """CPU seconds of one pass; the first pass warms up and does not count."""
    times = []
    for _ in range(passes + 1):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return statistics.median(times[1:])


def measure(label: str, documents: list[bytes], passes: int) -> None:
    """Print one row: sizes, MB/s of both, and the ratio."""
    limits = Limits().native()
    total = sum(map(len, documents))
    elements = _native.read_many(documents, limits)
    repeat = max(1, 20_000_000 // total)

    def native() -> None:
        for _ in range(repeat):
            _native.read_many(documents, limits)

    def peer() -> None:
        for document in documents:
            etree.fromstring(document)

    ours, theirs = median_seconds(native, passes) / repeat, median_seconds(peer, passes)
    print(
        f"{label:12} {len(documents):6} documents  {total / len(documents) / 1000:7.1f} KB  "
        f"{elements / len(documents):7.0f} elements  native {total / ours / 1e6:7.0f} MB/s  "
        f"lxml {total / theirs / 1e6:5.0f} MB/s  ratio {theirs / ours:5.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="files or directories of XML")
    parser.add_argument("--passes", type=int, default=7)
    arguments = parser.parse_args()
    if arguments.paths:
        measure("given", load(arguments.paths), arguments.passes)
        return
    for label, size, count in (("news 30 KB", 30_000, 200), ("news 5 KB", 5_000, 1_000)):
        measure(label, [news_document(size, seed) for seed in range(count)], arguments.passes)


if __name__ == "__main__":
    main()
