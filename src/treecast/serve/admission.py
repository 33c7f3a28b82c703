"""Who may talk to a peer: the first message of a connection says who it is, and later ones must not say otherwise."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from treecast.errors import TreecastError
from treecast.overlay.messages import (
    PROTOCOL_VERSION,
    Continue,
    Durable,
    Hello,
    IndexSaved,
    RemoveRecord,
    Request,
    SetRecord,
)
from treecast.overlay.peer import Peer
from treecast.serve.transport_error import TransportError, wrong_name

OWN_MESSAGES = (Durable, Continue, IndexSaved)
"""What only a peer itself, or whoever runs it, says to it."""
OWN_COMMANDS = (SetRecord, RemoveRecord)
"""What only doors in the same process ask for: others could give themselves rights, or read secrets."""


def is_own(message: Any) -> bool:
    """No connection may send this."""
    if isinstance(message, Request):
        return isinstance(message.command, OWN_COMMANDS)
    return isinstance(message, OWN_MESSAGES)


def addressee(message: Hello, peer: Peer) -> str | None:
    """The broker inside a peer that a connection is for; empty: the peer itself. None: it is not here."""
    addressee_of = getattr(peer, "addressee", None)
    if addressee_of is not None:
        broker: str | None = addressee_of(message.to)
        return broker
    return "" if message.to in ("", peer.name) else None


def refusal(
    message: Any, name: str, peer: Peer, own_names: Collection[str], certified: Sequence[str] | None
) -> TreecastError | None:
    """Why a message may not come from a connection whose name is `name` (empty: not known yet); None if it may.

    `own_names` are those of the clients in the process of the peer.

    `certified` are the names in the other side's certificate; None if certificates are not asked for.
    """
    if not isinstance(message, Hello):
        if name and not is_own(message):
            return None
        kind = type(message.command if isinstance(message, Request) and name else message).__name__
        return TransportError(f"a message of kind {kind} does not belong here", code="TC406", hint="begin with Hello")
    if message.version != PROTOCOL_VERSION:
        return TransportError(f"version {message.version} of the protocol is not spoken here", code="TC406")
    client = message.client
    if not client or client == peer.name or client in own_names or (name and client != name):
        return TransportError(f"{client!r} cannot be a client's name here", code="TC406", hint="choose another")
    names_of = getattr(peer, "certificates_of", None)
    if certified is not None and not {client, *(names_of(client) if names_of is not None else ())} & set(certified):
        return wrong_name(client, list(certified))
    if not name and addressee(message, peer) is None:
        return TransportError(f"broker {message.to!r} is not served here", code="TC406", hint="ask its registry")
    return None
