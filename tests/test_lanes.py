"""The native arrays of a broker's deliveries, beside a model of dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import msgspec
import pytest

from treecast import _native
from treecast.document import read
from treecast.index import Index
from treecast.overlay.broker.rows import DocumentRow, EarlyRow, decode, encode
from treecast.overlay.onyx.network_messages import Parcel
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.storage import BODY_HEAD_BYTES, AppendMany, packed_body
from treecast.wire import Codec

IDS = ("a", "b", "c", "d" * 40)


def bodies_of(message: tuple[bytes, int, list[tuple[int, int]], int, int]) -> list[int]:
    """The numbers of a message's payloads."""
    _, count, ranges, _, _ = message
    numbers = [number for first, last in ranges for number in range(first, last + 1)]
    assert len(numbers) == count
    assert all(ended[1] + 1 != begins[0] for ended, begins in pairwise(ranges)), "neighbours are one range"
    return numbers


def batch_of(index: Index, draw: Random, count: int) -> tuple[_native.DeliveryBatch, list[list[str]]]:
    wanted = [[id for id in IDS if draw.random() < 0.5] for _ in range(count)]
    texts = [b"<x>" + b"".join(b"<%s/>" % id.encode() for id in some) + b"</x>" for some in wanted]
    return index.render_columns(texts, report=True, texts=_native.Texts.matched), wanted


def progress_of(waiting: list[int], last_done: int, newest: int) -> list[Any]:
    """What is stored of a subscription: a `CursorRow`, without the fields at its end that are empty."""
    floor = waiting[0] - 1 if waiting else newest
    open = [document for document in waiting if document < last_done]
    return [floor, [], last_done, open] if last_done > floor else [floor, []]


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
        self.last_done: dict[str, int] = {}
        self.messages: dict[int, list[tuple[int, str, int]]] = {}

    def join(self) -> None:
        if missing := [id for id in IDS if id not in self.slots]:
            id = self.draw.choice(missing)
            self.serial += 1
            self.slots[id] = self.lanes.join(id, self.lane, self.serial, self.number, 100)
            self.serials[id], self.waiting[id], self.newest[id] = self.serial, [], self.number
            self.last_done[id] = 0

    def leave(self, id: str = "") -> None:
        if not self.slots:
            return
        id = id or self.draw.choice(sorted(self.slots))
        ready = sum(other == id for other, _ in self.line)
        progress = self.progress(id)
        expected = (self.waiting.pop(id), ready, progress[2] if len(progress) > 2 else 0, self.newest[id])
        assert self.lanes.leave(self.slots.pop(id)) == expected
        self.line = [entry for entry in self.line if entry[0] != id]
        del self.serials[id]

    def enqueue(self) -> None:
        batch, wanted = batch_of(self.index, self.draw, 3)
        accepted, columns = [True, False, True], (["s"] * 3, ["", "i", "j"], [5] * 3, "o", [8] * 3)
        numbers, rows, (data, ends), others, touched = self.lanes.store(batch, accepted, *columns, self.number, 6, {})
        assert numbers == [self.number + 1, 0, self.number + 2] and rows[0] == [numbers[0], numbers[2]]
        self.number += 2
        first, _ = (decode(row, DocumentRow) for row in rows[1])
        assert first == DocumentRow("s", "", 5, 7, ends[0] - BODY_HEAD_BYTES, wanted[0], [7] * len(wanted[0]), "o", 8)
        assert len(ends) == 2 and len(data) == ends[1]  # a document is the payload of all its deliveries
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
        assert [(item[0], item[1]) for item in read] == items and made[3] == len(items)
        bodies = bodies_of(made)
        assert all(item[2:4] == [5, 1] and item[5:] == ["o", 8] for item in read)
        assert {item[4] for item in read} == set(range(len(bodies))) and len(set(bodies)) == len(bodies)
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
            self.last_done[id] = max(self.last_done[id], document)
        count, ids, cursors, strays = self.lanes.acknowledge(self.lane, [known, 10_000])
        assert count == len(entries) and set(ids) == {id for id, _ in here}
        assert strays == [(one, document) for one, id, document in entries if self.serials.get(id) != one]
        for id, cursor in zip(ids, cursors, strict=True):
            assert msgspec.msgpack.decode(cursor) == self.progress(id)

    def progress(self, id: str) -> list[Any]:
        return progress_of(self.waiting[id], self.last_done[id], self.newest[id])

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
    batch = index.render_columns([b"<a/>"], report=True, texts=_native.Texts.matched)
    lanes = _native.Lanes(10)
    lane = lanes.open_lane()
    slot = lanes.join("q", lane, 1, 0, 5)
    with pytest.raises(ValueError, match="missing"):
        lanes.store(index.render_columns([b"<a/>"], report=True), None, ["s"], [""], [3], "", [0], 6, 8, {})
    wrong: Any
    for wrong in (([], [""], [3], "", [0]), (["s"], [""], [], "", [0]), (["s"], [""], [3], "", [])):
        with pytest.raises(ValueError, match="lengths"):
            lanes.store(batch, None, wrong[0], wrong[1], wrong[2], wrong[3], wrong[4], 6, 8, {})
    numbers, rows, bodies, others, touched = lanes.store(batch, None, ["s"], [""], [3], "", [0], 6, 8, {})
    assert (numbers, bodies, others, touched) == ([7], (packed_body(b"<a/>"), [9]), [], [lane])
    assert decode(rows[1][0], DocumentRow) == DocumentRow("s", "", 3, 9, 4, ["q"], [9])
    assert lanes.take(lane, 1, 10, 100) == (b"\x91\x97\xa1q\x07\x03\x01\x00\xa0\x00", 1, [(9, 9)], 1, 5)
    assert lanes.depth(slot) == (1, 0) and lanes.first_unfinished() == 7
    with pytest.raises(RuntimeError, match="twice"):
        lanes.join("q", lane, 2, 0, 5)
    with pytest.raises(RuntimeError, match="closed"):
        lanes.close_lane(lane)


def test_bodies_of_documents_and_payloads() -> None:
    """A payload that is the document has its body; others have one each; what nobody gets, or is refused, has none."""
    index = Index()
    for id, query, deliver in (("whole", "/a", "document"), ("part", "//b", "elements"), ("also", "//b", "elements")):
        index.add(id, query, deliver=deliver)  # type: ignore[arg-type]
    given = [b"<a><b>1</b></a>", b"<c/>", b"<a/>", b"<c><b>2</b></c>", b"<"]
    documents = [read(text) if text != b"<" else text for text in given]
    lanes = _native.Lanes(10)
    columns = (["s"] * 5, list("vwxyz"), [1, 2, 3, 4, 5], "o", [11, 12, 13, 14, 15])
    for contents in (given, documents):
        batch = index.render_columns(contents, report=True, texts=_native.Texts.matched)
        early = {3: encode(EarlyRow("steps"))}
        numbers, rows, (data, ends), others, _ = lanes.store(batch, None, *columns, 20, 30, early)
        assert numbers == [21, 0, 22, 23, 0] and rows[0] == [21, 22, 23] and len(others) == 6
        stored = AppendMany(31, data, ends)
        assert [stored.body(number) for number in range(31, 36)] == [
            given[0],
            b"<b>1</b>",
            given[2],
            given[3],
            b"<b>2</b>",
        ]
        assert [decode(row, DocumentRow) for row in rows[1]] == [
            DocumentRow("s", "v", 1, 31, 15, ["whole", "part", "also"], [31, 32, 32], "o", 11),
            DocumentRow("s", "x", 3, 33, 4, ["whole"], [33], "o", 13),
            DocumentRow("s", "y", 4, 34, 15, ["part", "also"], [35, 35], "o", 14, EarlyRow("steps")),
        ]
    batch = index.render_columns(given, report=True, texts=_native.Texts.all)
    numbers, rows, (data, ends), _, _ = lanes.store(batch, [False, True, True, False, False], *columns, 0, 0, {})
    assert (numbers, AppendMany(1, data, ends)) == ([0, 1, 2, 0, 0], AppendMany.of(1, [b"<c/>", b"<a/>"]))
    assert decode(rows[1][0], DocumentRow) == DocumentRow("s", "w", 2, 1, 4, [], [], "o", 12)


@pytest.mark.parametrize("format", ["text", "binary", "binary-zlib"])
def test_forms_are_rendered_as_documents_are(format: str) -> None:
    index = Index()
    index.add("whole", "/a")
    index.add("part", "//b", deliver="elements")
    texts = [b"<a><b>1</b></a>", b"<c/>", b"<c><b/></c>"]
    codec = Codec(format)
    forms = [codec.encode(read(text)) for text in texts]
    columns = (["s"] * 3, [""] * 3, [1] * 3, "o", [1, 2, 3])
    expected = index.render_columns(texts, report=True, texts=_native.Texts.matched)
    parcels = Parcels.of(Parcel(place, "s", "", 1, format, form) for place, form in enumerate(forms, 1))
    made = index.render_parcels(codec, parcels.native, 0)
    lanes = _native.Lanes(10)
    stored = lanes.store(expected, None, *columns, 0, 0, {})
    assert lanes.store(made, None, *columns, 0, 0, {}) == stored
    assert lanes.store_parcels(made, parcels.native, 0, "o", 0, 0) == stored
    if format == "binary":
        bodies = [forms[0], b"\x01\xff", forms[2]]
        parcels = Parcels.of(Parcel(place, "s", "", 1, format, form) for place, form in enumerate(bodies, 1))
        broken = index.render_parcels(codec, parcels.native, 0)
        assert [place for place, _ in broken.rejected] == [1] and broken.documents == 3


class Line:
    """One lane and the subscriptions of an index on it: each document of `publish` matches some of them."""

    def __init__(self, *ids: str) -> None:
        self.index, self.lanes = Index(), _native.Lanes(1_000)
        self.lane = self.lanes.open_lane()
        self.slots: dict[str, int] = {}
        self.number = self.serial = 0
        for id in ids:
            self.join(id)

    def join(self, id: str) -> None:
        self.serial += 1
        self.index.add(id, f"/a/b[. = '{id}']")
        self.slots[id] = self.lanes.join(id, self.lane, self.serial, self.number, 5)

    def leave(self, id: str) -> list[int]:
        self.index.remove(id)
        return self.lanes.leave(self.slots.pop(id))[0]

    def publish(self, *documents: Sequence[str]) -> list[tuple[int, str]]:
        """Each was published at ten times its number, and is stored. Returns what is on no lane."""
        texts = [b"<a>" + b"".join(b"<b>%s</b>" % id.encode() for id in ids) + b"</a>" for ids in documents]
        batch = self.index.render_columns(texts, report=True, texts=_native.Texts.all)
        count = len(documents)
        published = [10 * (self.number + place) for place in range(1, count + 1)]
        given = (["s"] * count, [""] * count, published, "o", published)
        others = self.lanes.store(batch, [True] * count, *given, self.number, self.number, {})[3]
        self.number += count
        return others

    def take(self, message: int, count: int = 1_000) -> list[tuple[str, int]]:
        made = self.lanes.take(self.lane, message, count, 1 << 30)
        assert made is not None
        items = msgspec.msgpack.decode(made[0])
        assert all((published, origin) == (10 * number, 10 * number) for _, number, published, _, _, _, origin in items)
        bodies = bodies_of(made)
        assert [bodies[place] for _, _, _, _, place, _, _ in items] == [number for _, number, *_ in items]
        return [(id, number) for id, number, *_ in items]

    def acknowledge(self, *messages: int) -> dict[str, Any]:
        _, ids, cursors, strays = self.lanes.acknowledge(self.lane, messages)
        assert not strays
        return {id: msgspec.msgpack.decode(cursor) for id, cursor in zip(ids, cursors, strict=True)}


def outside_in(numbers: list[int]) -> list[int]:
    return [number for pair in zip(numbers, reversed(numbers), strict=True) for number in pair][: len(numbers)]


@pytest.mark.parametrize("order", [list, lambda numbers: numbers[::-1], outside_in], ids=["up", "down", "outside in"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 40])
def test_as_many_wait_as_there_is_room_for_and_more(count: int, order: Callable[[list[int]], list[int]]) -> None:
    """Few documents lie with their subscription, many elsewhere: nobody can tell, in whatever order they are done."""
    line = Line("a", "z" * 40)
    for turn in range(3):
        first = line.number + 1
        line.publish(*[list(line.slots)] * count)
        numbers = list(range(first, first + count))
        for number in numbers:  # two messages each
            assert line.take(2 * number, 1) == [("a", number)]
            assert line.take(2 * number + 1, 1) == [("z" * 40, number)]
            sent = number - first + 1
            assert line.lanes.depth(line.slots["a"]) == (count, count - sent)
        waiting, newest, last_done = numbers[:], numbers[-1], 0
        for number in order(numbers):
            waiting.remove(number)
            last_done = max(last_done, number)
            floor, *others = expected = progress_of(waiting, last_done, newest)
            assert line.acknowledge(2 * number) == {"a": expected}
            slot = line.slots["a"]
            assert line.lanes.floor(slot) == floor
            assert line.lanes.out_of_order(slot) == (tuple(others[1:]) if len(others) > 1 else (0, []))
            assert line.lanes.depth(slot) == (len(waiting), 0) and line.lanes.longest() == count
        assert line.acknowledge(*(2 * number + 1 for number in numbers)) == {"z" * 40: [newest, []]}
        assert line.lanes.unfinished == line.lanes.first_unfinished() == line.lanes.total == 0, turn


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_who_leaves_takes_along_what_it_waits_for(count: int) -> None:
    line = Line("a", "b")
    line.publish(*[["a", "b"]] * count)
    assert line.take(1, 2 * (count - 1) + 1)[-1] == ("a", count)
    assert line.lanes.leave(line.slots["a"]) == (list(range(1, count + 1)), 0, 0, count)
    assert line.lanes.leave(line.slots["b"]) == (list(range(1, count + 1)), 1, 0, count)
    assert line.lanes.unfinished == line.lanes.total == line.lanes.on_lane(line.lane) == 0


@pytest.mark.parametrize("size", [1, 12, 13, 14, 15, 255, 256, 261, 300])
def test_ids_of_any_length(size: int) -> None:
    """Those that differ in their last character only are not taken for each other, nor those that begin others."""
    ids = ["i" * (size - 1) + end for end in "xyé"] + ["i" * size + "x"]
    line = Line(*ids)
    line.publish(ids[:1], ids[1:2], ids[2:], ids)
    wanted = [(ids[0], 1), (ids[1], 2), (ids[2], 3), (ids[3], 3), *((id, 4) for id in ids)]
    assert line.take(1) == wanted
    assert line.acknowledge(1) == {id: [4, []] for id in ids}


@pytest.mark.parametrize(("given", "told"), [(5, 5), (1 << 31, 1 << 31), (1 << 40, (1 << 32) - 1)])
def test_a_long_time_to_acknowledge(given: int, told: int) -> None:
    """What there is no room for is as long as there is room for: 49 days."""
    line = Line()
    line.index.add("a", "/a/b")
    line.lanes.join("a", line.lane, 1, 0, given)
    line.publish(["a"])
    made = line.lanes.take(line.lane, 1, 10, 1 << 20)
    assert made is not None and made[4] == told


def test_a_slot_of_the_index_that_is_used_again() -> None:
    """A delivery finds its subscription where it was last time, if it is still that one."""
    line = Line("a", "b")
    line.join("c0")
    for n in range(20):
        assert line.publish([f"c{n}", "b"]) == []
        assert line.leave(f"c{n}") == [n + 1]
        line.join(f"c{n + 1}")
    line.index.add("elsewhere", "/a/b[. = 'e']")
    assert line.publish(["e"]) == [(0, "elsewhere")]
    assert line.lanes.depth(line.slots["b"]) == (20, 20)


def test_documents_are_found_between_those_that_are_done() -> None:
    """Somebody is slow, another is not, and some documents are nobody's."""
    line, draw = Line("slow", "fast"), Random(3)
    slow: dict[int, int] = {}  # by message: its document
    for message in range(2, 602, 2):
        first = draw.choice([["slow"], ["fast"], ["fast"], [], []]) if slow else ["slow"]
        line.publish(first, ["fast"])
        if first == ["slow"]:
            slow[message] = line.number - 1
            assert line.take(message, 1) == [("slow", line.number - 1)]
        assert line.take(message + 1)[-1] == ("fast", line.number)
        assert line.acknowledge(message + 1) == {"fast": [line.number, []]}
        assert (line.lanes.unfinished, line.lanes.first_unfinished()) == (len(slow), 1)
    for message in draw.sample(sorted(slow), len(slow)):
        line.acknowledge(message)
        del slow[message]
        unfinished = (line.lanes.unfinished, line.lanes.first_unfinished())
        assert unfinished == (len(slow), min(slow.values(), default=0))


def test_bodies_of_a_message_are_numbered_as_they_come() -> None:
    """Also if they do not ascend, and come again."""
    index = Index()
    queries = {"part": ("//b", "elements"), "whole": ("/a", "document"), "other": ("//c", "elements")}
    for id in ("part", "whole", "other", "part2", "whole2"):
        query, deliver = queries[id.rstrip("2")]
        index.add(id, query, deliver=deliver)  # type: ignore[arg-type]
    lanes = _native.Lanes(10)
    lane = lanes.open_lane()
    for serial, id in enumerate(("part", "whole", "other", "part2", "whole2"), 1):
        lanes.join(id, lane, serial, 0, 5)
    batch = index.render_columns([b"<a><b/><c/></a>", b"<a><b/></a>"], report=True, texts=_native.Texts.all)
    lanes.store(batch, [True] * 2, ["s"] * 2, [""] * 2, [1] * 2, "", [0] * 2, 0, 0, {})
    made = lanes.take(lane, 1, 100, 1 << 20)
    assert made is not None
    items = msgspec.msgpack.decode(made[0])
    numbers = bodies_of(made)
    assert numbers == list(dict.fromkeys(numbers[item[4]] for item in items)), "in the order in which they come"
    bodies = {(item[0].rstrip("2"), item[1]): numbers[item[4]] for item in items}
    assert bodies == {("part", 1): 2, ("whole", 1): 1, ("other", 1): 3, ("part", 2): 5, ("whole", 2): 4}
    assert len(items) == 9 and len(numbers) == 5


def test_cursors_that_are_equal_are_one_object() -> None:
    """Most subscriptions of a document come equally far."""
    line = Line("a", "b", "c")
    line.publish(["a", "b", "c"], ["c"])
    line.take(1)
    _, ids, cursors, _ = line.lanes.acknowledge(line.lane, [1])
    assert ids == ["a", "b", "c"] and cursors[0] is cursors[1] and cursors[0] != cursors[2]


def test_a_place_that_somebody_else_has_now_is_not_who_was_found_there() -> None:
    """Whoever was found by the number of an index is looked for by its id once it has left."""
    index = Index()
    for id in ("first", "second"):
        index.add(id, f"/{id}")
    lanes = _native.Lanes(10)
    lane = lanes.open_lane()

    def store(batch: _native.DeliveryBatch, number: int) -> list[tuple[int, str]]:
        return lanes.store(batch, [True] * 2, ["s"] * 2, [""] * 2, [1] * 2, "", [0] * 2, number, number, {})[3]

    slot = lanes.join("first", lane, 1, 0, 5)
    texts = [b"<first/>", b"<second/>"]
    early = index.render_columns(texts, report=True, texts=_native.Texts.all)
    assert store(index.render_columns(texts, report=True, texts=_native.Texts.all), 0) == [(1, "second")]
    lanes.leave(slot)
    assert lanes.join("second", lane, 2, 0, 5) == slot
    assert store(early, 2) == [(0, "first")]
    made = lanes.take(lane, 1, 100, 1 << 20)
    assert made is not None
    assert [item[:2] for item in msgspec.msgpack.decode(made[0])] == [["second", 4]]
    other = Index()  # where the same numbers are others
    for id in ("second", "first"):
        other.add(id, f"/{id}")
    assert store(other.render_columns(texts, report=True, texts=_native.Texts.all), 4) == [(0, "first")]
    assert lanes.depth(slot) == (2, 1)
