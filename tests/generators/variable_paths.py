"""Random paths and conditions that start at variables, as the clauses and constructors of a transformation use them.

Comparisons in treecast are those of XPath 1.0, where XQuery raises errors on untyped data or compares otherwise. So
most are drawn such that both read the same text alike: what is called `n` or `num` is a number everywhere. In the rest
the XQuery spells out what XPath 1.0 means: `number()` of each item, the first item of an argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

from generators.conditions import RELATIONS
from generators.constructors import LITERALS
from generators.functions import FUNCTIONS
from generators.transformation_pieces import Cut, Pair, Piece, Pieces, union

LOCALS = ("a", "a", "a", "b", "b", "b", "c", "num", "num")
ATTRIBUTES = ("x", "y", "n")
NUMBERS = ("1", "2", "1.0", "0.5", "10", "0", "-1", "3")
STRINGS = ("1", "2", "x", "xy", "", "1.0", "é", " 1 ", "y", "<")


@dataclass(frozen=True)
class Variable:
    name: str
    kind: str  # element, attribute, text: what it holds; value: a string or number
    single: bool = True  # at most one item
    numeric: bool = False
    delivers: tuple[Pieces, ...] = ()  # conditions under which using it outside of all FLWRs is something bound


@dataclass(frozen=True)
class Path:
    pieces: Pieces
    kind: str
    numeric: bool = False


@dataclass(frozen=True)
class Scope:
    """What may be used here: variables, and prefixes of the subscription and of the constructors around."""

    variables: tuple[Variable, ...]
    prefixes: Mapping[str, str]
    depth: int = 0
    inside: bool = False  # a FLWR is around, so that one more is no binding of its own

    def with_variable(self, variable: Variable) -> Scope:
        return replace(self, variables=(*self.variables, variable))

    def without_variables(self) -> Scope:
        """In a predicate, which sees the step it stands on, and the document."""
        return replace(self, variables=())

    def deeper(self) -> Scope:
        return replace(self, depth=self.depth + 1)

    def holding(self, *kinds: str) -> list[Variable]:
        return [variable for variable in self.variables if variable.kind in kinds]


@dataclass
class PathDrawer:
    """Draws paths and conditions; the same random state draws the same ones."""

    random: Random
    numbers: count[int] = field(default_factory=count, kw_only=True)

    def chance(self, of: float) -> bool:
        return self.random.random() < of

    def cut(self, *pieces: Piece, instead: str = "") -> Cut:
        return Cut(next(self.numbers), pieces, instead)

    # --- paths -------------------------------------------------------------------------------------------------------

    def element_test(self, scope: Scope) -> str:
        form = self.random.random()
        prefixes = [prefix for prefix in scope.prefixes if prefix]
        if form < 0.15:
            return "*"
        if form < 0.19:
            return f"*[local-name()='{self.random.choice(LOCALS)}']"
        if prefixes and form < 0.28:
            return f"{self.random.choice(prefixes)}:{self.random.choice(('*', *LOCALS))}"
        return self.random.choice(LOCALS)

    def attribute_test(self, scope: Scope) -> tuple[str, bool]:
        form = self.random.random()
        prefixes = [prefix for prefix in scope.prefixes if prefix]
        if form < 0.1:
            return "*", False
        local = self.random.choice(ATTRIBUTES)
        if prefixes and form < 0.3:
            return f"{self.random.choice(prefixes)}:{local}", local == "n"
        return local, local == "n"

    def path(
        self,
        scope: Scope,
        *,
        kinds: Sequence[str] = ("element", "element", "element", "attribute", "text"),
        bare: bool = False,
        start: Variable | None = None,
        depth: int = 0,
        stars: float = 0,
    ) -> Path:
        """A path that ends in one of the kinds; `bare`: it may be a variable, perhaps with a predicate, and no more."""
        holding = [] if start or not bare else scope.holding(*kinds)
        if holding and self.chance(0.3):
            variable = self.random.choice(holding)
            condition = self.condition(scope.without_variables(), 2, variable.kind, positions=False)
            filters = variable.kind == "element" and self.chance(0.12)
            predicates = [self.cut("[", *condition, "]")] if filters else []
            return Path([variable.name, *predicates], variable.kind, variable.numeric)
        elements = scope.holding("element")
        if start is None and elements and self.chance(0.8):
            start = self.random.choice(elements)
        if start is not None:
            return self.steps([start.name], scope, kinds, depth, stars)
        # From the document: a path with a slash means the same here, where XQuery would want a context.
        begin = "$msg" if self.chance(0.85) else Pair("", "$msg")
        return self.steps([begin], scope, kinds, depth, stars, fewest=1)

    def relative_path(self, scope: Scope, kinds: Sequence[str], depth: int) -> Path:
        """In a predicate; a slash at its beginning stands for the step, as in ONYX's queries."""
        begin = self.random.choice(("", "", "", "", "", ".//", "./", Pair("//", ".//"), Pair("/", "./")))
        return self.steps([begin], scope, kinds, depth, relative=True)

    def steps(
        self,
        pieces: list[Piece],
        scope: Scope,
        kinds: Sequence[str],
        depth: int,
        stars: float = 0,
        *,
        fewest: int = 0,
        relative: bool = False,
    ) -> Path:
        kind = self.random.choice(kinds)
        from_document = fewest > 0
        fewest = max(fewest, int(kind == "element"))
        count = max(fewest, self.random.choice((0, 1, 1, 1, 1, 2, 3) if depth == 0 else (0, 1, 1, 1, 2)))
        numeric = False
        for place in range(count):
            test = "*" if self.chance(stars) else self.element_test(scope)
            axes = ("", "child::", "descendant::", "descendant-or-self::", "self::")
            axis = self.random.choices(axes, (40, 2, 3, 2, 0 if from_document and not place else 1))[0]
            if place or not relative:
                pieces.append("//" if self.chance(0.8 if from_document and not place else 0.35) else "/")
            pieces += [axis, test, *self.predicates(scope, depth, "element")]
            numeric = test == "num" or test.endswith(":num")
        if kind == "element":
            return Path(pieces, kind, numeric)
        if count or not relative:
            pieces.append("//" if self.chance(0.25) else "/")
        if kind == "attribute":
            test, numeric = self.attribute_test(scope)
            return Path([*pieces, "@", test, *self.predicates(scope, depth, kind)], kind, numeric)
        return Path([*pieces, "text()", *self.predicates(scope, depth, kind)], kind)

    def predicates(self, scope: Scope, depth: int, kind: str) -> Pieces:
        chance = (0.16, 0.12, 0.08)[depth] if depth < 3 else 0.0
        pieces: list[Piece] = []
        while self.chance(chance if kind == "element" else chance / 2):
            condition = self.condition(scope.without_variables(), depth + 1, kind, whole=True)
            pieces.append(self.cut("[", *condition, "]"))
        return pieces

    # --- conditions --------------------------------------------------------------------------------------------------

    def condition(
        self, scope: Scope, depth: int, context: str | None, *, whole: bool = False, positions: bool = True
    ) -> Pieces:
        """`context` is what a predicate stands on; None in where and if, whose paths all start at variables."""
        form = self.random.random()
        if positions and context in ("element", "text") and form < 0.25:
            return [self.position(whole=whole)]
        if form < 0.45 and depth < 3:
            word = self.random.choice((" and ", " or "))
            first, second = (self.condition(scope, depth + 1, context, positions=positions) for _ in range(2))
            first = ["(", *first, ")"] if self.chance(0.5) else first
            second = ["(", *second, ")"] if self.chance(0.5) else second
            return [self.cut(*first, word), *second] if self.chance(0.5) else [*first, self.cut(word, *second)]
        if form < 0.55 and depth < 3:
            return ["not(", *self.condition(scope, depth + 1, context, positions=positions), ")"]
        return self.test(scope, depth, context)

    def valued(self, scope: Scope) -> Pieces:
        """A count compared with a number: of any path whether there are some, of one step how many. Or a string."""
        if self.chance(0.2):
            some = self.random.choice((" > 0", " = 0", " >= 1", " < 1", " != 0", " <= 0.5", ""))
            return ["count(", *self.path(scope).pieces, f"){some}"]
        single_elements = [variable for variable in scope.holding("element") if variable.single]
        start = self.random.choice([*single_elements, *single_elements, Variable("$msg", "element")]).name
        test = "text()" if start != "$msg" and self.chance(0.15) else self.element_test(scope)
        deep = self.chance(0.4) or start == "$msg"
        condition = self.condition(
            scope.without_variables(), 2, "text" if test == "text()" else "element", positions=not deep
        )
        predicate = [self.cut("[", *condition, "]")] if self.chance(0.3) else []
        relation, number = self.random.choice(RELATIONS), self.random.choice(("1.5", "2", "2", "3"))
        step: Pieces = [start, "//" if deep else "/", test, *predicate]
        if self.chance(0.5):
            return self.compared(["count(", *step, ")"], relation, number)
        if start != "$msg" and self.chance(0.3):
            step = [start, "/@", self.random.choice(ATTRIBUTES)] if self.chance(0.7) else [start]
        literal = self.random.choice(("''", *(f"'{text}'" for text in STRINGS)))
        string = ["string(", Pair("", "("), *step, Pair("", ")[1]"), ")"]
        return self.compared(string, self.random.choice(("=", "=", "!=")), literal)

    def test(self, scope: Scope, depth: int, context: str | None) -> Pieces:
        if context is None and self.chance(0.12):
            return self.valued(scope)
        path = self.operand(scope, depth, context)
        form = self.random.random()
        if form < 0.3:
            if self.chance(0.2):
                return union(path.pieces, self.operand(scope, depth, context).pieces)
            return path.pieces
        literal = self.random.choice(LITERALS) if self.chance(0.1) else f"'{self.random.choice(STRINGS)}'"
        if form < 0.45:
            function = self.random.choice(FUNCTIONS).name
            return [f"{function}(", Pair("", "("), *path.pieces, Pair("", ")[1]"), f", {literal})"]
        if form < 0.65:
            return self.compared(path.pieces, self.random.choice(("=", "=", "=", "!=")), literal)
        number, relation = self.random.choice(NUMBERS), self.random.choice(RELATIONS)
        if path.numeric:
            return self.compared(path.pieces, relation, number)
        if self.chance(0.3):
            number = f"'{number}'"
            relation = relation if relation[0] in "<>" else "<"
        pieces = [Pair("", "(("), *path.pieces, Pair("", ") ! number(.))")]
        return self.compared(pieces, relation, Pair(number, f"number({number})"))

    def compared(self, left: Pieces, relation: str, right: Piece) -> Pieces:
        space = self.random.choice((" ", " ", ""))
        if space == "" and isinstance(right, str) and right.startswith("-"):
            space = " "
        if self.chance(0.2):
            return [right, f" {relation} ", *left]
        return [*left, f"{space}{relation} ", right]

    def position(self, *, whole: bool) -> str:
        number = self.random.choice(("1", "1", "2", "2", "3", "0"))
        relation = self.random.choice(RELATIONS)
        forms = [f"position() {relation} {number}", f"position() {relation} last()", f"last() {relation} {number}"]
        return self.random.choice([*forms, number, number, number, "last()", "last()"] if whole else forms)

    def operand(self, scope: Scope, depth: int, context: str | None) -> Path:
        if context is None:
            return self.path(scope, bare=True, depth=min(depth, 1))
        form = self.random.random()
        if form < 0.06:
            return self.steps(["$msg"], scope, ("element", "attribute", "text"), depth, fewest=1)
        if context != "element" or form < 0.2:
            return Path(["."], context)
        return self.relative_path(scope, ("element", "element", "attribute", "text"), depth)
