"""A client of the registration service: it asks the registry that is in charge, and remembers where things are.

Requests are those of `treecast.overlay.client`, numbered and repeated until they are answered, whichever of the two
registries does that in the end. Questions where something is have answers that are kept, with the epoch of the view
that they follow from; a broker that is asked for something that it does not have says `Moved`, which corrects them.

    >>> from random import Random
    >>> from treecast.overlay.onyx.control_messages import Located
    >>> client = RegistryClient("alice", ("r1", "r2"), Random(1))
    >>> place, (asked,) = client.where("source", "news", now_ms=0)
    >>> place is None, asked.to, asked.message.name
    (True, 'r1', 'news')
    >>> _ = client.receive("r1", Located(asked.message.question, "b2", "10.0.0.2:9000", 7), now_ms=1)
    >>> client.where("source", "news", now_ms=2)[0].broker
    'b2'
"""

from __future__ import annotations

from collections import OrderedDict
from random import Random
from typing import Any

import msgspec

from treecast.overlay.client import Client, ClientSettings
from treecast.overlay.messages import Command
from treecast.overlay.onyx.control_messages import Located, Moved, Thing, WhereIs
from treecast.overlay.peer import Deliver, Effect, Send


class RegistryClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times and limits of a client of a registry."""

    client: ClientSettings = ClientSettings()
    other_ms: int = 2_000
    """If there was no answer for so long, the other registry is asked."""
    turn_ms: int = 100
    """If a registry says that the other one is in charge, that one is asked, but not sooner than so long after the last
    change: while nobody is in charge, both say so."""
    cached_max: int = 10_000
    """Places that are remembered. Those that were used longest ago make room."""
    questions_max: int = 1_000
    """Questions that have no answer yet. The oldest makes room: whoever still wants to know asks again."""


class Found(msgspec.Struct, frozen=True):
    """An event, and what is remembered: a thing is with this broker. Without a broker there is no such thing."""

    thing: Thing
    name: str
    broker: str
    address: str
    epoch: int


class RegistryClient:
    """A `Peer`. `request` is that of `Client`; its answers come as `Answered` events, with `places`."""

    def __init__(
        self, name: str, registries: tuple[str, ...], random: Random, settings: RegistryClientSettings | None = None
    ) -> None:
        self.name = name
        self.settings = settings or RegistryClientSettings()
        self.registries = registries
        self._registry = registries[0]
        self._client = Client(name, registries[0], random, self.settings.client)
        self._since_ms: int | None = None  # when something was last heard, or the registry was changed
        self._turned_ms: int | None = None
        self._questions: dict[int, tuple[Thing, str]] = {}
        self._question = random.getrandbits(32)
        self._places: OrderedDict[tuple[Thing, str], Found] = OrderedDict()

    def request(self, command: Command, now_ms: int) -> tuple[int, list[Effect]]:
        """Send a command when its turn comes; returns its ticket."""
        if not self._client.waiting():
            self._since_ms = now_ms
        return self._client.request(command, now_ms)

    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return self._client.waiting()

    def where(self, thing: Thing, name: str, now_ms: int) -> tuple[Found | None, list[Effect]]:
        """Where something is, if that is known. If not, it is asked for, and a `Found` event follows, or nothing."""
        known = self._places.get((thing, name))
        if known is not None:
            self._places.move_to_end((thing, name))
            return known, []
        self._question += 1
        if len(self._questions) >= self.settings.questions_max:
            del self._questions[next(iter(self._questions))]
        self._questions[self._question] = (thing, name)
        return None, [Send(self._registry, WhereIs(self._question, thing, name))]

    def forget(self, thing: Thing, name: str) -> None:
        """What is remembered of it turned out to be wrong, and nobody said what is right."""
        self._places.pop((thing, name), None)

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        match message:
            case Located():
                asked = self._questions.pop(message.question, None)
                if asked is None:
                    return []
                return self._remember(Found(*asked, message.broker, message.address, message.epoch))
            case Moved(thing="registry"):
                is_soon = self._turned_ms is not None and (
                    self._turned_ms <= now_ms < self._turned_ms + self.settings.turn_ms
                )
                if sender != self._registry or message.to not in self.registries or is_soon:
                    return []
                return self._turn_to(message.to, now_ms)
            case Moved(thing="source" | "subscription" | "subscriber" as thing):
                return self._remember(Found(thing, message.name, message.to, message.address, message.epoch))
            case _:
                pass
        if sender == self._registry:
            self._since_ms = now_ms
        return self._client.receive(sender, message, now_ms)

    def _remember(self, found: Found) -> list[Effect]:
        """By the latest view: an answer may be overtaken by one that is newer."""
        key = (found.thing, found.name)
        known = self._places.get(key)
        if known is not None and known.epoch > found.epoch:
            return [Deliver(known)]
        if found.broker:
            self._places[key] = found
            self._places.move_to_end(key)
            if len(self._places) > self.settings.cached_max:
                self._places.popitem(last=False)
        return [Deliver(found)]

    def tick(self, now_ms: int) -> list[Effect]:
        since_ms = self._since_ms
        is_over = since_ms is None or not since_ms <= now_ms < since_ms + self.settings.other_ms
        if is_over and self._client.waiting() and len(self.registries) > 1:
            place = self.registries.index(self._registry) + 1
            return self._turn_to(self.registries[place % len(self.registries)], now_ms)
        return self._client.tick(now_ms)

    def _turn_to(self, registry: str, now_ms: int) -> list[Effect]:
        self._registry = registry
        self._since_ms = self._turned_ms = now_ms
        return self._client.turn_to(registry, now_ms)
