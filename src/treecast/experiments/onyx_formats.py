"""The formats in which documents travel: wire size and delay (ONYX, section 4.3.2, Figures 7 and 8).

Messages are drawn from a news DTD, as in the paper, over DocDepth (levels at most) and MaxRepeats (how often a part may
be repeated). Delay is what a sender does to encode and a receiver to decode: of text that is parsing. Both are CPU time
in frames of 64 documents. Over TCP it is wall-clock time from one end to the other and back, one message at a time, all
of that included, with a connection that is kept and with one for each message.

We differ: the paper's element stream writes names out as often as they occur; ours writes a name once in a document.
Ours also gives back the original bytes, white space included, which the paper's leaves out. zstd is beside zlib.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

from treecast.document import Document, read_many
from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import news_schema
from treecast.experiments.loopback import Loopback
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_least, at_most, distinct, extreme, pick, ratio, times, value
from treecast.experiments.session import Session
from treecast.measure import clock
from treecast.report import Panel
from treecast.wire import FORMATS, Codec, Dictionary
from treecast.workload import DocumentSettings, generate_documents

REPEATS = (2, 4, 6)
FRAME = 64
SENT_MAX = 50  # messages over TCP for each format
DOCUMENTS_MIN = 20
LOAD_MAX = 1.5  # of the machine, beyond which times over TCP decide nothing
BYTES_MAX = 1 << 20
FORMS = ("text", "binary", "dictionary")


def points(sizes: Sizes) -> list[Point]:
    return [{"depth": int(depth), "repeats": repeats} for depth in sizes.values for repeats in REPEATS]


def draw(session: Session, depth: int, repeats: int) -> list[bytes]:
    settings = DocumentSettings(bytes_target=None, bytes_max=BYTES_MAX, depth_max=depth, repeats_max=repeats)
    schema = news_schema(session)
    # Twice as many: the first half is what a dictionary is learnt from, and is not measured.
    return list(generate_documents(schema, 2 * session.sizes.documents, settings, seed=session.seed))


def measure(session: Session, point: Point) -> list[Row]:
    depth, repeats = point["depth"], point["repeats"]
    texts = draw(session, depth, repeats)
    all_documents = [one for one in read_many(texts) if isinstance(one, Document)]
    assert len(all_documents) == len(texts), "the generator writes what the reader takes"
    learning_documents, documents = all_documents[: len(all_documents) // 2], all_documents[len(all_documents) // 2 :]
    dictionary = Dictionary.learn(learning_documents, schema=news_schema(session))
    size = sum(document.size_bytes for document in documents) / len(documents)
    load = os.getloadavg()[0]
    rows = []
    for format in FORMATS:
        session.say(f"{format}, depth {depth}, repeats {repeats}")
        codec = Codec(format, dictionary=dictionary)
        bodies = codec.encode_many(documents)
        answers = codec.decode_many(bodies)
        if [one.data if isinstance(one, Document) else None for one in answers] != [one.data for one in documents]:
            session.problems.append(f"{format} does not give back what was sent, at depth {depth}")
        encode = session.fastest_pass(partial(in_frames, codec.encode_many, documents))
        decode = session.fastest_pass(partial(in_frames, codec.decode_many, bodies))
        kept_seconds, new_seconds = over_tcp(codec, documents[:SENT_MAX])
        rows.append(
            {
                "depth": depth,
                "repeats": repeats,
                "format": format,
                "text_bytes": size,
                "wire_bytes": sum(map(len, bodies)) / len(bodies),
                "encode_us": encode / len(documents) * 1e6,
                "decode_us": decode / len(documents) * 1e6,
                "us": (encode + decode) / len(documents) * 1e6,
                "kept_us": kept_seconds * 1e6,
                "new_us": new_seconds * 1e6,
                "documents": len(documents),
                "load": load,
            }
        )
    return rows


def in_frames(work: Callable[[Any], object], items: Sequence[object]) -> None:
    for begin in range(0, len(items), FRAME):
        work(items[begin : begin + FRAME])


def over_tcp(codec: Codec, documents: Sequence[Document]) -> tuple[float, float]:
    """Median wall-clock seconds from a Document to a Document and back, with a kept connection and with new ones."""
    with Loopback(codec.decode) as link:
        connection = link.connect()
        link.send(codec.encode(documents[0]), connection)
        kept_seconds = [clock(lambda one=one: link.send(codec.encode(one), connection)).wall for one in documents]  # type: ignore[misc]
        new_seconds = [clock(lambda one=one: link.send_alone(codec.encode(one))).wall for one in documents]  # type: ignore[misc]
    return median(kept_seconds), median(new_seconds)


# -- verdict


def verdict(rows: Sequence[Row]) -> list[Finding]:
    least = min(row["documents"] for row in rows)
    short = "" if least >= DOCUMENTS_MIN else f"a verdict takes {DOCUMENTS_MIN} documents a point; this run had {least}"
    return [rule(rows, short) for rule in (_stream, _encoding, _compression, _parsing, _slow, _connection)]


def _by_point(rows: Sequence[Row], over: str, under: str, y: str) -> list[tuple[str, float | None]]:
    """How many times as much one format takes as another, at each point."""
    shares = []
    for depth in distinct(rows, "depth"):
        for repeats in distinct(pick(rows, depth=depth), "repeats"):
            share = ratio(rows, over, under, key="format", y=y, depth=depth, repeats=repeats)
            shares.append((f"depth {depth}, repeats {repeats}", share))
    return shares


def _middle(shares: Sequence[tuple[str, float | None]]) -> float | None:
    known_shares = [share for _, share in shares if share is not None]
    return median(known_shares) if known_shares else None


def _range(shares: Sequence[tuple[str, float | None]]) -> str:
    low, high = extreme(shares, min), extreme(shares, max)
    return "—" if low is None or high is None else f"{low[1]:.2f} ({low[0]}) to {high[1]:.2f} ({high[0]})"


def _stream(rows: Sequence[Row], short: str) -> Finding:
    shares = _by_point(rows, "binary", "text", "wire_bytes")
    middle = _middle(shares)
    return Finding(
        "the element stream does not remarkably outperform text in size",
        f"{times(middle)} of the text, from {_range(shares)}",
        "agree from 0.8 up, differs below 0.6 (median of all points)",
        "inconclusive" if short else at_least(middle, agree=0.8, differs=0.6),
        short or "ours writes a name once in a document; the paper's writes it as often as it occurs",
        middle,
    )


def _encoding(rows: Sequence[Row], short: str) -> Finding:
    shares = _by_point(rows, "dictionary", "text", "wire_bytes")
    worst = extreme(shares, max)
    return Finding(
        "dictionary encoding gives promising results: clearly smaller than text",
        f"of the text {_range(shares)}",
        "agree if it is at most 0.75 of the text at every point, differs if more than 0.9 at one",
        "inconclusive" if short else at_most(worst[1] if worst else None, agree=0.75, differs=0.9),
        short,
        worst[1] if worst else None,
    )


def _compression(rows: Sequence[Row], short: str) -> Finding:
    shares = [
        (f"{form}, {at}", share) for form in FORMS for at, share in _by_point(rows, f"{form}-zlib", form, "wire_bytes")
    ]
    middle = _middle(shares)
    return Finding(
        "compression reduces the size of all formats significantly",
        f"zlib leaves {times(middle)}, from {_range(shares)}; zstd "
        f"{times(_middle([one for form in FORMS for one in _by_point(rows, f'{form}-zstd', form, 'wire_bytes')]))}",
        "agree if zlib leaves at most 0.6 (median of all points and forms), differs above 0.8",
        "inconclusive" if short else at_most(middle, agree=0.6, differs=0.8),
        short,
        middle,
    )


def _parsing(rows: Sequence[Row], short: str) -> Finding:
    shares = _by_point(rows, "text", "binary", "decode_us")
    middle = _middle(shares)
    return Finding(
        "text has to be parsed by the receiver, which proves expensive; the binary formats are only deserialized",
        f"reading text takes {times(middle)} as long as decoding binary, from {_range(shares)}; with encoding, "
        f"{times(_middle(_by_point(rows, 'text', 'binary', 'us')))}",
        "agree if reading takes at least 1.5 times as long (median of all points), differs below 1.1",
        "inconclusive" if short else at_least(middle, agree=1.5, differs=1.1),
        short or "text costs the sender nothing here, because a Document keeps its bytes, and our reader is fast",
        middle,
    )


def _slow(rows: Sequence[Row], short: str) -> Finding:
    shares = [(f"{form}, {at}", share) for form in FORMS for at, share in _by_point(rows, f"{form}-zlib", form, "us")]
    middle = _middle(shares)
    zstd = _middle([one for form in FORMS for one in _by_point(rows, f"{form}-zstd", form, "us")])
    return Finding(
        "compressed formats have significant costs at the sender and the receiver",
        f"zlib takes {times(middle)} as long as the plain form, zstd {times(zstd)} (median of all points and forms)",
        "agree if zlib takes at least twice as long, differs below 1.2 times",
        "inconclusive" if short else at_least(middle, agree=2.0, differs=1.2),
        short,
        middle,
    )


def _connection(rows: Sequence[Row], short: str) -> Finding:
    """What the network takes is the end to end delay without encoding and decoding. It is wall-clock time."""
    load = max(row["load"] for row in rows)
    short = short or (f"the load of the machine was {load:.1f}, more than {LOAD_MAX}" if load > LOAD_MAX else "")
    text = sorted(pick(rows, format="text"), key=lambda row: float(row["text_bytes"]))
    first, last = text[0], text[-1]
    growth = last["text_bytes"] / first["text_bytes"]
    network = [row["new_us"] - row["us"] for row in (first, last)]
    slower = network[1] / network[0] if network[0] > 0 else None
    kept_us = value(rows, "kept_us", format="text", depth=last["depth"], repeats=last["repeats"])
    return Finding(
        "over TCP with a connection for each message, all sizes have the same transmission delay",
        f"{times(growth)} the size takes {times(slower)} the time over new connections on loopback "
        f"({network[0]:.0f} and {network[1]:.0f} µs); the largest takes {last['new_us']:.0f} µs end to end over a new "
        f"connection and {kept_us or 0:.0f} µs over a kept one",
        "agree if the largest messages take at most 1.5 times as long as the smallest, differs above 3 times",
        "inconclusive" if short or growth < 3 else at_most(slower, agree=1.5, differs=3.0),
        short or "the paper's network lay between continents; loopback has no distance, only system calls",
        slower,
    )


def panels(rows: Sequence[Row]) -> list[Panel]:
    """Over depth, at the most repeats; one line for each format."""
    most = max(row["repeats"] for row in rows)
    shown_rows = pick(rows, repeats=most)
    x = ("depth", f"DocDepth (MaxRepeats {most})")
    return [
        lines(shown_rows, "Figure 7: wire size", x, ("wire_bytes", "bytes per message"), key="format"),
        lines(shown_rows, "Figure 8: delay", x, ("us", "encode and decode, CPU µs"), key="format"),
        lines(shown_rows, "TCP, kept connection", x, ("kept_us", "end to end, µs"), key="format"),
        lines(shown_rows, "TCP, new connections", x, ("new_us", "end to end, µs"), key="format"),
    ]


EXPERIMENT = Experiment(
    name="onyx-formats",
    paper="ONYX",
    section="4.3.2, Figures 7 and 8",
    title="Formats for transmission: wire size and delay",
    found="Six formats: text, element stream, element stream with a dictionary of the schema, each plain or with ZLIB. "
    "The element stream does not remarkably outperform text in size, the dictionary gives promising results, and "
    "compression reduces all significantly. Text has to be parsed, which is expensive; compression has significant "
    "costs. Over TCP all sizes gave the same transmission delay, because connections took longest.",
    parameters="the paper's six formats and zstd, over DocDepth and MaxRepeats. µs/doc is encoding and decoding in "
    f"frames of {FRAME}, CPU time; TCP is wall-clock time on loopback, one message at a time and back",
    columns=(
        *("depth", "repeats", "format", "text_bytes", "wire_bytes", "encode_us", "decode_us", "us"),
        *("kept_us", "new_us", "documents", "load"),
    ),
    full=Sizes((1,), 200, values=(4, 6, 8, 10)),
    quick=Sizes((1,), 40, values=(4, 8), passes=3, cell_seconds=0.5),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
