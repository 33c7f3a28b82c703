"""Pairs of queries that may cover each other, and documents for them; lxml says what matches.

`draw_pair` draws a query and a relative of it, `plant` grows a document from a query so that it is likely to match, and
`canonical` grows all documents that decide containment for small tree patterns (the canonical models of Miklau and
Suciu): every gap of a `//` is filled by none, one or more elements of a name that no query has, as is every `*`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from lxml import etree

import treecast
from generators.functions import OF_XPATH_1
from treecast.query.tree import (
    And,
    Call,
    Compare,
    Condition,
    Exists,
    Or,
    Path,
    Position,
    Step,
)

NAMESPACES = {"p": "urn:p", "q": "urn:q"}
FRESH = "z"


@dataclass(frozen=True)
class Dialect:
    """Which parts of the language are drawn, and how often."""

    gaps: float = 0.0
    wildcards: float = 0.0
    branches: float = 0.5
    leaves: float = 0.15  # attributes and texts at the end
    choices: float = 0.0  # or, |
    values: float = 0.0
    spice: float = 0.0  # not(), positions, self::, descendant-or-self::, absolute paths in predicates, namespaces
    steps_max: int = 3


DESCEND = Dialect(gaps=0.4, choices=0.1)
WILD = Dialect(wildcards=0.4, choices=0.1)
MIXED = Dialect(gaps=0.4, wildcards=0.4)
ALL = Dialect(gaps=0.25, wildcards=0.2, branches=0.6, leaves=0.25, choices=0.12, values=0.5, spice=0.15)


@dataclass(frozen=True)
class Part:
    """One step as text, and its predicates: texts, or paths in place of `{}`."""

    separator: str
    test: str
    predicates: tuple[tuple[str, tuple[tuple[Part, ...], ...]], ...] = ()


Parts = tuple[Part, ...]


def show(parts: Parts, relative: bool = False) -> str:
    text = "".join(
        part.separator
        + part.test
        + "".join(f"[{form.format(*(show(path, relative=True) for path in paths))}]" for form, paths in part.predicates)
        for part in parts
    )
    if relative and text.startswith("//"):
        return "." + text
    return text.removeprefix("/") if relative else text


def draw_parts(random: Random, dialect: Dialect, depth: int = 0) -> Parts:
    count = random.randint(1, max(1, dialect.steps_max - depth))
    parts = [draw_part(random, dialect, depth) for _ in range(count)]
    if random.random() < dialect.leaves and (depth or count > 1):
        names = ["@x", "@y", *(["@*"] if dialect.wildcards else []), "text()", *(["@p:x"] if dialect.spice else [])]
        separator = "//" if random.random() < dialect.gaps else "/"
        parts[-1 if count > 1 else 0 :] = [*([parts[0]] if count == 1 else []), Part(separator, random.choice(names))]
    return tuple(parts)


def draw_part(random: Random, dialect: Dialect, depth: int) -> Part:
    separator = "//" if random.random() < dialect.gaps else "/"
    test = "*" if random.random() < dialect.wildcards else random.choice("abc")
    if random.random() < dialect.spice:
        test = random.choice(
            ["self::a", "self::*", "descendant-or-self::b", "p:a", "p:*", "*[local-name()='a']", "q:b"]
        )
        separator = "/" if ":" in test and "::" in test else separator
    predicates: list[tuple[str, tuple[Parts, ...]]] = []
    while depth < 2 and random.random() < dialect.branches / (1 + len(predicates)):
        predicates.append(draw_predicate(random, dialect, depth))
    return Part(separator, test, tuple(predicates))


def draw_predicate(random: Random, dialect: Dialect, depth: int) -> tuple[str, tuple[Parts, ...]]:
    def path() -> Parts:
        return draw_parts(random, dialect, depth + 1)

    if random.random() < dialect.choices:
        one, other = draw_predicate(random, dialect, depth + 1), draw_predicate(random, dialect, depth + 1)
        joint = random.choice([" and ", " or ", " or "])
        if not one[0].isdecimal() and not other[0].isdecimal():
            return f"({one[0]}{joint}{other[0]})", one[1] + other[1]
    if random.random() < dialect.spice:
        number = random.randint(1, 3)
        kind = random.randrange(6)
        if kind < 2:
            form, paths = draw_predicate(random, dialect, depth + 1)
            if not form.isdecimal():
                return f"not({form})", paths
        if kind == 2:
            return "/{}", (path(),)
        return random.choice([f"{number}", "position()=last()", f"position()>{number}", f"last()={number}"]), ()
    if random.random() < dialect.values:
        test, value = draw_value(random)
        where: tuple[Parts, ...] = (path(),)
        if random.random() < 0.6:
            where = ((Part("/", random.choice(["@x", "@x", "@y", "text()"])),),)
        if random.random() < 0.2:
            return test.format(".", value), ()
        return test.format("{}", value), where
    return "{}", (path(),)


def draw_value(random: Random) -> tuple[str, str]:
    if random.random() < 0.2:
        return random.choice(OF_XPATH_1) + '({}, "{}")', random.choice(["", "1", "12", "2", "a"])
    value = random.choice(["1", "2", "3", "12", "2.5", '"1"', '"2"', '"12"', '"1.0"', '"a"', '""'])
    return "{} " + random.choice(["=", "=", "!=", "<", "<=", ">", ">="]) + " {}", value


def vary(random: Random, parts: Parts, dialect: Dialect) -> Parts:
    """A relative: mostly more general, sometimes just different."""
    at = random.randrange(len(parts))
    part = parts[at]
    change = random.randrange(8)
    if change == 0 and dialect.gaps:
        return (*parts[:at], replace(part, separator="//"), *parts[at + 1 :])
    if change == 1 and dialect.wildcards and part.test[0] not in "@ts":
        return (*parts[:at], replace(part, test="*"), *parts[at + 1 :])
    if change in (2, 3) and part.predicates:
        place_removed = random.randrange(len(part.predicates))
        predicates = part.predicates[:place_removed] + part.predicates[place_removed + 1 :]
        return (*parts[:at], replace(part, predicates=predicates), *parts[at + 1 :])
    if change == 4 and len(parts) > 1:
        return parts[:-1]
    if change == 5 and len(parts) > 1 and dialect.gaps:
        return (replace(parts[1], separator="//"), *parts[2:])
    if change == 6 and part.predicates:
        index = random.randrange(len(part.predicates))
        form, paths = part.predicates[index]
        if paths and random.random() < 0.6:
            predicate = (form, (vary(random, paths[0], dialect), *paths[1:]))
        elif dialect.choices and not form.isdecimal():
            extra, more = draw_predicate(random, dialect, 1)
            predicate = (f"{form} or {extra}", paths + more) if not extra.isdecimal() else (form, paths)
        else:
            predicate = draw_predicate(random, dialect, 1)
        fresh = (*part.predicates[:index], predicate, *part.predicates[index + 1 :])
        return (*parts[:at], replace(part, predicates=fresh), *parts[at + 1 :])
    if change == 7 and at == len(parts) - 1 and part.test[0] not in "@t":
        more_predicates = (*part.predicates, draw_predicate(random, dialect, 1))
        return (*parts[:at], replace(part, predicates=more_predicates), *parts[at + 1 :])
    return parts


def draw_pair(random: Random, dialect: Dialect) -> tuple[treecast.Query, treecast.Query]:
    """(a, b), both readable; a is mostly a more general relative of b, sometimes the other way round or unrelated."""
    while True:
        parts = draw_parts(random, dialect)
        near = parts if random.random() < 0.85 else draw_parts(random, dialect)
        for _ in range(random.randint(1, 3)):
            near = vary(random, near, dialect)
        texts = [show(near), show(parts)]
        if random.random() < 0.2:
            texts.reverse()
        for which in (0, 1):
            if random.random() < dialect.choices / 2:
                texts[which] += " | " + show(draw_parts(random, dialect))
        try:
            a, b = (treecast.Query(text, namespaces=NAMESPACES) for text in texts)
        except treecast.QueryError:  # a step below an attribute and the like
            continue
        return a, b


# Documents.


class Chooser:
    """Chooses one of n, again and again; see Lucky and Script."""

    def pick(self, count: int) -> int:
        raise NotImplementedError


class Lucky(Chooser):
    """At random."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def pick(self, count: int) -> int:
        return self.random.randrange(count)


class Script(Chooser):
    """By a list, and from its end on the first; `counts` remembers what there was to choose from."""

    def __init__(self, script: list[int]) -> None:
        self.script = script
        self.counts: list[int] = []

    def pick(self, count: int) -> int:
        self.counts.append(count)
        place = len(self.counts) - 1
        return self.script[place] if place < len(self.script) else 0


class Grower:
    """Grows a document from a path. Positions and not() are left to luck."""

    def __init__(self, chooser: Chooser, gap_max: int, names: str = FRESH) -> None:
        self.chooser = chooser
        self.gap_max = gap_max
        self.names = names
        self.root: Any = None

    def name(self, step: Step) -> str:
        local = step.local or self.names[self.chooser.pick(len(self.names))]
        return f"{{{step.uri}}}{local}" if step.uri else local

    def child(self, above: Any, name: str) -> Any:
        if above is not None:
            return etree.SubElement(above, name)
        if self.root is None:
            self.root = etree.Element(name)
        return self.root

    def follow(self, at: Any, steps: tuple[Step, ...], value: Call | Compare | None = None) -> None:
        for step in steps:
            if step.axis == "self" and not step.gap:
                self.hold(at, step.predicates)
                continue
            stay = step.axis in ("self", "descendant-or-self") and at is not None and self.chooser.pick(2) == 0
            if not stay:
                deep = step.gap or step.axis.startswith("descendant")
                for _ in range(self.chooser.pick(self.gap_max + 1) if deep else 0):
                    at = self.child(at, self.names[self.chooser.pick(len(self.names))])
                if step.kind != "element":
                    self.leaf(at, step, value)
                    return
                at = self.child(at, self.name(step))
            self.hold(at, step.predicates)
        if value is not None and at is not None:
            at.text = self.suitable(value)

    def leaf(self, at: Any, step: Step, value: Call | Compare | None) -> None:
        if at is None:
            at = self.child(None, self.names[0])
        inner = [each for each in step.predicates if isinstance(each, Call | Compare)]
        text = self.suitable(value or next(iter(inner), None))
        if step.kind == "attribute":
            at.set(self.name(step), text)
        elif not at.text or self.chooser.pick(2) == 0:
            at.text = text or "t"
        else:
            etree.SubElement(at, FRESH).tail = text or "t"

    def suitable(self, condition: Call | Compare | None) -> str:
        if condition is None:
            return ""
        if isinstance(condition, Call):
            more = ("", "1", "a")[self.chooser.pick(3)]
            return condition.text + more if condition.function.after else more + condition.text
        near = condition.value
        if isinstance(near, str):
            if condition.relation == "=":
                return near
            near = float(near) if near.replace(".", "").isdigit() else 0.0
        less, more = f"{near - 1:g}", f"{near + 0.5:g}"
        same = (f"{near:g}", f" {near:g} ", f"{near:.2f}")[self.chooser.pick(3)]
        choices = {"=": [same], "!=": [less, "a"], "<": [less], "<=": [less, same], ">": [more], ">=": [more, same]}
        texts = choices[condition.relation]
        return texts[self.chooser.pick(len(texts))]

    def hold(self, at: Any, conditions: tuple[Condition, ...]) -> None:
        for condition in conditions:
            match condition:
                case And(operands):
                    self.hold(at, operands)
                case Or(operands):
                    self.hold(at, (operands[self.chooser.pick(len(operands))],))
                case Exists(paths):
                    self.path(at, paths[self.chooser.pick(len(paths))])
                case Compare(paths):
                    self.path(at, paths[self.chooser.pick(len(paths))], condition)
                case Call(path):
                    self.path(at, path, condition)
                case Position("=", number) if number and at is not None and at.getparent() is not None:
                    for _ in range(int(number) - 1):
                        at.addprevious(etree.Element(at.tag))
                case _:
                    pass

    def path(self, at: Any, path: Path, value: Call | Compare | None = None) -> None:
        self.follow(None if path.absolute else at, path.steps, value)


def reread(root: Any) -> Any:
    """The document as a parser sees it: a tree made by hand may hold empty texts, or two in a row."""
    return etree.fromstring(etree.tostring(root)).getroottree()


def plant(random: Random, query: treecast.Query, names: str = "zabc") -> Any:
    """A document that the query is likely to match, with some noise."""
    grower = Grower(Lucky(random), 2, names)
    grower.path(None, random.choice(query.tree))
    root = grower.root if grower.root is not None else etree.Element("a")
    for element in list(root.iter("*")):
        if random.random() < 0.2:
            noise = etree.Element(random.choice(["a", "b", "c", "{urn:p}a"]))
            noise.text = random.choice([None, "1", "2", "a"])
            element.insert(random.randint(0, len(element)), noise)
        if random.random() < 0.1:
            element.set(random.choice("xy"), random.choice(["", "1", "2", "3", "12", "a"]))
        if random.random() < 0.1:
            element.append(etree.Comment("noise"))
    return reread(root)


def canonical(query: treecast.Query, gap_max: int) -> Iterator[Any]:
    """All canonical documents of a query without values, positions and not()."""
    for path in query.tree:
        script: list[int] = []
        while True:
            chooser = Script(script)
            grower = Grower(chooser, gap_max)
            grower.path(None, path)
            yield reread(grower.root)
            choices = script + [0] * (len(chooser.counts) - len(script))
            while choices and choices[-1] + 1 == chooser.counts[len(choices) - 1]:
                choices.pop()
            if not choices:
                break
            script = [*choices[:-1], choices[-1] + 1]


class Oracle:
    """lxml's answer for a query."""

    def __init__(self, query: treecast.Query) -> None:
        self.evaluate = etree.XPath(f"boolean({query})", namespaces=NAMESPACES)

    def matches(self, document: Any) -> bool:
        return bool(self.evaluate(document))


def is_contained(a: treecast.Query, b: treecast.Query, gap_max: int, documents_max: int) -> bool | None:
    """Whether a matches the canonical documents of b; None where there are too many of them to tell."""
    oracle_a, oracle_b = Oracle(a), Oracle(b)
    for count, document in enumerate(canonical(b, gap_max)):
        assert oracle_b.matches(document), f"{b}: {etree.tostring(document).decode()}"
        if not oracle_a.matches(document):
            return False
        if count == documents_max:
            return None
    return True


def count_triples(random: Random, dialect: Dialect, triples: int) -> tuple[int, int]:
    """Check that many (a, b, document) with a.covers(b); (pairs drawn, documents that b matched)."""
    pairs = documents_matched = documents_checked = 0
    while documents_checked < triples:
        a, b = draw_pair(random, dialect)
        pairs += 1
        if a == b or not a.covers(b):
            continue
        oracle_a, oracle_b = Oracle(a), Oracle(b)
        for _ in range(5):
            document = plant(random, b)
            documents_checked += 1
            if oracle_b.matches(document):
                documents_matched += 1
                assert oracle_a.matches(document), f"{a} does not cover {b}: {etree.tostring(document).decode()}"
    return pairs, documents_matched
