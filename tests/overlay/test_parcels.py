"""The documents of a message: native columns over its bytes say what MessagePack says, whatever the bytes are."""

from __future__ import annotations

import pickle
from random import Random

import msgspec
import pytest

from treecast import _native
from treecast.document import Limits, read
from treecast.errors import PeerError
from treecast.index import Index
from treecast.index.routing import Question
from treecast.overlay.messages import ITEMS_MAX, NAME_CHARS_MAX
from treecast.overlay.onyx.network_messages import NO_DOCUMENTS, Forward, Parcel
from treecast.overlay.onyx.parcels import NONE, Parcels
from treecast.wire import Codec

pytestmark = pytest.mark.house

encode = msgspec.msgpack.encode


def draw(seed: int) -> list[Parcel]:
    random = Random(seed)
    number, parcels = 0, []
    for _ in range(random.choice([0, 1, 2, 15, 16, 40])):
        number += random.choice([1, 2, 200, 1 << 20, 1 << 40])
        body = random.randbytes(random.choice([0, 1, 31, 255, 256, 65_535, 65_536]))
        names = [random.choice(["", "s", "ü" * 40, "x" * 300]) for _ in range(3)]
        early = random.choice(["", "", "p1f"])
        parcels.append(Parcel(number, names[0], names[1], random.randrange(1 << 50), names[2], body, early))
    return parcels


@pytest.mark.parametrize("seed", range(20))
def test_columns_say_what_the_message_says(seed: int) -> None:
    drawn = draw(seed)
    parcels = Parcels.of(drawn)
    assert list(parcels) == drawn and len(parcels) == len(drawn)
    assert parcels.body_bytes == sum(len(one.body) for one in drawn)
    assert (parcels.first, parcels.last) == ((drawn[0].number, drawn[-1].number) if drawn else (0, 0))
    assert parcels.is_unchanged == all(not one.early for one in drawn)
    formats = {one.format for one in drawn}
    assert parcels.format == (formats.pop() if len(formats) == 1 else None)
    assert [parcels.body(place) for place in range(len(drawn))] == [one.body for one in drawn]


@pytest.mark.parametrize("seed", range(20))
def test_some_of_them_travel_as_a_message_of_their_own(seed: int) -> None:
    drawn = draw(seed)
    random = Random(seed)
    masks = [random.randrange(4) for _ in drawn]
    chosen = Parcels.of(drawn).having(masks, 2)
    expected = [one for one, mask in zip(drawn, masks, strict=True) if mask & 2]
    assert list(Parcels.read(chosen.packed)) == list(chosen.copy()) == expected
    assert msgspec.msgpack.decode(chosen.packed, type=list[Parcel]) == expected
    middle = drawn[len(drawn) // 2].number if drawn else 0
    assert list(Parcels.of(drawn).after(middle)) == [one for one in drawn if one.number > middle]


def test_parts_have_one_format_and_keep_the_limits() -> None:
    parcels = [Parcel(n, "s", "", 0, "text" if n < 4 else "binary", b"x" * size) for n, size in enumerate([9] * 6, 1)]
    whole = Parcels.of(parcels)
    assert [([one.number for one in part], size) for part, size in whole.parts(10, 1_000, 1)] == [
        ([1, 2, 3], 30),
        ([4, 5, 6], 30),
    ]
    assert [len(part) for part, _ in whole.parts(2, 1_000, 1)] == [2, 1, 2, 1]
    assert [len(part) for part, _ in whole.parts(10, 20, 1)] == [2, 1, 2, 1]
    assert [len(part) for part, _ in whole.parts(10, 5, 1)] == [1] * 6, "one at least"
    ((only, size),) = Parcels.of(parcels[:2]).parts(10, 1_000, 0)
    assert (len(only), size) == (2, 18)
    assert NONE.parts(10, 10, 10) == []


GOOD = Parcel(1, "s", "", 2, "text", b"<a/>")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "complete"),
        (b"\xc0", "array"),
        (encode([GOOD])[:-1], "complete"),
        (encode([GOOD]) + b"\xc0", "follows"),
        (encode([[1, "s", "", 2, "text"]]), "lacks"),
        (encode([["1", "s", "", 2, "text", b""]]), "number"),
        (encode([[-1, "s", "", 2, "text", b""]]), "number"),
        (encode([[2**63, "s", "", 2, "text", b""]]), "too large"),
        (encode([[1, b"s", "", 2, "text", b""]]), "text"),
        (encode([[1, "s", "x" * (NAME_CHARS_MAX + 1), 2, "text", b""]]), "too long"),
        (encode([[1, "s", "", 2, "text", "body"]]), "bytes"),
        (b"\x91\x96\x01\xa2\xff\xff\xa0\x02\xa0\xc4\x00", "UTF-8"),
        (b"\xdd\xff\xff\xff\xff", "too many"),
        (b"\x91\x97\x01\xa0\xa0\x02\xa0\xc6\xff\xff\xff\xff", "complete"),
        (encode([GOOD, []]), "lacks"),
    ],
)
def test_what_is_no_message_is_refused(message: bytes, reason: str) -> None:
    with pytest.raises(PeerError, match=f"TC404|{reason}") as caught:
        Parcels.read(msgspec.Raw(message))
    assert reason in str(caught.value)


def test_fields_of_later_versions_are_passed_over() -> None:
    later = [-5, 1.5, [1, {"a": [b"x" * 300]}], None, True, "y" * 70_000, msgspec.msgpack.Ext(5, b"abc"), 1 << 63]
    message = encode([[7, "s", "i", 2, "text", b"<a/>", "", *later], [8, "s", "i", 2, "text", b"<b/>"]])
    parcels = Parcels.read(msgspec.Raw(message))
    assert [(one.number, one.body) for one in parcels] == [(7, b"<a/>"), (8, b"<b/>")]


@pytest.mark.parametrize("seed", range(300))
def test_any_bytes_are_a_message_or_an_error(seed: int) -> None:
    """What columns accept, MessagePack accepts, and both say the same."""
    random = Random(seed)
    data = bytearray(encode(draw(seed % 7)[:3]))
    for _ in range(random.choice([1, 1, 2, 5])):
        place = random.randrange(len(data))
        data[place] = random.choice([random.randrange(256), 0xC0, 0xDD, 0x97, data[place] ^ 1])
    message = msgspec.Raw(bytes(data))
    try:
        parcels = Parcels.read(message)
    except PeerError:
        return
    assert list(parcels) == msgspec.msgpack.decode(message, type=list[Parcel])


def test_too_many_documents_are_refused() -> None:
    message = msgspec.Raw(encode([[1, "", "", 0, "", b""]] * 3))
    assert len(_native.Parcels([message], 3)) == 3
    with pytest.raises(ValueError, match="too many"):
        _native.Parcels([message], 2)
    assert ITEMS_MAX >= 3


def test_a_message_keeps_its_documents_when_its_bytes_are_received_over() -> None:
    room = bytearray(encode(Forward("r", "st", 1, 1, 1, 0, 1, Parcels.of([GOOD]).packed)))
    message = msgspec.msgpack.decode(memoryview(room), type=Forward)
    room[:] = bytes(len(room))
    assert list(Parcels.read(message.documents)) == [GOOD]
    assert Forward("r", "st", 1, 1, 1, 0, 1).documents == NO_DOCUMENTS


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("change", ["", "added", "limits", "other index", "other documents"])
def test_what_was_rendered_when_it_was_routed_is_not_read_again(own: bool, change: str) -> None:
    """The bytes are destroyed in between: what has to be read again cannot be. That is everything, if subscriptions or
    limits have changed since."""
    codec = Codec("binary")
    texts = [b"<a><b/></a>", b"<c>1</c>"]
    bodies = [codec.encode(read(text)) for text in texts]
    room = bytearray(encode([Parcel(n, "s", "", 0, "binary", body) for n, body in enumerate(bodies, 1)]))
    parcels = _native.Parcels([memoryview(room)], 10)
    table, targets = Index(), _native.Targets()
    table.add("0", "//b")
    targets.set(0, 2)
    index = Index()
    index.add_many([("q", "//b"), ("r", "/c")])
    masks, unread = table.route_parcels(codec, parcels, Question(targets, 2, 1, 1), index if own else None)
    assert not unread and [mask & 3 for mask in masks] == [3, 1]
    for body in bodies:
        place = room.find(body)
        room[place : place + len(body)] = bytes(len(body))
    if change == "added":
        index.add("s", "/a")
    elif change == "limits":
        index = Index(limits=Limits(depth_max=2))
        index.add("q", "//b")
    elif change == "other index":
        index = pickle.loads(pickle.dumps(index))
    first = 1 if change == "other documents" else 0
    batch = index.render_parcels(codec, parcels, first)
    is_taken = own and not change
    assert len(batch.rejected) == (0 if is_taken else 2 - first)
    assert batch.deliveries == (2 if is_taken else 0)
    assert len(index.render_parcels(codec, parcels, 0).rejected) == 2, "they are there once"


def test_of_what_is_routed_that_is_rendered_which_is_for_the_own_subscribers() -> None:
    codec = Codec("binary")
    texts = [b"<a><b/></a>", b"<c>1</c>", b"<a><b>2</b></a>"]
    bodies = [codec.encode(read(text)) for text in texts]
    parcels = Parcels.of([Parcel(n, "s", "", 0, "binary", body) for n, body in enumerate(bodies, 1)])
    table, targets, index = Index(), _native.Targets(), Index()
    table.add_many([("0", "//b"), ("1", "//c")])
    targets.set(0, 1)
    targets.set(1, 2)
    index.add_many([("q", "//b"), ("never routed to", "//c")])
    masks, _ = table.route_parcels(codec, parcels.native, Question(targets, 4, 0, 1), index)
    assert masks == [1, 2, 1]
    batch = index.render_parcels(codec, parcels.native.having(masks, 1), 0)
    assert (batch.documents, batch.deliveries) == (2, 2)
