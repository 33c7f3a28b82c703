"""What a peer sends to those below it: elements that have changed, as far as each asked for them, until they have them.

For each subtree that a neighbour wants there is a *feed*: the version up to which the neighbour knows the subtree, and
the elements that have changed since. An update has the latest state of these. If its receipt does not come, it is sent
again, with what has changed meanwhile: nothing is queued twice, and nothing that is lost stays lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from random import Random

from treecast.overlay.peer import Effect, Send
from treecast.overlay.retry import Retry
from treecast.overlay.selective.selective_messages import ElementState, Grant, Receipt, Update, Want, Wants
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.selective.outline import Outline
from treecast.selective.routing_table import RoutingTable
from treecast.selective.subtrees import Subtree, elements_of

Position = Callable[[int], int | None]
"""The version up to which this peer knows a subtree; None if it does not have it."""
Check = Callable[[str, Subtree, bytes], bool]
"""Whether a neighbour may have a subtree; it may have shown a pass."""


class Feed:
    """One subtree for one neighbour."""

    __slots__ = ("pending", "position", "retry")

    def __init__(self, position: int, pending: dict[int, None], retry: Retry) -> None:
        self.position = position
        self.pending = pending
        self.retry = retry


class Client:
    """A neighbour below, and what it wants."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.serial = 0
        self.feeds: dict[Subtree, Feed] = {}
        self.refused: list[Want] = []
        self.is_granted = False
        self.proof = b""


class Downward:
    """Wants of the neighbours below, and the elements that they are sent."""

    def __init__(
        self,
        outline: Outline,
        elements: dict[int, ElementState],
        position: Position,
        settings: SelectiveSettings,
        random: Random,
        check: Check | None = None,
    ) -> None:
        self.table = RoutingTable(outline)
        self.clients: dict[str, Client] = {}
        self._outline = outline
        self._elements = elements
        self._position = position
        self._settings = settings
        self._random = random
        self._check = check
        self.elements_sent = 0
        self.edition = 0
        """Of the outline."""

    def set_wants(self, name: str, message: Wants) -> tuple[list[int], list[int]]:
        """Take the wants of a neighbour. Returns the roots that it wants now, and those that it no longer wants."""
        client = self.clients.get(name)
        if client is None and len(self.clients) >= self._settings.clients_max:
            return [], []
        if client is None or client.incarnation != message.incarnation:
            unwanted_roots = self.forget(name)
            client = self.clients[name] = Client(message.incarnation)
        elif message.serial <= client.serial:
            return [], []  # an old one that was late, or the same again
        else:
            unwanted_roots = []
        client.serial = message.serial
        client.is_granted = False
        client.refused = []
        client.proof = message.proof
        want_by_part: dict[Subtree, Want] = {}
        for one in message.wants:
            part = self._valid(name, one, message.proof)
            if part is None:
                client.refused.append(one)
            else:
                want_by_part[part] = one
        ended_parts = [part for part in client.feeds if part not in want_by_part]
        for part in ended_parts:
            self.table.unsubscribe(name, part)
            del client.feeds[part]
        new_parts = [part for part in want_by_part if part not in client.feeds]
        for part, want in want_by_part.items():
            self.table.subscribe(name, part)
            if part not in client.feeds or want.position < client.feeds[part].position:
                client.feeds[part] = self._new_feed(part, want.position)  # it may have forgotten what it had
        return [part.root for part in new_parts], unwanted_roots + [part.root for part in ended_parts]

    def _valid(self, name: str, want: Want, proof: bytes) -> Subtree | None:
        """The subtree, if there is one and the neighbour may have it."""
        if want.root not in self._outline or any(id not in self._outline for id in want.without):
            return None
        part = Subtree(want.root, tuple(want.without))
        return part if self._check is None or self._check(name, part, proof) else None

    def _new_feed(self, part: Subtree, position: int) -> Feed:
        pending = {
            id: None
            for id in elements_of(part, self._outline)
            if id in self._elements and self._elements[id].version > position
        }
        retry = Retry(self._random, self._settings.update_ms, self._settings.update_ms_max)
        return Feed(position, pending, retry)

    def forget(self, name: str) -> list[int]:
        """A neighbour is gone. Returns the roots that it wanted."""
        client = self.clients.pop(name, None)
        if client is None:
            return []
        for part in client.feeds:
            self.table.unsubscribe(name, part)
        return [part.root for part in client.feeds]

    def drop(self, removed_ids: Collection[int]) -> list[int]:
        """These elements are about to be removed from the document. Returns the roots that are wanted no more."""
        return self._end(lambda name, part: part.root in removed_ids or any(id in removed_ids for id in part.without))

    def check_again(self) -> list[int]:
        """Rights have changed: end what may not be had any more. Returns the roots that are wanted no more."""
        check = self._check
        if check is None:
            return []
        return self._end(lambda name, part: not check(name, part, self.clients[name].proof))

    def _end(self, is_over: Callable[[str, Subtree], bool]) -> list[int]:
        """End some feeds. Their neighbours are told that they are refused, and may ask again."""
        roots: list[int] = []
        for name, client in self.clients.items():
            for part in [part for part in client.feeds if is_over(name, part)]:
                self.table.unsubscribe(name, part)
                client.refused.append(Want(part.root, list(part.without), client.feeds.pop(part).position))
                client.is_granted = False
                roots.append(part.root)
        return roots

    def note_changes(self, ids: Iterable[int]) -> None:
        """These elements have changed: whoever wants them will get them."""
        for id in ids:
            for name, part in self.table.subscribers(id):
                feed = self.clients[name].feeds[part]
                feed.pending[id] = None
                feed.retry.reset()

    def take_receipt(self, name: str, message: Receipt) -> None:
        client = self.clients.get(name)
        feed = client.feeds.get(Subtree(message.root, tuple(message.without))) if client is not None else None
        if feed is None or message.position <= feed.position:
            return
        feed.position = message.position
        feed.pending = {
            id: None for id in feed.pending if id in self._elements and self._elements[id].version > feed.position
        }
        feed.retry.reset()

    def send(self, now_ms: int) -> list[Effect]:
        """Updates that are due, and grants of wants that can be served now."""
        effects: list[Effect] = []
        for name, client in self.clients.items():
            if not client.is_granted and all(self._position(part.root) is not None for part in client.feeds):
                client.is_granted = True
                effects.append(self._grant(name, client))
            for part, feed in client.feeds.items():
                if feed.pending and feed.retry.is_due(now_ms) and (update := self._update(part, feed)) is not None:
                    feed.retry.start(now_ms)
                    self.elements_sent += len(update.elements)
                    effects.append(Send(name, update))
        return effects

    def grant_again(self, name: str) -> list[Effect]:
        """The answer to wants that are repeated."""
        client = self.clients.get(name)
        return [self._grant(name, client)] if client is not None and client.is_granted else []

    def _grant(self, name: str, client: Client) -> Send:
        return Send(name, Grant(client.incarnation, client.serial, client.refused))

    def _update(self, part: Subtree, feed: Feed) -> Update | None:
        position = self._position(part.root)
        if position is None or position <= feed.position:
            return None  # what is pending is newer than what is known to be complete
        elements = [self._elements[id] for id in sorted(feed.pending) if id in self._elements]
        return Update(part.root, list(part.without), feed.position, position, elements, self.edition)
