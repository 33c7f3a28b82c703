"""The documents of messages between brokers: native columns over the bytes in which they travel.

Most documents come, are routed, leave as they came, and are matched for the broker's own subscribers. None of that
needs an object for each: `Parcels` says how many there are and which numbers they have, and gives some of them. Whoever
wants to look at a document itself takes it as from any sequence; then all of them become `Parcel`.

    >>> parcels = Parcels.of([Parcel(7, "s", "", 0, "text", b"<a/>"), Parcel(9, "s", "", 0, "text", b"<b/>")])
    >>> len(parcels), parcels.first, parcels.format, parcels.body_bytes
    (2, 7, 'text', 8)
    >>> [parcel.body for parcel in parcels.after(7)]
    [b'<b/>']
    >>> Parcels.read(parcels.packed).first
    7

Bytes that are no documents are a PeerError (TC404). PERF: bench/network_frame.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

import msgspec

from treecast import _native
from treecast.errors import PeerError
from treecast.overlay.messages import ITEMS_MAX
from treecast.overlay.onyx.network_messages import Parcel

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Parcel])


class Parcels(Sequence[Parcel]):
    """`read` makes them from a message, `of` from documents."""

    __slots__ = ("_list", "native")

    def __init__(self, native: _native.Parcels) -> None:
        self.native = native
        self._list: list[Parcel] | None = None

    @classmethod
    def read(cls, *packed: msgspec.Raw) -> Parcels:
        """Those of a message, or of several whose numbers ascend. Raises PeerError."""
        try:
            return cls(_native.Parcels(packed, ITEMS_MAX))
        except ValueError as error:
            raise PeerError(f"the documents of a message cannot be read: {error}", code="TC404") from None

    @classmethod
    def of(cls, parcels: Iterable[Parcel]) -> Parcels:
        return cls.read(msgspec.Raw(_ENCODER.encode(list(parcels))))

    @property
    def packed(self) -> msgspec.Raw:
        """As they travel."""
        packed = self.native.packed()
        if isinstance(packed, msgspec.Raw):
            return packed
        assert isinstance(packed, bytes)
        return msgspec.Raw(packed)

    # --- all of them --------------------------------------------------------------------------------------------------

    @property
    def first(self) -> int:
        """The number of the first one, which is the lowest; 0: there is none."""
        return self.native.first

    @property
    def last(self) -> int:
        return self.native.last

    @property
    def format(self) -> str | None:
        """Of all of them; None: there are several, or no documents."""
        return self.native.format

    @property
    def body_bytes(self) -> int:
        return self.native.body_bytes

    @property
    def is_unchanged(self) -> bool:
        """Nothing was done to any of them on the way."""
        return self.native.is_unchanged

    # --- some of them -------------------------------------------------------------------------------------------------

    def after(self, number: int) -> Parcels:
        """Those with higher numbers."""
        return self if self.first > number else Parcels(self.native.after(number))

    def having(self, masks: Sequence[int], bit: int) -> Parcels:
        """Those whose mask, by place, has a bit."""
        native = self.native.having(masks, bit)
        return self if len(native) == len(self) else Parcels(native)

    def parts(self, count_max: int, bytes_max: int, bytes_each: int) -> list[tuple[Parcels, int]]:
        """One after the other, each of one format and within these limits, and how many bytes it has: those of the
        bodies, and `bytes_each` for each document."""
        native = self.native.parts(count_max, bytes_max, bytes_each)
        return [(self if len(part) == len(self) else Parcels(part), size) for part, size in native]

    def copy(self) -> Parcels:
        """The same, for whoever keeps them: without the others of their messages, and what was read of them."""
        return Parcels.read(self.packed)

    # --- as objects ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.native)

    @overload
    def __getitem__(self, place: int) -> Parcel: ...
    @overload
    def __getitem__(self, place: slice) -> list[Parcel]: ...
    def __getitem__(self, place: int | slice) -> Parcel | list[Parcel]:
        if self._list is None:
            self._list = _DECODER.decode(self.packed)
        return self._list[place]

    def body(self, place: int) -> bytes:
        """Of one of them alone."""
        return self.native.body(place)

    def __repr__(self) -> str:
        return f"<{len(self)} documents, {self.first} to {self.last}>"


NONE = Parcels.of([])
