"""What is wrong, or worth a look, in a set of subscriptions: the work behind `treecast check`.

| kind | what it means |
|---|---|
| refused | `Index.add` would not take it |
| same | it says the same as an earlier one |
| covered | an earlier or later one matches every document that it matches |
| impossible | no document, or no document of the schema, can match it |
| never | one of its tests is never true, whatever a document says |
| name | it asks for a name that the schema or the sample documents do not have |
| unmatched | none of the sample documents matches it |

Only "refused" is a mistake. What is reported is certain; what is not reported may still be covered
(docs/guide/covering.md) or impossible (treecast.query.impossible). To keep it fast, only queries that match a small
document made from the covered one are compared, and only a few of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from treecast.errors import TreecastError
from treecast.index import Index
from treecast.index.findings import Finding, Progress, matching_query
from treecast.names import nearest
from treecast.query import Query, Transformation, parse
from treecast.query.names import QueryName, names_of
from treecast.query.witness import witness

if TYPE_CHECKING:
    import pyarrow as pa

    from treecast.document import Document, Name
    from treecast.model import Subscription
    from treecast.workload import Schema

COMPARED_MAX = 8
"""Queries that are compared with one that they may cover."""


def refusals(index: Index, rows: pa.Table) -> list[Finding]:
    """Add the rows to the index; a finding for each that is refused."""
    report = index.add_many(rows, on_refused="report")
    return [Finding(str(row["id"]), "refused", row["message"]) for row in report.to_pylist()]


def redundancies(index: Index, progress: Progress = lambda done, total: None) -> Iterator[Finding]:
    """The subscriptions that say the same as an earlier one, and those that another one covers."""
    first: dict[tuple[Query | Transformation, bool, str], str] = {}
    total = len(index)
    for done, id in enumerate(index):
        progress(done, total)
        subscription = index[id]
        query = parse(subscription.query, namespaces=subscription.namespaces)
        key = (query, subscription.ordered, subscription.deliver)
        earlier = first.setdefault(key, id)
        if earlier != id:
            yield Finding(id, "same", f"says the same as {earlier!r}", earlier)
            continue
        other = _covering(index, subscription, query)
        if other is not None:
            message = f"is covered by {other!r}: that one matches every document that this one matches"
            yield Finding(id, "covered", message, other)


def _covering(index: Index, subscription: Subscription, query: Query | Transformation) -> str | None:
    """Another subscription that surely matches whatever this one does, but is not the same."""
    example = witness(query.matching.tree)
    if example is None:
        return None
    try:
        ids = index.match_one(example)[0]
    except TreecastError:  # a query may be larger than documents may be
        return None
    if subscription.id not in ids:
        return None
    others = (index[id] for id in ids if id != subscription.id)
    for other in islice((each for each in others if not each.ordered), COMPARED_MAX):
        covering = parse(other.query, namespaces=other.namespaces).matching
        if covering != query.matching and covering.covers(query):
            return other.id
    return None


@dataclass
class KnownNames:
    """The names that documents have."""

    of_what: str
    """Such as "sample document"."""
    elements: set[Name] = field(default_factory=set)
    attributes: set[Name] = field(default_factory=set)
    has_namespaces: bool = True
    """Without, the namespaces of names are unknown and empty."""

    @classmethod
    def of_schema(cls, schema: Schema) -> KnownNames:
        """A DTD has names with prefixes, which may be bound to anything."""
        elements = {*schema.elements, *(child for name in schema.elements for child in schema.children(name))}
        attributes = {attribute.name for element in schema.elements.values() for attribute in element.attributes}
        known = cls(f"document of {schema.name}", has_namespaces=False)
        known.elements = {("", name.rpartition(":")[2]) for name in elements}
        known.attributes = {("", name.rpartition(":")[2]) for name in attributes}
        return known

    def add(self, document: Document) -> None:
        """The names of a document."""
        self.elements.update(document.names)
        self.attributes.update(name for _, name, _ in document.attributes)

    def lacks(self, name: QueryName) -> str:
        """What to say of a name that no document has; empty where one has it."""
        names = self.elements if name.kind == "element" else self.attributes
        uris = sorted(uri for uri, local in names if local == name.local)
        if uris and (name.uri is None or not self.has_namespaces or name.uri in uris):
            return ""
        article = "an" if name.kind[0] in "aeiou" else "a"
        where = f" in {name.uri or 'no namespace'}" if uris else ""
        text = f"no {self.of_what} has {article} {name.kind} {name.local!r}{where}"
        if uris:
            return f"{text}; there is one in {uris[0] or 'no namespace'}"
        near = nearest(name.local, sorted({local for _, local in names}))
        return text + (f"; did you mean {near!r}?" if near else "")


def missing_names(index: Index, known: KnownNames) -> Iterator[Finding]:
    """The names that subscriptions ask for and no document has."""
    answers: dict[QueryName, str] = {}
    for id in index:
        for name in sorted(names_of(matching_query(index, id).tree), key=lambda name: (name.local, name)):
            if name not in answers:
                answers[name] = known.lacks(name)
            if answers[name]:
                yield Finding(id, "name", answers[name])


def impossible(index: Index, schema: Schema) -> Iterator[Finding]:
    """The subscriptions that no document of the schema matches."""
    from treecast.overlay.onyx.routing import map_subscription
    from treecast.overlay.onyx.routing.source_schema import possible

    for id in index:
        routing = map_subscription(index[id])
        if routing.conjunctions and not possible(routing, schema).conjunctions:
            yield Finding(id, "impossible", f"no document of {schema.name} matches it")


def unmatched(index: Index, matched: set[str], documents: int) -> Iterator[Finding]:
    """The subscriptions that none of the sample documents matches."""
    for id in index:
        if id not in matched:
            yield Finding(id, "unmatched", f"no sample document matches it ({documents:,} tried)")
