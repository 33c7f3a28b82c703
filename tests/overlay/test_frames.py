"""Frames: pieces do not matter, a flipped bit anywhere is found, and any bytes give packets or an error."""

from __future__ import annotations

import struct
from random import Random
from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treecast.overlay import frames
from treecast.overlay.frames import (
    HEADER_BYTES,
    PACKETS_MAX,
    ROOM_BYTES,
    SPARE_MAX,
    FrameDecoder,
    FrameError,
    encode,
    encode_each,
    recycle,
)
from treecast.overlay.messages import (
    NAME_CHARS_MAX,
    PROTOCOL_VERSION,
    Acknowledge,
    Answer,
    Attach,
    Deliveries,
    Document,
    Flow,
    Hello,
    Item,
    Payloads,
    Publish,
    Refusal,
    Request,
    Subscribe,
    opened,
)
from treecast.overlay.onyx.network_messages import Forward, Parcel
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.packets import TAIL_BYTES_MIN, Packet, packet_of
from treecast.overlay.storage import AppendMany

pytestmark = pytest.mark.house

PACKETS = [
    packet_of(message, root="b")
    for message in (
        Hello("alice"),
        Request(1, Publish("s", [Document(b"<a/>", "1"), Document(b"<b/>")])),
        Request(2, Subscribe("q", "/a", {"p": "urn:p"})),
        Answer(1, [7, 0], [Refusal(1, "TC201", "not well-formed")]),
        Attach("alice.1", ["q"]),
        Flow("alice.1", 0, 100),
        Deliveries("alice.1", 1, [Item("q", 7, 1000, 1, 0)], [b"<a/>"]),
        Acknowledge("alice.1", [1], [(1, 0)]),
    )
]


def frame(body: bytes, version: int = PROTOCOL_VERSION, flags: int = 0, magic: bytes = b"tc") -> bytes:
    """A frame with correct checksums around any body."""
    start = struct.pack(">2sBBII", magic, version, flags, len(body), crc32(body))
    return start + struct.pack(">I", crc32(start)) + body


def decode_all(pieces: list[bytes]) -> tuple[list[Packet], str]:
    """The packets, and the error or nothing."""
    decoder = FrameDecoder()
    packets: list[Packet] = []
    for piece in pieces:
        try:
            packets += decoder.feed(piece)
        except FrameError:
            break
    return packets, str(decoder.error or "")


def test_packets_come_back() -> None:
    (data,) = encode(PACKETS)
    assert decode_all([data]) == (PACKETS, "")
    assert encode([]) == []


def test_whole_and_byte_by_byte_agree() -> None:
    data = b"".join(encode([packet])[0] for packet in PACKETS)
    assert decode_all([data[at : at + 1] for at in range(len(data))]) == (PACKETS, "")
    random = Random(1)
    for _ in range(50):
        cuts = sorted(random.randrange(len(data)) for _ in range(random.randrange(6)))
        assert decode_all([data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]) == (PACKETS, "")


def test_every_flipped_bit_is_found() -> None:
    """None of them gives a packet, and none lets the decoder wait for more."""
    (data,) = encode(PACKETS)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameError) as caught:
            FrameDecoder().feed(bytes(flipped))
        assert caught.value.code in ("TC401", "TC403")


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_give_packets_or_an_error(noise: bytes, is_framed: bool) -> None:
    (good,) = encode(PACKETS[:1])
    data = good + (frame(noise) if is_framed else noise)
    whole = decode_all([data, b""])
    assert whole[0][:1] == PACKETS[:1]
    assert decode_all([*(data[at : at + 1] for at in range(len(data))), b""]) == whole


@given(st.data())
def test_changed_bodies_with_right_checksums_are_packets_or_an_error(drawn: st.DataObject) -> None:
    """What a hostile peer sends: it can compute checksums."""
    body = bytearray(encode(PACKETS)[0][HEADER_BYTES:])
    for _ in range(drawn.draw(st.integers(1, 4))):
        body[drawn.draw(st.integers(0, len(body) - 1))] = drawn.draw(st.integers(0, 255))
    packets, error = decode_all([frame(bytes(body))])
    assert packets == [] if error else all(isinstance(packet, Packet) for packet in packets)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "TC401"),
        (b"G", "TC401"),
        (b"\x16\x03\x01", "TC401"),  # TLS
        (frame(b"\x90", version=PROTOCOL_VERSION + 1), "TC401"),
        (frame(b"\x90", flags=1), "TC401"),
        (frame(b"\x91" + b"\x91" * 100_000), "TC404"),  # deep
        (frame(b""), "TC404"),
        (frame(b"\xc0"), "TC404"),
        (frame(b"\xdd\xff\xff\xff\xff"), "TC402"),
        (frame(b"\xdc\xff\xff"), "TC402"),
        (frame(b"\x90 and more"), "TC404"),
        (frame(msgspec.msgpack.encode([packet_of(Hello("x" * (NAME_CHARS_MAX + 1)))])), "TC404"),
        (frame(msgspec.msgpack.encode([packet_of(Flow("s", -1, 0))])), "TC404"),
        (frame(msgspec.msgpack.encode([packet_of(Flow("s", 2**63, 0))])), "TC404"),
        (frame(msgspec.msgpack.encode([packet_of(Acknowledge("s", [0] * 100_001))])), "TC404"),
        (frame(msgspec.msgpack.encode([packet_of(Hello("name"))]).replace(b"name", b"\xff\xff\xff\xff")), "TC404"),
    ],
)
def test_refused(data: bytes, code: str) -> None:
    with pytest.raises(FrameError) as caught:
        FrameDecoder().feed(data)
    assert caught.value.code == code
    assert decode_all([data[at : at + 1] for at in range(len(data))])[1] == str(caught.value)


def test_packets_before_an_error_are_returned() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(encode(PACKETS)[0] + b"noise") == PACKETS
    assert decoder.error is not None
    for _ in range(2):
        with pytest.raises(FrameError, match="TC401"):
            decoder.feed(b"")


def test_many_packets_are_divided_into_frames() -> None:
    many = [packet_of(Flow("s", number, 0)) for number in range(2 * PACKETS_MAX + 1)]
    divided = encode(many)
    assert len(divided) == 3
    assert decode_all(divided) == (many, "")


def test_large_packets_are_divided_into_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES_AIM", 1000)
    large = [packet_of(Request(n, Publish("s", [Document(b"x" * 400)]))) for n in range(10)]
    divided = encode(large)
    assert len(divided) == 4, "a frame is closed when it has reached the size"
    assert decode_all(divided) == (large, "")


def test_limits_of_both_sides() -> None:
    packet = packet_of(Request(1, Publish("s", [Document(b"x" * 1000)])))
    with pytest.raises(FrameError, match="TC402 a message of"):
        encode([packet], bytes_max=1000)
    (data,) = encode([packet], bytes_max=2000)
    with pytest.raises(FrameError, match="TC402 a frame of"):
        FrameDecoder(bytes_max=1000).feed(data[:HEADER_BYTES])


def test_what_cannot_be_encoded_is_refused() -> None:
    for message in (Hello("\ud800"), Flow("s", 2**64, 0)):
        with pytest.raises(FrameError, match="TC404"):
            encode([packet_of(message)])


def test_a_frame_in_many_pieces_is_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is linear in the bytes: pieces are collected until the frame is complete."""
    looks = 0
    look = FrameDecoder._take_frames

    def counted(self: FrameDecoder, view: memoryview, packets: list[Packet]) -> int:
        nonlocal looks
        looks += 1
        return look(self, view, packets)

    monkeypatch.setattr(FrameDecoder, "_take_frames", counted)
    (data,) = encode([packet_of(Request(1, Publish("s", [Document(b"x" * 10_000)])))])
    decoder = FrameDecoder()
    assert sum(len(decoder.feed(data[at : at + 1])) for at in range(len(data))) == 1
    assert looks <= 5


@pytest.mark.parametrize("seed", range(4))
def test_received_in_place(seed: int) -> None:
    """Bytes that are put into the room of a decoder give what `feed` gives, in whatever pieces they come."""
    draw = Random(seed)
    hellos = [packet_of(Hello(f"client {number}")) for number in range(40)]
    large = packet_of(Request(1, Publish("s", [Document(draw.randbytes(3 * ROOM_BYTES))])))
    packets = [*hellos[:20], large, *hellos[20:]]
    data = b"".join(frame for packet in packets for frame in encode([packet]))
    decoder, found, place = FrameDecoder(), [], 0
    while place < len(data):
        room = decoder.room()
        assert len(room) > 0
        piece = data[place : place + min(len(room), draw.choice([1, 15, 16, 17, 100, 5_000, 100_000, 1_000_000]))]
        room[: len(piece)] = piece
        room.release()
        found += decoder.filled(len(piece))
        place += len(piece)
    assert found == packets and decoder.waiting_bytes == 0


def test_a_room_grows_with_what_comes_and_not_with_what_is_claimed() -> None:
    frame = encode([packet_of(Request(1, Publish("s", [Document(bytes(20 * ROOM_BYTES))])))])[0]
    frames._SPARE.clear()
    decoder = FrameDecoder()
    decoder.room()[:100] = frame[:100]
    assert decoder.filled(100) == [] and len(decoder.room()) < 2 * ROOM_BYTES < len(frame)
    decoder.release()
    assert decoder.waiting_bytes == 0
    for _ in range(2 * SPARE_MAX):  # what is given back is kept for others, within limits
        FrameDecoder().room()
    held = [FrameDecoder() for _ in range(2 * SPARE_MAX)]
    for one in held:
        one.room()
        one.release()
    assert len(frames._SPARE) <= SPARE_MAX


def test_a_damaged_frame_that_was_received_in_place() -> None:
    good, bad = encode([packet_of(Hello("a"))])[0], bytearray(encode([packet_of(Hello("b"))])[0])
    bad[-1] ^= 1
    decoder = FrameDecoder()
    both = good + bad
    decoder.room()[: len(both)] = both
    assert [packet.message for packet in decoder.filled(len(both))] == [Hello("a")]
    with pytest.raises(FrameError, match="TC403"):
        decoder.filled(0)


def test_a_frame_that_nobody_needs_any_more_is_used_again_whatever_was_in_it() -> None:
    frames._SPARE_FRAMES.clear()
    (large,) = encode_each([packet_of(Hello("a" * 1_000)) for _ in range(100)])
    recycle(large)
    (small,) = encode_each(PACKETS)
    assert small.start is large.start
    assert FrameDecoder().feed(small.start) == PACKETS
    (other,) = encode_each(PACKETS)
    assert other.start is not small.start and other == small


def test_what_is_refused_leaves_nothing_behind() -> None:
    refused: list[FrameError] = []
    too_large = packet_of(Hello("a" * 1_000))
    (frame,) = encode_each([too_large, PACKETS[0], too_large, PACKETS[1], too_large], 500, refused)
    assert [error.code for error in refused] == ["TC402"] * 3
    assert FrameDecoder().feed(frame.start) == PACKETS[:2]
    assert list(encode_each([too_large], 500, refused)) == []


def forward(number: int, size: int) -> Packet:
    documents = Parcels.of([Parcel(number, "s", "", 0, "text", b"x" * size)]).packed
    return packet_of(Forward("r", "s", 1, 7, 3, number - 1, number, documents))


def documents_of(packet: Packet) -> msgspec.Raw:
    assert isinstance(packet.message, Forward)
    return packet.message.documents


@pytest.mark.parametrize("sizes", [[100_000], [10, 100_000, 10, 200_000, 300_000, 10]])
def test_documents_that_pass_through_are_not_copied_into_a_frame(sizes: list[int]) -> None:
    packets = [forward(number, size) for number, size in enumerate(sizes, 1)]
    made = list(encode_each([*PACKETS, *packets, *PACKETS]))
    tails = [documents_of(packet) for packet, size in zip(packets, sizes, strict=True) if size > 10]
    assert [frame.tail.parts for frame in made if frame.tail is not None] == [(tail,) for tail in tails]
    assert all(part is tail for part, tail in zip((f.parts[1] for f in made if f.tail is not None), tails, strict=True))
    assert decode_all([b"".join(frame.parts) for frame in made]) == ([*PACKETS, *packets, *PACKETS], "")
    assert [frame.size for frame in made] == [sum(map(len, frame.parts)) for frame in made]


def deliveries(sizes: list[int], epoch: int) -> tuple[Packet, Packet]:
    """A message whose payloads are parts that stand elsewhere, and the same as a list."""
    bodies = [b"x" * size for size in sizes]
    rows = AppendMany.of(7, bodies)
    middle = 7 + len(sizes) // 2
    parts = [rows.packed(7, middle), rows.packed(middle + 1, rows.last)] if len(sizes) > 1 else [rows.packed(7, 7)]
    payloads: Any = Payloads(len(sizes), parts)
    none: Any = msgspec.Raw(b"\x90")
    return packet_of(Deliveries("s", 5, none, payloads, epoch)), packet_of(Deliveries("s", 5, [], bodies, epoch))


@pytest.mark.parametrize("epoch", [0, 300, 1 << 40])
@pytest.mark.parametrize("sizes", [[3], [20_000], [0, 70_000, 300, 9_000], [10, 10]])
def test_payloads_that_stand_elsewhere_are_not_copied_into_a_frame(sizes: list[int], epoch: int) -> None:
    packed, plain = deliveries(sizes, epoch)
    made = list(encode_each([*PACKETS, packed, *PACKETS]))
    assert decode_all([b"".join(frame.parts) for frame in made]) == ([*PACKETS, plain, *PACKETS], "")
    assert [frame.size for frame in made] == [sum(map(len, frame.parts)) for frame in made]
    parts: list[object] = [part for frame in made for part in frame.parts]
    is_copied = sum(sizes) < TAIL_BYTES_MIN
    assert is_copied == (not any(part is packed.message.payloads.parts[0] for part in parts))  # type: ignore[union-attr]
    assert opened(packed.message) == plain.message  # type: ignore[arg-type]


@pytest.mark.parametrize("last", [forward(1, 100_000), deliveries([70_000, 9_000], 300)[0]])
def test_a_frame_with_documents_at_its_end_has_the_bytes_of_any_other(
    last: Packet, monkeypatch: pytest.MonkeyPatch
) -> None:
    packets = [*PACKETS, last]
    split_up = encode(packets)
    monkeypatch.setattr("treecast.overlay.packets.TAIL_BYTES_MIN", 1 << 30)
    assert encode(packets) == split_up


@pytest.mark.parametrize(
    "large", [packet_of(Request(1, Publish("s", [Document(b"x" * 2_000_000)]))), forward(1, 2_000_000)]
)
def test_a_large_message_has_a_frame_of_its_own(large: Packet) -> None:
    """The other side may accept less than we send: what is before a message does not take its room."""
    small = packet_of(Hello("x" * 1_000))
    (alone,) = encode([large])
    decoder = FrameDecoder(bytes_max=len(alone) - HEADER_BYTES)
    packets = [small, large, small, small, large, large]
    assert [packet for frame in encode(packets) for packet in decoder.feed(frame)] == packets


def test_documents_at_the_end_count_for_the_limit() -> None:
    packet = forward(1, 100_000)
    with pytest.raises(FrameError, match="TC402 a message of"):
        encode([packet], bytes_max=100_000)
    (alone,) = encode([packet])
    limit = len(alone) - HEADER_BYTES  # room for nothing else
    assert encode([packet], bytes_max=limit) == [alone]
    with pytest.raises(FrameError, match=f"TC402 a message of {limit - 3} bytes"):
        encode([packet], bytes_max=limit - 1)
    assert len(encode([PACKETS[0], packet], bytes_max=limit)) == 2, "what stands before it has a frame of its own"
    with pytest.raises(FrameError, match="TC402 a frame of"):
        FrameDecoder(bytes_max=100_000).feed(alone[:HEADER_BYTES])
