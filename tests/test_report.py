"""The report: right numbers, nothing but the file itself, and no way for a document's name to become markup."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from oracles.report_page import check_page

from treecast.cli.run_table import table
from treecast.report import Figures, Moment, RefusedDocument, SlowDocument, write_chart, write_page
from treecast.report.figures import short_number, short_size, short_time, shown, ticks
from treecast.report.page import page

HOSTILE = "<script>alert('x')</script><img src=\"http://evil.test/x\" onerror=alert(1)>\x00\x1b[2J\ud800&amp;$x^2$"
PAGE_BYTES_MAX = 300_000

EMPTY = Figures(title="nothing", began="", documents=0, matches=0, errors=0, size_bytes=0, seconds=0.0, subscriptions=0)
FULL = Figures(
    title="news",
    began="2026-11-15 12:00:00",
    documents=1_000,
    matches=12_345,
    errors=3,
    size_bytes=5_000_000,
    seconds=20.0,
    subscriptions=500,
    busy_nanoseconds=1_500_000_000,
    top=(("sport", 800), ("stocks", 400), ("weather", 7)),
    buckets={2: 1, 8: 1, 9: 1},
    moments=tuple(Moment(second, 50 * second, 600 * second) for second in range(21)),
    slowest=(SlowDocument("a.xml", 3_200_000, 48_000, 12),),
    refused=(RefusedDocument("b.xml", "TC202", "the end tag </a> does not match the start tag <b>"),),
    refused_codes=(("TC202", 2), ("TC209", 1)),
    places=(("matches (Parquet)", "out/matches"),),
    settings=(("source.path", "docs"),),
    versions=(("Spark", "4.3.0"),),
)


def hostile(count: int, text: str = HOSTILE) -> Figures:
    return replace(
        FULL,
        title=text,
        top=tuple((f"{text}{n}", n) for n in range(count, 0, -1)),
        slowest=(SlowDocument(text, 1, 1, 1),) * count,
        refused=(RefusedDocument(text, "TC202", text),) * count,
        refused_codes=((text, count),),
        places=((text, text),),
        settings=((text, text),) * count,
        versions=((text, text),),
    )


@pytest.mark.parametrize("figures", [EMPTY, FULL, hostile(3), hostile(60, "x" * 100_000)])
def test_the_page_is_html_that_loads_nothing(figures: Figures) -> None:
    text = page(figures)
    check_page(text)
    assert len(text.encode()) <= PAGE_BYTES_MAX


def test_the_page_says_what_happened() -> None:
    text = check_page(page(FULL))
    for expected in ("1,000", "5.0 MB", "12,345", "50/s", "0.25 MB/s", "1.5 s", "sport", "800", "3.2 ms"):
        assert expected in text, expected
    assert "2 × TC202, 1 × TC209" in text
    assert "the end tag </a> does not match the start tag <b>" in text
    assert "… and 2 more; all of them are rows of the result." in text
    assert "out/matches" in text
    assert "<svg" in page(FULL)


def test_the_page_says_what_was_rendered() -> None:
    refused = RefusedDocument("a.xml, for sport", "TC330", "the payload is too large")
    rendered = replace(FULL, errors=0, payload_bytes=7_000_000, refused_deliveries=1, refused=(refused,))
    text = check_page(page(rendered))
    for expected in ("7.0 MB of payloads", "of reading, matching and rendering", "a.xml, for sport"):
        assert expected in text, expected
    assert "Refused documents and deliveries" in text
    assert "payloads" not in check_page(page(FULL))
    lines = list(table(rendered))
    assert "  deliveries            12,344               7.0 MB of payloads" in lines


def test_names_stay_text() -> None:
    text = check_page(page(hostile(1)))
    assert "<script>alert('x')</script>" in text
    assert "\\x00\\x1b[2J" in text
    assert "\\ud800&amp;" in text


def test_a_short_job_has_no_curve() -> None:
    text = page(replace(FULL, moments=FULL.moments[:3], seconds=0.41))
    assert "<svg" not in text
    assert "Done in too few steps to draw a curve." in text


@pytest.mark.parametrize("figures", [EMPTY, FULL, hostile(3)])
def test_the_chart_is_a_picture(figures: Figures, tmp_path: Path) -> None:
    write_chart(figures, tmp_path / "report.png")
    data = (tmp_path / "report.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (1320, 792)
    assert [path.name for path in tmp_path.iterdir()] == ["report.png"]


def test_a_page_replaces_the_one_before(tmp_path: Path) -> None:
    write_page(EMPTY, tmp_path / "report.html")
    write_page(FULL, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text("utf-8") == page(FULL)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_distribution_counts_every_subscription_once() -> None:
    for buckets in ({0: 3}, {0: 1, 13: 2}, {0: 1, 14: 5}, {3: 2, 40: 1}):
        rows = replace(FULL, buckets=buckets).distribution()
        assert sum(count for _, count in rows) == FULL.subscriptions
        assert len(rows) <= 16
    assert replace(FULL, buckets={0: 1, 14: 5}).distribution()[:3] == [("0", 494), ("1–3", 1), ("4–15", 0)]


def test_rates_join_neighbours_and_keep_the_sum() -> None:
    moments = tuple(Moment(second / 10, second * second, 0) for second in range(2_001))
    rates = list(replace(FULL, moments=moments).rates())
    assert len(rates) <= 240
    assert sum((end - begin) * rate for begin, end, rate in rates) == pytest.approx(2_000 * 2_000)
    assert list(replace(FULL, moments=(Moment(1.0, 5, 5), Moment(1.0, 9, 9))).rates()) == []


def test_numbers_are_short() -> None:
    values = (0, 0.00001, 0.0042, 0.254, 7.5, 40.0, 99.94, 380, 12_400, 1_250_000, 2e9)
    assert [short_number(value) for value in values] == [
        "0", "0", "0.004", "0.25", "7.5", "40", "99.9", "380", "12,400", "1.25 M", "2.00 G",
    ]  # fmt: skip
    assert [short_size(value) for value in (0, 999, 1000, 123_456, 5_000_000, 12_345_678_900)] == [
        "0 B", "999 B", "1.0 KB", "123 KB", "5.0 MB", "12.3 GB",
    ]  # fmt: skip
    assert [short_time(value) for value in (850, 42_300, 3_200_000, 456_000_000, 1_500_000_000)] == [
        "850 ns", "42.3 µs", "3.2 ms", "456 ms", "1.5 s",
    ]  # fmt: skip
    assert shown("a\nb", 10) == "a\\nb"
    assert shown("abcdef", 3) == "abc…"


@pytest.mark.parametrize("most", [0.003, 0.9, 1, 7.3, 10, 99, 5_616, 1e7])
def test_ticks_are_round_and_few(most: float) -> None:
    values = ticks(most)
    assert values[0] == 0
    assert 2 <= len(values) <= 5
    assert most * 0.5 <= values[-1] <= most * (1 + 1e-9)
    assert ticks(0) == [0.0]
