"""Requests of clients to a broker of a network: what another broker does now, clients are told to ask for there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treecast.overlay.broker.refused import RequestError
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Command, Publish, RegisterSource, RemoveSource, Request

if TYPE_CHECKING:
    from treecast.overlay.onyx.membership import Membership
    from treecast.overlay.onyx.network_broker import NetworkBroker


def take_request(broker: NetworkBroker, sender: str, request: Request, turn: Turn) -> None:
    """Answer a request, or hold it until the network knows of what it changes."""
    command = request.command
    if isinstance(command, Publish) and broker.broker.expects(sender, request, turn):
        for source in dict.fromkeys(command.sources()):
            if (moved := broker.membership.moved_source(source)) is not None:
                turn.send(sender, moved)
    gone = broker.migration.objection(getattr(command, "id", ""))
    if gone is not None and broker.broker.expects(sender, request, turn):
        turn.send(sender, broker.migration.moved_message(command.id))  # type: ignore[union-attr]
        broker.broker.refuse(sender, request, gone, turn)
        return
    broker.wants.request(sender, request, turn)


def objection_to(membership: Membership, command: Command) -> RequestError | None:
    """What only the registry does."""
    if not membership.registries:
        return None  # sources are registered by whoever runs it
    if isinstance(command, RegisterSource | RemoveSource):
        return RequestError(
            "a broker does not keep the sources of its network",
            code="TC480",
            hint="send it to the registry, whose address treecast source takes",
        )
    return None


def objection_to_source(membership: Membership, source: str) -> RequestError | None:
    """Sources are those of the catalog: documents of another one would be acknowledged, and have no tree to travel."""
    if (moved := membership.moved_source(source)) is not None:
        return RequestError(
            f"the documents of source {source!r} are published at broker {moved.to!r}",
            code="TC471",
            hint="ask the registry where a source belongs",
        )
    if membership.registries and source not in membership.catalog:
        hint = "treecast source add makes it known to the network"
        return RequestError(f"no source is called {source!r}", code="TC410", hint=hint)
    return None
