"""The experiment on formats: its messages over TCP, its verdict on rows made for it, and a small run."""

from __future__ import annotations

from collections.abc import Mapping
from unittest.mock import patch

import pytest

from treecast import experiments
from treecast.document import Document, read
from treecast.experiments import onyx_formats
from treecast.experiments.experiment import Row, Sizes
from treecast.experiments.loopback import Loopback
from treecast.wire import FORMATS, Codec

pytestmark = pytest.mark.house

SIZES = {"text": 1.0, "binary": 0.9, "dictionary": 0.5}
DELAYS = {"text": 20.0, "binary": 10.0, "dictionary": 10.0}


def made_rows(
    sizes: Mapping[str, float] = SIZES,
    delays: Mapping[str, float] = DELAYS,
    packed: float = 0.4,
    slower: float = 4.0,
    network: float = 0.0,
    documents: int = 40,
    load: float = 0.5,
) -> list[Row]:
    """Rows of two points. Compressed forms are `packed` times as large and take `slower` times as long."""
    rows: list[Row] = []
    for depth, text in ((4, 1_000), (8, 10_000)):
        for name in FORMATS:
            form, _, how = name.partition("-")
            us = delays[form] * (slower if how else 1)
            rows.append(
                {
                    "depth": depth,
                    "repeats": 2,
                    "format": name,
                    "text_bytes": text,
                    "wire_bytes": text * sizes[form] * (packed if how else 1),
                    "encode_us": us / 2,
                    "decode_us": us / 2,
                    "us": us,
                    "kept_us": us + 50,
                    "new_us": us + 100 + network * text,
                    "documents": documents,
                    "load": load,
                }
            )
    return rows


def answers(rows: list[Row]) -> list[str]:
    return [finding.answer for finding in experiments.find("onyx-formats").verdict(rows)]


def test_the_verdict_follows_the_rows() -> None:
    assert answers(made_rows()) == ["agree"] * 6
    assert answers(made_rows(documents=3)) == ["inconclusive"] * 6
    assert answers(made_rows(sizes=SIZES | {"binary": 0.5}))[0] == "differs"
    assert answers(made_rows(sizes=SIZES | {"dictionary": 0.95}))[1] == "differs"
    assert answers(made_rows(packed=0.9))[2] == "differs"
    assert answers(made_rows(delays=DELAYS | {"binary": 20.0}))[3] == "differs"
    assert answers(made_rows(slower=1.1))[4] == "differs"
    assert answers(made_rows(network=0.1))[5] == "differs"
    assert answers(made_rows(network=0.1, load=9.0))[5] == "inconclusive", "the machine was busy"


def test_messages_arrive_over_kept_and_new_connections() -> None:
    codec = Codec("binary-zlib")
    documents = [read(b"<a>%d</a>" % number) for number in range(5)]
    with Loopback(codec.decode) as link:
        connection = link.connect()
        for document in documents:
            link.send(codec.encode(document), connection)
            link.send_alone(codec.encode(document))
            (received,) = link.received
            assert isinstance(received, Document) and received.data == document.data


def test_a_small_run() -> None:
    with patch.object(onyx_formats, "REPEATS", (2,)):
        outcome = experiments.perform(
            experiments.find("onyx-formats"), Sizes((1,), 6, values=(4,), passes=1, cell_seconds=0.1)
        )
    assert outcome.problems == [] and len(outcome.rows) == len(FORMATS)
    assert {row["format"] for row in outcome.rows} == set(FORMATS)
    assert all(row["new_us"] > 0 and row["wire_bytes"] > 0 for row in outcome.rows)


def test_a_format_that_loses_something_is_a_problem() -> None:
    with (
        patch.object(onyx_formats, "REPEATS", (2,)),
        patch.object(Codec, "decode_many", lambda self, bodies: [read(b"<x/>") for _ in bodies]),
    ):
        outcome = experiments.perform(
            experiments.find("onyx-formats"), Sizes((1,), 2, values=(4,), passes=1, cell_seconds=0.1)
        )
    assert len(outcome.problems) == len(FORMATS)
