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


class Model:
    """One lane. By subscription what waits, and what was sent; by message what it has."""

    def __init__(self) -> None:
        self.line: list[tuple[str, int]] = []
        self.waiting: dict[str, list[int]] = {}
        self.newest: dict[str, int] = {}
        self.messages: dict[int, list[tuple[int, str, int]]] = {}

    def leave(self, id: str) -> list[int]:
        self.line = [entry for entry in self.line if entry[0] != id]
        return self.waiting.pop(id)


@pytest.mark.parametrize("seed", range(8))
def test_lanes_do_what_a_model_does(seed: int) -> None:
    draw, index = Random(seed), Index()
    for id in IDS:
        index.add(id, f"/x/{id}")
    lanes, model = _native.Lanes(20), Model()
    lane = lanes.open_lane()
    slots: dict[str, int] = {}
    serials: dict[str, int] = {}
    number = message = serial = 0
    for _ in range(400):
        what = draw.choice(("enqueue", "enqueue", "take", "acknowledge", "join", "leave", "open"))
        if what == "join" and (missing := [id for id in IDS if id not in slots]):
            id, serial = draw.choice(missing), serial + 1
            slots[id], serials[id] = lanes.join(id, lane, serial, number, 100), serial
            model.waiting[id], model.newest[id] = [], number
        elif what == "leave" and slots:
            id = draw.choice(sorted(slots))
            ready = [document for other, document in model.line if other == id]
            waiting, count, _, newest = lanes.leave(slots.pop(id))
            assert (waiting, count, newest) == (model.leave(id), len(ready), model.newest[id])
            del serials[id]
        elif what == "enqueue":
            batch, wanted = batch_of(index, draw, 3)
            numbers = [number + 1, 0, number + 2]
            number += 2
            payloads = sum(1 for some in wanted if some)  # a document is the payload of all its deliveries
            rows, others, touched = lanes.enqueue(batch, numbers, [5] * 3, "o", [8] * 3, list(range(1, payloads + 1)))
            assert rows[1] is None and msgspec.msgpack.decode(rows[0][0]) == wanted[0]  # type: ignore[index]
            left = []
            for at in (0, 2):
                for id in wanted[at]:
                    if id in slots and len(model.waiting[id]) < 20:
                        model.waiting[id].append(numbers[at])
                        model.newest[id] = numbers[at]
                        model.line.append((id, numbers[at]))
                    else:
                        left.append((at, id))
            assert others == left and bool(touched) == (len(left) < len(wanted[0]) + len(wanted[2]))
        elif what == "take":
            message += 1
            items, model.line = model.line[:4], model.line[4:]
            made = lanes.take(lane, message, 4, 1 << 20)
            assert (made is None) == (not items)
            if made is not None:
                read = msgspec.msgpack.decode(made[0])
                assert [(item[0], item[1]) for item in read] == items and made[2] == len(items)
                assert all(item[2:4] == [5, 1] and item[5:] == ["o", 8] for item in read)
                assert [made[1][item[4]] for item in read] and len(set(made[1])) == len(made[1])
                assert lanes.take_again(lane, message) == made
                model.messages[message] = [(serials[id], id, document) for id, document in items]
        elif what in ("acknowledge", "open") and model.messages:
            known = draw.choice(sorted(model.messages))
            entries = model.messages.pop(known)
            if what == "open":
                assert lanes.open_message(lane, known) == [(one, document) for one, _, document in entries]
                for one, id, _ in entries:  # as a broker does it
                    if serials.get(id) == one:
                        lanes.leave(slots.pop(id))
                        model.leave(id)
                        del serials[id]
                continue
            strays = [(one, document) for one, id, document in entries if serials.get(id) != one]
            for one, id, document in entries:
                if serials.get(id) == one:
                    model.waiting[id].remove(document)
            count, ids, cursors, found = lanes.acknowledge(lane, [known, 10_000])
            assert (count, found) == (len(entries), strays)
            assert set(ids) == {id for one, id, _ in entries if serials.get(id) == one}
            for id, cursor in zip(ids, cursors, strict=True):
                floor = model.waiting[id][0] - 1 if model.waiting[id] else model.newest[id]
                assert msgspec.msgpack.decode(cursor) == [lanes.floor(slots[id]), lanes.done(slots[id])]
                assert lanes.floor(slots[id]) == floor
        assert lanes.total == sum(map(len, model.waiting.values())) and lanes.on_lane(lane) == len(model.line)
        documents = {document for some in model.waiting.values() for document in some}
        assert (lanes.unfinished, lanes.first_unfinished()) == (len(documents), min(documents, default=0))
        assert lanes.longest() == max(map(len, model.waiting.values()), default=0)


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
