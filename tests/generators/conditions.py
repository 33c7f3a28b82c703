"""Random queries of the whole language, and documents for them: few names and few values, so many matches.

Every query is drawn twice, for treecast and for the oracle: the same text but for the prefixes (see
`drawing.Vocabulary`). Numbers stay within what libxml2 reads as XPath does: no exponents, no lone points, few digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from xml.sax.saxutils import escape, quoteattr

from oracles.differential import Query

from generators.functions import FUNCTIONS, DrawnFunction
from generators.paths_and_documents import Vocabulary, draw_scope

VALUES = ("1", "2", "3", "1.0", "01", " 1 ", "-1", ".5", "x", "xy", "yx", "", "1x", "10", "é")
NUMBERS = ("1", "2", "3", "1.0", "-1", "0.5", ".5", "10", "0")
LITERALS = ("1", "2", "x", "xy", "", "1.0", "é", " 1 ", "y")
RELATIONS = ("=", "=", "=", "!=", "<", "<=", ">", ">=")
LOCALS = ("a", "b", "c")
ATTRIBUTES = ("x", "y")

Pair = tuple[str, str]


def draw_valued_document(
    random: Random, *, namespaces: bool = False, elements_max: int = 40, values: Sequence[str] = VALUES
) -> bytes:
    """A random tree, wide or deep, with numbers and short words in its texts and attributes."""
    out: list[str] = []
    elements_left = random.randint(1, elements_max)
    breadth = random.choice((0.5, 0.75, 0.9))
    depth_max = random.choice((3, 5, 9))

    def text() -> None:
        value = escape(random.choice(values))
        form = random.random()
        if form < 0.7:
            out.append(value)
        elif form < 0.8 and value:
            out.append(f"<![CDATA[{value}]]>{random.choice(('', 'x'))}")
        elif form < 0.9:
            out.append(f"{value}<!-- 1 -->{random.choice(('', '2'))}")
        else:
            out.append(f"<?pi 1?>{value}&#120;")

    def element(depth: int, outer: dict[str, str]) -> None:
        nonlocal elements_left
        elements_left -= 1
        scope, declarations = draw_scope(random, outer) if namespaces else (outer, "")
        prefixes = [prefix for prefix in scope if prefix and scope[prefix]]
        name = random.choice(LOCALS)
        if prefixes and random.random() < 0.5:
            name = f"{random.choice(prefixes)}:{name}"
        attributes: dict[tuple[str, str], str] = {}
        while random.random() < 0.4:
            prefix = random.choice(prefixes) if prefixes and random.random() < 0.4 else ""
            local = random.choice(ATTRIBUTES)
            attribute_text = f" {prefix + ':' if prefix else ''}{local}={quoteattr(random.choice(values))}"
            attributes.setdefault((scope[prefix] if prefix else "", local), attribute_text)
        out.append(f"<{name}{declarations}{''.join(attributes.values())}>")
        while elements_left > 0 and depth < depth_max and random.random() < breadth:
            if random.random() < 0.2:
                text()
            element(depth + 1, scope)
        if random.random() < 0.5:
            text()
        out.append(f"</{name}>")

    element(1, {})
    return "".join(out).encode()


@dataclass
class ConditionDrawer:
    """Draws queries with predicates; `depth_max` is how far brackets nest.

    With the probability `nesting` a condition is one whose parts depend on positions and whose paths go down into more
    of the same: what has to be decided once and not once for each context.
    """

    random: Random
    words: Vocabulary
    depth_max: int = 3
    positions: bool = True
    nesting: float = 0.0

    def query(self) -> Query:
        branches = [self.path(0, absolute=True)]
        while self.random.random() < 0.08 and len(branches) < 3:
            branches.append(self.path(0, absolute=True))
        texts, oracles = zip(*branches, strict=True)
        oracle_namespaces = tuple((prefix, uri) for uri, prefix in self.words.oracle_prefixes.items())
        return Query(" | ".join(texts), " | ".join(oracles), self.words.prefixes, oracle_namespaces)

    def path(self, depth: int, *, absolute: bool) -> Pair:
        """Steps, and perhaps an attribute or text at the end."""
        text = oracle = ""
        steps = self.random.choice((1, 1, 2, 3) if depth else (1, 2, 2, 3, 4))
        for place in range(steps):
            if absolute or place:
                between = "//" if self.random.random() < 0.35 else "/"
            else:
                between = self.random.choice(("", "", "", ".//", "./"))
            first = place == 0
            axis = self.axis(first=first, absolute=absolute)
            test, against = self.element_test()
            conditions, oracle_conditions = self.predicates(depth, "element")
            text += between + axis + test + conditions
            oracle += between + axis + against + oracle_conditions
        if self.random.random() < 0.2:
            between = "//" if self.random.random() < 0.3 else "/"
            tail, against = self.tail(depth)
            text, oracle = text + between + tail, oracle + between + against
        return text, oracle

    def axis(self, *, first: bool, absolute: bool) -> str:
        axes = ["", "", "", "", "", "", "child::", "descendant::", "descendant::", "descendant-or-self::", "self::"]
        return self.random.choice(axes[:-1] if first and absolute else axes)

    def element_test(self) -> Pair:
        form = self.random.random()
        if form < 0.2:
            return "*", "*"
        if form < 0.25:
            local = self.random.choice(LOCALS)
            return (f"*[local-name()='{local}']",) * 2
        if form < 0.3 and self.words.oracle_prefixes:
            prefix, uri = self.random.choice([pair for pair in self.words.prefixes if pair[0]])
            return f"{prefix}:*", f"{self.words.oracle_prefixes[uri]}:*"
        return self.words.element(self.random, *self.random.choice(self.words.elements))

    def tail(self, depth: int) -> Pair:
        """An attribute or a text, with predicates of its own now and then."""
        if self.random.random() < 0.5:
            name, against = self.words.attribute(self.random, *self.random.choice(self.words.attributes))
            if self.random.random() < 0.15:
                name = against = "*"
            conditions, oracle_conditions = self.predicates(depth, "attribute")
            return f"@{name}{conditions}", f"@{against}{oracle_conditions}"
        axis = self.random.choice(("", "", "", "descendant::"))
        conditions, oracle_conditions = self.predicates(depth, "text")
        return f"{axis}text(){conditions}", f"{axis}text(){oracle_conditions}"

    def predicates(self, depth: int, kind: str) -> Pair:
        chance = (0.45, 0.3, 0.2, 0.1)[min(depth, 3)] if kind == "element" else 0.3
        text = oracle = ""
        while depth < self.depth_max and self.random.random() < chance:
            condition, against = self.condition(depth + 1, kind, whole=True)
            text += f"[{condition}]"
            oracle += f"[{against}]"
            chance *= 0.6
        return text, oracle

    def nested(self, depth: int) -> Pair:
        """A test of what lies below, and a position, joined."""
        inner, oracle_conditions = (
            self.nested(depth + 1) if depth < self.depth_max + 2 else self.operand(self.depth_max, "element")
        )
        axis = self.random.choice(("descendant::", "descendant::", "descendant-or-self::", ".//", ""))
        test, against = self.element_test()
        tail = self.random.choice(("", "", "", "/*", "//b", "[last()]", "[. != '']", "/@x", "//text()"))
        path, oracle = f"{axis}{test}[{inner}]{tail}", f"{axis}{against}[{oracle_conditions}]{tail}"
        literal = f"'{self.random.choice(LITERALS)}'"
        form = self.random.choice((FUNCTIONS[0], *FUNCTIONS, "=", "exists"))
        if form == "=":
            path, oracle = f"{path} = {literal}", f"{oracle} = {literal}"
        elif isinstance(form, DrawnFunction):
            path, oracle = form.text(path, literal), form.for_lxml(oracle, literal)
        if self.random.random() < 0.3:
            path, oracle = f"not({path})", f"not({oracle})"
        if self.random.random() < 0.2:
            return path, oracle
        position = self.position(whole=False)
        word = self.random.choice((" or ", " or ", " and "))
        if self.random.random() < 0.5:
            return f"{position}{word}{path}", f"{position}{word}{oracle}"
        return f"{path}{word}{position}", f"{oracle}{word}{position}"

    def condition(self, depth: int, kind: str, *, whole: bool = False) -> Pair:
        if self.nesting and kind == "element" and self.random.random() < self.nesting:
            return self.nested(depth)
        form = self.random.random()
        if form < 0.24 and self.positions and kind != "attribute":
            return (self.position(whole=whole),) * 2
        if form < 0.4 and depth <= self.depth_max:
            operands = [self.condition(depth + 1, kind) for _ in range(2)]
            word = self.random.choice((" and ", " or "))
            operands = [
                (f"({text})", f"({oracle})") if self.random.random() < 0.5 else (text, oracle)
                for text, oracle in operands
            ]
            texts, oracles = zip(*operands, strict=True)
            return word.join(texts), word.join(oracles)
        if form < 0.5:
            text, oracle = self.condition(depth + 1, kind)
            return f"not({text})", f"not({oracle})"
        text, oracle = self.operand(depth, kind)
        if form < 0.62:
            literal = f"'{self.random.choice(LITERALS)}'"
            function = self.random.choice(FUNCTIONS)
            return function.text(text, literal), function.for_lxml(oracle, literal)
        if form < 0.8:
            relation = self.random.choice(RELATIONS)
            value = self.random.choice(NUMBERS) if self.random.random() < 0.5 else f"'{self.random.choice(LITERALS)}'"
            if self.random.random() < 0.2:
                return f"{value} {relation} {text}", f"{value} {relation} {oracle}"
            return f"{text} {relation} {value}", f"{oracle} {relation} {value}"
        if form < 0.84:
            other, against = self.operand(depth, kind)
            return f"{text} | {other}", f"{oracle} | {against}"
        return text, oracle

    def position(self, *, whole: bool) -> str:
        number = self.random.choice(("1", "1", "2", "2", "3", "0", "1.5"))
        relation = self.random.choice(RELATIONS)
        forms = [f"position() {relation} {number}", f"position() {relation} last()", f"last() {relation} {number}"]
        if whole:
            forms += [number, number, number, "last()", "last()"]
        return self.random.choice(forms)

    def operand(self, depth: int, kind: str) -> Pair:
        """A path in a predicate: relative, or from the document."""
        form = self.random.random()
        if form < 0.12:
            return self.path(depth, absolute=True)
        if kind != "element" or form < 0.25:
            return ".", "."
        if form < 0.45:
            tail, against = self.tail(depth)
            before = ".//" if self.random.random() < 0.2 else ""
            return before + tail, before + against
        return self.path(depth, absolute=False)
