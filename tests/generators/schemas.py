"""Random Schematron schemas over the documents of `mixed_documents`: contexts that overlap, tests of the whole of XPath
1.0, variables at every level.

Left out is what libxslt, the oracle's processor, sees in another way: in a pattern, `@x` matches an attribute of any
namespace, and `*` before `//` the root. So documents have no namespaces, and nothing stands before `//` that matches
every element.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from xml.sax.saxutils import quoteattr

from generators.expressions import ATTRIBUTE, FOLLOWING, UNPREFIXED, ExpressionDrawer
from generators.mixed_documents import URIS
from treecast.inputs.schematron.expression import ExpressionError, parse_expression
from treecast.inputs.schematron.inlining import uses_position

STEPS = ("a", "b", "c", "p:a", "p:*", "*", "a[@x]", "b[1]", "c[last()]", "*[. = '1']", "b[@x > 1]", "div")
LAST = ("@x", "@*", "@y[. = '1']", "comment()", "processing-instruction('p')", "node()", "processing-instruction()")
# With a variable in each place from which a way back leads, or a comparison that can be turned inside out, and some
# others.
SHAPES = (
    "a[@x = {0}]", "//b[@x = {0}]", "not(//a[b = {0}])", "count(//a[. = {0}]) > 0", "*[. = {0} and @x]",
    "a/b[@x != {0}]", "@x = {0}", "{0}", "contains({0}, 'x')", "//a[b[@x = {0}]]", "b[c = current()/@x]",
    "//b[@y = current()/@y]",
    "count(a[@x = {0}]) > 1", "string({0})", "a[contains(., {0})]", "count(//*[@x = {0}]) = 0", "*[@x][. < {0}]",
    "//*[{0} = @y] or @x", "a[@x = {0}]/b[. = {0}]", "//c[@x and b = {0}]", "*[self::a[. = {0}]]", "@*[. = {0}]",
)  # fmt: skip


@dataclass
class SchemaDrawer:
    random: Random
    names: list[str] = field(default_factory=list)

    def context(self) -> str:
        random = self.random
        alternatives = []
        for _ in range(random.choice((1, 1, 1, 2))):
            steps = [random.choice(STEPS) for _ in range(random.choice((1, 1, 2, 3)))]
            if random.random() < 0.2:
                steps.append(random.choice(LAST))
            text = steps[0]
            for step in steps[1:]:
                # libxslt takes the root for an ancestor that * matches.
                text += ("/" if "*" in text else random.choice(("/", "/", "//"))) + step
            alternatives.append(random.choice(("", "", "", "/", "//")) + text)
        return random.choice(("/", *[" | ".join(alternatives)] * 12))

    def expression(self) -> str:
        """Relative to a context; often with a variable."""
        if self.names and self.random.random() < 0.7:
            return self.random.choice(SHAPES).format(f"${self.random.choice(self.names)}")
        while True:
            drawer = ExpressionDrawer(self.random, (("p", URIS[0]),), depth_max=2, brackets=1)
            text = self.random.choice((drawer.boolean, drawer.items, drawer.string))(1).replace(UNPREFIXED, "")
            if self.is_fit(text):
                return " ".join(text.split())

    def is_fit(self, text: str) -> bool:
        try:
            expression = parse_expression(text)
        except ExpressionError:
            return False
        # libxslt's position() is one among what it visits.
        wrong = uses_position(expression) or (FOLLOWING.search(text) and ATTRIBUTE.search(text))
        return not wrong and "lang" not in text

    def value(self) -> str:
        """Of a variable: something that is the same everywhere, or of the context."""
        while True:
            drawer = ExpressionDrawer(self.random, (("p", URIS[0]),), depth_max=1, brackets=1)
            text = self.random.choice((drawer.path, drawer.string, drawer.number))(1).replace(UNPREFIXED, "")
            if self.is_fit(text) and "()" not in text.replace("text()", "").replace("node()", ""):
                return " ".join(text.split())

    def schema(self) -> bytes:
        random, out = self.random, ['<schema xmlns="http://purl.oclc.org/dsdl/schematron">']
        out.append(f'<ns prefix="p" uri="{URIS[0]}"/>')
        out.append(f'<let name="top" value={quoteattr(random.choice(("//@x", "count(//b) > 1", "//b = 1")))}/>')
        for _ in range(random.choice((1, 2, 3))):
            out.append("<pattern>")
            for _ in range(random.choice((1, 2, 3, 4))):
                out.append(f"<rule context={quoteattr(self.context())}>")
                self.names = ["top"] * (random.random() < 0.3)
                if random.random() < 0.5:
                    value = self.value()
                    out.append(f'<let name="own" value={quoteattr(value)}/>')
                    self.names.append("own")
                for _ in range(random.choice((1, 2))):
                    kind = random.choice(("assert", "report"))
                    out.append(f"<{kind} test={quoteattr(self.expression())}>m</{kind}>")
                out.append("</rule>")
            out.append("</pattern>")
        return "".join([*out, "</schema>"]).encode()
