"""One file of the log of bodies: its records, how they are found again, and the offsets that are kept beside it.

A record is a header and a body. The header is the store's *mark* (eight random bytes), the body's number and length,
and a checksum of all of these and the body. The mark begins every record, so records behind a damaged one can be found;
nobody outside knows it, so no body can contain something that looks like a record.

    >>> data = header(b"MARKMARK", 7, b"<a/>") + b"<a/>"
    >>> read_record(data, b"MARKMARK", 7)
    b'<a/>'
    >>> scan(data, b"MARKMARK", first=1, last=7).numbers
    array('Q', [7])

The offsets of a sealed segment are a file of their own, with a checksum. It is only a short cut: where it is missing or
damaged, the segment is read instead.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field

from treecast.overlay.checksums import crc32

MARK_BYTES = 8
_FIELDS = struct.Struct("<8sQI")
_HEADER = struct.Struct("<8sQII")
HEADER_BYTES = _HEADER.size
BODY_BYTES_MAX = (1 << 32) - 1
BODY_NUMBER_MAX = (1 << 63) - 1

_OFFSETS_HEADER = struct.Struct("<8sQQQQI")  # what it is, segment's first number, its size, records, damaged ranges
_OFFSETS_MAGIC = b"TCOFFS01"


def header(mark: bytes, number: int, body: bytes) -> bytes:
    """What is written before a body."""
    fields = _FIELDS.pack(mark, number, len(body))
    return fields + crc32(body, crc32(fields)).to_bytes(4, "little")


def read_record(record: bytes | memoryview, mark: bytes, number: int) -> bytes | None:
    """The body of a record, which may be followed by others; None if it is damaged, or not this number's."""
    body = _body_at(memoryview(record), 0, mark)
    return bytes(body[1]) if body is not None and body[0] == number else None


def _body_at(data: memoryview, position: int, mark: bytes) -> tuple[int, memoryview] | None:
    begin = position + HEADER_BYTES
    if begin > len(data):
        return None
    found, number, length, checksum = _HEADER.unpack_from(data, position)
    if found != mark or begin + length > len(data):
        return None
    body = data[begin : begin + length]
    if crc32(body, crc32(data[position : position + _FIELDS.size])) != checksum:
        return None
    return number, body


@dataclass
class Offsets:
    """Where the records of a segment begin. `damaged` are ranges of numbers, both ends included, that are lost."""

    numbers: array[int] = field(default_factory=lambda: array("Q"))
    offsets: array[int] = field(default_factory=lambda: array("I"))
    damaged: tuple[tuple[int, int], ...] = ()

    def find(self, number: int) -> int | None:
        """The place of this number in the arrays."""
        place = bisect_left(self.numbers, number)
        return place if place < len(self.numbers) and self.numbers[place] == number else None

    def is_damaged(self, number: int) -> bool:
        return any(low <= number <= high for low, high in self.damaged)


def scan(data: bytes, mark: bytes, *, first: int, last: int) -> Offsets:
    """Find all records of a segment that has the numbers from `first` to `last`, in order.

    Whatever is not a record of ours is passed over, up to the next mark. The numbers between are then damaged.
    """
    view = memoryview(data)
    found = Offsets()
    ranges: list[tuple[int, int]] = []
    position, expected, is_lost = 0, first, False
    while position < len(data):
        record = _body_at(view, position, mark)
        if record is None or not expected <= record[0] <= last:
            is_lost = True
            position = data.find(mark, position + 1)
            if position < 0:
                break
            continue
        number, body = record
        if is_lost and expected < number:
            ranges.append((expected, number - 1))
        is_lost = False
        found.numbers.append(number)
        found.offsets.append(position)
        expected = number + 1
        position += HEADER_BYTES + len(body)
    if expected <= last:
        ranges.append((expected, last))
    found.damaged = tuple(ranges)
    return found


def offsets_to_bytes(offsets: Offsets, first: int, size: int) -> bytes:
    """The content of the file beside a sealed segment."""
    damaged = array("Q", [number for pair in offsets.damaged for number in pair])
    parts = [array("Q", offsets.numbers), damaged, array("I", offsets.offsets)]
    if sys.byteorder == "big":
        for part in parts:
            part.byteswap()
    content = b"".join(part.tobytes() for part in parts)
    start = _OFFSETS_HEADER.pack(
        _OFFSETS_MAGIC, first, size, len(offsets.numbers), len(offsets.damaged), crc32(content)
    )
    return start + crc32(start).to_bytes(4, "little") + content


def offsets_from_bytes(data: bytes, first: int, size: int) -> Offsets | None:
    """Read such a file; None unless it is whole and belongs to this segment."""
    begin = _OFFSETS_HEADER.size + 4
    if len(data) < begin or crc32(data[: begin - 4]).to_bytes(4, "little") != data[begin - 4 : begin]:
        return None
    magic, its_first, its_size, records, ranges, checksum = _OFFSETS_HEADER.unpack_from(data)
    if (magic, its_first, its_size) != (_OFFSETS_MAGIC, first, size) or crc32(data[begin:]) != checksum:
        return None
    if len(data) != begin + 12 * records + 16 * ranges:
        return None
    numbers, pairs, offsets = array("Q"), array("Q"), array("I")
    numbers.frombytes(data[begin : begin + 8 * records])
    begin += 8 * records
    pairs.frombytes(data[begin : begin + 16 * ranges])
    offsets.frombytes(data[begin + 16 * ranges :])
    if sys.byteorder == "big":
        for part in (numbers, pairs, offsets):
            part.byteswap()
    return Offsets(numbers, offsets, tuple(zip(pairs[::2], pairs[1::2], strict=True)))
