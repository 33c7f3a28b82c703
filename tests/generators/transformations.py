"""Random transformations, each written twice: as treecast reads it, and as XQuery 3.1 with the same meaning.

Clauses of all kinds, FLWRs inside each other, constructors around and inside, with everything that XQuery allows in
them. Outermost FLWRs are noted as they are drawn: where none of them binds anything there is no delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from generators.constructors import ATTRIBUTE_TEXTS, CONTENT_TEXTS, LITERALS, URIS
from generators.transformation_pieces import Binding, Drawn, Pair, Piece, Pieces, union
from generators.variable_paths import ATTRIBUTES, Path, PathDrawer, Scope, Variable

KINDS = ("element", "element", "element", "element", "element", "attribute", "text")
BUILT = ("out", "row", "a", "b")


@dataclass
class TransformationDrawer(PathDrawer):
    """Draws transformations under the given prefixes."""

    namespaces: Mapping[str, str]
    depth_max: int = 4
    bindings: list[Binding] = field(default_factory=list)
    delivered: list[Binding] = field(default_factory=list)

    def gap(self) -> str:
        return self.random.choice((" ", " ", " ", "  ", "\n", "\n    ") * 6 + (' (: it\'s (: "one" :) :) ',))

    # --- the whole ---------------------------------------------------------------------------------------------------

    def query(self) -> Drawn:
        self.numbers, self.bindings, self.delivered = count(), [], []
        scope = Scope((), self.namespaces)
        form = self.random.random()
        if form < 0.45:
            pieces = self.flwr(scope, "top")
        elif form < 0.82:
            pieces = self.around(scope, self.flwr)
        elif form < 0.86:
            pieces = self.around(scope, self.expression)
        elif form < 0.9:
            pieces = self.choice(scope, "top")
        elif form < 0.93:
            pieces = self.flwr(scope, "top", fors=0)
        else:
            # What opens a transformation is a clause or a constructor, also in parentheses.
            first = self.flwr(scope, "top") if self.chance(0.5) else self.element(scope)
            pieces = ["(", *first, ",", self.gap(), *self.expression(scope.deeper(), "top"), ")"]
        bindings = self.bindings or self.delivered
        return Drawn(pieces, bindings, self.namespaces) if bindings else self.query()

    def around(self, scope: Scope, inside: Callable[[Scope, str], Pieces]) -> Pieces:
        """A constructor with at least one such expression in it."""
        inner, name, start = self.start_tag(scope)
        content: list[Piece] = [*self.content(inner)] if self.chance(0.4) else []
        if self.chance(0.2) and inner.depth < 2:
            content += self.around(inner.deeper(), inside)
        else:
            content += [
                self.random.choice(("", " ", "\n")),
                "{",
                self.gap(),
                *inside(inner, "content"),
                self.gap(),
                "}",
            ]
        if self.chance(0.4):
            content += self.content(inner)
        return [*start, ">", *content, f"</{name}>"]

    # --- FLWR --------------------------------------------------------------------------------------------------------

    def flwr(self, scope: Scope, place: str, fors: int | None = None) -> Pieces:
        if fors is None:
            fors = self.random.choice((1, 1, 1, 2) if scope.inside else (1, 1, 1, 1, 2, 2, 3))
        outermost = not scope.inside
        before = len(self.bindings), len(self.delivered)
        clauses: list[Piece] = []
        inner = replace(scope.deeper(), inside=scope.inside or fors > 0)
        apart = False
        for number in range(fors):
            is_joined = number > 0 and not apart and self.chance(0.4)
            while not is_joined and self.chance(0.2):
                inner = self.let(inner, clauses)
            inner = self.each(inner, clauses, joined=is_joined)
            apart = number + 1 < fors and self.chance(0.1)
            if apart:
                clauses.append(self.cut("where ", *self.condition(inner, 0, None), self.gap()))
        while self.chance(0.25) or not clauses:
            inner = self.let(inner, clauses)
        if self.chance(0.4):
            clauses.append(self.cut("where ", *self.condition(inner, 0, None), self.gap()))
        if outermost and fors:
            self.bindings.append(Binding(self.cut(), self.bound(["exists(", *clauses, "return 1)"], scope.prefixes)))
            clauses.append(self.bindings[-1].mark)
        order = [self.cut(*self.order(inner))] if fors and self.chance(0.3) else []
        result = self.expression(inner, place)
        if self.chance(0.06):
            result = [Pair("{", ""), *result, Pair("}", "")]
        if outermost and not fors:
            self.given(before, scope, ["(", *clauses, "return "], [")"])
        return [*clauses, *order, "return ", *result]

    def given(self, before: tuple[int, int], scope: Scope, start: Pieces, end: Pieces) -> None:
        """What was noted since then holds only so."""
        for bindings, size in zip((self.bindings, self.delivered), before, strict=True):
            bindings[size:] = [
                replace(binding, pieces=self.bound([*start, *binding.pieces, *end], scope.prefixes))
                for binding in bindings[size:]
            ]

    def bound(self, condition: Pieces, prefixes: Mapping[str, str]) -> Pieces:
        """The condition under the prefixes of the constructors around it."""
        if prefixes is self.namespaces:
            return condition
        declarations = "".join(f' xmlns{":" if prefix else ""}{prefix}="{uri}"' for prefix, uri in prefixes.items())
        return [f"(<b{declarations}>{{", *condition, '}</b> = "true")']

    def deliver(self, scope: Scope, pieces: Pieces) -> Pieces:
        """Notes paths outside of all FLWRs: without any FLWR they are what binds."""
        if scope.inside:
            return pieces
        self.delivered.append(Binding(self.cut(), self.bound(["exists(", *pieces, ")"], scope.prefixes)))
        return [*pieces, self.delivered[-1].mark]

    def fresh(self) -> str:
        return self.random.choice(("$v", "$x", "$n", "$the-", "$é.")) + str(next(self.numbers))

    def each(self, scope: Scope, clauses: list[Piece], *, joined: bool) -> Scope:
        """All paths of one `for` start at the same variable."""
        name = self.fresh()
        elements = scope.holding("element")
        start = self.random.choice(elements) if elements and self.chance(0.85) else Variable("$msg", "element")
        if start.name != "$msg" and self.chance(0.03):
            path = Path([start.name], start.kind, start.numeric)
        else:
            path = self.steps([start.name], scope, KINDS, 1, 0.35, fewest=int(start.name == "$msg"))
        pieces, numeric = path.pieces, path.numeric
        if self.chance(0.12) and len(pieces) > 1:
            other = self.steps([start.name], scope, (path.kind,), 1, fewest=1)
            pieces = union(pieces, other.pieces, self.random.choice(("|", " | ")))
            numeric = numeric and other.numeric
            pieces = ["(", *pieces, ")"] if self.chance(0.4) else pieces
        clauses += [", " if joined else "for ", name, " in ", *pieces, self.gap()]
        return scope.with_variable(Variable(name, path.kind, numeric=numeric))

    def let(self, scope: Scope, clauses: list[Piece]) -> Scope:
        name = self.fresh()
        form = self.random.random()
        if form < 0.6 or not scope.variables:
            path = self.path(scope)
            clauses += ["let ", name, " := ", *path.pieces, self.gap()]
            return scope.with_variable(Variable(name, path.kind, single=False, numeric=path.numeric))
        if form < 0.9 or not scope.inside:
            before = len(self.delivered)
            clauses += ["let ", name, " := ", *self.value(scope), self.gap()]
            delivers = tuple(binding.pieces for binding in self.delivered[before:])  # where it is used, not here
            del self.delivered[before:]
            return scope.with_variable(Variable(name, "value", delivers=delivers))
        clauses += ["let ", name, " := ", *self.expression(scope.deeper(), "top"), self.gap()]
        return scope.with_variable(Variable(name, "built"))

    def order(self, scope: Scope) -> Pieces:
        keys: list[Piece] = []
        for _ in range(self.random.choice((1, 1, 1, 2))):
            keys += [", "] if keys else []
            key = self.argument(scope)
            if self.chance(0.2):
                key = ["count(", *self.path(scope).pieces, ")"]
            elif self.chance(0.15):
                key = ["string(", *key, ")"]
            keys += [*key, self.random.choice(("", "", " ascending", " descending", " descending"))]
            keys.append(self.random.choice(("", "", "", " empty least", " empty greatest")))
        return [Pair("order by ", "stable order by "), *keys, self.gap()]

    # --- what is built -----------------------------------------------------------------------------------------------

    def expression(self, scope: Scope, place: str) -> Pieces:
        """`place` is top, content (of an element: attributes may stand here) or attribute (only strings matter)."""
        weights = {
            "items": 30,
            "value": 20,
            "element": 24,
            "sequence": 8,
            "choice": 8,
            "flwr": 14,
            "attribute": 2,
            "built": 10,
        }
        if scope.depth >= self.depth_max:
            weights |= {"element": 0, "sequence": 0, "choice": 0, "flwr": 0}
        if place == "attribute":
            weights |= {"element": 0, "attribute": 0, "built": 0}
        if not scope.holding("built"):
            weights["built"] = 0
        if place == "top":
            weights["attribute"] = 0
        kind = self.random.choices(list(weights), list(weights.values()))[0]
        if kind == "items":
            kinds = (
                ("element", "text", "attribute") if place == "attribute" or self.chance(0.08) else ("element", "text")
            )
            kinds = kinds[:2] if place == "top" else kinds
            return self.items(scope, kinds)
        if kind == "value":
            return self.value(scope)
        if kind == "built":
            return [self.random.choice(scope.holding("built")).name]
        if kind == "element":
            return self.element(scope.deeper())
        if kind == "sequence":
            return self.sequence(scope.deeper(), place)
        if kind == "choice":
            return self.choice(scope.deeper(), place)
        if kind == "flwr":
            flwr = self.flwr(scope, place)
            return ["(", *flwr, ")"] if self.chance(0.4) else flwr
        return self.computed_attribute(scope)

    def items(self, scope: Scope, kinds: Sequence[str]) -> Pieces:
        path = self.path(scope, kinds=kinds, bare=True)
        if self.chance(0.08):
            other = self.path(scope, kinds=kinds, bare=True)
            return ["(", *self.deliver(scope, union(path.pieces, other.pieces)), ")"]
        return self.deliver(scope, path.pieces)

    def sequence(self, scope: Scope, place: str) -> Pieces:
        pieces: list[Piece] = []
        for number in range(self.random.choice((0, 1, 2, 2, 3))):
            item = self.expression(scope, place)
            pieces += [self.cut(", ", *item) if number else self.cut(*item, instead="()")]
        return ["(", *pieces, ")"]

    def choice(self, scope: Scope, place: str) -> Pieces:
        condition = self.condition(scope, 0, None)
        before = len(self.bindings), len(self.delivered)
        then = self.expression(scope, place)
        self.given(before, scope, ["(if (", *condition, ") then "], [" else false())"])
        before = len(self.bindings), len(self.delivered)
        other = ["()"] if self.chance(0.3) else self.expression(scope, place)
        self.given(before, scope, ["(if (", *condition, ") then false() else "], [")"])
        return [
            *("if", self.gap(), "(", *condition, ")", self.gap(), "then "),
            *(self.cut(*self.alone(then), instead="()"), self.gap(), "else "),
            self.cut(*self.alone(other), instead="()"),
        ]

    def alone(self, pieces: Pieces) -> Pieces:
        """In parentheses now and then: as XQuery's grammar allows it either way."""
        return ["(", *pieces, ")"] if self.chance(0.3) else pieces

    def value(self, scope: Scope) -> Pieces:
        form = self.random.random()
        values = scope.holding("value")
        if values and form < 0.3:
            variable = self.random.choice(values)
            bindings = [Binding(self.cut(), pieces) for pieces in ([] if scope.inside else variable.delivers)]
            self.delivered += bindings
            return [variable.name, *(binding.mark for binding in bindings)]
        if form < 0.4:
            return [self.random.choice(LITERALS)]
        if form < 0.48:
            return [self.random.choice(("0", "42", "1.5", "0.50", "10", "007", "-1", "1.0", ".5", "-0.0"))]
        if form < 0.65:
            return ["string(", *self.argument(scope), ")"]
        if form < 0.78:
            return ["count(", *self.deliver(scope, self.path(scope).pieces), ")"]
        if form < 0.88:
            return ["name(", *self.argument(scope), ")"]
        arguments: list[Piece] = []
        for number in range(self.random.choice((2, 2, 3))):
            simple = self.chance(0.5)
            literal = [self.random.choice(LITERALS)]
            arguments += [", "] if number else []
            arguments += literal if simple else self.value(scope) if self.chance(0.3) else self.argument(scope)
        return ["concat(", *arguments, ")"]

    def argument(self, scope: Scope) -> Pieces:
        """A path of at most one item; or any, of which the first counts."""
        if self.chance(0.5):
            return self.deliver(scope, self.one(scope))
        return [Pair("", "("), *self.deliver(scope, self.path(scope, bare=True).pieces), Pair("", ")[1]")]

    def one(self, scope: Scope) -> Pieces:
        singles = [v for v in scope.variables if v.single and v.kind not in ("value", "built")]
        if not singles or self.chance(0.15):
            return [f"$msg/descendant::{self.element_test(scope)}[{self.random.choice(('1', '2', 'last()'))}]"]
        variable = self.random.choice(singles)
        if variable.kind != "element":
            return [variable.name]
        steps = variable.name
        while self.chance(0.5):
            steps += f"/{self.element_test(scope)}[{self.random.choice(('1', '1', '2', 'last()'))}]"
        return [steps, self.random.choice(("", "", "/text()[1]", *(f"/@{name}" for name in ATTRIBUTES)))]

    # --- constructors ------------------------------------------------------------------------------------------------

    def start_tag(self, scope: Scope) -> tuple[Scope, str, Pieces]:
        """The scope inside, the name, and the tag up to its end."""
        prefixes, declarations = dict(scope.prefixes), list[str]()
        while self.chance(0.12):
            prefix = self.random.choice(("", "p", "q", "new"))
            if any(text.startswith(f"xmlns:{prefix}=" if prefix else "xmlns=") for text in declarations):
                break
            # Inside another xmlns, Saxon takes xmlns="" for the default of the prolog.
            may_be_empty = not prefix and not (self.namespaces.get("") and scope.prefixes is not self.namespaces)
            prefixes[prefix] = self.random.choice(("", *URIS) if may_be_empty else URIS)
            declarations.append(f'xmlns{":" if prefix else ""}{prefix}="{prefixes[prefix]}"')
        inner = replace(scope, prefixes=prefixes)
        attributes: list[Pieces] = [[text] for text in declarations]
        known_names: set[tuple[str, str]] = set()
        while self.chance(0.3):
            prefix = self.random.choice(["", "", "", *(p for p in prefixes if p)])
            local = self.random.choice(("id", "x", "y"))
            expanded_name = (prefixes[prefix] if prefix else "", local)
            if expanded_name not in known_names:
                known_names.add(expanded_name)
                attributes.append(self.attribute(inner, f"{prefix}:{local}" if prefix else local))
        if not any("{" in str(piece) for attribute in attributes for piece in attribute):
            self.random.shuffle(attributes)  # declarations come before what is computed
        name = self.random.choice(BUILT)
        bound_prefixes = [prefix for prefix in prefixes if prefix]
        if bound_prefixes and self.chance(0.2):
            name = f"{self.random.choice(bound_prefixes)}:{name}"
        tag: list[Piece] = [f"<{name}"]
        for pieces in attributes:
            tag += (
                [" ", *pieces]
                if str(pieces[0]).startswith("xmlns")
                else [self.cut(self.random.choice((" ", "\n")), *pieces)]
            )
        return inner, name, tag

    def attribute(self, scope: Scope, name: str) -> Pieces:
        quote = self.random.choice("\"'")
        parts: list[Piece] = []
        while self.chance(0.6):
            if self.chance(0.5):
                text = self.random.choice(ATTRIBUTE_TEXTS).replace(quote, quote * 2)
                # Saxon takes no lone {{ in an attribute.
                parts.append(self.cut(Pair(text, text.replace("{{", "&#123;").replace("}}", "&#125;"))))
            else:
                parts.append(self.cut("{", *self.expression(scope.deeper(), "attribute"), "}"))
        return [name, self.random.choice(("=", "=", " = ")), quote, *parts, quote]

    def element(self, scope: Scope) -> Pieces:
        inner, name, start = self.start_tag(scope)
        if self.chance(0.15):
            return [*start, self.random.choice(("/>", " />"))]
        return [*start, ">", *self.content(inner), f"</{name}", self.random.choice(("", "", " ")), ">"]

    def content(self, scope: Scope) -> Pieces:
        parts: list[Piece] = []
        while self.chance(0.72) and len(parts) < 6:
            form = self.random.random()
            if form < 0.35:
                parts.append(self.cut(self.random.choice(CONTENT_TEXTS)))
            elif form < 0.5 and scope.depth < self.depth_max:
                parts.append(self.cut(*self.element(scope.deeper())))
            else:
                parts.append(self.cut(*self.enclosed(scope, first=not parts)))
        return parts

    def enclosed(self, scope: Scope, *, first: bool) -> Pieces:
        inner: list[Piece] = []
        if first and self.chance(0.25):
            path = self.path(scope, kinds=("attribute",), bare=True)
            inner += [self.cut(*self.deliver(scope, path.pieces), instead="()")]
        for _ in range(self.random.choice((0, 1, 1, 1, 1, 2, 3)) if not inner else self.random.choice((0, 0, 1))):
            item = self.expression(scope.deeper(), "content")
            inner += [self.cut(", ", *item)] if inner else [self.cut(*item, instead="()")]
        return ["{", *(inner or [Pair("", "()")]), "}"]  # Saxon fails on {} before other content

    def computed_attribute(self, scope: Scope) -> Pieces:
        name = self.random.choice(("made", "x", "id"))
        return [f"attribute {name} {{", *self.expression(scope.deeper(), "attribute"), "}"]
