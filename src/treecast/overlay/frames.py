"""Frames: how packets travel as bytes between peers. No I/O: bytes in, packets out.

A frame holds a batch of packets. It begins with 16 bytes, all numbers big-endian:

    magic "tc"    version    flags    length of the body    checksum of the body    checksum of these 12 bytes
    2 bytes       1          1        4                     4                       4

The body is a MessagePack array of packets. The header has a checksum of its own, so a damaged length is found at once,
and not after waiting for bytes that never come. Both are CRC-32, against accidents; TLS is against attackers.

    >>> from treecast.overlay.messages import Hello
    >>> from treecast.overlay.packets import packet_of
    >>> (frame,) = encode([packet_of(Hello("alice"))])
    >>> decoder = FrameDecoder()
    >>> decoder.feed(frame[:20])
    []
    >>> decoder.feed(frame[20:])
    [Packet(flow='control', root='', format='text', message=Hello(client='alice', version=1, nonce=0, to=''))]

Any bytes give packets or a `FrameError`, and it does not matter in which pieces they arrive. Work is linear in the
number of bytes. After an error nothing that follows can be trusted: close the connection. Codes:

    TC401  not this protocol, or another version of it
    TC402  a frame or a message is too large
    TC403  a checksum is wrong
    TC404  a message cannot be decoded, or cannot be encoded
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from treecast.errors import PeerError
from treecast.overlay.checksums import crc32
from treecast.overlay.messages import PROTOCOL_VERSION
from treecast.overlay.packets import Packet, Tail, split

FRAME_BYTES_MAX = 80 << 20
"""The largest body that a decoder accepts: a document of 64 MiB, and what travels with it."""
FRAME_BYTES_AIM = 256 << 10
"""A frame is closed when its body has grown to this size, so that few are much larger."""
FRAME_BYTES_SHARED_MAX = 1 << 20
"""A body that is larger has one packet: whoever accepts less than we do gets each message that it has room for."""
PACKETS_MAX = 1024
"""Packets in one frame."""

ROOM_BYTES = 256 << 10
"""What a connection is given to receive into, at first."""
SPARE_MAX = 4
SPARE_BYTES_MAX = 2 << 20
_SPARE: list[bytearray] = []  # rooms that nobody has at the moment
_SPARE_FRAMES: list[bytearray] = []  # likewise, frames

MAGIC = b"tc"
HEADER_BYTES = 16
_START = struct.Struct(">2sBBII")  # the header without its own checksum
_CHECKSUM = struct.Struct(">I")
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Packet])


class FrameError(PeerError):
    """Bytes that are no frame of ours, or a message that does not fit into one."""

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(f"{code} {message}" + (f"\n  hint: {hint}" if hint else ""), code=code, hint=hint)


def encode(packets: Iterable[Packet], bytes_max: int = FRAME_BYTES_MAX) -> list[bytes]:
    """The packets in as few frames as the limits allow, in order. Raises `FrameError` if one is too large by itself."""
    frames: list[bytes] = []
    for frame in encode_each(packets, bytes_max):
        frames.append(b"".join(frame.parts))
        recycle(frame)
    return frames


class Frame(NamedTuple):
    """One frame, as what is written to a connection: its parts follow each other."""

    start: bytearray
    tail: Tail | None = None
    """Documents that are on their way: they stand where they came from, and are not copied into the frame."""

    @property
    def parts(self) -> tuple[bytes | bytearray | memoryview | msgspec.Raw, ...]:
        return (self.start,) if self.tail is None else (self.start, *self.tail.parts)

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.start) + (self.tail.size if self.tail is not None else 0)


def encode_each(
    packets: Iterable[Packet], bytes_max: int = FRAME_BYTES_MAX, refused: list[FrameError] | None = None
) -> Iterator[Frame]:
    """Likewise, one frame at a time. With a list `refused`, packets that are too large are left out and noted there.

    PERF: bench/network_cpu.py. Packets are encoded where their frame leaves from, so that what they carry is copied
    once; documents that only pass through are not copied at all. Whoever needs a frame no more may hand it to
    `recycle`: memory that is in use needs no new pages.
    """
    frame = _spare_frame()
    count, end = 0, _PACKETS_BEGIN
    aim = min(FRAME_BYTES_AIM, bytes_max - _ARRAY_BYTES) + _PACKETS_BEGIN
    shared_max = min(FRAME_BYTES_SHARED_MAX, bytes_max)
    for packet in packets:
        if count and (end >= aim or count == PACKETS_MAX):
            yield _finish(frame, count, end)
            frame, count, end = _spare_frame(), 0, _PACKETS_BEGIN
        head, tail = split(packet)
        tail_bytes = tail.size - tail.extra_bytes if tail is not None else 0
        try:
            _encode_packet(head, frame, end, tail_bytes, bytes_max)
        except FrameError as error:
            if refused is None:
                raise
            refused.append(error)
            continue
        if count and len(frame) + tail_bytes - HEADER_BYTES > shared_max:
            following = _spare_frame()
            following[_PACKETS_BEGIN:] = memoryview(frame)[end:]
            yield _finish(frame, count, end)
            frame, count = following, 0
        count += 1
        end = len(frame)
        if tail is not None:
            yield _finish(frame, count, end - tail.extra_bytes, tail)
            frame, count, end = _spare_frame(), 0, _PACKETS_BEGIN
    if count:
        yield _finish(frame, count, end)
    else:
        recycle(Frame(frame))


def recycle(frame: Frame) -> None:
    """Nobody looks at a frame of `encode_each` any more."""
    if len(_SPARE_FRAMES) < SPARE_MAX and len(frame.start) <= SPARE_BYTES_MAX:
        _SPARE_FRAMES.append(frame.start)


def _spare_frame() -> bytearray:
    """At least as long as what is before the packets of a frame."""
    return _SPARE_FRAMES.pop() if _SPARE_FRAMES else bytearray(_PACKETS_BEGIN)


def _encode_packet(packet: Packet, frame: bytearray, begin: int, tail_bytes: int, bytes_max: int) -> None:
    """Put a packet into a frame, which ends with it, but for so many bytes that follow."""
    try:
        _ENCODER.encode_into(packet, frame, begin)
    except (ValueError, OverflowError, TypeError) as error:  # half a surrogate pair, or an integer beyond 64 bits
        raise FrameError(f"a message cannot be encoded: {error}", code="TC404") from None
    size = len(frame) - begin + tail_bytes
    if size + _ARRAY_BYTES > bytes_max:
        raise FrameError(
            f"a message of {size} bytes is too large",
            code="TC402",
            hint=f"at most {bytes_max} bytes travel in a message: send fewer documents at once",
        )


_ARRAY_BYTES = 3  # the start of an array of up to 65,535 parts
_PACKETS_BEGIN = HEADER_BYTES + _ARRAY_BYTES


def _finish(frame: bytearray, count: int, end: int, tail: Tail | None = None) -> Frame:
    """Write what stands before so many packets; what is behind `end` belongs to no frame."""
    if len(frame) > end:
        del frame[end:]
    # The start of a MessagePack array, with its length in two bytes.
    frame[HEADER_BYTES:_PACKETS_BEGIN] = b"\xdc" + count.to_bytes(2, "big")
    with memoryview(frame) as view, view[HEADER_BYTES:] as body:
        size, checksum = len(body), crc32(body)
    if tail is not None:
        size += tail.size
        for part in tail.parts:
            checksum = crc32(part, checksum)
    start = _START.pack(MAGIC, PROTOCOL_VERSION, 0, size, checksum)
    frame[:HEADER_BYTES] = start + _CHECKSUM.pack(crc32(start))
    return Frame(frame, tail)


def _spare_room() -> bytearray:
    try:
        return _SPARE.pop()
    except IndexError:
        return bytearray(ROOM_BYTES)


class FrameDecoder:
    """Turns a stream of bytes into packets. One for each connection."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        """The largest body that is accepted; it may change between calls of `feed`."""
        self.is_single = False
        """Each call of `feed` returns one frame at most. The rest waits for the next call, which may be without data:
        what the first frame says may decide how large the next ones may be."""
        self._buffer = bytearray()  # less than a frame
        self._space: bytearray | None = None  # likewise, if it was put into `room`
        self._filled = 0
        self._wanted = HEADER_BYTES  # bytes that must be there before looking is worth it
        self.error: FrameError | None = None
        """Why decoding ended. Packets that came before it were returned."""

    @property
    def waiting_bytes(self) -> int:
        """The bytes of a frame that is not complete. A stream that ends here was cut off, unless there are none."""
        return len(self._buffer) + self._filled

    def room(self) -> memoryview:
        """Where the next bytes may be put, in place of handing them to `feed`: then call `filled`. A frame is decoded
        where it lies. Its room grows with what has come, whatever length it claims."""
        if self._space is None:
            self._space = _spare_room()
        missing = self._wanted - self._filled
        if len(self._space) - self._filled < min(missing, ROOM_BYTES // 2):
            # Not in place: whoever was given the room before may still hold it.
            space, self._space = self._space, bytearray(2 * len(self._space))
            self._space[: self._filled] = memoryview(space)[: self._filled]
        return memoryview(self._space)[self._filled :]

    def filled(self, count: int) -> list[Packet]:
        """The packets that are complete with so many bytes more in the room. Otherwise as `feed`."""
        if self.error is not None:
            raise self.error
        packets: list[Packet] = []
        self._filled += count
        if self._filled < self._wanted or self._space is None:
            return packets
        with memoryview(self._space) as space, space[: self._filled] as view:
            try:
                end = self._take_frames(view, packets)
            except FrameError as error:
                self.error = error
                end = len(view)
            rest = len(view) - end
            if rest and end:
                view[:rest] = view[end:]
        self._filled = rest
        if not rest:
            self.release()
        if self.error is not None and not packets:
            raise self.error
        return packets

    def release(self) -> None:
        """Forget what is incomplete, and give the room to others: most connections are silent most of the time."""
        space, self._space, self._filled = self._space, None, 0
        if space is not None and len(_SPARE) < SPARE_MAX and len(space) <= SPARE_BYTES_MAX:
            _SPARE.append(space)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Packet]:
        """The packets that are complete with these bytes.

        If they are followed by something wrong, the packets are returned, `error` is set, and the next call raises it.
        """
        if self.error is not None:
            raise self.error
        packets: list[Packet] = []
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._wanted:
                return packets
            source: bytes | bytearray | memoryview = self._buffer
        else:
            source = data
        with memoryview(source) as view:
            try:
                end = self._take_frames(view, packets)
            except FrameError as error:
                self.error = error
                end = len(view)
            rest = b"" if source is self._buffer else bytes(view[end:])
        # Linear: what is behind a complete frame arrived with this call, and is moved once.
        if source is self._buffer:
            del self._buffer[:end]
        else:
            self._buffer += rest
        if self.error is not None and not packets:
            raise self.error
        return packets

    def _take_frames(self, view: memoryview, packets: list[Packet]) -> int:
        """Decode all complete frames; returns where the incomplete one begins."""
        begin = 0
        while True:
            self._wanted = HEADER_BYTES
            there = len(view) - begin
            if there < HEADER_BYTES:
                _check_magic(bytes(view[begin : begin + 3]))
                self._wanted = HEADER_BYTES if there >= 3 else there + 1
                return begin
            length, checksum = self._read_header(bytes(view[begin : begin + HEADER_BYTES]))
            self._wanted = HEADER_BYTES + length
            if there < self._wanted:
                return begin
            with view[begin + HEADER_BYTES : begin + self._wanted] as body:
                packets += _decode_body(body, checksum)
            begin += self._wanted
            if self.is_single:
                self._wanted = HEADER_BYTES
                return begin

    def _read_header(self, header: bytes) -> tuple[int, int]:
        _check_magic(header[:3])
        _, _, flags, length, checksum = _START.unpack_from(header)
        if crc32(header[:12]) != _CHECKSUM.unpack_from(header, 12)[0]:
            raise FrameError("the header of a frame is damaged", code="TC403")
        if flags:
            raise FrameError(
                f"unknown flags {flags:#04x} in a frame", code="TC401", hint="use the same version on both sides"
            )
        if length > self.bytes_max:
            raise FrameError(
                f"a frame of {length} bytes is too large",
                code="TC402",
                hint=f"this side accepts up to {self.bytes_max} bytes: send fewer documents at once",
            )
        return length, checksum


def _check_magic(start: bytes) -> None:
    """Looks at what is there of the first three bytes, so that a stranger is told at once."""
    if start[:2] != MAGIC[: len(start)]:
        raise FrameError(
            "the other side does not speak the protocol of treecast",
            code="TC401",
            hint="check address and port, and whether both sides use TLS",
        )
    if len(start) == 3 and start[2] != PROTOCOL_VERSION:
        raise FrameError(
            f"the other side uses version {start[2]} of the protocol, this one version {PROTOCOL_VERSION}",
            code="TC401",
            hint="use the same version on both sides",
        )


def _decode_body(body: memoryview, checksum: int) -> list[Packet]:
    if crc32(body) != checksum:
        raise FrameError("the body of a frame is damaged", code="TC403")
    if _packet_count(body) > PACKETS_MAX:
        raise FrameError(f"a frame has more than {PACKETS_MAX} packets", code="TC402")
    try:
        return _DECODER.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise FrameError(f"a message cannot be decoded: {error}", code="TC404") from None


def _packet_count(body: memoryview) -> int:
    """How many packets a body claims to have, without decoding them. What is no array has 0, and is refused later."""
    kind = body[0] if len(body) else 0
    if kind == 0xDC:
        return int.from_bytes(body[1:3], "big")
    if kind == 0xDD:
        return int.from_bytes(body[1:5], "big")
    return kind & 0x0F if kind >> 4 == 9 else 0
