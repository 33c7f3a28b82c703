"""What must hold of a control plane, decided from what brokers adopted and clients were told.

- There is one view for an epoch: whoever adopts one of that epoch, adopts that one. Its trees span its brokers.
- A broker's epochs only grow, whatever it forgets in a crash.
- If a registry was established in a term, no broker ever adopts a view of a lower term which that registry did not
  know: two registries are never both followed. Only the first view of a term in which nobody was established may come
  late, to a broker that has promised nothing higher: it has the brokers of the view before it, and is the last.
- Ids are given once. A source that was registered, and not removed, is in the catalog, with the root that its client
  was told, or a later one.
- In the end one registry is in charge, all brokers that are up have its view and its catalog, the view has exactly
  these brokers, and the other registry has a copy of everything.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from treecast.overlay.onyx.registry import Registry, RegistrySettings
from treecast.overlay.onyx.registry.rows import LOCAL
from treecast.overlay.onyx.view import View, first_epoch, problem_of, term_of
from treecast.sim.onyx.member import Member

_ENCODER = msgspec.msgpack.Encoder(order="sorted")


class ControlChecks:
    """Collects what happens. Each check returns what is wrong, or nothing."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._views: dict[int, tuple[bytes, str]] = {}
        self._epochs: dict[str, int] = {}
        self._bases: dict[int, int] = {}
        self._ids: dict[int, tuple[str, str]] = {}
        self.sources: dict[str, bool | None] = {}
        """By name: registered, removed, or None if a request has no answer."""
        self.adoptions = 0

    @property
    def views(self) -> int:
        return len(self._views)

    @property
    def terms(self) -> int:
        return len(self._bases)

    def adopt(self, broker: str, view: View) -> str | None:
        """A broker has adopted a view, durably."""
        self.adoptions += 1
        view = msgspec.structs.replace(view, sources={})
        view_bytes = _ENCODER.encode(view)
        is_new = view.epoch not in self._views
        known_bytes, known_broker = self._views.setdefault(view.epoch, (view_bytes, broker))
        if known_bytes != view_bytes:
            return f"two views of epoch {view.epoch}: {known_broker} and {broker} adopted them"
        if view.epoch <= self._epochs.get(broker, -1):
            return f"{broker} had epoch {self._epochs[broker]}, and now adopts {view.epoch}"
        self._epochs[broker] = view.epoch
        problem = (problem_of(view) or self._find_crowding(view)) if is_new else None
        return problem or self._find_split(view.epoch, broker)

    def _find_crowding(self, view: View) -> str | None:
        for root in view.trees:
            for broker in view.brokers:
                if len(view.children(root, broker)) > self._settings.fan_out_max:
                    return f"{broker} has too many children in the tree of {root}"
        return None

    def _find_split(self, epoch: int, broker: str) -> str | None:
        of = term_of(epoch)
        if of not in self._bases and epoch == first_epoch(of) + 1:
            return None  # nothing followed from it: see `pair.py`, on being established
        for term, base in self._bases.items():
            if base < epoch and of < term:
                return f"{broker} adopted view {epoch}, which the registry of term {term} did not know"
        return None

    def look_at(self, registries: Mapping[str, Registry]) -> str | None:
        """Note who is in charge."""
        for registry in registries.values():
            pair = registry.pair
            if pair.is_primary and pair.row.is_established and pair.base_epoch:
                if self._bases.setdefault(pair.row.term, pair.base_epoch) != pair.base_epoch:
                    return f"term {pair.row.term} was won twice"
                for epoch, (_, broker) in self._views.items():
                    if problem := self._find_split(epoch, broker):
                        return problem
        return None

    def give(self, number: int, thing: str, name: str) -> str | None:
        """A client was told the id of something."""
        owner = self._ids.setdefault(number, (thing, name))
        return None if owner == (thing, name) else f"the id {number} was given to {owner} and to {(thing, name)}"

    # --- in the end ---------------------------------------------------------------------------------------------------

    def differences(self, members: Mapping[str, Member], registries: Mapping[str, Registry]) -> list[str]:
        """What is not yet as it should be in the end."""
        active = [registry for registry in registries.values() if registry.pair.is_active]
        if len(active) != 1:
            return [f"{len(active)} registries are in charge"]
        registry = active[0]
        view, version = registry.view, registry.catalog.version
        wrong = []
        if view.brokers.keys() != members.keys():
            wrong.append(f"the view has {sorted(view.brokers)}, and these are up: {sorted(members)}")
        for name, member in members.items():
            membership = member.membership
            if membership.epoch != view.epoch:
                wrong.append(f"{name} has epoch {membership.epoch}, and the registry {view.epoch}")
            if membership.catalog_version != version:
                wrong.append(f"{name} has version {membership.catalog_version} of the catalog, not {version}")
        if len(registries) == 2 and not (registry.pair.row.is_paired and registry.pair.is_settled()):
            wrong.append("the other registry has no copy")
        return wrong

    def final(
        self,
        members: Mapping[str, Member],
        registries: Mapping[str, Registry],
        tables: Mapping[str, dict[str, dict[int | str, bytes]]],
    ) -> list[str]:
        """What is wrong in the end, when nothing is missing any more. `tables` are the stores of the registries."""
        registry = next(registry for registry in registries.values() if registry.pair.is_active)
        wrong = []
        catalog = {name: row.entry for name, row in registry.catalog.live().items()}
        for name, member in members.items():
            if member.membership.catalog != catalog:
                wrong.append(f"the catalog of {name} differs from that of the registry")
        for source, is_there in self.sources.items():
            if is_there is not None and is_there != (source in catalog):
                was = "registered" if is_there else "removed"
                wrong.append(f"the source {source} was {was}, and the catalog differs")
        copies = [{name: rows for name, rows in of.items() if rows and name != LOCAL} for of in tables.values()]
        if any(copy != copies[0] for copy in copies):
            wrong.append("the stores of the registries differ")
        return wrong
