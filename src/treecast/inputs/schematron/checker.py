"""Documents against Schematron rules: which rules each of them breaks, where, and what the rule says about it.

    checker = Checker(read_rules("invoice.sch"))
    for failure in checker.failures(document):
        print(failure.place.line, failure.assertion.id, failure.message)

One pass over the document finds out which rules it breaks, as for any set of subscriptions; only for those is it asked
where. For documents that are many and mostly valid, `index` is that set: match them, and look closer at those that
match.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from treecast.document import AnyDocument, EntityTexts, Limits
from treecast.errors import QueryError, TreecastError
from treecast.index import Index
from treecast.index.explain import Place, places
from treecast.inputs.schematron.assertions import Assertion, Rules
from treecast.inputs.schematron.markup import Markup, read_markup


@dataclass(frozen=True)
class Failure:
    """An item of a document that breaks a rule."""

    assertion: Assertion
    place: Place
    message: str
    """What the rule says, with the values of this item."""


class Checker:
    """The rules of a file, ready for many documents. Raises QueryError where one of them is no subscription."""

    def __init__(self, rules: Rules, *, limits: Limits | None = None, entities: EntityTexts = None) -> None:
        self.rules = rules
        self.index = Index(limits=limits, entities=entities)
        self.index.add_many(rules.table())
        self._assertions = {each.id: each for each in rules}
        self._values: dict[str, Index | None] = {}  # the values of messages, of as many assertions as were broken
        self._limits = limits
        self._entities = entities

    def failures(self, document: AnyDocument) -> list[Failure]:
        """Everything that is wrong with the document, rule by rule, each in document order.

        Raises DocumentError; a rule that takes too much work is an UndecidedWarning, as for `Index.match`.
        """
        return self.failures_of(document, self.index.match(document))

    def failures_of(self, document: AnyDocument, ids: Iterable[str]) -> list[Failure]:
        """Where the document breaks the rules with these ids, which it is known to match."""
        found: list[Failure] = []
        for id in ids:
            assertion = self._assertions[id]
            items = places(
                document,
                assertion.query,
                namespaces=self.rules.namespaces,
                limits=self._limits,
                entities=self._entities,
            )
            messages = self._messages(document, assertion, len(items))
            found += [Failure(assertion, place, text) for place, text in zip(items, messages, strict=True)]
        return found

    def _messages(self, document: AnyDocument, assertion: Assertion, count: int) -> list[str]:
        """For each item; with the expressions themselves where their values are not to be had."""
        plain = [assertion.plain_message] * count
        if assertion.id not in self._values:
            self._values[assertion.id] = self._value_index(assertion)
        index = self._values[assertion.id]
        if index is None or not count:
            return plain
        try:
            delivered = index.render(document)
            rows = list(read_markup(b"<r>%s</r>" % delivered[0].payload).elements()) if delivered else []
        except TreecastError:  # a payload over a limit
            return plain
        return [_fill(assertion, row) for row in rows[:count]] if len(rows) >= count else plain

    def _value_index(self, assertion: Assertion) -> Index | None:
        """One transformation: the values of a message, for each item. None without any, or if it is refused."""
        if not assertion.values_query:
            return None
        index = Index(namespaces=self.rules.namespaces, limits=self._limits, entities=self._entities)
        try:
            index.add("values", assertion.values_query)
        except QueryError:
            return None
        return index


def _fill(assertion: Assertion, row: Markup) -> str:
    values = iter(["".join(part for part in each.content if isinstance(part, str)) for each in row.elements()])
    return "".join(part if isinstance(part, str) else next(values) for part in assertion.message)
