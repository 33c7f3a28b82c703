"""Documents to transform, and the texts of drawn constructors: everything that a copy must carry over or put right.

Repeated names, prefixes declared, rebound and undeclared on the way down, mixed content, comments, processing
instructions, CDATA sections, references, white space. What is called `num`, and every attribute `n`, is a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from xml.sax.saxutils import quoteattr

URIS = ("urn:1", "urn:2", "urn:3")
PREFIXES = ("p", "q", "r")
NAMES = ("a", "a", "a", "b", "b", "b", "c", "num", "num")
VALUES = ("1", "2", "x", "xy", "", "1.0", "é", " 1 ", "y", "yx", "10", "<&>", 'q"q', "it's", "two words")
NUMERALS = ("1", "2", "3", "0.5", "-1", "10", "01", "1.0", " 2 ", "2\n")
TEXTS = (
    "x", "y", "xy", "1", "2", " 1 ", "1.0", " ", "\n  ", "a &amp; b", "&lt;", "]]&gt;", "&#x20AC;", "x&#13;y", "&#9;",
    "é", "\U0001f600", "<![CDATA[<a>]]>", "<![CDATA[x]]>y", "x<![CDATA[ & ]]>", "<!-- c -->", "<!---->", "two words",
    "x<!-- c -->y", "<?pi d?>", "<?pi?>", "x<?pi <d> ?>1", "&quot;&apos;",
)  # fmt: skip

# Of constructors: what XQuery strips as boundary space, and what saves it from that.
CONTENT_TEXTS = (
    "text", "some text", " ", "\n  ", "  ", "a &amp; b", "&lt;", "&#x20;", "&#32;", "&#xE9;", "{{", "}}", "{{x}}", "é",
    "\u00a0", "<![CDATA[ ]]>", "<![CDATA[<{x}>]]>", "<![CDATA[]]>", "<!-- c -->", "<!--{x}-->", "<?pi d {x}?>",
    "<?pi?>", "&quot;", "'", '"', " x ", "\tx\n", "x&#13;", "&gt;", "(: no comment :)",
)  # fmt: skip
ATTRIBUTE_TEXTS = (
    "v", "two words", " ", "a &amp; b", "&lt;", "&#10;", "&#x9;", "\n", "\t", "{{x", "}}", "é", "&quot;", "&apos;", "'",
    '"', "x ", "&gt;", ">", "&#13;",
)  # fmt: skip
LITERALS = ('"x"', "'1'", '"two words"', '""', "''", '" "', "'é'", '"1.0"', "'y'", '"it\'s"', "'\"'", '"{"', '"}"')


def draw_material(random: Random, usual: Mapping[str, str], elements_max: int = 22) -> bytes:
    """A small tree, in which prefixes often mean what they usually do: what they mean in the queries."""
    return Material(random, usual, random.choice((1, 4, 8, 12, 16, elements_max))).document()


class Material:
    """One document; `left` elements at most."""

    def __init__(self, random: Random, usual: Mapping[str, str], left: int) -> None:
        self.random = random
        self.usual = usual
        self.left = left
        self.out: list[str] = []
        self.namespaces = random.random() < 0.5
        self.breadth = random.choice((0.7, 0.85, 0.95))
        self.depth_max = random.choice((3, 4, 7))

    def document(self) -> bytes:
        before = ("", "", '<?xml version="1.0"?>', "<!-- before -->", "<?pi before?>\n", "\ufeff")
        self.out.append(self.random.choice(before))
        self.element(1, {})
        self.out.append(self.random.choice(("", "", "\n", "<!-- after -->", "<?pi after?>")))
        return "".join(self.out).encode()

    def scope(self, outer: dict[str, str]) -> tuple[dict[str, str], list[str]]:
        scope, declarations = dict(outer), []
        for prefix in ("", *PREFIXES):
            chance = (0.15 if prefix else 0.06) if self.namespaces else 0
            if not outer and prefix in self.usual and self.random.random() < 0.8:
                scope[prefix] = self.usual[prefix]
            elif self.random.random() < chance:
                scope[prefix] = self.random.choice(URIS if prefix else ("", *URIS))
            else:
                continue
            declarations.append(f"xmlns{':' if prefix else ''}{prefix}={quoteattr(scope[prefix])}")
        return scope, declarations

    def attributes(self, scope: dict[str, str]) -> list[str]:
        text_by_name: dict[tuple[str, str], str] = {}
        prefixes = [prefix for prefix in scope if prefix]
        while self.random.random() < 0.45:
            prefix = self.random.choice(prefixes) if prefixes and self.random.random() < 0.4 else ""
            local = self.random.choice(("x", "y", "n"))
            value = self.random.choice(NUMERALS if local == "n" else VALUES)
            name = f"{prefix}:{local}" if prefix else local
            literal = quoteattr(value)
            literal = literal if "&" in literal else literal.replace("1", self.random.choice(("1", "1", "&#49;")))
            text_by_name.setdefault((scope[prefix] if prefix else "", local), f"{name}={literal}")
        if self.random.random() < 0.04:
            text_by_name["xml", "lang"] = 'xml:lang="de"'
        return list(text_by_name.values())

    def element(self, depth: int, outer: dict[str, str]) -> None:
        self.left -= 1
        scope, declarations = self.scope(outer)
        prefixes = [prefix for prefix in scope if prefix]
        local = self.random.choice(NAMES if depth > 1 else NAMES[:-3])
        name = f"{self.random.choice(prefixes)}:{local}" if prefixes and self.random.random() < 0.35 else local
        parts = declarations + self.attributes(scope)
        self.random.shuffle(parts)
        between = self.random.choice((" ", " ", "\n "))
        self.out.append("".join((f"<{name}", *(between + part for part in parts), self.random.choice(("", "", " ")))))
        if local == "num":
            self.numeral(name)
        elif self.random.random() < 0.15:
            self.out.append("/>")
        else:
            self.out.append(">")
            self.content(depth, scope)
            self.out.append(f"</{name}>")

    def content(self, depth: int, scope: dict[str, str]) -> None:
        breadth = self.breadth if depth > 1 else 0.97
        while self.left > 0 and depth < self.depth_max and self.random.random() < breadth:
            if self.random.random() < 0.35:
                self.out.append(self.random.choice(TEXTS))
            self.element(depth + 1, scope)
        if self.random.random() < 0.5:
            self.out.append(self.random.choice(TEXTS))

    def numeral(self, name: str) -> None:
        value = self.random.choice(NUMERALS)
        value = self.random.choice((value, value, f"<![CDATA[{value}]]>", f"<!-- x -->{value}"))
        self.out.append(f">{value}</{name}>")
