"""The functions of predicates, as the native table has them (`native/query/functions.hpp`): contains() and its like.

Covering, links and tests ask here instead of knowing names. Python has nothing else of a function but the class of
its conditions in the syntax tree (`treecast.query.tree`).

    >>> FUNCTIONS["starts-with"].holds("abc", "ab"), FUNCTIONS["starts-with"].holds("abc", "bc")
    (True, False)
    >>> FUNCTIONS["starts-with"].implies("abc", FUNCTIONS["contains"], "b")
    True
"""

from __future__ import annotations

from dataclasses import dataclass

from treecast import _native


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a value and a literal. It holds of every value where the literal is empty."""

    name: str
    before: bool
    """Whether the value may have more before the literal."""
    after: bool
    """Whether the value may have more after the literal."""

    def holds(self, value: str, literal: str) -> bool:
        """Whether it holds of the value."""
        return _native.function_holds(self.name, value, literal)

    def implies(self, literal: str, other: Function, part: str) -> bool:
        """Whether a value of which this holds, with `literal`, is one of which `other` holds with `part`.

        Such a value is the literal with something around it. So `part` has to lie in the literal; and where the other
        wants it at an end of the value, that has to be an end of the literal, and nothing may stand beyond it.
        """
        if not other.before and (self.before or not literal.startswith(part)):
            return False
        if not other.after and (self.after or not literal.endswith(part)):
            return False
        return part in literal


FUNCTIONS = {name: Function(name, before, after) for name, before, after in _native.functions()}
