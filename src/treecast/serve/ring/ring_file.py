"""Which ring a peer belongs to: told when the ring is founded, asked of another peer by one that joins, then in a file.

A peer's name is its address, and its places on the ring follow from its name. So its data is of no use at another one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from treecast import durable
from treecast.errors import TreecastError
from treecast.overlay.chord import ChordSettings
from treecast.overlay.storage import StorageError
from treecast.serve.client import Connection
from treecast.serve.tls import TlsFiles
from treecast.serve.transport_error import TransportError

FILE = "ring.json"
ASK_SECONDS = 5.0
"""For the answer of one peer."""


class RingFile(msgspec.Struct, frozen=True, kw_only=True):
    """What all peers of a ring have in common, and the name of this one."""

    name: str
    base: tuple[str, ...]
    replicas: int
    members: int
    fragment_length: int

    def same_ring(self, other: RingFile) -> bool:
        return msgspec.structs.replace(self, name=other.name) == other

    def chord(self, times: dict[str, int]) -> ChordSettings:
        """Its settings, with times of this peer's own. Raises ValueError."""
        return ChordSettings(base=self.base, replicas=self.replicas, members=self.members, **times)


def read(directory: Path) -> RingFile | None:
    """None: this is no peer's directory yet. Raises StorageError TC422."""
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=RingFile)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, ValueError):
        raise StorageError(
            f"{directory / FILE} is damaged", code="TC422", hint="write it again as in the directory of another peer"
        ) from None


def write(directory: Path, ring: RingFile) -> None:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    durable.write(directory / FILE, msgspec.json.format(msgspec.json.encode(ring)) + b"\n")


def check(directory: Path, known_ring: RingFile, name: str, new_ring: RingFile | None) -> None:
    """Whether the data in a directory are those of this peer, in the ring that is to be founded. Raises StorageError
    TC427."""
    if known_ring.name != name:
        raise StorageError(
            f"the data in {directory} are those of the peer {known_ring.name}, not of {name}",
            code="TC427",
            hint=f"listen on {known_ring.name}, or name it with --address; or join with another directory",
        )
    if new_ring is not None and not known_ring.same_ring(new_ring):
        raise StorageError(
            f"the data in {directory} belong to another ring, with the base {' '.join(known_ring.base)}",
            code="TC427",
            hint="leave out --base, --replicas, --places and --fragment-length: a peer knows its ring",
        )


async def ask(contacts: tuple[str, ...], name: str, tls: TlsFiles | None, wait_ms: int) -> RingFile:
    """What the peers of a ring have in common, from the first of these that answers. Raises TransportError TC475."""
    loop = asyncio.get_running_loop()
    end = loop.time() + wait_ms / 1000
    reasons: dict[str, str] = {}
    while True:
        for contact in contacts:
            try:
                async with asyncio.timeout(ASK_SECONDS):
                    return await _ask_one(contact, name, tls)
            except (TreecastError, OSError, TimeoutError, KeyError, StopIteration) as error:
                reasons[contact] = str(error).partition("\n")[0] or type(error).__name__
        if loop.time() >= end:
            raise no_answer(reasons)
        await asyncio.sleep(0.2)


def no_answer(reasons: dict[str, str]) -> TransportError:
    text = "; ".join(f"{contact}: {reason}" for contact, reason in reasons.items())
    hint = "name peers of the ring with --join, and start them first"
    return TransportError(f"no peer of a ring answers ({text})", code="TC475", hint=hint)


async def _ask_one(contact: str, name: str, tls: TlsFiles | None) -> RingFile:
    async with Connection(contact, f"joining {name}", tls=tls, connect_s=ASK_SECONDS) as connection:
        rows = {str(row["key"]): row for row in await connection.inspect("ring")}
    row = rows["settings"]
    return RingFile(
        name=name,
        base=tuple(str(row["base"]).split()),
        replicas=int(row["replicas"]),
        members=int(row["members"]),
        fragment_length=int(row["fragment_length"]),
    )
