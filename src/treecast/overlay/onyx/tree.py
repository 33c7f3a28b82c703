"""The query plane of one root, as one broker sees it: its parent, its children, and who is covered.

Theory of operation (ONYX, section 4.2.1; we differ: the paper does not say when a subscription begins to count).
Every broker tells its parent what it and all behind it want: an *aggregate*, in versions, by deltas. A parent puts that
into its routing table; if its own aggregate changes, it tells its own parent. When the root has a version, `Covered`
comes back down. From then on documents after `since` (the root's last one at that time) that come by the tree are
complete for the announcer. Three rules keep that true, whatever happens to messages, brokers and trees:

1. A broker takes a range from its parent as complete only if it is covered by that parent, in that parent's present
   life, and by the version that it is covered by; and only the part of it after `since`.
2. It passes on to a child only what it takes as complete itself, and only when that child is covered through it.
3. A parent that is new, or lives again, knows nothing: it is told everything, in a new version, and until that is
   covered the broker lives on what it asks the root for.

So nothing has to be agreed upon: a table that is lost, or a link that moves, makes brokers fall back to the root for a
while. If the aggregate of a broker contains what a child announces already, and is covered, the child is covered at
once, since the last document that the broker has passed on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Protocol

from treecast.document import Limits
from treecast.errors import DocumentError, PeerError
from treecast.index import Index
from treecast.overlay.onyx.early_plan import WHOLE, EarlyPlan
from treecast.overlay.onyx.link import Link
from treecast.overlay.onyx.link_formats import TEXT, Arrival, Forms, LinkFormats, unreadable
from treecast.overlay.onyx.network_messages import (
    Announce,
    Covered,
    DictionaryKnown,
    Forward,
    LinkDictionary,
    Plan,
    Resync,
)
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.routes import Routes
from treecast.overlay.onyx.routing_protocol import LOCAL, Delta, Own, Routing
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.retry import Retry
from treecast.wire import Dictionary


class Place(Protocol):
    """What a tree has to know of the broker that it belongs to."""

    @property
    def name(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def life(self) -> int: ...
    @property
    def now_ms(self) -> int: ...

    def send(self, to: str, message: Any) -> None: ...


class Child:
    """A broker below, and what it has announced."""

    __slots__ = (
        "bytes_saved",
        "covered",
        "dictionary",
        "format",
        "formats",
        "life",
        "link",
        "since",
        "version",
        "waiting",
    )

    def __init__(self, life: int, version: int, link: Link, formats: Sequence[str] = ()) -> None:
        self.life = life
        self.version = version
        self.link = link
        self.formats = formats
        """What it reads."""
        self.format = TEXT
        """What it is sent."""
        self.dictionary = 0
        """The fingerprint of the one that it has."""
        self.covered = 0
        self.since = 0
        self.bytes_saved = 0
        """What did not go over the link, because nobody behind it needs it."""
        self.waiting: deque[tuple[int, int]] = deque()
        """(version, the version of this broker that contains it), until that is covered."""


class Tree:
    """One broker's part in the tree of one root."""

    def __init__(
        self,
        root: str,
        place: Place,
        routing: Routing,
        settings: NetworkSettings,
        random: Random,
        last_document: Callable[[], int],
        version: int = 0,
        limits: Limits | None = None,
        own: Own | None = None,
    ) -> None:
        """`version` is one that this broker has used in its present life, in an earlier tree of this root. `limits` are
        those of documents. `own` is what the broker itself wants."""
        self.root = root
        self._place = place
        self._routing = routing
        self._settings = settings
        self._last_document = last_document  # of the root, if this is the root
        self._own = own
        self.is_root = root == place.name
        # PERF: bench/network_kill.py. Most brokers have no children in most trees, and a root has nobody to tell what
        # it wants itself: neither needs a table of its own with all of that.
        if self.is_root:
            self.table = routing.root_table()
        else:
            self.table = own.table if own is not None else routing.table()
        """With the broker's own subscriptions, unless this is the root; without children, that of all trees."""
        self.plan = EarlyPlan(settings)
        """What may be done to documents before they reach this broker, and its children. It changes with the table: a
        version stands for both, so all that is said above holds of what arrives, and not only whether it does."""
        self.formats = LinkFormats(settings, limits)
        self.parent: str | None = None
        self.store = ""
        """What identifies the root's data; empty: not known yet."""
        self.version = version
        """Of the own aggregate. It only grows, as long as the broker lives: others may have slept through a view."""
        self._changes: list[tuple[bytes, bytes]] = []  # of this turn: added, removed
        self._has_new_plan = False  # in this turn
        self._first = 0  # the version that the present parent was told in full
        self.covered = 0
        """The version that is covered by the present parent; 0: none."""
        self._parent_life = 0
        self.since = 0
        """What is taken from the tree as complete begins after this document."""
        self.latest_since = 0
        """The same, of the version that was covered last."""
        self.passed = 0
        """The last document that was taken from the tree, and passed on."""
        self._waits = False  # for its children and for what it wants itself, after a restart
        self._names: dict[str, None] = {}  # of those who are children in the present view
        self.children: dict[str, Child] = {}
        """Those of them who have announced something."""
        self.misunderstood = 0
        """Announcements that made no sense."""
        self._retry = Retry(random, settings.announce_ms, settings.announce_ms_max)
        self._resync = Retry(random, settings.announce_ms, settings.announce_ms_max)
        self._offer = Retry(random, settings.announce_ms, settings.announce_ms_max)
        self._root_life = 0  # of the dictionary

    # --- the view -----------------------------------------------------------------------------------------------------

    def place_in(self, parent: str | None, children: Iterable[str], *, lives_again: bool = False) -> None:
        """A view says where this broker stands now.

        After a restart its children are asked at once what they want, and until they have answered, or for a while, the
        parent is told nothing: it has what this broker wanted before, and would change its table twice.
        """
        self._names = dict.fromkeys(children)
        has_moved = parent != self.parent
        if has_moved:
            self.parent = None  # the old one need not hear of what follows
        for name in [name for name in self.children if name not in self._names]:
            self._forget(name)
        self._resync.start(self._place.now_ms)  # new children announce themselves, mostly
        if has_moved:
            self.parent = parent
            self._waits = parent is not None and (not self._is_loaded or (lives_again and bool(self._names)))
            self.announce_all()
        if lives_again:
            self._resync.reset()
            self.ask_children()

    def ask_children(self) -> None:
        """They may not know that this broker lives again, and would wait for what it does not know of."""
        self._resync.start(self._place.now_ms)
        for name in self._silent():
            self._place.send(name, Resync(self.root, self._place.epoch, self._place.life))

    def _silent(self) -> list[str]:
        return [name for name in self._names if name not in self.children]

    def _forget(self, name: str) -> None:
        del self.children[name]
        self._changed(self.table.drop(name))
        self._change_plan(name, None)

    # --- to the parent ------------------------------------------------------------------------------------------------

    def is_covered(self, version: int = 1) -> bool:
        """The tables up to the root contain this version of the aggregate."""
        return self.is_root or self.covered >= max(version, self._first)

    @property
    def _is_loaded(self) -> bool:
        """What the broker itself wants is known. After a restart that takes a while."""
        return self._own is None or self._own.is_loaded

    @property
    def _is_leaf(self) -> bool:
        """The table is the broker's own."""
        return self._own is not None and self.table is self._own.table

    def change_local(self, delta: Delta) -> None:
        """The aggregate of the broker's own subscriptions has changed."""
        if self._is_leaf:
            self._changed(delta)
        elif not self.is_root:
            self._changed(self.table.update(LOCAL, delta.added, delta.removed))

    def _grow(self) -> None:
        """There is a first child: from now on there is a table of this tree. To the parent that makes no difference."""
        before = self.table.aggregate()
        self.table = self._routing.table()
        self.table.update(LOCAL, before, self._routing.empty())
        self._changed(self._routing.difference(before, self.table.aggregate()))

    def _changed(self, delta: Delta) -> None:
        """The changes of one turn are one version, and one message: see `flush`."""
        if not delta:
            return
        self._begin_version()
        if not self._waits:  # else the parent will be told everything
            self._changes.append((delta.added.encode(), delta.removed.encode()))

    def change_plan(self, plan: Plan) -> None:
        """What may be done early for the broker's own subscriptions has changed, or may have."""
        self._change_plan(LOCAL, plan)

    def _change_plan(self, target: str, plan: Plan | None) -> None:
        if self.plan.set(target, plan):
            self._begin_version()
            self._has_new_plan = True

    def _begin_version(self) -> None:
        if not self._changes and not self._has_new_plan:
            self.version += 1

    def flush(self) -> None:
        """At the end of a turn: tell the parent what has changed."""
        changes, self._changes = self._changes, []
        plan, self._has_new_plan = self.plan.own if self._has_new_plan else None, False
        if self._waits and self._is_loaded and not self._silent():
            self._waits = False
            self.announce_all()
        elif (changes or plan is not None) and self.parent is not None and not self._waits:
            self._announce(self.version - 1, changes, plan)

    def announce_all(self) -> None:
        """The parent knows nothing: tell it everything. Until that is covered, nothing is taken from the tree."""
        self._changes.clear()
        self._has_new_plan = False
        self.version += 1
        self._first = self.version
        self.covered = self._parent_life = 0
        if self.parent is not None and not self._waits:
            self._retry.reset()
            whole = self._own.encoded() if self._own is not None and self._is_leaf else self.table.aggregate().encode()
            self._announce(0, [(whole, self._routing.empty().encode())], self.plan.own)

    def _announce(self, base: int, changes: list[tuple[bytes, bytes]], plan: Plan | None = None) -> None:
        assert self.parent is not None
        self._retry.start(self._place.now_ms)
        formats = [] if base else self.formats.offered
        place = self._place
        message = Announce(self.root, place.epoch, place.life, self.version, base, changes, formats, plan)
        self._place.send(self.parent, message)

    def take_covered(self, sender: str, message: Covered) -> bool:
        """Says whether more is covered now than before."""
        is_mine = sender == self.parent and message.announcer == self._place.life
        if not is_mine or message.version < self._first or message.version > self.version:
            return False
        if self.covered and message.life != self._parent_life:
            if message.life > self._parent_life:
                self.announce_all()  # it has forgotten us, and learnt of us by an old message
            return False
        if message.version <= self.covered:
            return False
        if self.store and message.store != self.store:
            self._begin_anew()
        self.store = message.store
        if not self.covered:
            self._parent_life = message.life
            self.since = message.since
        self.passed = max(self.passed, self.since)
        self.covered = message.version
        self.latest_since = message.since
        if self.covered == self.version:
            self._retry.reset()
        for name, child in self.children.items():
            self._cover(name, child, max(message.since, self.since))
        return True

    def _begin_anew(self) -> None:
        """The root has other data than before, with numbers of its own: what was claimed to the children is void."""
        self.passed = 0
        for name in list(self.children):
            self._forget(name)

    def take_resync(self, sender: str) -> None:
        if sender == self.parent:
            self.announce_all()

    # --- from the children --------------------------------------------------------------------------------------------

    def take_announce(self, sender: str, message: Announce) -> None:
        if sender not in self._names:
            return
        child = self.children.get(sender)
        if child is not None and (message.life, message.version) < (child.life, child.version):
            return  # it was overtaken by a later one
        if child is not None and (message.life, message.version) == (child.life, child.version):
            self._answer_again(sender, child)
        elif message.base == 0:
            self._take_all(sender, message)
        elif child is None or message.life != child.life or message.base != child.version:
            self._place.send(sender, Resync(self.root, self._place.epoch, self._place.life))
        else:
            child.version = message.version
            self._apply(sender, child, message)

    def _apply(self, sender: str, child: Child, message: Announce) -> None:
        decode = self._routing.decode
        if self._is_leaf:
            self._grow()
        try:
            for place, (added, removed) in enumerate(message.changes):
                if message.base == 0 and place == 0:
                    # Mostly it wants what it wanted before, and lives again: then nothing has changed.
                    self._changed(self.table.replace(sender, decode(added)))
                else:
                    self._changed(self.table.update(sender, decode(added), decode(removed)))
        except PeerError:
            self.misunderstood += 1
            self._forget(sender)  # it will be asked to announce everything
        else:
            if message.plan is not None or message.base == 0:
                self._change_plan(sender, message.plan or WHOLE)
            self._await(sender, child)

    def _take_all(self, sender: str, message: Announce) -> None:
        """What it had announced before is void, and so is all that was claimed to it."""
        link = Link(self._settings, self._forward)
        child = self.children[sender] = Child(message.life, message.version, link, message.formats)
        child.format = self.formats.choose(child.formats, 0)
        self._offer_dictionary(sender, child)
        self._apply(sender, child, message)

    def _await(self, name: str, child: Child) -> None:
        """Cover what a child has announced, now or when our own aggregate is covered."""
        child.waiting.append((child.version, self.version))
        if self.is_root:
            self.claim_all()
            self._cover(name, child, self._last_document())
        elif self.is_covered(self.version):
            self._cover(name, child, max(self.latest_since, self.passed))

    def _cover(self, name: str, child: Child, since: int) -> None:
        version = 0
        while child.waiting and self.is_covered(child.waiting[0][1]):
            version = child.waiting.popleft()[0]
        if not version:
            return
        # What is behind `since` has to be there before the new version counts: mostly it is only to be said.
        child.link.tell_claim(self._place.now_ms)
        self._flush(name, child)
        if not child.covered:
            child.link.begin(version, since)
        child.link.cover(version)
        child.covered, child.since = version, since
        self._send_covered(name, child)

    def _send_covered(self, name: str, child: Child) -> None:
        place = self._place
        message = Covered(
            *(self.root, self.store, place.epoch, place.life, child.life, child.covered, child.since, child.format)
        )
        place.send(name, message)

    def _answer_again(self, name: str, child: Child) -> None:
        if child.covered == child.version:
            self._send_covered(name, child)

    # --- documents ----------------------------------------------------------------------------------------------------

    def accept(self, sender: str, message: Forward, upto: int = 0) -> int | None:
        """After which document this range, which others may continue up to `upto`, is complete, and new; None if it
        cannot be taken from the tree at all."""
        if sender != self.parent:
            return None
        if message.life > self._parent_life and self.covered:
            self.announce_all()
            return None
        is_current = self.is_covered() and message.life == self._parent_life and message.version >= self.covered
        if not is_current or message.store != self.store:
            return None
        begin = max(message.after, self.since, self.passed)
        return begin if begin < max(upto, message.upto) else None

    def pass_on(self, after: int, upto: int, arrivals: list[Arrival]) -> list[Arrival]:
        """Documents (after, upto] that are complete: to the children whom they concern. Returns those that may concern
        the broker's own subscriptions, read. Raises PeerError, and nothing was done, for documents that cannot be read
        in their format."""
        links = [name for name, child in self.children.items() if child.link.is_open]
        if not links:
            self.formats.read_all(arrivals)
            self.passed = max(self.passed, upto)
            self.table.learn([arrival.content for arrival in arrivals])
            return arrivals
        if self.is_root and arrivals:
            self._learn(arrivals)
        chosen = self._choose(arrivals, links) if arrivals else {}
        self.passed = max(self.passed, upto)
        early = self.plan.begin()
        for name in links:
            child, fresh = self.children[name], chosen.get(name, [])
            if fresh and fresh[0].number <= child.link.claim:
                fresh = [arrival for arrival in fresh if arrival.number > child.link.claim]
            if self.plan.changes(name):
                self.formats.read_all(fresh)
            fresh, saved = early.apply(name, fresh)
            child.bytes_saved += saved
            parcels = Parcels.of(self.formats.write(fresh, child.format))
            child.link.offer(after, upto, parcels, self._place.now_ms)
            self._flush(name, child)
        local = chosen.get(LOCAL, [])
        self.formats.read_all(local)
        return local

    def pass_on_forms(self, after: int, upto: int, forms: Forms, own: Index | None = None) -> Forms | None:
        """As `pass_on`, for documents that are sent on as they came, and read by whoever is served here: with the index
        `own`, in the same go. None, and nothing was done: some have to be written anew for a link."""
        # PERF: bench/network_cpu.py. There is no object for a document.
        format = forms.parcels.format
        links = [name for name, child in self.children.items() if child.link.is_open]
        if any(self.children[link].format != format or self.plan.changes(link) for link in links):
            return None
        if not links:
            self.passed = max(self.passed, upto)
            self.table.learn_parcels(forms.codec, forms.parcels)
            return forms
        try:
            routes = self.table.route_parcels(forms.codec, forms.parcels, links, LOCAL, own)
        except DocumentError as error:
            raise unreadable(error) from None
        if routes is None:
            return None
        return forms.those(self.offer(after, upto, forms.parcels, routes, links))

    def offer(self, after: int, upto: int, parcels: Parcels, routes: Routes, links: list[str]) -> Parcels:
        """Documents (after, upto], routed: to these links. Returns those for the broker's own subscriptions."""
        self.passed = max(self.passed, upto)
        for link in links:
            child = self.children[link]
            child.link.offer(after, upto, routes.choose(parcels, link), self._place.now_ms)
            self._flush(link, child)
        return routes.choose(parcels, LOCAL)

    def _choose(self, arrivals: list[Arrival], links: list[str]) -> dict[str, list[Arrival]]:
        """By target, the documents that concern it: for all of `links`; for others, perhaps too many."""
        targets_of = self._route(arrivals, links)
        if len(set(targets_of)) == 1:
            return dict.fromkeys(targets_of[0], arrivals)
        chosen: dict[str, list[Arrival]] = {name: [] for name in (LOCAL, *self.children)}
        for arrival, targets in zip(arrivals, targets_of, strict=True):
            for name in targets:
                chosen[name].append(arrival)
        return chosen

    def _route(self, arrivals: list[Arrival], links: list[str]) -> list[tuple[str, ...]]:
        """The targets of each. What only travels through is read for that, and no further."""
        # PERF: bench/network_cpu.py. One native call decodes and routes all documents of a message.
        names = {"" if arrival.is_read else arrival.parcel.format for arrival in arrivals}
        name = names.pop()
        if name and not names:
            needed = [link for link in links if self.children[link].format != name or self.plan.changes(link)]
            try:
                bodies = [arrival.parcel.body for arrival in arrivals]
                answer = self.table.route_forms(self.formats.codec(name), bodies, links, [LOCAL, *needed])
            except DocumentError as error:
                raise unreadable(error) from None
            if answer is not None:
                targets_of, documents = answer
                for arrival, document in zip(arrivals, documents, strict=True):
                    if document is not None:
                        arrival.document, arrival.is_read = document, True
                return targets_of
        self.formats.read_all(arrivals)
        return self.table.route([arrival.content for arrival in arrivals], links)

    def claim_all(self) -> None:
        """At the root: numbers that were given to documents of other roots concern nobody."""
        if self.is_root and self.passed < self._last_document():
            self.pass_on(self.passed, self._last_document(), [])

    def take_taken(self, sender: str, upto: int) -> None:
        if child := self.children.get(sender):
            child.link.taken(upto, self._place.now_ms)
            self._flush(sender, child)

    def _flush(self, name: str, child: Child) -> None:
        for message in child.link.take_ready():
            self._place.send(name, message)

    def _forward(self, version: int, after: int, upto: int, parcels: Parcels) -> Forward:
        place = self._place
        return Forward(self.root, self.store, place.epoch, place.life, version, after, upto, parcels.packed)

    # --- dictionaries -------------------------------------------------------------------------------------------------

    def is_learning(self) -> bool:
        """A dictionary is to be made of what passes."""
        uses = any(self.formats.uses_dictionary(child.formats) for child in self.children.values())
        return uses and self.formats.is_learning

    def _learn(self, arrivals: list[Arrival]) -> None:
        """At the root: what its documents have in common, if somebody is to be sent documents with a dictionary."""
        if not any(self.formats.uses_dictionary(child.formats) for child in self.children.values()):
            return
        self._root_life = self._place.life
        if self.formats.learn(arrivals, self._root_life):
            self._offer_all()

    def take_dictionary(self, sender: str, message: LinkDictionary) -> None:
        """The parent hands on what the root has learnt. Raises PeerError."""
        if sender != self.parent:
            return
        dictionary = Dictionary.from_bytes(message.dictionary)
        place = self._place
        if self.formats.adopt(dictionary, message.root_life):
            self._root_life = message.root_life
            self._offer_all()
        place.send(sender, DictionaryKnown(self.root, place.epoch, place.life, dictionary.fingerprint))

    def take_known(self, sender: str, message: DictionaryKnown) -> None:
        child = self.children.get(sender)
        if child is not None and message.life == child.life:
            child.dictionary = message.fingerprint
            child.format = self.formats.choose(child.formats, child.dictionary)

    def _offer_all(self) -> None:
        self._offer.reset()
        for name, child in self.children.items():
            self._offer_dictionary(name, child)

    def _offer_dictionary(self, name: str, child: Child) -> None:
        """Tell a child the dictionary, unless it has it or would not use it. Meanwhile it gets another format."""
        dictionary, place = self.formats.dictionary, self._place
        if dictionary is None or child.dictionary == dictionary.fingerprint:
            return
        if not self.formats.uses_dictionary(child.formats):
            return
        child.format = self.formats.choose(child.formats, child.dictionary)
        data = dictionary.to_bytes()
        place.send(name, LinkDictionary(self.root, place.epoch, place.life, self._root_life, data))

    # --- time ---------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        now_ms = self._place.now_ms
        if not self._is_leaf:
            self._changed(self.table.refine())
        is_told = self.parent is not None and not self._waits
        if is_told and not self.is_covered(self.version) and self._retry.is_due(now_ms):
            self._announce(self.version, [])  # if the parent does not know this version, it asks for everything
        if self._resync.is_due(now_ms) and self._silent():
            if self._waits and self._is_loaded:
                self._waits = False
                self.announce_all()
            self.ask_children()
        if self.formats.dictionary is not None and self._offer.is_due(now_ms):
            self._offer.start(now_ms)
            for name, child in self.children.items():
                self._offer_dictionary(name, child)
        for name, child in self.children.items():
            child.link.tick(now_ms)
            self._flush(name, child)
