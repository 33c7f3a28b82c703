"""Random documents with everything that makes editing bytes hard, random lists of steps, and their comparison.

Documents have prefixes that are rebound on the way down, odd white space in tags, both kinds of quotes, CDATA,
comments, instructions, references, and texts that would make `]]>` or one line end of two when the markup between them
goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from xml.sax.saxutils import escape

from lxml import etree
from oracles.differential import PARSER
from oracles.step_lists import RefusedError, Step, StepList, canonical, expected_result

from generators.conditions import ConditionDrawer
from generators.paths_and_documents import LOCALS, PREFIXES, URIS, Vocabulary
from treecast import QueryError, TreecastError, _native

ENTITIES = {"ent": "é<b>]]>\"'&", "one": "1"}


def entity(name: str, text: str) -> str:
    """Its declaration for the oracle; treecast is given the text."""
    return f'<!ENTITY {name} "{escape(text).replace("&", "&#38;").replace(chr(34), "&#34;")}">'


DOCTYPE = f"<!DOCTYPE a [{''.join(entity(name, text) for name, text in ENTITIES.items())}]>"
TEXTS = (
    "1", "2", "x", "xy", " ", "\n", "\r", "\r\n", "]]", "]", ">", "]>", "a &amp; b", "&#x20AC;", "&#13;", "&lt;a/&gt;",
    "é", "<![CDATA[<a>]]>", "x<![CDATA[y]]>z", "<![CDATA[1]]>", "one<!-- ]] -->two", "<!-- <b/> -->", "<?pi <c>?>",
    "1<?p?>2",
)  # fmt: skip
VALUES = ("1", "2", "x", "", "a > b", "&lt;", "&#10;", "\n", "]]", "/>", "xmlns='urn:1'")


@dataclass
class DocumentDrawer:
    random: Random
    namespaces: bool = False
    entities: bool = False
    numbered: bool = False  # every element has its own attribute i
    left: int = 30
    count: int = 0

    def document(self) -> str:
        self.left = self.random.randint(1, self.left)
        return self.element(1, {})

    def element(self, depth: int, outer: dict[str, str]) -> str:
        self.left -= 1
        scope = dict(outer)
        attributes = self.declarations(scope) + self.attributes(scope)
        self.random.shuffle(attributes)
        name = self.qname(scope, LOCALS)
        tag = name + "".join(self.random.choice((" ", " ", "  ", "\n")) + text for text in attributes)
        if self.random.random() < 0.2:
            return f"<{tag}{self.space()}/>"
        inside = ""
        while self.random.random() < (0.75 if depth < 4 else 0.5):
            inside += self.text() if self.random.random() < 0.4 else ""
            if self.left > 0 and depth < 8:
                inside += self.element(depth + 1, scope)
            else:
                inside += self.random.choice(("<!-- c -->", "<?p q?>"))
        if self.random.random() < 0.4:
            inside += self.text()
        return f"<{tag}{self.space()}>{inside}</{name}{self.space()}>"

    def declarations(self, scope: dict[str, str]) -> list[str]:
        out = []
        for prefix in ("", *PREFIXES):
            if self.namespaces and self.random.random() < 0.2:
                scope[prefix] = self.random.choice(URIS if prefix else ("", *URIS))
                out.append(f"xmlns{':' if prefix else ''}{prefix}" + self.quoted(scope[prefix]))
        return out

    def attributes(self, scope: dict[str, str]) -> list[str]:
        text_by_name: dict[tuple[str, str], str] = {}
        while self.random.random() < 0.4:
            name = self.qname(scope, ("x", "y", "z"), attribute=True)
            prefix, _, local = name.rpartition(":")
            value = "&ent;" if self.entities and self.random.random() < 0.2 else self.random.choice(VALUES)
            text_by_name.setdefault((scope[prefix] if prefix else "", local), name + self.quoted(value))
        self.count += 1
        return [*text_by_name.values(), *([f"i='{self.count}'"] if self.numbered else [])]

    def qname(self, scope: dict[str, str], locals_: Sequence[str], *, attribute: bool = False) -> str:
        prefixes = [prefix for prefix in scope if prefix]
        prefix = self.random.choice(prefixes) + ":" if prefixes and self.random.random() < 0.4 else ""
        return prefix + self.random.choice(locals_)

    def quoted(self, value: str) -> str:
        quote = "'" if '"' in value else '"' if "'" in value else self.random.choice("'\"")
        return self.random.choice(("=", "=", " = ", "\n=")) + quote + value + quote

    def space(self) -> str:
        return self.random.choice(("", "", "", " ", "\n"))

    def text(self) -> str:
        if self.entities and self.random.random() < 0.3:
            return self.random.choice(("&ent;", "x&one;", "]]&ent;"))
        return self.random.choice(TEXTS)


@dataclass
class ListDrawer:
    random: Random
    words: Vocabulary
    steps_max: int = 6

    def __post_init__(self) -> None:
        self.conditions = ConditionDrawer(self.random, self.words, depth_max=2)

    def steps(self) -> StepList:
        steps = tuple(self.step() for _ in range(self.random.randint(1, self.steps_max)))
        start = self.union(elements=True) if self.random.random() < 0.3 else ("", "")
        oracle_namespaces = tuple((prefix, uri) for uri, prefix in self.words.oracle_prefixes.items())
        return StepList(steps, *start, self.words.prefixes, oracle_namespaces)

    def step(self) -> Step:
        word = self.random.choices(("drop", "keep", "rename", "unwrap"), (3, 1, 3, 2))[0]
        paths, oracle = self.union(elements=word == "unwrap", texts=word != "rename")
        if word != "rename":
            return Step(word, paths, oracle)
        local = self.random.choice((*LOCALS, "x", "z"))
        prefix, uri = self.random.choice((*self.words.prefixes, ("", "")))
        if not prefix:
            return Step(word, paths, oracle, local, dict(self.words.prefixes).get("", ""))
        return Step(word, paths, oracle, f"{prefix}:{local}", uri, uri)

    def union(self, *, elements: bool, texts: bool = True) -> tuple[str, str]:
        paths = [self.path(elements=elements, texts=texts)]
        while self.random.random() < 0.25 and len(paths) < 4:
            paths.append(self.path(elements=elements, texts=texts))
        between = self.random.choice((", ", " | ", ","))
        return between.join(text for text, _ in paths), " | ".join(oracle for _, oracle in paths)

    def path(self, *, elements: bool, texts: bool) -> tuple[str, str]:
        text = oracle = ""
        for place in range(self.random.choice((1, 1, 2, 3))):
            between = self.random.choice(("/", "//") if place else ("/", "//", "//", "//"))
            axis = self.conditions.axis(first=place == 0, absolute=True) if self.random.random() < 0.3 else ""
            test, against = self.conditions.element_test()
            predicates = self.conditions.predicates(0, "element") if self.random.random() < 0.5 else ("", "")
            text += between + axis + test + predicates[0]
            oracle += between + axis + against + predicates[1]
        if elements or self.random.random() < 0.55:
            return text, oracle
        between = self.random.choice(("/", "/", "//"))
        while True:
            tail, against = self.conditions.tail(0)
            if texts or "text()" not in tail.partition("[")[0]:
                return text + between + tail, oracle + between + against


# --- comparison ------------------------------------------------------------------------------------------------------


def restructure(document: bytes, *lists: str, namespaces: Sequence[tuple[str, str]] = (), **settings: Any) -> list[Any]:
    """Payloads of lists on a document: bytes, an exception where refused, None where too long."""
    return restructure_counting(document, *lists, namespaces=namespaces, **settings)[0]


def restructure_counting(
    document: bytes, *lists: str, namespaces: Sequence[tuple[str, str]] = (), **settings: Any
) -> tuple[list[Any], int]:
    payloads, applied_count = _native.testing.restructure(
        document, [text.encode() for text in lists], list(namespaces), **settings
    )
    return payloads, applied_count


def compare(document: str, lists: Sequence[StepList], *, encoding: str = "utf-8", entities: bool = False) -> int:
    """Compare each list with the oracle, one after the other and all together; return how many left something."""
    texts = [steps.text for steps in lists]
    data = document.encode(encoding) if encoding != "latin-1" else declared(document)
    settings = {"entities": _native.Entities(ENTITIES)} if entities else {}
    payloads = restructure(data, *texts, namespaces=lists[0].namespaces, **settings)
    alone = [restructure(data, text, namespaces=lists[0].namespaces, **settings)[0] for text in texts]
    source = ((DOCTYPE if entities else "") + document).encode()
    filled_count = 0
    for steps, payload, own in zip(lists, payloads, alone, strict=True):
        case = f"{steps.text}\nunder {steps.namespaces}\non {document}\ngives {payload!r}"
        try:
            expected = expected_result(source, steps)
        except RefusedError:
            assert isinstance(payload, TreecastError) and payload.code == "TC119", case
            continue
        assert payload == own, case
        assert isinstance(payload, bytes), case
        assert canonical(payload) == canonical(expected), f"{case}\nnot {expected}"
        check_bindings(source, payload, steps, case)
        filled_count += bool(payload)
    return filled_count


def declared(document: str) -> bytes:
    return b'<?xml version="1.0" encoding="ISO-8859-1"?>' + document.encode("latin-1", "xmlcharrefreplace")


def check_bindings(source: bytes, payload: bytes, steps: StepList, case: str) -> None:
    """Every element that its number identifies still sees the prefixes that it saw in the document."""
    before = {element.get("i"): element for element in etree.fromstring(source, PARSER).iter(etree.Element)}
    default_may_change = any(step.word == "rename" and ":" not in step.name for step in steps.steps)
    for element in etree.fromstring(b"<w>" + payload + b"</w>", PARSER).iter(etree.Element):
        number = element.get("i")
        if number is None:
            continue
        for prefix, uri in {None: None, **before[number].nsmap}.items():
            if prefix or not default_may_change:
                bound_uri = element.nsmap.get(prefix)
                assert (bound_uri or "") == (uri or ""), f"{case}\nbinds {prefix} to {bound_uri}"


def run_round(seed: str, lists_each: int = 4) -> tuple[int, int]:
    """One document and some lists; (pairs, how many left something)."""
    random = Random(seed)
    namespaces, entities = random.random() < 0.6, random.random() < 0.15
    drawer = DocumentDrawer(random, namespaces=namespaces, entities=entities, numbered=random.random() < 0.5)
    document = drawer.document()
    words = Vocabulary.tiny(random, namespaces=namespaces)
    lists: list[StepList] = []
    while len(lists) < lists_each:
        steps = ListDrawer(random, words).steps()
        if lists and random.random() < 0.5:  # begin like the list before
            last = lists[-1]
            steps = StepList(last.steps[:3] + steps.steps[:2], last.start, last.start_oracle, *words_of(steps))
        if accepted(steps):
            lists.append(steps)
    encoding = random.choice(("utf-8",) * 8 + ("utf-16", "latin-1")) if not entities else "utf-8"
    return len(lists), compare(document, lists, encoding=encoding, entities=entities)


def words_of(steps: StepList) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    return steps.namespaces, steps.oracle_namespaces


def accepted(steps: StepList) -> bool:
    """Whether treecast reads the list: `self::` and `descendant-or-self::` may stand for too many paths."""
    try:
        restructure(b"<a/>", steps.text, namespaces=steps.namespaces)
    except QueryError as error:
        assert error.code in ("TC326", "TC328"), f"{steps.text}: {error}"
        return False
    return True
