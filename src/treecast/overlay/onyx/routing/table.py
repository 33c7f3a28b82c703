"""RoutingTable: who wants which documents of one root, and what that comes to for the parent (ONYX, section 4.2.1).

A table has targets: the links to child brokers, and `local` for the broker's own subscriptions. Each has a routing
query, which changes by deltas. `route` says for documents which targets want them; `aggregate` is the routing query of
all targets together, for the parent in the tree, and `update` answers with what changed in it.

    >>> from treecast.model import Subscription
    >>> from treecast.overlay.onyx.routing.mapping import map_subscription
    >>> table = RoutingTable()
    >>> sport = map_subscription(Subscription("1", "/news[sport]"))
    >>> delta = table.update("broker5", sport)
    >>> print(delta.added)
    /news/sport
    >>> table.route([b"<news><sport/></news>", b"<news/>"])
    [('broker5',), ()]
    >>> bool(table.update("broker6", sport))  # nothing new for the parent
    False

All conjunctions of all targets are one index, each once (`Collect` in the paper), which answers with targets in place
of conjunctions, and stops looking once enough of them are found. A target that wants everything needs no matching. A
document that cannot be read here goes to every target that wants anything: it is not for a broker on the way to say
that nobody below can read it.

Not here: positions, announcements, versions; the broker that owns the table has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from treecast import _native
from treecast.document import AnyDocument, Document, EntityTexts, Limits
from treecast.errors import DocumentError, PeerError, QueryError
from treecast.index import Index
from treecast.index.rendering import FormCodec, Links
from treecast.index.routing import Question
from treecast.model import Subscription
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.routes import Routes
from treecast.overlay.onyx.routing.routing_query import (
    HASH_BYTES,
    TRUE,
    Conjunction,
    Delta,
    RoutingQuery,
    ValueRow,
    has_hole,
    holes_of,
    left_out,
    without_holes,
    write_query,
)
from treecast.overlay.onyx.routing.sample import Later, Sample
from treecast.overlay.onyx.routing.settings import RoutingSettings
from treecast.overlay.onyx.routing.summary import Summary
from treecast.overlay.onyx.routing.value_sets import path_of, places_of
from treecast.query import parse

LOCAL = ""
"""The target that stands for a broker's own subscriptions: no broker has an empty name."""
_BITS = 63
_ALL_BITS = (1 << _BITS) - 1
_FEW = 4  # documents that are faster to match one by one: no arrays are made for them


class RoutingTable:
    """The routing queries of the targets of one root; targets are answered in the order of their names."""

    def __init__(
        self,
        settings: RoutingSettings | None = None,
        *,
        limits: Limits | None = None,
        entities: EntityTexts = None,
        sample: Sample | None = None,
        seed: int | None = None,
        has_parent: bool = True,
    ) -> None:
        """`sample` has documents by which generalisations are judged; several tables may share one. Without a parent
        nobody is told what all targets want together, and nothing is summarised."""
        self.settings = settings or RoutingSettings()
        self.unread = 0
        """Documents that could not be read, and went to every target."""
        self._index = Index(limits=limits, entities=entities, seed=seed)
        self.sample = sample if sample is not None else Sample(self.settings.sample_max, seed=seed)
        """Some of the documents that were routed: generalisations are judged by them."""
        self._has_routed = False
        self._summary = Summary(self.settings, sample=self.sample, seed=seed) if has_parent else None
        self._targets: dict[str, dict[Conjunction, int]] = {}
        self._wanting: dict[Conjunction, dict[str, None]] = {}  # conjunction -> targets
        self._numbers: dict[Conjunction, str] = {}  # of the index
        self._conjunctions: dict[str, Conjunction] = {}
        self._next = 0
        self._sets: dict[Conjunction, list[_native.ValueSet]] = {}  # of set forms, by hole: values with bits of targets
        self._value_counts: dict[str, int] = {}  # by target: how many values its set forms have
        self._bits: dict[str, int] = {}  # by target, as the index knows them
        self._masks = _native.Targets()  # by number of the index
        self._names: dict[int, tuple[str, ...]] = {}  # of sets of bits that were found
        self._signatures: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __len__(self) -> int:
        """How many different conjunctions the targets have."""
        return len(self._wanting)

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the targets that want anything."""
        return tuple(sorted(self._targets))

    def size(self, target: str) -> tuple[int, int]:
        """How many conjunctions a target has, and how many values in sets."""
        return len(self._targets.get(target, ())), self._value_counts.get(target, 0)

    def collect(self, target: str) -> RoutingQuery:
        """The routing query of a target, as collected from its deltas."""
        rows = self._targets.get(target, {})
        return RoutingQuery.of(rows, [(form, self._values_of(form, target)) for form in rows if has_hole(form)])

    def aggregate(self) -> RoutingQuery:
        """What all targets want together, within the budget: for the parent."""
        if self._summary is not None:
            return self._summary.query()
        return RoutingQuery.of(self._wanting, self._all_values())

    def rebuilt(self) -> RoutingQuery:
        """The same, computed anew from what the targets have: for checks."""
        return self._summary.rebuilt(self._all_values()) if self._summary is not None else self.aggregate()

    @property
    def values(self) -> int:
        """How many different values the targets have in sets."""
        return sum(len(values) for sets in self._sets.values() for values in sets)

    def _all_values(self) -> list[ValueRow]:
        return [(form, tuple(values.values() for values in sets)) for form, sets in self._sets.items()]

    def _values_of(self, form: Conjunction, target: str) -> tuple[bytes, ...]:
        return tuple(values.values(self._bits[target]) for values in self._sets[form])

    def update(self, target: str, added: RoutingQuery | None = None, removed: RoutingQuery | None = None) -> Delta:
        """Change a target's routing query; the answer is how `aggregate` changed.

        A conjunction that is added twice has to be removed twice. Raises PeerError (TC404), and changes nothing, for
        one that is removed but was not there, or that is not a query.
        """
        more, less = added or RoutingQuery(), removed or RoutingQuery()
        if self._next_bit(target) > _ALL_BITS:
            return self.update_many(
                target, map(without_holes, more.conjunctions), map(without_holes, less.conjunctions)
            )
        return self._update(target, more.conjunctions, less.conjunctions, more.sets, less.sets)

    def update_many(self, target: str, added: Iterable[Conjunction], removed: Iterable[Conjunction]) -> Delta:
        """As `update`, for conjunctions of many routing queries at once, some of them perhaps several times. None of
        them has values in sets."""
        return self._update(target, list(added), list(removed), (), ())

    def _update(
        self,
        target: str,
        more: Sequence[Conjunction],
        less: Sequence[Conjunction],
        values: Iterable[ValueRow],
        lost: Iterable[ValueRow],
    ) -> Delta:
        before = self._targets.get(target, {})
        counts = _counted(before, more, less)
        changes = self._value_changes(target, counts, values, lost)
        # PERF: bench.onyx_routing, tables: what a broker itself wants is known to be queries. A table without children
        # routes nothing, and needs no index of them.
        is_lazy = target == LOCAL and not self._has_routed
        try:
            self._index_new([each for each, count in counts.items() if count and not is_lazy])
        except QueryError as error:
            raise PeerError(
                f"a routing query holds something that is not a query: {error.code}", code="TC404"
            ) from None
        came = [each for each in counts if counts[each] and each not in before]
        went = [each for each in counts if not counts[each] and each in before]
        row = self._targets.setdefault(target, {})
        bit = self._bits.setdefault(target, self._next_bit(target))
        row.update((each, count) for each, count in counts.items() if count)
        for each in came:
            self._wanting.setdefault(each, {})[target] = None
        fresh = [each for each in came if len(self._wanting[each]) == 1]
        net = [(form, *self._change_values(form, bit, *change)) for form, change in changes.items()]
        if changes:
            more_bytes = sum(sum(map(len, gained)) - sum(map(len, lost)) for gained, lost in changes.values())
            self._value_counts[target] = self._value_counts.get(target, 0) + more_bytes // HASH_BYTES
        gone: list[Conjunction] = []
        for each in went:
            del row[each]
            del self._wanting[each][target]
            if not self._wanting[each]:
                del self._wanting[each]
                self._sets.pop(each, None)
                gone.append(each)
        self._set_bits(gone)
        self._index_drop(gone)
        if not row:
            del self._targets[target], self._bits[target]
            self._value_counts.pop(target, None)
        if came or went:
            self._set_bits([each for each in (*came, *went) if each in self._wanting])
            self._signatures.clear()
            self._names.clear()
        return self._summary.update(fresh, gone, net) if self._summary is not None else Delta()

    def _value_changes(
        self, target: str, counts: dict[Conjunction, int], more: Iterable[ValueRow], less: Iterable[ValueRow]
    ) -> dict[Conjunction, tuple[Sequence[bytes], Sequence[bytes]]]:
        """By set form the values that come and go; raises PeerError if they are there already, or were not there."""
        before, bit = self._targets.get(target, {}), self._next_bit(target)
        none = {form: (b"",) * len(holes_of(form)) for form in counts if has_hole(form)}
        changes: dict[Conjunction, tuple[Sequence[bytes], Sequence[bytes]]] = {
            form: (none[form], self._values_of(form, target) if form in before and not counts[form] else none[form])
            for form in none
        }
        for is_more, rows in ((True, more), (False, less)):
            for form, values in rows:
                known = counts.get(form, before.get(form, 0))
                sets = self._sets.get(form) if form in before else None
                having = sum(one.having(bit, row) for one, row in zip(sets or (), values, strict=False))
                if not known or having != (0 if is_more else sum(map(len, values)) // HASH_BYTES):
                    raise PeerError("values of a routing query do not fit those that are there", code="TC404")
                came, went = changes.get(form, ((b"",) * len(values), (b"",) * len(values)))
                changes[form] = (values, went) if is_more else (came, values)
        return changes

    def _change_values(
        self, form: Conjunction, bit: int, more: Sequence[bytes], less: Sequence[bytes]
    ) -> tuple[list[bytes], list[bytes]]:
        """Give values of a set form to a target, and take some from it; answers which nobody had, or has any more."""
        sets = self._sets.get(form)
        if sets is None:
            sets = self._sets[form] = [_native.ValueSet() for _ in more]
        came = [values.add(bit, row) for values, row in zip(sets, more, strict=True)]
        return came, [values.remove(bit, row) for values, row in zip(sets, less, strict=True)]

    def replace(self, target: str, query: RoutingQuery) -> Delta:
        """Give a target another routing query: an announcement in full."""
        before = self._targets.get(target, {})
        removed = [each for each, count in before.items() for _ in range(count)]
        if self._next_bit(target) > _ALL_BITS:
            return self.update_many(target, map(without_holes, query.conjunctions), removed)
        more: list[ValueRow] = []
        less: list[ValueRow] = []
        for form, values in query.sets:
            if form not in before:
                more.append((form, values))
                continue
            known = self._values_of(form, target)
            more.append((form, tuple(map(_native.value_difference, values, known))))
            less.append((form, tuple(map(_native.value_difference, known, values))))
        return self._update(target, query.conjunctions, removed, more, less)

    def drop(self, target: str) -> Delta:
        """Remove a target and all that it wants."""
        return self.replace(target, RoutingQuery())

    def refine(self) -> Delta:
        """What removals have left for later: see Summary."""
        return self._summary.refine() if self._summary is not None else Delta()

    def learn(self, documents: Sequence[AnyDocument]) -> None:
        """Take note of documents that are not routed here, to judge generalisations by."""
        self.sample.learn(documents)

    def learn_parcels(self, codec: FormCodec, parcels: Parcels) -> None:
        """The same for documents as they came on a link."""
        self.sample.learn(_Forms(codec, parcels))

    def route(self, documents: Sequence[AnyDocument], enough: Collection[str] = ()) -> list[tuple[str, ...]]:
        """For each document the targets that want it.

        `enough`: once all of these want it, or nothing, nothing more is looked for, and the others may want it as well.
        """
        self.sample.learn(documents)
        self._index_own()
        everything = tuple(sorted(self._wanting.get(TRUE, ())))
        if len(everything) == len(self._targets):
            return [everything] * len(documents)
        if enough and not any(target in self._targets for target in enough):
            return [tuple(target for target in self.targets if target not in enough)] * len(documents)
        if self._has_bits():
            return self._route_bits(documents, enough)
        found: list[tuple[str, ...]] = []
        while len(found) < len(documents):
            found += self._route(documents[len(found) :], everything)
        return found

    def route_forms(
        self, codec: FormCodec, bodies: Sequence[bytes], enough: Collection[str], needed: Collection[str]
    ) -> tuple[list[tuple[str, ...]], Sequence[Document | None]] | None:
        """As `route`, for documents as they came on a link: they are read for it, and no further, but for those that a
        target in `needed` gets, which are answered as Documents. None: not with so many targets, read them before.

        Raises DocumentError for what is broken on the way; text that cannot be read is for everybody.
        """
        if not self._has_bits():
            return None
        self._index_own()
        self.sample.learn([Later(codec, body) for body in bodies])
        everyone = self.targets
        known, stop = self._known_bits(enough)
        kept = sum(bit for target, bit in self._bits.items() if target in needed)
        if not stop:
            return [tuple(target for target in everyone if target not in enough)] * len(bodies), [None] * len(bodies)
        if known & stop == stop:
            return [everyone] * len(bodies), [None] * len(bodies)
        masks, documents, unread = self._index.route_forms(codec, bodies, Question(self._masks, stop, known, kept))
        found = [everyone if mask & stop == stop else self._of_bits(mask) for mask in masks]
        for place, error in unread:
            if not codec.is_text:
                raise error
            found[place] = everyone
            self.unread += 1
        return found, documents

    def route_parcels(
        self, codec: FormCodec, parcels: Parcels, enough: Collection[str], kept: str, own: Index | None
    ) -> Routes | None:
        """The same for a message: what the target `kept` gets, or may get, is rendered with the index `own`, and need
        not be read a second time."""
        if not self._has_bits():
            return None
        self._index_own()
        self.learn_parcels(codec, parcels)
        known, stop = self._known_bits(enough)
        if not stop:
            return Routes.same([target for target in self.targets if target not in enough], len(parcels))
        if known & stop == stop:
            return Routes.same(self.targets, len(parcels))
        question = Question(self._masks, stop, known, self._bits.get(kept, 0))
        masks, unread = self._index.route_parcels(codec, parcels.native, question, own)
        for place, error in unread:
            if not codec.is_text:
                raise error
            masks[place] = _ALL_BITS
            self.unread += 1
        return Routes(masks, self._bits)

    def _known_bits(self, enough: Collection[str]) -> tuple[int, int]:
        """Of the targets that want everything, and of those in `enough`."""
        everything = self._wanting.get(TRUE, {})
        known = stop = 0
        for target, bit in self._bits.items():
            known |= bit if target in everything else 0
            stop |= bit if target in enough else 0
        return known, stop

    def publish(
        self, index: Index, codec: FormCodec, texts: Sequence[bytes], enough: Collection[str]
    ) -> tuple[_native.DeliveryBatch, _native.PublishedForms, Routes] | None:
        """Documents that are published here, each of them read once: the deliveries of `index`, and by document its
        form for `codec` and its targets; neither means anything for one that is rejected. None: not with so many
        targets. The caller sees to `learn`."""
        if not self._has_bits():
            return None
        self._index_own()
        known, stop = self._known_bits(enough)
        batch, forms, masks = index.render_published(texts, self._index, Links(codec, self._masks, stop, known))
        if not stop:
            return batch, forms, Routes.same([target for target in self.targets if target not in enough], len(forms))
        return batch, forms, Routes(masks, self._bits)

    # --- by bits ------------------------------------------------------------------------------------------------------

    def _has_bits(self) -> bool:
        """Few enough targets. One that had a bit beyond keeps it."""
        return all(bit <= _ALL_BITS for bit in self._bits.values())

    def _next_bit(self, target: str) -> int:
        """The bit of a target, which it keeps as long as it is one, or would get."""
        bit = self._bits.get(target)
        if bit is None:
            used = 0
            for other in self._bits.values():
                used |= other
            bit = ~used & (used + 1)
        return bit

    def _set_bits(self, conjunctions: Iterable[Conjunction]) -> None:
        """Tell the index for whom these are. Beyond 63 targets bits are left alone: see `route`."""
        for each in conjunctions:
            number = self._numbers.get(each)
            if number is not None:
                mask = 0
                for target in self._wanting.get(each, ()):
                    mask |= self._bits[target]
                sets = self._sets.get(each)
                if sets and mask:
                    places = [(*place, values) for place, values in zip(places_of(each), sets, strict=True)]
                    self._masks.set_values(int(number), mask & _ALL_BITS, places, path_of(each))
                else:
                    self._masks.set(int(number), mask & _ALL_BITS)

    def _route_bits(self, documents: Sequence[AnyDocument], enough: Collection[str]) -> list[tuple[str, ...]]:
        known = stop = 0
        for target in self._wanting.get(TRUE, ()):
            known |= self._bits[target]
        for target in enough:
            stop |= self._bits.get(target, 0)
        everyone = self.targets
        if stop and known & stop == stop:
            return [everyone] * len(documents)
        masks, unread = self._index.route(documents, Question(self._masks, stop, known))
        # Where all of `enough` were found, the others were not looked for.
        found = [everyone if stop and mask & stop == stop else self._of_bits(mask) for mask in masks]
        for place, _ in unread:
            found[place] = everyone
        self.unread += len(unread)
        return found

    def _of_bits(self, mask: int) -> tuple[str, ...]:
        known = self._names.get(mask)
        if known is None:
            if len(self._names) >= self.settings.signatures_max:
                self._names.clear()
            known = self._names[mask] = tuple(target for target in self.targets if self._bits[target] & mask)
        return known

    # --- by numbers, where there are more targets than bits -----------------------------------------------------------

    def _route(self, documents: Sequence[AnyDocument], everything: tuple[str, ...]) -> list[tuple[str, ...]]:
        if len(documents) <= _FEW:
            return [self._route_one(document, everything) for document in documents]
        part = self._index.match_part(documents, report=True)
        rows: list[list[str]] = part.matches.to_pylist()
        for place, number, _ in part.undecided:  # too much work to tell: they may want it
            rows[place].append(number)
        found = [self._wanted_by(tuple(row), everything) for row in rows]
        for place, _ in part.rejected:
            found[place] = self.targets
            self.unread += 1
        return found

    def _route_one(self, document: AnyDocument, everything: tuple[str, ...]) -> tuple[str, ...]:
        try:
            numbers, undecided = self._index.match_one(document)
        except DocumentError:
            self.unread += 1
            return self.targets
        return self._wanted_by((*numbers, *(number for _, number, _ in undecided)), everything)

    def _wanted_by(self, signature: tuple[str, ...], everything: tuple[str, ...]) -> tuple[str, ...]:
        known = self._signatures.get(signature)
        if known is None:
            targets = dict.fromkeys(everything)
            for number in signature:
                targets |= self._wanting[self._conjunctions[number]]
            if len(self._signatures) >= self.settings.signatures_max:
                self._signatures.clear()
            known = self._signatures[signature] = tuple(sorted(targets))
        return known

    def _index_new(self, conjunctions: Iterable[Conjunction]) -> None:
        fresh = [each for each in dict.fromkeys(conjunctions) if each not in self._numbers and each != TRUE]
        rows: list[Subscription] = []
        for conjunction in fresh:
            for path in left_out(conjunction):
                text, namespaces = write_query((path,))
                parse(text, namespaces=namespaces)
            rows.append(Subscription(str(self._next + len(rows)), *write_query(conjunction)))
        self._index.add_many(rows)
        self._next += len(rows)
        for row, conjunction in zip(rows, fresh, strict=True):
            self._numbers[conjunction] = row.id
            self._conjunctions[row.id] = conjunction

    def _index_own(self) -> None:
        """From the first document on, what the broker itself wants is in the index as well."""
        if not self._has_routed:
            self._has_routed = True
            own = self._targets.get(LOCAL, {})
            self._index_new(own)
            self._set_bits(own)

    def _index_drop(self, conjunctions: Iterable[Conjunction]) -> None:
        numbers = [self._numbers.pop(each) for each in conjunctions if each in self._numbers]
        self._index.remove_many(numbers)
        for number in numbers:
            del self._conjunctions[number]


class _Forms(Sequence[Later]):
    """Documents in the form of a link: a sample takes few of them, and seldom looks at those."""

    def __init__(self, codec: FormCodec, parcels: Parcels) -> None:
        self._codec = codec
        self._parcels = parcels

    def __len__(self) -> int:
        return len(self._parcels)

    def __getitem__(self, place: Any) -> Any:
        return Later(self._codec, self._parcels.body(place))


def _counted(
    before: dict[Conjunction, int], added: Sequence[Conjunction], removed: Sequence[Conjunction]
) -> dict[Conjunction, int]:
    """The new counts of what changes."""
    counts: dict[Conjunction, int] = {}
    for each in added:
        counts[each] = counts.get(each, before.get(each, 0)) + 1
    for each in removed:
        counts[each] = counts.get(each, before.get(each, 0)) - 1
        if counts[each] < 0:
            raise PeerError("a routing query is removed that was not there", code="TC404")
    return counts
