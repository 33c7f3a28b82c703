"""The native arrays of a broker's deliveries, beside a model of dictionaries."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from treecast import _native
from treecast.index import Index

IDS = ("a", "b", "c", "d" * 40)


def batch_of(index: Index, draw: Random, count: int) -> tuple[_native.DeliveryBatch, list[list[str]]]:
    wanted = [[id for id in IDS if draw.random() < 0.5] for _ in range(count)]
    texts = [b"<x>" + b"".join(b"<%s/>" % id.encode() for id in some) + b"</x>" for some in wanted]
    return index.render_columns(texts, report=True), wanted


class Trial:
    """One lane, and a model of it: by subscription what waits, by message what it has."""

    def __init__(self, seed: int) -> None:
        self.draw, self.index = Random(seed), Index()
        for id in IDS:
            self.index.add(id, f"/x/{id}")
        self.lanes = _native.Lanes(20)
        self.lane = self.lanes.open_lane()
        self.slots: dict[str, int] = {}
        self.serials: dict[str, int] = {}
        self.number = self.message = self.serial = 0
        self.line: list[tuple[str, int]] = []
        self.waiting: dict[str, list[int]] = {}
        self.newest: dict[str, int] = {}
        self.messages: dict[int, list[tuple[int, str, int]]] = {}

    def join(self) -> None:
        if missing := [id for id in IDS if id not in self.slots]:
            id = self.draw.choice(missing)
            self.serial += 1
            self.slots[id] = self.lanes.join(id, self.lane, self.serial, self.number, 100)
            self.serials[id], self.waiting[id], self.newest[id] = self.serial, [], self.number

    def leave(self, id: str = "") -> None:
        if not self.slots:
            return
        id = id or self.draw.choice(sorted(self.slots))
        ready = sum(other == id for other, _ in self.line)
        waiting, count, _, newest = self.lanes.leave(self.slots.pop(id))
        assert (waiting, count, newest) == (self.waiting.pop(id), ready, self.newest[id])
        self.line = [entry for entry in self.line if entry[0] != id]
        del self.serials[id]

    def enqueue(self) -> None:
        batch, wanted = batch_of(self.index, self.draw, 3)
        numbers = [self.number + 1, 0, self.number + 2]
        self.number += 2
        bodies = list(range(1, 1 + sum(map(bool, wanted))))  # a document is the payload of all its deliveries
        rows, others, touched = self.lanes.enqueue(batch, numbers, [5] * 3, "o", [8] * 3, bodies)
        assert rows[1] is None and rows[0] is not None and msgspec.msgpack.decode(rows[0][0]) == wanted[0]
        left = []
        for at in (0, 2):
            for id in wanted[at]:
                if id in self.slots and len(self.waiting[id]) < 20:
                    self.waiting[id].append(numbers[at])
                    self.newest[id] = numbers[at]
                    self.line.append((id, numbers[at]))
                else:
                    left.append((at, id))
        assert others == left and bool(touched) == (len(left) < len(wanted[0]) + len(wanted[2]))

    def take(self) -> None:
        self.message += 1
        items, self.line = self.line[:4], self.line[4:]
        made = self.lanes.take(self.lane, self.message, 4, 1 << 20)
        assert (made is None) == (not items)
        if made is None:
            return
        read = msgspec.msgpack.decode(made[0])
        assert [(item[0], item[1]) for item in read] == items and made[2] == len(items)
        assert all(item[2:4] == [5, 1] and item[5:] == ["o", 8] for item in read)
        assert {item[4] for item in read} == set(range(len(made[1]))) and len(set(made[1])) == len(made[1])
        assert self.lanes.take_again(self.lane, self.message) == made
        self.messages[self.message] = [(self.serials[id], id, document) for id, document in items]

    def open(self) -> None:
        if self.messages:
            known = self.draw.choice(sorted(self.messages))
            entries = self.messages.pop(known)
            assert self.lanes.open_message(self.lane, known) == [(one, document) for one, _, document in entries]
            for one, id, _ in entries:  # as a broker does it
                if self.serials.get(id) == one:
                    self.leave(id)

    def acknowledge(self) -> None:
        if not self.messages:
            return
        known = self.draw.choice(sorted(self.messages))
        entries = self.messages.pop(known)
        here = [(id, document) for one, id, document in entries if self.serials.get(id) == one]
        for id, document in here:
            self.waiting[id].remove(document)
        count, ids, cursors, strays = self.lanes.acknowledge(self.lane, [known, 10_000])
        assert count == len(entries) and set(ids) == {id for id, _ in here}
        assert strays == [(one, document) for one, id, document in entries if self.serials.get(id) != one]
        for id, cursor in zip(ids, cursors, strict=True):
            floor = self.waiting[id][0] - 1 if self.waiting[id] else self.newest[id]
            assert msgspec.msgpack.decode(cursor) == [floor, self.lanes.done(self.slots[id])]

    def check(self) -> None:
        documents = {document for some in self.waiting.values() for document in some}
        lanes = self.lanes
        assert lanes.total == sum(map(len, self.waiting.values())) and lanes.on_lane(self.lane) == len(self.line)
        assert (lanes.unfinished, lanes.first_unfinished()) == (len(documents), min(documents, default=0))
        assert lanes.longest() == max(map(len, self.waiting.values()), default=0)


@pytest.mark.parametrize("seed", range(8))
def test_lanes_do_what_a_model_does(seed: int) -> None:
    trial = Trial(seed)
    steps = (trial.enqueue, trial.enqueue, trial.take, trial.acknowledge, trial.join, trial.leave, trial.open)
    for _ in range(400):
        trial.draw.choice(steps)()
        trial.check()


def test_native_columns_are_checked() -> None:
    index = Index()
    index.add("q", "/a")
    batch = index.render_columns([b"<a/>"], report=True)
    lanes = _native.Lanes(10)
    lane = lanes.open_lane()
    slot = lanes.join("q", lane, 1, 0, 5)
    wrong: Any
    for wrong in (([], [0], "", [0], [1]), ([1], [0], "", [0], [])):
        with pytest.raises(ValueError, match="columns"):
            lanes.enqueue(batch, *wrong)
    rows, others, touched = lanes.enqueue(batch, [7], [3], "", [0], [9])
    assert (rows, others, touched) == ([(b"\x91\xa1q", b"\x91\x09")], [], [lane])
    assert lanes.take(lane, 1, 10, 100) == (b"\x91\x97\xa1q\x07\x03\x01\x00\xa0\x00", [9], 1, 5)
    assert lanes.depth(slot) == (1, 0) and lanes.first_unfinished() == 7
    with pytest.raises(RuntimeError, match="twice"):
        lanes.join("q", lane, 2, 0, 5)
    with pytest.raises(RuntimeError, match="closed"):
        lanes.close_lane(lane)
