"""Checksums by native code are those of zlib, and records and rows with checksums those that are made one by one."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from zlib import crc32 as expected

import pytest

from treecast._native import testing
from treecast.overlay.checksums import checked_rows, crc32, log_records
from treecast.overlay.storage import BODY_HEAD_BYTES, AppendMany, one_by_one
from treecast.serve.store.segment import header
from treecast.serve.store.tables import Table


@pytest.fixture(params=[0, -1])
def simd(request: pytest.FixtureRequest) -> Iterator[int]:
    testing.simd_force(request.param)
    yield request.param
    testing.simd_force(-1)


def test_every_length_and_beginning(simd: int) -> None:
    draw = Random(1)
    data = draw.randbytes(700)
    for size in (*range(150), 255, 256, 257, 511, 512, 640, 700):
        begin, before = draw.randrange(701 - size), draw.getrandbits(32)
        some = memoryview(data)[begin : begin + size]
        assert crc32(some, before) == expected(some, before) == testing.crc32_scalar(bytes(some), before)
    assert crc32(bytearray(data)) == crc32(data[300:], crc32(data[:300])) == expected(data)


def test_records_of_a_log() -> None:
    bodies = [b"<a/>", b"", b"x" * 1000]
    many = AppendMany.of(7, bodies)
    records, offsets = log_records(b"MARKMARK", 7, many.data, many.ends, BODY_HEAD_BYTES)
    single = [header(b"MARKMARK", change.number, change.body) + change.body for change in one_by_one([many])]  # type: ignore[union-attr]
    assert records == b"".join(single) and offsets == [0, len(single[0]), len(single[0]) + len(single[1])]
    for wrong in ([9, 8], [4], [9, 12], [9, 2000]):
        with pytest.raises(ValueError, match="bod"):
            log_records(b"MARKMARK", 7, many.data, wrong, BODY_HEAD_BYTES)


@pytest.mark.parametrize("keys", [(-(1 << 63), -1, 0, 7, (1 << 63) - 1), ("", "a", "ä", "\U0001f600")])
def test_rows_of_a_table(keys: tuple[int | str, ...]) -> None:
    table = Table("t", type(keys[0]))
    rows: dict[int | str, bytes | None] = {key: b"value %d" % place for place, key in enumerate(keys)}
    made = checked_rows(table.seed, {**rows, "gone": None})
    assert [key for key, _ in made] == list(keys)
    assert all(table.value(key, stored) == rows[key] for key, stored in made)
    with pytest.raises(OverflowError):
        checked_rows(1, {1 << 63: b""})
    with pytest.raises(TypeError):
        checked_rows(1, {1: "text"})  # type: ignore[dict-item]
