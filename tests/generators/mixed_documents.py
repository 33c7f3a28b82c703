"""Documents with everything that XPath 1.0 can tell apart: for expressions of the whole language.

Elements and attributes in three namespaces and none, comments and processing instructions (before the root element
too), mixed content, CDATA sections, `xml:lang`, characters beyond the first plane, and texts that are numbers, or
nearly.

Left out is what libxml2 reads otherwise than the specification (docs/decisions.md): an empty CDATA section without
other text beside it, numbers with an exponent, and comments after the root element (it sees less before them). With
`edges`, numbers are as large and as small as a double holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from xml.sax.saxutils import escape, quoteattr

NAMES = ("a", "a", "a", "b", "b", "b", "c", "c", "c", "div", "text")
ATTRIBUTES = ("x", "x", "x", "y", "y", "a", "mod")
URIS = ("urn:1", "urn:2", "urn:3")
PREFIXES = ("p", "q", "r")
VALUES = (
    "1", "1", "2", "2", "3", "3.5", "-1", " 1 ", "1.0", "01", ".5", "2.", "-0", "10", "x", "x", "xy", "yx", "xyx", "",
    "1x", "é", "NaN", "Infinity", "-", "+1", "1 2", "\t3\n", "x  y ", "\u00a01", "\U0001d11ex", "en", ".", "true",
    "-.5", "a b\nc",
)  # fmt: skip
EDGES = (
    "9007199254740992", "9007199254740993", "-9007199254740992", "0.1", "0.3", "0.2", "1.7976931348623157", "-0",
    "0", "0.0000001", "123456789012", "4294967296", "2147483648", "-2147483649", "1000000000000000000000", "0.5", "1.5",
    "2.5", "-1.5", "-0.5",
)  # fmt: skip
AFTER = ("", "\n", "<!-- 2 -->", "<?p 1?>", "<?q?><!--x-->")
LANGUAGES = ("en", "en-GB", "EN-us", "de", "")


@dataclass
class MixedDocument:
    """Draws one document; `left` is how many elements it may still have."""

    random: Random
    left: int
    depth_max: int
    breadth: float
    namespaces: bool
    values: tuple[str, ...]
    after: tuple[str, ...]
    out: list[str] = field(default_factory=list)

    def bytes(self) -> bytes:
        pick = self.random.choice
        before = pick(("", "", '<?xml version="1.0"?>\n', "<!-- 1 -->", "<?p b?>\n", "<?q?><!--x-->", "<!DOCTYPE a>"))
        self.element(1, {})
        return (before + "".join(self.out) + self.random.choice(self.after)).encode()

    def value(self) -> str:
        return self.random.choice(self.values)

    def text(self) -> None:
        value, form = self.value(), self.random.random()
        if "9007199254740993" in self.values:  # with a point each, so that two beside each other are no longer number
            self.out.append(value if "." in value else f"{value}.")
            return
        if form < 0.6:
            self.out.append(escape(value))
        elif form < 0.75 and value:
            self.out.append(f"<![CDATA[{value}]]>{escape(self.random.choice(('', 'x', '1')))}")
        else:
            self.out.append(f"{escape(value)}&#120;")

    def aside(self) -> None:
        value = self.value().replace("-", "")
        self.out.append(
            self.random.choice((f"<!--{value}-->", f"<?p {value}?>", f"<?q {value}?>", "<?p?>", "<!-- x -->"))
        )

    def scope(self, outer: dict[str, str]) -> tuple[dict[str, str], str]:
        """Some prefixes rebound; only the default namespace can be unbound."""
        scope, declarations = dict(outer), ""
        for prefix in ("", *PREFIXES):
            if self.namespaces and self.random.random() < 0.2:
                scope[prefix] = uri = self.random.choice(URIS if prefix else ("", *URIS))
                declarations += f" xmlns{':' if prefix else ''}{prefix}={quoteattr(uri)}"
        return scope, declarations

    def attributes(self, scope: dict[str, str], prefixes: list[str]) -> str:
        random = self.random
        text_by_name: dict[tuple[str, str], str] = {}
        while random.random() < 0.45:
            prefix = random.choice(prefixes) if prefixes and random.random() < 0.3 else ""
            local = random.choice(ATTRIBUTES)
            name = f"{prefix}:{local}" if prefix else local
            text_by_name.setdefault(
                (scope.get(prefix, "") if prefix else "", local), f" {name}={quoteattr(self.value())}"
            )
        if random.random() < 0.1:
            text_by_name["", "xml:lang"] = f' xml:lang="{random.choice(LANGUAGES)}"'
        return "".join(text_by_name.values())

    def element(self, depth: int, outer: dict[str, str]) -> None:
        random = self.random
        self.left -= 1
        scope, declarations = self.scope(outer)
        prefixes = [prefix for prefix in scope if prefix and scope[prefix]]
        name = random.choice(NAMES)
        if prefixes and random.random() < 0.4:
            name = f"{random.choice(prefixes)}:{name}"
        self.out.append(f"<{name}{declarations}{self.attributes(scope, prefixes)}>")
        while self.left > 0 and depth < self.depth_max and random.random() < self.breadth:
            kind = random.random()
            if kind < 0.25:
                self.text()
            elif kind < 0.35:
                self.aside()
            self.element(depth + 1, scope)
        while random.random() < 0.45:
            random.choice((self.text, self.text, self.text, self.aside))()
        self.out.append(f"</{name}>")


def draw_mixed_document(
    random: Random,
    *,
    namespaces: bool = True,
    elements_max: int = 30,
    edges: bool = False,
    oracles: tuple[str, ...] = ("lxml",),
) -> bytes:
    """For the `oracles`, lxml and saxon: with nothing in it that one of them reads in its own way."""
    values = EDGES if edges else VALUES
    return MixedDocument(
        random,
        left=random.randint(1, elements_max),
        depth_max=random.choice((3, 5, 8)),
        breadth=random.choice((0.6, 0.8, 0.9)),
        namespaces=namespaces and random.random() < 0.6,
        values=tuple(value for value in values if value != "+1" or "saxon" not in oracles),
        after=("", "\n") if "lxml" in oracles else AFTER,
    ).bytes()
