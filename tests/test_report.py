"""The report: right numbers, nothing but the file itself, and no way for a document's name to become markup."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from oracles.report_page import check_page

from treecast import Index
from treecast.cli.run_table import table
from treecast.report import (
    DocumentDetail,
    Figures,
    Moment,
    RefusedDocument,
    SlowDocument,
    detail_of,
    write_chart,
    write_page,
)
from treecast.report.figures import short_number, short_size, short_time, shown, ticks
from treecast.report.page import page
from treecast.report.subscription_counts import join_counts, with_counts, write_counts

HOSTILE = "<script>alert('x')</script><img src=\"http://evil.test/x\" onerror=alert(1)>\x00\x1b[2J\ud800&amp;$x^2$"
PAGE_BYTES_MAX = 1_500_000

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
    for expected in ("7.0 MB of payloads", "inside treecast", "a.xml, for sport"):
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
    assert "over time" not in check_page(text)


def test_no_part_is_empty() -> None:
    """A part that has nothing to say is not there."""
    assert page(EMPTY).count("<section") == 0
    text = page(replace(FULL, errors=0, refused=(), refused_codes=(), slowest=(), moments=()))
    titles = re.findall("<h2>(.*?)</h2>", text)
    assert titles == ["Subscriptions by number of matches", "Subscriptions", "Results", "Settings", "Versions"]


def test_start_up_is_told_apart_from_the_rate() -> None:
    slow_start = replace(
        FULL, startup=(("starting Spark", 8.0), ("planning", 3.5)), matching_seconds=4.0, ending=(("writing", 1.0),)
    )
    assert (slow_start.documents_per_second, FULL.documents_per_second) == (250.0, 50.0)
    text = check_page(page(slow_start))
    for expected in (
        "250/s",
        "in 4.0 s",
        "11.5 s",
        "starting Spark 8.0 s",
        "reading and matching 4.0 s",
        "writing 1.0 s",
    ):
        assert expected in text, expected
    assert next(table(slow_start)).startswith("news: starting Spark 8.0 s, planning 3.5 s, reading and matching 4.0 s")


def test_subscriptions_have_their_queries_and_the_unmatched_are_listed() -> None:
    queries = {"sport": "//item[@topic='sport']", "never": "/<never>"}
    text = page(replace(FULL, queries=queries, unmatched=("never",)))
    assert "3 matched at least one document, 497 matched none." in check_page(text)
    assert "<code>//item[@topic=&#x27;sport&#x27;]</code>" in text
    assert 'data-kind="unmatched" data-id="never" data-query="/&lt;never&gt;" data-matches="0"' in text
    assert "Not on this page: 496 that did not." in check_page(text)


def test_results_are_linked_where_they_lie_beside_the_page() -> None:
    places = (("matches (Parquet)", "out/my matches"), ("elsewhere", "hdfs://host/x"), ("report", "out/report.html"))
    text = page(replace(FULL, places=places, directory="out"))
    assert '<a href="my%20matches">' in text
    assert "<code>hdfs:/<wbr>/<wbr>host/<wbr>x</code>" in text
    assert "report.html" not in text


def test_a_refusal_has_its_hint_below_it_and_no_escapes() -> None:
    message = "TC204 the entity &uuml; is not declared (line 1, byte 5)\n  hint: add --entities html"
    text = page(replace(FULL, refused=(RefusedDocument("b.xml", "TC204", message),)))
    assert "byte 5)<br>" in text
    assert "hint: add --entities html" in check_page(text)
    assert "\\n" not in check_page(text)


STORY = b'<s d="1">\n  <t>one</t>\n  <t k="x">two &amp; <b>bold</b></t>\n</s>'


def index_of(*subscriptions: tuple[str, str, str]) -> Index:
    index = Index()
    for id, query, deliver in subscriptions:
        index.add(id, query, deliver=deliver)  # type: ignore[arg-type]
    return index


def test_a_document_shows_what_matched_and_where() -> None:
    index = index_of(("x", "//t[@k='x']", "elements"), ("whole", "/s", "document"), ("no", "/nothing", "document"))
    detail = detail_of("a.xml", STORY, index, rendered=True)
    assert detail.matches == 2
    assert "".join(piece.text for piece in detail.pieces) == STORY.decode()
    assert [(piece.text, piece.numbers) for piece in detail.pieces if piece.numbers] == [
        ('<s d="1">', (1,)), ("<t ", (0,)), ('k="x"', (0,)), (">", (0,)),
    ]  # fmt: skip
    first, second = detail.shown
    assert (first.place, first.payload) == ("/s[1]/t[2], line 3", '<t k="x">two &amp; <b>bold</b></t>')
    assert (second.is_whole, second.payload_bytes) == (True, len(STORY))
    text = page(replace(FULL, payload_bytes=1, details=(detail,)))
    assert '<mark data-m="0">&lt;t </mark>' in text
    assert "delivered: the whole document" in check_page(text)


def test_a_long_document_shows_what_is_around_its_marks() -> None:
    data = b"<r>" + b"<x/>\n" * 4_000 + b"<y>found</y>" + b"<x/>\n" * 4_000 + b"</r>"
    detail = detail_of("long.xml", data, index_of(("y", "//y", "elements")), rendered=False)
    text = "".join(piece.text for piece in detail.pieces)
    assert "<y>found</y>" in text
    assert len(text) < 2_000
    assert sum(piece.is_gap for piece in detail.pieces) == 2
    assert detail.shown[0].payload_bytes is None


def test_a_document_that_cannot_be_read_is_still_listed() -> None:
    details = (detail_of("bad.xml", b"<a>", index_of(), rendered=True), DocumentDetail("far.xml", 7, 0, 3))
    text = check_page(page(replace(FULL, details=details)))
    assert text.count("It could not be read again") == 2
    assert "far.xml" in text


def test_details_are_text_and_bounded() -> None:
    data = f"<a>{'&lt;script>alert(1)&lt;/script>' * 2_000}</a>".encode()
    id = HOSTILE.translate({0: None, 0xD800: None})  # no id has these
    detail = detail_of(HOSTILE, data, index_of((id, "//a", "elements")), rendered=True)
    text = page(replace(FULL, payload_bytes=1, details=(detail,) * 500))
    check_page(text)
    assert len(text.encode()) <= PAGE_BYTES_MAX
    assert "&amp;lt;script&gt;alert(1)" in text


def test_a_large_set_makes_no_large_page(tmp_path: Path) -> None:
    count = 100_000
    ids = pa.array(range(count), pa.int64()).cast(pa.string())
    subscriptions = pa.table({"id": ids, "query": pc.binary_join_element_wise("//item", ids, "x" * 300, "")})
    half = pa.chunked_array([ids[: count // 2]])
    counts = join_counts(subscriptions, half, pa.chunked_array([pa.array(range(1, count // 2 + 1))]))
    figures = with_counts(replace(FULL, subscriptions=count), counts)
    assert figures.top[0] == ("49999", 50_000)
    assert (figures.subscriptions_matched, figures.unmatched_count, len(figures.unmatched)) == (50_000, 50_000, 500)
    assert sum(number for _, number in figures.distribution()) == count
    text = page(figures)
    assert len(text.encode()) <= PAGE_BYTES_MAX
    assert "Not on this page: 49,500 that matched and 49,500 that did not" in check_page(text)
    write_counts(counts, tmp_path / "subscriptions.parquet")
    assert pq.read_table(tmp_path / "subscriptions.parquet").equals(counts)
    assert [path.name for path in tmp_path.iterdir()] == ["subscriptions.parquet"]


def test_counts_of_subscriptions_that_are_gone_are_kept() -> None:
    table = pa.table({"id": ["a", "b"], "query": ["/a", "/b"]})
    counts = join_counts(table, pa.chunked_array([["gone", "b"]]), pa.chunked_array([[5, 2]]))
    assert counts.to_pylist() == [
        {"id": "gone", "query": "", "matches": 5},
        {"id": "b", "query": "/b", "matches": 2},
        {"id": "a", "query": "/a", "matches": 0},
    ]


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
