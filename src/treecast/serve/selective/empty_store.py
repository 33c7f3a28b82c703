"""The store of a peer that keeps nothing on disk: brokers of selective publishing are told everything again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from treecast.index import Index
from treecast.overlay.storage import BodyGoneError, Change, Key


class EmptyStore:
    """A `PeerStore` for peers that never ask for a `Store`."""

    def write(self, changes: Sequence[Change]) -> None:
        raise AssertionError("this peer stores nothing")

    def get(self, table: str, key: int | str) -> bytes | None:
        return None

    def get_many(self, table: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        return {}

    def scan(self, table: str, after: Key, count_max: int) -> list[tuple[Key, bytes]]:
        return []

    def count(self, table: str) -> int:
        return 0

    def body(self, number: int) -> bytes:
        raise BodyGoneError(number)

    def body_bytes(self) -> int:
        return 0

    def first_body(self) -> int | None:
        return None

    def save_index(self, index: Index, version: int, before: Callable[[], None] | None = None) -> None:
        raise AssertionError("this peer has no index")

    def close(self) -> None: ...
