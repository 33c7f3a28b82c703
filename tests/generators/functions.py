"""The functions of predicates, for queries that are drawn: how each is written, and what its oracles read in its place.

A function that an oracle has as well needs a name only. For one that lxml (XPath 1.0) lacks, `lxml` says the same in
other words, with {path} and {literal} in it; Saxon (XPath 3.1) has all that are likely to come. Generators that give
one text to both sides draw from `OF_XPATH_1`. `test_query.py` compares the names with those of the native table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DrawnFunction:
    name: str
    lxml: str = ""

    def text(self, path: str, literal: str) -> str:
        """The call; the literal comes with its quotes."""
        return f"{self.name}({path}, {literal})"

    def for_lxml(self, path: str, literal: str) -> str:
        """The same for lxml."""
        return self.lxml.format(path=path, literal=literal) if self.lxml else self.text(path, literal)


FUNCTIONS = (DrawnFunction("contains"), DrawnFunction("starts-with"))
OF_XPATH_1 = tuple(function.name for function in FUNCTIONS if not function.lxml)
