"""What a broker asks of those above it: few subtrees that contain all that is wanted below, each from one neighbour.

For each subtree that is asked for there is a *link*, in one of the states of the paper:

    inquiring    all neighbours upwards are asked how near the subtree is to what they have; a policy chooses
    requesting   the chosen one has been asked for it
    granted      it has answered, after its own request was granted

A subscription that what is there covers needs no link: it is decided here. What is asked for changes by covering and
merging (`treecast.selective.forwarding`); an old link stays until the new ones have what it had. If a neighbour fails,
its links inquire again, and go on from the version that they had reached.

Source: Selective, section V-B.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import count

from treecast.overlay.peer import Effect, Send
from treecast.overlay.selective.neighbours import Neighbours
from treecast.overlay.selective.propagation import PROPAGATION_POLICIES
from treecast.overlay.selective.selective_messages import (
    ElementState,
    Grant,
    Inquiry,
    Offer,
    Receipt,
    Update,
    Want,
    Wants,
)
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.selective.forwarding import Forwarding
from treecast.selective.outline import Outline


class Link:
    """A subtree that is asked for."""

    __slots__ = ("is_known", "neighbours", "offers", "position", "round", "since_ms", "state", "upstream")

    def __init__(self, position: int) -> None:
        self.state = "inquiring"
        self.upstream = ""
        self.position = position
        """All changes up to this version are here."""
        self.is_known = False
        """It has been granted once, so what is below it can be promised."""
        self.round = 0
        self.neighbours = 0
        self.offers: dict[str, int] = {}
        self.since_ms = 0


class NeighbourWants:
    """What has been said to one neighbour above."""

    __slots__ = ("roots", "said_ms", "serial")

    def __init__(self, serial: int = 0) -> None:
        self.serial = serial
        self.roots: list[int] = []
        self.said_ms: int | None = None


class Upward:
    """The links of one broker."""

    def __init__(
        self,
        outline: Outline,
        elements: dict[int, ElementState],
        neighbours: Neighbours,
        settings: SelectiveSettings,
    ) -> None:
        self.forwarding = Forwarding(outline)
        self.links: dict[int, Link] = {}
        self.inquiries = 0
        self._outline = outline
        self._elements = elements
        self._neighbours = neighbours
        self._settings = settings
        self._choose = PROPAGATION_POLICIES[settings.propagation]
        self._rounds = count(1)
        self._wants_by_neighbour: dict[str, NeighbourWants] = {}
        self.edition = 0
        """Of the outline."""
        self.serial_base = 0
        """Serials begin after it: neighbours may remember those of an earlier life of this tree."""

    # -- questions

    def serial_max(self) -> int:
        return max((wants.serial for wants in self._wants_by_neighbour.values()), default=self.serial_base)

    def position(self, root: int) -> int | None:
        """The version up to which a subtree is known here; None if nobody has promised it."""
        containing = (self.links.get(id) for id in (root, *self._outline.ancestors(root)))
        return max((link.position for link in containing if link is not None and link.is_known), default=None)

    def distance(self, root: int) -> int:
        """Edges between a subtree and the nearest one that is asked for here; 0 if one contains it.

        The root of the document is always there: a broker that has nothing near is as good as one that has nothing.
        Otherwise all would choose the broker that was asked first.
        """
        roots_asked = self.forwarding.asked_roots()
        if any(self._outline.contains(one, root) for one in roots_asked):
            return 0
        depth = sum(1 for _ in self._outline.ancestors(root))
        return min([depth, *(self._outline.distance(one, root) for one in roots_asked)])

    # -- what is wanted

    def change_wants(self, wanted: Iterable[int], unwanted: Iterable[int]) -> None:
        """Recipients below want these roots, and no longer want those."""
        for root in wanted:
            self.forwarding.want(root)
        for root in unwanted:
            self.forwarding.unwant(root)
        self._open_links()

    def merge(self) -> None:
        """Merge what is near enough."""
        self.forwarding.merge(self._settings.merge)
        self._open_links()

    def _open_links(self) -> None:
        for root in self.forwarding.asked_roots():
            if root not in self.links:
                self.links[root] = Link(self.position(root) or 0)

    def drop(self, removed_ids: Collection[int]) -> None:
        """These elements are about to be removed from the document, and nobody wants them."""
        for root in [root for root in self.links if root in removed_ids]:
            del self.links[root]

    def _close_links(self) -> None:
        """Drop the links that are no longer asked for, once those that take their place have what they had."""
        roots_asked = self.forwarding.asked_roots()
        root_set = set(roots_asked)
        for root in [root for root in self.links if root not in root_set]:
            link = self.links[root]
            inside = [self.links[one] for one in roots_asked if self._outline.contains(root, one)]
            above = [self.links[one] for one in roots_asked if self._outline.contains(one, root)]
            # Nothing has changed in it after its latest change, although it is known up to a later version.
            elements = (self._elements.get(id) for id in self._outline.subtree(root))
            latest = max((one.version for one in elements if one is not None), default=0)
            if all(one.is_known and one.position >= latest for one in above) and all(one.is_known for one in inside):
                for one in inside:
                    one.position = max(one.position, link.position)
                del self.links[root]
                self._forget_elements(root)

    def _forget_elements(self, root: int) -> None:
        for id in self._outline.subtree(root):
            if id in self._elements and not any(one in self.links for one in (id, *self._outline.ancestors(id))):
                del self._elements[id]

    # -- the protocol

    def tick(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for root, link in self.links.items():
            if link.upstream and not self._neighbours.is_alive(link.upstream, now_ms):
                link.state, link.upstream, link.round = "inquiring", "", 0
            if link.state == "inquiring":
                effects += self._inquire(root, link, now_ms)
        self._close_links()
        return effects + self._say_wants(now_ms)

    def _inquire(self, root: int, link: Link, now_ms: int) -> list[Effect]:
        is_late = not 0 <= now_ms - link.since_ms < self._settings.inquiry_ms
        if link.round:
            neighbour = self._choose(link.offers, neighbours=link.neighbours, is_late=is_late)
            if neighbour is not None and self._neighbours.is_alive(neighbour, now_ms):
                link.state, link.upstream, link.round = "requesting", neighbour, 0
                return []
            if not is_late:
                return []
        above = self._neighbours.above(now_ms)
        link.round, link.neighbours, link.offers, link.since_ms = next(self._rounds), len(above), {}, now_ms
        self.inquiries += bool(above)
        return [Send(name, Inquiry(link.round, root)) for name in above]

    def take_offer(self, sender: str, message: Offer, now_ms: int) -> list[Effect]:
        for root, link in self.links.items():
            if link.state == "inquiring" and link.round == message.round:
                link.offers.setdefault(sender, message.distance)
                return [*self._inquire(root, link, now_ms), *self._say_wants(now_ms)]
        return []

    def _say_wants(self, now_ms: int) -> list[Effect]:
        """Tell each neighbour above what is asked of it, if that has changed or it is time to repeat it."""
        roots: dict[str, list[int]] = {name: [] for name in self._wants_by_neighbour}
        for root, link in self.links.items():
            if link.upstream:
                roots.setdefault(link.upstream, []).append(root)
        effects: list[Effect] = []
        for name, neighbour_roots in roots.items():
            state = self._wants_by_neighbour.setdefault(name, NeighbourWants(self.serial_base))
            if neighbour_roots != state.roots or state.said_ms is None:
                state.serial += 1
                state.roots = neighbour_roots
            elif not neighbour_roots or 0 <= now_ms - state.said_ms < self._settings.refresh_ms:
                continue
            state.said_ms = now_ms
            wants = [Want(root, [], self.links[root].position) for root in neighbour_roots]
            effects.append(Send(name, Wants(self._neighbours.incarnation, state.serial, wants, self.edition)))
        return effects

    def ask_again(self, name: str) -> None:
        """A neighbour has been restarted, or knows a version that is not here: say again what is wanted of it."""
        if name in self._wants_by_neighbour:
            self._wants_by_neighbour[name].said_ms = None
            for root in self._wants_by_neighbour[name].roots:
                if root in self.links and self.links[root].upstream == name:
                    self.links[root].state = "requesting"

    def take_grant(self, sender: str, message: Grant) -> None:
        state = self._wants_by_neighbour.get(sender)
        if state is None or (message.incarnation, message.serial) != (self._neighbours.incarnation, state.serial):
            return
        refused_roots = {want.root for want in message.refused}
        for root in state.roots:
            link = self.links.get(root)
            if link is None or link.upstream != sender:
                continue
            if root in refused_roots:
                link.state, link.upstream, link.round = "inquiring", "", 0
            else:
                link.state, link.is_known = "granted", True
        self._close_links()

    def take_update(self, sender: str, message: Update) -> tuple[list[int], list[Effect]]:
        """Take elements. Returns the ids of those that have changed, and the receipt."""
        link = self.links.get(message.root)
        if link is None or link.upstream != sender:  # it has not heard that it is asked no longer
            self._wants_by_neighbour.setdefault(sender, NeighbourWants(self.serial_base)).said_ms = None
        if link is None or message.without:
            return [], []
        if message.base > link.position:  # it believes that more is here than there is
            self.ask_again(sender)
            return [], []
        changed_ids = []
        for one in message.elements:
            old = self._elements.get(one.id)
            is_inside = one.id in self._outline and self._outline.contains(message.root, one.id)
            if is_inside and (old is None or old.version < one.version):
                self._elements[one.id] = one
                changed_ids.append(one.id)
        link.position = max(link.position, message.upto)
        if link.upstream == sender:
            link.state, link.is_known = "granted", True
        return changed_ids, [Send(sender, Receipt(message.root, [], link.position))]
