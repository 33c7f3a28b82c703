"""The context of a rule -> the path that selects its items, and the condition that an item is one of them.

A context is a pattern as in XSLT 1.0 (section 5.2): alternatives of child and attribute steps, where `a/b` means any
`b` in an `a`. Within a pattern of a Schematron file the first rule whose context has an item takes it, so a later rule
selects what fits its own context and none of the earlier ones:

>>> [first, second] = [read_context(text) for text in ("line[@free]", "order/line")]
>>> format_expression(selection(second, [first]))
'//order/line[not(self::line[@free])]'

Contexts are items that a processor visits: elements, attributes, comments, processing instructions and the root, no
texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from treecast.inputs.schematron.expression import (
    ANYWHERE,
    HERE,
    UP,
    Binary,
    Call,
    Expression,
    Path,
    Step,
    format_expression,
    parse_expression,
)
from treecast.inputs.schematron.inlining import Inlining, InliningError, is_number, uses_position

__all__ = ["Context", "format_expression", "read_context", "selection"]

NO_TEXT = Call("not", (Path(False, (Step("self", "text()"),)),))


@dataclass(frozen=True)
class Context:
    """The alternatives of one context; each is a path of child and attribute steps and `//`."""

    alternatives: tuple[Path, ...]

    def condition(self, of: Path) -> Expression | None:
        """True of an item of the path `of` that is one of these, too; None where none can be."""
        condition: Expression | None = None
        for alternative in self.alternatives:
            if _may_share(alternative, of):
                one = _condition(alternative)
                condition = one if condition is None else Binary("or", condition, one)
        return condition


def read_context(text: str, inlining: Inlining | None = None) -> Context:
    """Raises ExpressionError where it is no XPath, InliningError where it is no pattern."""
    pending, alternatives = [parse_expression(text)], []
    while pending:
        expression = pending.pop()
        if isinstance(expression, Binary) and expression.operator == "|":
            pending += [expression.right, expression.left]
            continue
        if not isinstance(expression, Path) or expression.start is not None:
            raise InliningError("a context is a pattern: names, * and @ with / and // between them, and predicates")
        alternatives.append(_check_pattern((inlining or Inlining({})).path(expression, None)))
    return Context(tuple(alternatives))


def _check_pattern(path: Path) -> Path:
    for step in path.steps:
        if step != ANYWHERE and step.axis not in ("child", "attribute"):
            raise InliningError(f"a context has no {'.' if step == HERE else step.axis + '::'}: it is a pattern")
    if path.steps and path.steps[-1].test == "text()":
        raise InliningError("texts are no context: take the element that they are in")
    if path.steps and path.steps[-1].test == "node()" and path.steps[-1].axis == "child":
        last = path.steps[-1]
        return replace(path, steps=(*path.steps[:-1], replace(last, predicates=(*last.predicates, NO_TEXT))))
    return path


def selection(context: Context, earlier: Sequence[Context], condition: Expression | None = None) -> Expression:
    """The items of the context that are in no earlier one and satisfy the condition."""
    union: Expression | None = None
    for alternative in context.alternatives:
        earlier_conditions = [each for each in (other.condition(alternative) for other in earlier) if each is not None]
        further = tuple(Call("not", (each,)) for each in earlier_conditions) + (
            (condition,) if condition is not None else ()
        )
        path = _absolute(alternative, further)
        union = path if union is None else Binary("|", union, path)
    assert union is not None
    return union


def _absolute(path: Path, further: tuple[Expression, ...]) -> Path:
    steps = path.steps if path.absolute else (ANYWHERE, *path.steps)
    if not path.steps:
        steps = (HERE,)
    return Path(True, (*steps[:-1], replace(steps[-1], predicates=(*steps[-1].predicates, *further))))


# --- is this item one of them? ----------------------------------------------------------------------------------------


def _condition(path: Path) -> Expression:
    """Read from the end: the item itself, then its parent or an ancestor, up to the root where the path is absolute."""
    if not path.steps:
        return Call("not", (Path(False, (UP,)),))
    return _is_step(path, len(path.steps) - 1, "self")


def _is_step(path: Path, place: int, axis: str) -> Path:
    """`self::b[…][parent::a[…]]`: an item on this axis that fits the step, and what is above it the steps before."""
    step = path.steps[place]
    conditions: list[Expression] = []
    before = place - 1
    above = "parent"
    while before >= 0 and path.steps[before] == ANYWHERE:
        above, before = "ancestor", before - 1
    if before >= 0:
        conditions.append(_is_step(path, before, above))
    elif path.absolute and above == "parent":
        conditions.append(Call("not", (Path(False, (Step("parent", "*"),)),)))
    if step.axis == "child" and step.test != "node()" and not any(map(_counts, step.predicates)):
        return Path(False, (Step(axis, step.test, (*step.predicates, *conditions)),))
    # An attribute has no name on the axis self::, and a position counts among siblings: is it one of those of its
    # parent?
    among = Path(False, (UP, step))
    union = Binary("|", Path(False, (HERE,)), among)
    member = Binary("=", Call("count", (union,)), Call("count", (among,)))
    return Path(False, (Step(axis, "node()", (member, *conditions)),))


def _counts(predicate: Expression) -> bool:
    return is_number(predicate) or uses_position(predicate)


def _may_share(one: Path, two: Path) -> bool:
    """Whether an item can be in both: not if they end in items of other kinds, or in other names."""
    if not one.steps or not two.steps:
        return not one.steps and not two.steps
    first, second = one.steps[-1], two.steps[-1]
    if first.axis != second.axis:
        return False
    kinds = [step.test.partition("(")[0] if "(" in step.test else "*" for step in (first, second)]
    if "node" in kinds or kinds[0] != kinds[1]:
        return "node" in kinds
    names = [step.test.rpartition(":")[2] for step in (first, second)]  # two prefixes may mean one namespace
    return any("*" in name or "(" in name for name in names) or names[0] == names[1]
