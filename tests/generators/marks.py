"""Comments, processing instructions and children of any kind: queries that ask for them, and documents full of them."""

from __future__ import annotations

from random import Random

from oracles.differential import Query

NAMES = ("a", "a", "b", "c", "*")
TARGETS = ("p", "q", "a")
TESTS = ("comment()", "comment()", "processing-instruction()", "node()", "text()", "*", "b", "@x")
VALUES = ("1", "x", "xy", " 2 ", "", "x\r\ny", "x\ny", "2\r", "10")
LITERALS = ("1", "x", "xy", " 2 ", "", "x\ny", "2\n", "2", "1-x", "x-1", "1-1-x")
RELATIONS = ("=", "=", "=", "!=", "<", ">=")


class MarkDrawer:
    """Queries and documents with few values, so that much matches."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def test(self) -> str:
        random = self.random
        return f'processing-instruction("{random.choice(TARGETS)}")' if random.random() < 0.2 else random.choice(TESTS)

    def steps(self, depth: int) -> str:
        random = self.random
        before = "".join(
            f"{random.choice(NAMES)}{self.predicates(depth)}{random.choice(('/', '/', '//'))}"
            for _ in range(random.choice((0, 0, 1, 2)))
        )
        return f"{before}{self.test()}{self.predicates(depth)}"

    def predicates(self, depth: int) -> str:
        if depth == 2 or self.random.random() < 0.6:
            return ""
        return f"[{self.condition(depth + 1)}]"

    def constant(self) -> str:
        random = self.random
        return f"'{random.choice(LITERALS)}'" if random.random() < 0.7 else random.choice(("1", "2", "10"))

    def condition(self, depth: int) -> str:
        random, form = self.random, self.random.random()
        steps = random.choice((".", "..", "../@x")) if random.random() < 0.2 else self.steps(depth)
        if form < 0.25:
            return steps
        if form < 0.5:
            return f"{steps} {random.choice(RELATIONS)} {self.constant()}"
        if form < 0.65:
            return f"{random.choice(('contains', 'starts-with'))}({steps}, '{random.choice(LITERALS)}')"
        if form < 0.75:
            pieces = ", ".join(
                random.choice(("@x", "@y", "'-'", "'1'", "comment()")) for _ in range(random.choice((2, 3, 4)))
            )
            return f"concat({pieces}) = '{random.choice(LITERALS)}'"
        if form < 0.85:
            return f"not({self.condition(depth)})"
        if form < 0.95:
            return f"{self.condition(depth)} {random.choice(('and', 'or'))} {self.condition(depth)}"
        return random.choice(("count(comment()) > 1", "comment()[1]", "comment()[last()] = 'x'", "position() = 1"))

    def query(self) -> Query:
        random = self.random
        path = f"{random.choice(('/', '//', '//'))}{self.steps(0)}"
        form = random.random()
        if form < 0.1:
            path = f"({path})[1]"
        elif form < 0.2:
            up = random.choice(
                ("..", "parent::a", "ancestor::*", "preceding-sibling::b", "following-sibling::comment()")
            )
            path = f"{path}/{up}" if "@x" not in path else f"boolean({path})"
        return Query(path, path, (), ())

    def queries(self, count: int) -> list[Query]:
        return [self.query() for _ in range(count)]

    def mark(self) -> str:
        random = self.random
        value = random.choice(VALUES)
        return random.choice(
            (f"<!--{value}-->", f"<?{random.choice(TARGETS)} {value}?>", f"<?{random.choice(TARGETS)}?>")
        )

    def element(self, depth: int) -> str:
        random = self.random
        name = random.choice(("a", "b", "c"))
        attributes = "".join(
            f' {one}="{random.choice(("1", "x", "xy", ""))}"' for one in ("x", "y") if random.random() < 0.4
        )
        parts = []
        for _ in range(random.choice((0, 1, 2, 4))):
            form = random.random()
            if form < 0.4 and depth < 4:
                parts.append(self.element(depth + 1))
            elif form < 0.75:
                parts.append(self.mark())
            else:
                parts.append(random.choice(("1", "x", "<![CDATA[x]]>", "&#120;", "2")))
        return f"<{name}{attributes}>{''.join(parts)}</{name}>"

    def document(self) -> bytes:
        """Comments after the root and in a document type are left out: libxml2 reads them in its own way."""
        random = self.random
        before = "".join(self.mark() for _ in range(random.choice((0, 0, 1, 2))))
        start = random.choice(("", '<?xml version="1.0"?>', "<!DOCTYPE a>"))
        return f"{start}{before}{self.element(0)}".encode()
