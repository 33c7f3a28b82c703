"""Expressions with exactly one mistake, at a known position.

A valid expression is drawn twice from the same seed: once as it is, and once with a `Mistake` in place of one of its
operands, operators, steps or calls. So whatever is refused in the second is the mistake.

    refused = draw_refused(Random(7), MISTAKES[0])
    refused.text, refused.position, refused.code     # '//a[frob(b) = 1]', 4, 'TC103'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from generators.expressions import UNPREFIXED, Draw, ExpressionDrawer

BEGIN, END = "\x02", "\x03"
BOUND = {"p": "urn:1", "xs": "urn:xs"}
AFTER_SLASH, IN_QUERIES, AT_THE_TOP = "after a slash", "in queries", "at the top"


@dataclass(frozen=True)
class Mistake:
    """`text` stands in place of a `site`; what is refused begins `offset` characters into it. `words` are in the
    message, and `hint` in the hint. With `fix` in place of the text, the expression is accepted. `where` says where
    it is a mistake, if not everywhere."""

    site: str
    text: str
    code: str
    words: str
    hint: str = ""
    fix: str = ""
    offset: int = 0
    where: str = ""
    in_clauses: str = ""  # the code in clauses of a transformation, if another; "-": it is no mistake there


MISTAKES = [
    # Functions
    Mistake("operand", "frob(b)", "TC103", "frob()", "functions are"),
    Mistake("value", "xs:decimal(.)", "TC103", "xs:decimal()", "number(", "number(/*)"),
    Mistake("operand", "un:bound(., 1)", "TC103", "un:bound()", "functions are"),
    Mistake("value", "fn:contains('a', 'b')", "TC103", "fn:contains()", "contains(…)", "contains('a', 'b')"),
    Mistake("operand", "id('x')", "TC103", "id()", "@id"),
    Mistake("operand", "current()/b", "TC103", "current()", "functions are"),
    Mistake("value", "exists(//b)", "TC103", "exists()", "boolean(", "boolean(//b)"),
    Mistake("operand", "upper-case('b')", "TC103", "upper-case()", "translate("),
    Mistake("call", "(1, 2, 3, 4)", "TC103", "takes"),
    Mistake("count", "('x')", "TC106", "is a path", offset=1),
    Mistake("step", "frob()", "TC103", "frob()"),
    Mistake("step", "un:bound(1)", "TC103", "un:bound()"),
    Mistake("step", "string()", "TC103", "string() cannot stand", "round the path", where=AFTER_SLASH),
    Mistake("step", "position()", "TC103", "position() cannot stand", "brackets", where=AFTER_SLASH),
    # Axes, names and steps
    Mistake("step", "namespace::p", "TC102", "namespace::"),
    Mistake("step", "sideways::b", "TC102", "'sideways'"),
    Mistake("step", "un:b", "TC109", "'un'", "--namespace un"),
    Mistake("step", "un:*", "TC109", "'un'"),
    Mistake("step", "@un:b", "TC109", "'un'", offset=1),
    Mistake("step", "*:b", "TC101", "'*:'", "local-name()", "*[local-name()='b']"),
    Mistake("step", "(b | c)", "TC105", "parentheses", "a/b | a/c", where=AFTER_SLASH),
    Mistake("step", "2", "TC101", "found '2'", "'div'", where=AFTER_SLASH),
    Mistake("step", ".[b]", "TC105", "'.'", "self::*", "self::*[b]", offset=1),
    Mistake("step", "b[]", "TC101", "empty", offset=1, in_clauses="-"),
    # Variables, comments, literals and numbers
    Mistake("operand", "$x", "TC105", "$x", in_clauses="TC113"),
    Mistake("operand", "(: c :) //b", "TC105", "comments", "leave it out", "//b", where=IN_QUERIES),
    Mistake("value", "1e5", "TC101", "exponent", "digits", "100000"),
    Mistake("value", "“x”", "TC101", "“", "plain quotes", "'x'"),
    Mistake("value", "'it''s'", "TC101", "doubled", "other kind", '"it\'s"', offset=3, in_clauses="-"),
    # Expressions of XPath 2.0
    Mistake("operand", "if (//b) then 1 else 2", "TC116", "'if'", in_clauses="-"),
    Mistake("operand", "for $x in //b return 1", "TC116", "'for'", in_clauses="-"),
    Mistake("operand", "let $x := 1 return 2", "TC116", "'let'", in_clauses="-"),
    Mistake("operand", "some $x in //b satisfies 1", "TC116", "'some'"),
    Mistake("operand", "every $x in //b satisfies 1", "TC116", "'every'", "not("),
    Mistake("operand", "(1 to 3)", "TC101", "'to'", "both ends", offset=3),
    Mistake("operand", "(1, 2)", "TC101", "found ','", offset=2, in_clauses="-"),
    Mistake("operand", "()", "TC101", "an expression", offset=1, in_clauses="-"),
    # Operators
    *(
        Mistake("operator", operator, "TC101", f"'{operator.split()[0]}' is not an operator", hint, fix)
        for operator, hint, fix in (
            ("eq", "'='", "="), ("ne", "'!='", "!="), ("lt", "'<'", "<"), ("ge", "'>='", ">="), ("==", "'='", "="),
            ("&&", "'and'", "and"), ("||", "'or'", "or"), ("=>", "", ""), ("!", "not(", "!="), ("<<", "", ""),
            ("is", "", ""), ("to", "", ""), ("idiv", "div", "div"), ("union", "'|'", ""), ("intersect", "", ""),
            ("except", "not(", ""), ("instance of", "", ""), ("cast as", "number(", ""),
        )
    ),
    Mistake("operator", "b", "TC101", "found 'b'", fix="="),
    # What depends on a context, where there is none
    Mistake("path", "a/b[1]", "TC104", "relative", "//a/b[1]", "//a/b[1]", where=AT_THE_TOP),
    Mistake("path", "@x", "TC104", "relative", "//@x", "//@x", where=AT_THE_TOP),
    Mistake("path", "../b", "TC104", "relative", "//*/../b", "//*/../b", where=AT_THE_TOP),
    Mistake("path", "following::b", "TC104", "relative", "//*/following::b", "//*/following::b", where=AT_THE_TOP),
    Mistake("value", "position()", "TC104", "position()", "brackets", where=AT_THE_TOP),
    Mistake("value", "name()", "TC104", "name()", "name(", "name(/*)", where=AT_THE_TOP),
    Mistake("value", "lang('en')", "TC104", "lang()", "[lang('en')]", "//*[lang('en')]", where=AT_THE_TOP),
]  # fmt: skip


@dataclass(frozen=True)
class Form:
    """How an expression stands in a text: `in_brackets` if it has a context there."""

    text: str
    in_brackets: bool
    language: str = "query"

    def takes(self, mistake: Mistake) -> bool:
        """Whether the mistake is one here."""
        if mistake.where == AT_THE_TOP:
            return not self.in_brackets
        if mistake.where == IN_QUERIES:
            return self.language == "query"
        return self.language != "clauses" or mistake.in_clauses != "-"


FORMS = [
    Form("boolean({})", False),
    Form("not({}) or //c", False),
    Form("//a[{}]", True),
    Form("drop //a[{}]; keep //b", True, "steps"),
    Form("for $n in $msg//a where {} return $n", False, "clauses"),
    Form("for $n in $msg//a[{}] return $n", True, "clauses"),
    Form("for $n in $msg//a return <r x='1'>{{concat('x', {})}}</r>", False, "clauses"),
    Form("for $n in $msg//a order by {} return ($n, 'x')", False, "clauses"),
]


@dataclass(frozen=True)
class Refused:
    """`valid` is the same text without the mistake; `fixed` is it with the fix that the hint names, or empty."""

    text: str
    position: int
    valid: str
    fixed: str
    mistake: Mistake
    form: Form

    @property
    def code(self) -> str:
        in_clauses = self.form.language == "clauses" and self.mistake.in_clauses
        return in_clauses or self.mistake.code


class MistakenDrawer(ExpressionDrawer):
    """Draws an expression, and puts a mistake at one of the sites for it."""

    mistake: Mistake | None = None
    target: int = -1
    sites: int = 0

    def at_site(self, site: str, text: str) -> str:
        """The text, or the mistake in its place. The text is drawn either way, so that the rest stays the same."""
        mistake = self.mistake
        if mistake is None or mistake.site != site or (mistake.where == AT_THE_TOP and self.brackets):
            return text
        self.sites += 1
        return f"{BEGIN}{mistake.text}{END}" if self.sites == self.target else text

    def path(self, depth: int) -> str:
        text = super().path(depth)
        return self.at_site("operand", self.at_site("path", "//a" if text == "/" else text))

    def quoted(self, depth: int) -> str:
        return self.at_site("value", self.at_site("operand", super().quoted(depth)))

    def literal(self, depth: int) -> str:
        return self.at_site("value", self.at_site("operand", super().literal(depth)))

    def step(self, depth: int, *, last: bool) -> str:
        return self.at_site("step", super().step(depth, last=last))

    def call(self, name: str, *arguments: str) -> str:
        text = super().call(name, *arguments)
        mistake = self.mistake
        if name == "concat" or mistake is None or mistake.site not in ("call", "count"):
            return text
        if mistake.site == "count" and name not in ("count", "sum"):
            return text
        self.sites += 1
        return f"{name}{BEGIN}{mistake.text}{END}" if self.sites == self.target else text

    def infix(self, left: str, operator: str, right: str) -> str:
        return f"{left} {self.at_site('operator', operator)} {right}"


def draw_refused(random: Random, mistake: Mistake) -> Refused:
    """An expression with this mistake."""
    forms = [form for form in FORMS if form.takes(mistake)]
    while True:
        form = random.choice(forms)
        seed, depth = random.random(), random.choice((1, 2, 2, 3))
        valid, sites = _draw(seed, depth, mistake, form, target=-1)
        if not sites:
            continue
        marked, _ = _draw(seed, depth, mistake, form, target=random.randint(1, sites))
        begin = marked.find(BEGIN)  # not in the text if it was drawn for something that did not come into it
        if begin >= 0 and (mistake.where != AFTER_SLASH or marked[:begin].rstrip().endswith("/")):
            break
    position = begin + mistake.offset
    if mistake.site == "call":  # the whole call is refused
        position = begin - len(re.split(r"[^\w-]", marked[:begin])[-1])
    fixed = re.sub(f"{BEGIN}.*{END}", lambda _: mistake.fix, marked, flags=re.DOTALL) if mistake.fix else ""
    return Refused(marked.replace(BEGIN, "").replace(END, ""), position, valid, fixed, mistake, form)


def _draw(seed: float, depth: int, mistake: Mistake, form: Form, *, target: int) -> tuple[str, int]:
    drawer = MistakenDrawer(Random(seed), (("p", "urn:1"),), depth_max=depth, brackets=int(form.in_brackets))
    drawer.mistake, drawer.target = mistake, target
    draw_top: Draw = drawer.some((1, drawer.boolean), (1, drawer.items), (1, drawer.number))
    return form.text.format(draw_top(0).replace(UNPREFIXED, "")), drawer.sites
