"""What a subscription needs of a document: the elements that it binds, whole. The rest may be removed early.

Theory of operation. `keep P[C]` leaves two kinds of elements of a document. Those that P selects and for which C holds
stay whole. Those around them stay *bare*: with their names and attributes, without their other content.

Let a query bind P in its `for`, with a `where` that implies C, and use nothing but what it binds. Then it gives the
same result on what is left as on the document, if

1. P selects the same elements again: the predicates of the steps above the last read names and attributes only
   (`own`), and no step counts positions, since siblings may be removed. Where they read more, the element that the
   condition is about is kept whole, or the one around those that are counted, and C says what has to be in it;
2. of the elements that it binds, those that pass `where` are whole, so that `where`, `order by` and `return` see what
   they saw: no path of theirs is absolute;
3. no other element passes that did not pass before. A bare one might: if one binding lies inside another, the outer
   one may be left bare. So either the conditions are *monotone*, or nothing that is kept may lie inside a binding: all
   of it is bound at that depth or above. (`Link` checks the latter, because it knows all that is kept.)

The same holds for what a path query selects where elements are delivered, for the elements that a list of steps starts
from, and for a second `keep` after the first.

Source: ONYX, section 4.2.2, conditions 1 to 3 of early projection. We differ: the paper rewrites documents with a FLWR
query; `keep` leaves the elements around the bindings as they are, so that a query is its own remainder. Several `for`
paths are a union.

    >>> import treecast
    >>> needs, = [needs_of_shape(treecast.parse("for $n in $msg/a/b where $n/@c = 1 return $n/d").tree)]
    >>> needs[0].depth, len(needs[0].alternatives), needs[0].is_monotone
    (2, 1, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from treecast.links.reading import (
    conjuncts,
    is_monotone,
    is_monotone_path,
    is_own,
    looks_outside,
    paths_in,
    unbind,
)
from treecast.query.shapes import (
    Attribute,
    Choice,
    Comment,
    Computed,
    Concat,
    Count,
    Element,
    Enclosed,
    Flwr,
    For,
    Instruction,
    Items,
    NameOf,
    Sequence,
    Shape,
    StringOf,
    Text,
    Value,
    Where,
)
from treecast.query.tree import And, Condition, Exists, Or, Path, Step, is_positional


class UnsharedError(Exception):
    """Nothing can be done early for this subscription; the reason is a phrase that follows its id."""


@dataclass(frozen=True, slots=True)
class Need:
    """Elements that have to stay whole: what `path` selects, where all conditions of one of the alternatives hold."""

    path: Path
    """Without predicates at its last step."""
    alternatives: tuple[frozenset[Condition], ...]
    is_monotone: bool
    """Whether a bare element cannot be taken for one of them."""

    def to_path(self, alternatives: Iterable[frozenset[Condition]] | None = None) -> Path:
        """The path with its alternatives, or these, as one condition; an empty one is always true."""
        choices = list(self.alternatives if alternatives is None else alternatives)
        if frozenset() in choices:
            return self.path
        *above, last = self.path.steps
        operands = sorted((_conjunction(alternative) for alternative in choices), key=repr)
        condition = operands[0] if len(operands) == 1 else Or(tuple(operands))
        return replace(self.path, steps=(*above, replace(last, predicates=(condition,))))

    @property
    def depth(self) -> int | None:
        """Of all that the path selects, the root being 1; None where it may differ."""
        depth = 0
        for step in self.path.steps:
            if step.gap or step.axis not in ("child", "self"):
                return None
            depth += step.axis == "child"
        return depth


def _conjunction(conditions: frozenset[Condition]) -> Condition:
    operands = sorted(conditions, key=repr)
    return operands[0] if len(operands) == 1 else And(tuple(operands))


def find_mixed(needs: Iterable[Need]) -> Need | None:
    """A need of which elements may be left bare and then be taken for whole ones, if they are kept together."""
    depths = {(need.depth, need.is_monotone): need for need in needs}
    deepest = max((depth for depth, _ in depths if depth is not None), default=0)
    varying = any(depth is None for depth, _ in depths)
    for (depth, steady), need in depths.items():
        if not steady and (varying or depth != deepest):
            return need
    return None


def needs_of_paths(
    paths: Iterable[Path], conditions: tuple[Condition, ...] = (), steady: bool = True, whole: bool = False
) -> tuple[Need, ...]:
    """Of what the paths select where the conditions hold, too; `steady` says whether what else decides is monotone.

    With `whole`, needing the root element, that is everything, is no reason to refuse.
    """
    return tuple(_need(path, conditions, steady, whole) for path in paths)


def _need(path: Path, conditions: tuple[Condition, ...], steady: bool, whole: bool) -> Need:
    steps, lift_reason = _lift(_owners(_with(path.steps, conditions)))
    *above, last = steps
    if looks_outside(tuple(step.predicates for step in steps)):
        raise UnsharedError("has a condition that looks outside of what it binds")
    required = frozenset(part for predicate in last.predicates for part in conjuncts(predicate))
    steady = steady and all(is_monotone(condition) for condition in required)
    bare = replace(path, steps=(*above, replace(last, predicates=())))
    need = Need(bare, tuple(_alternatives(required)), steady)
    anything = len(steps) == 1 and last.gap and last.uri is None and last.local is None and not required
    if not whole and (need.depth == 1 or anything):
        raise UnsharedError(lift_reason or "binds the root element, which is the whole document")
    return need


def _lift(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], str]:
    """The path of what has to stay whole for the path to select the same again, and why it is another one.

    A condition that reads content needs the element whole that it is about; a position, the element that contains all
    that are counted. What follows becomes a condition.
    """
    for place, step in enumerate(steps):
        if any(is_positional(predicate) for predicate in step.predicates):
            if place == 0:
                raise UnsharedError("counts positions in the whole document, which a projection would change")
            return _cut(steps, place), "counts positions below the root element, which a projection would change"
        if place + 1 < len(steps) and not all(is_own(predicate) for predicate in step.predicates):
            return _cut(steps, place + 1), "has a condition on the root element that reads more than its attributes"
    return steps, ""


def _cut(steps: tuple[Step, ...], place: int) -> tuple[Step, ...]:
    return _with(steps[:place], (Exists((Path(False, steps[place:]),)),))


def _with(steps: tuple[Step, ...], conditions: tuple[Condition, ...]) -> tuple[Step, ...]:
    *above, last = steps
    return (*above, replace(last, predicates=(*last.predicates, *conditions)))


def _owners(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The path of the elements whose attributes or texts are selected."""
    *above, last = steps
    if last.kind == "element":
        return steps
    if last.gap and above:
        above.append(Step("descendant-or-self", False, "element", None, None))
    elif last.gap:
        above.append(Step("child", True, "element", None, None))
    return _with(tuple(above), (Exists((Path(False, (replace(last, gap=False),)),)),))


def _alternatives(required: frozenset[Condition]) -> Iterator[frozenset[Condition]]:
    match tuple(required):
        case (Or(operands),):
            for operand in operands:
                yield from _alternatives(frozenset(conjuncts(operand)))
        case _:
            yield required


def needs_of_shape(shape: Shape) -> tuple[Need, ...]:
    """Of a FLWR query: what its outermost `for`s bind. Raises UnsharedError where it uses more than that."""
    needs = tuple(_collect(shape))
    if not needs:
        raise UnsharedError("has no for clause")
    return needs


def _collect(shape: Shape) -> Iterator[Need]:
    match shape:
        case Flwr(clauses) if any(isinstance(clause, For) for clause in clauses):
            yield from _needs_of_bindings(shape)
        case Flwr(clauses, body):
            _stay(clauses)
            yield from _collect(body)
        case Choice(condition, then, otherwise):
            _stay(condition)
            yield from _collect(then)
            yield from _collect(otherwise)
        case Items() | Count() | NameOf() | Computed():
            _stay(shape)
        case StringOf(argument):
            yield from _collect(argument)
        case Element(attributes=attributes, content=content):
            yield from _collect_all((*attributes, *content))
        case Sequence(parts) | Enclosed(parts) | Concat(parts) | Attribute(parts=parts):
            yield from _collect_all(parts)
        case Text() | Value() | Comment() | Instruction():
            pass


def _collect_all(shapes: tuple[Shape, ...]) -> Iterator[Need]:
    for shape in shapes:
        yield from _collect(shape)


def _stay(thing: object) -> None:
    if looks_outside(thing):
        raise UnsharedError("uses more than what its for clause binds")


def _needs_of_bindings(flwr: Flwr) -> Iterator[Need]:
    """What the clauses bind at the document; variables that range over what others bind need nothing more."""
    _stay(flwr.body)
    fors = [clause for clause in flwr.clauses if isinstance(clause, For)]
    outer = [each for each in fors if each.variable is None or any(path.absolute for path in each.paths)]
    inner = [each for each in fors if each not in outer]
    _stay(tuple(clause for clause in flwr.clauses if clause not in outer))
    where = [part for clause in flwr.clauses if isinstance(clause, Where) for part in conjuncts(clause.condition)]
    steady = all(is_monotone(condition) for condition in where)
    steady = steady and all(is_monotone_path(path) for each in inner for path in each.paths)
    for each in outer:
        if each.variable is None or not all(path.absolute and path.steps for path in each.paths):
            raise UnsharedError("binds the document itself")
        if any(inside.variable is not None for path in each.paths for inside in paths_in(path.steps)):
            raise UnsharedError("has a for clause that depends on another one")
        conditions = (unbind(condition, each.variable) for condition in where)
        yield from needs_of_paths(each.paths, tuple(part for part in conditions if part is not None), steady)
