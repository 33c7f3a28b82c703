"""The deliveries of a rendered part, by document."""

from __future__ import annotations

from typing import Any


class Matches:
    """The deliveries of some documents, as lists. PERF: bench/broker.py: Arrow's scalars cost more than matching."""

    def __init__(self, deliveries: Any) -> None:
        self._ends: list[int] = deliveries.offsets.to_pylist()
        self.documents = len(self._ends) - 1
        rows = deliveries.values
        self._ids: list[str] = rows.field("subscription").to_pylist()
        column = rows.field("payload")
        self._choices: list[int] = column.indices.to_pylist()
        codes = rows.field("code")
        self._codes: list[str | None] | None = codes.to_pylist() if codes.null_count < len(codes) else None
        _, ends, data = column.dictionary.buffers()
        self._first = column.dictionary.offset
        self._payload_ends = memoryview(ends).cast("q") if ends is not None else memoryview(b"")
        self._payloads = memoryview(data) if data is not None else memoryview(b"")

    def of(self, at: int) -> tuple[list[str], list[int], list[tuple[str, str]]]:
        """Of one document: subscriptions, the numbers of their payloads, and those that were refused, with codes."""
        begin, end = self._ends[at], self._ends[at + 1]
        ids, choices = self._ids[begin:end], self._choices[begin:end]
        if self._codes is None:
            return ids, choices, []
        codes = self._codes[begin:end]
        accepted_places = [place for place, code in enumerate(codes) if code is None]
        refusals = [(id, code) for id, code in zip(ids, codes, strict=True) if code is not None]
        return [ids[place] for place in accepted_places], [choices[place] for place in accepted_places], refusals

    def is_empty(self, at: int) -> bool:
        return self._ends[at] == self._ends[at + 1]

    def payload(self, choice: int) -> bytes:
        begin, end = self._payload_ends[self._first + choice], self._payload_ends[self._first + choice + 1]
        return bytes(self._payloads[begin:end])  # views are compared byte by byte, which takes longer than copying them
