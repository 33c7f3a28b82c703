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
from treecast.index import Index
from treecast.index.explain import Place, places_with_values
from treecast.inputs.schematron.assertions import Assertion, Rules


@dataclass(frozen=True)
class Failure:
    """An item of a document that breaks a rule."""

    assertion: Assertion
    place: Place
    message: str
    """What the rule says, with the values of this item."""


class Checker:
    """The rules of a file, ready for many documents."""

    def __init__(self, rules: Rules, *, limits: Limits | None = None, entities: EntityTexts = None) -> None:
        self.rules = rules
        self.index = Index(limits=limits, entities=entities)
        self.index.add_many(rules.table())
        self._assertions = {each.id: each for each in rules}
        self._limits = limits
        self._entities = entities

    def failures(self, document: AnyDocument) -> list[Failure]:
        """Everything that is wrong with the document, rule by rule, each in document order.

        Raises DocumentError; a rule that takes too much work is an UndecidedWarning, as for `Index.match`.
        """
        return self.failures_of(document, self.index.match(document))

    def failures_of(self, document: AnyDocument, ids: Iterable[str]) -> list[Failure]:
        """Where the document breaks the rules with these ids, which it is known to match."""
        failures: list[Failure] = []
        for id in ids:
            assertion = self._assertions[id]
            expressions, namespaces = assertion.message_expressions, self.rules.namespaces
            items = places_with_values(document, assertion.query, expressions, namespaces, self._limits, self._entities)
            failures += [Failure(assertion, place, _fill(assertion, texts)) for place, texts in items]
        return failures


def _fill(assertion: Assertion, values: tuple[str, ...]) -> str:
    remaining = iter(values)
    text = "".join(part if isinstance(part, str) else next(remaining) for part in assertion.message)
    return " ".join(text.split())
