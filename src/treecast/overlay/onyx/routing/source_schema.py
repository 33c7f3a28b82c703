"""Routing queries and what a source can send (left for later by ONYX, section 4.2.1).

`possible` leaves out the conjunctions that no document of a schema matches. `treecast check --dtd` finds subscriptions
by it that can never get anything, and the experiment onyx-schema says what tables would gain.

    >>> from treecast.workload import Schema
    >>> schema = Schema.from_text("<!ELEMENT a (b*)> <!ELEMENT b (c?)> <!ELEMENT c EMPTY> <!ATTLIST c x CDATA '1'>")
    >>> query = RoutingQuery.of([(("/a", "/b", "/c", "[@x]"),), (("/a", "/c"),), (("//c", "[@y=1]"),)])
    >>> print(possible(query, schema))
    /a/b/c[@x]

Use it only where documents are valid: a document that is not may match what its schema does not allow. Names in a
namespace are taken as possible, since a DTD knows prefixes only.
"""

from __future__ import annotations

from treecast.overlay.onyx.routing.covering import read_test, split
from treecast.overlay.onyx.routing.routing_query import LOCAL, PATTERN, Conjunction, Path, RoutingQuery
from treecast.workload import Schema


def possible(query: RoutingQuery, schema: Schema) -> RoutingQuery:
    """The conjunctions that a document of the schema may match; all of them if a part of the DTD is missing."""
    if schema.missing:
        return query
    return RoutingQuery.of(each for each in query.conjunctions if is_possible(each, schema))


def is_possible(conjunction: Conjunction, schema: Schema) -> bool:
    """Whether each of its paths leads somewhere in the schema."""
    return all(path[0][0] == PATTERN or _ends(path, schema) for path in conjunction)


def _ends(path: Path, schema: Schema) -> bool:
    """Whether the path selects anything in some document of the schema."""
    if any(LOCAL in token for token in path):
        return True
    reached: set[str] | None = None  # None: the document
    for step in split(path):
        below = {schema.root} if reached is None else {child for name in reached for child in schema.children(name)}
        if step.gap:
            below = _closure(below, schema)
        if step.name[0] == "@" or step.name == "text()":
            return bool(reached is None or reached)  # of any element at or below
        wanted = step.name.removeprefix('*[local-name()="').removesuffix('"]')
        reached = {
            name
            for name in below
            if (step.name == "*" or name == wanted) and all(_may_hold(name, test, schema) for test in step.tests)
        }
        if not reached:
            return False
    return True


def _closure(names: set[str], schema: Schema) -> set[str]:
    found, pending = set(names), list(names)
    while pending:
        for child in schema.children(pending.pop()):
            if child not in found:
                found.add(child)
                pending.append(child)
    return found


def _may_hold(name: str, token: str, schema: Schema) -> bool:
    """Whether an element of that name may pass a test: it has to have the attribute that the test speaks of."""
    test = read_test(token)
    if test is None or test.target[0] != "@" or (test.relation[:1].isalpha() and not test.value):
        return True
    return any(attribute.name == test.target[1:] for attribute in schema.elements[name].attributes)
