"""Random documents and queries over a tiny vocabulary, where everything collides with everything.

Documents carry what a reader must see through: comments, processing instructions, CDATA, references, prefixes that are
rebound on the way down. Queries use every form of path: both abbreviated and spelt-out axes, wildcards, attributes,
text, unions, and names in namespaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from xml.sax.saxutils import quoteattr

from lxml import etree
from oracles.differential import PARSER, Query

LOCALS = ("a", "b", "c")
ATTRIBUTES = ("x", "y", "a")
URIS = ("urn:1", "urn:2", "urn:3")
PREFIXES = ("p", "q", "r")


def draw_document(random: Random, *, namespaces: bool = False, elements_max: int = 40, depth_max: int = 8) -> bytes:
    """A random tree; with `namespaces`, prefixes are declared and rebound at random."""
    out: list[str] = []
    elements_left = random.randint(1, elements_max)

    def content(depth: int, scope: dict[str, str]) -> None:
        while elements_left > 0 and depth < depth_max and random.random() < 0.7:
            if random.random() < 0.3:
                out.append(draw_text(random))
            element(depth + 1, scope)
        if random.random() < 0.3:
            out.append(draw_text(random))

    def element(depth: int, outer: dict[str, str]) -> None:
        nonlocal elements_left
        elements_left -= 1
        scope, declarations = draw_scope(random, outer) if namespaces else (outer, "")
        prefixes = [prefix for prefix in scope if prefix and scope[prefix]]
        name = random.choice(LOCALS)
        if prefixes and random.random() < 0.5:
            name = f"{random.choice(prefixes)}:{name}"
        out.append(f"<{name}{declarations}{draw_attributes(random, scope, prefixes)}")
        if random.random() < 0.2:
            out.append("/>")
            return
        out.append(">")
        content(depth, scope)
        out.append(f"</{name}>")

    element(1, {})
    before = random.choice(("", '<?xml version="1.0"?>', "<!-- a -->", "<?pi b?>\n", "\ufeff"))
    return (before + "".join(out) + random.choice(("", "\n", "<!-- /a -->"))).encode()


def draw_scope(random: Random, outer: dict[str, str]) -> tuple[dict[str, str], str]:
    """Declare some prefixes again; only the default namespace can be undeclared."""
    scope, declarations = dict(outer), ""
    for prefix in ("", *PREFIXES):
        if random.random() < 0.25:
            uri = random.choice(URIS if prefix else ("", *URIS))
            scope[prefix] = uri
            declarations += f" xmlns{':' if prefix else ''}{prefix}={quoteattr(uri)}"
    return scope, declarations


def draw_attributes(random: Random, scope: dict[str, str], prefixes: Sequence[str]) -> str:
    known_names: set[tuple[str, str]] = set()
    text = ""
    while random.random() < 0.35:
        prefix = random.choice(prefixes) if prefixes and random.random() < 0.5 else ""
        local = random.choice(ATTRIBUTES)
        if (scope.get(prefix, "") if prefix else "", local) in known_names:
            continue
        known_names.add((scope[prefix] if prefix else "", local))
        name = f"{prefix}:{local}" if prefix else local
        text += f" {name}={quoteattr(random.choice(('', '1', 'a', '<a>', 'é')))}"
    return text


def draw_text(random: Random) -> str:
    """No empty CDATA section alone: XPath knows no empty text, but libxml2 makes one of it."""
    return random.choice(
        (
            " ", "\n", "text", "a &amp; b", "&#x20AC;", "<![CDATA[<a>]]>", "<!-- <b/> -->",
            "<?pi <c>?>", "one<!-- -->two", "x<![CDATA[y]]>z", "é", "]] >",
        )
    )  # fmt: skip


def chain(random: Random, depth: int) -> bytes:
    """A document of one path: the deepest recursion, where `//` states pile up."""
    names = [random.choice(LOCALS) for _ in range(depth)]
    middle = random.choice(("", "text", "<a/><b/>", '<c x="1"/>'))
    return ("".join(f"<{n}>" for n in names) + middle + "".join(f"</{n}>" for n in reversed(names))).encode()


# --- queries ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Vocabulary:
    """What queries may name: elements and attributes as (URI, local), and the prefixes of the query and the oracle."""

    elements: tuple[tuple[str, str], ...]
    attributes: tuple[tuple[str, str], ...]
    prefixes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def tiny(cls, random: Random, *, namespaces: bool = False) -> Vocabulary:
        if not namespaces:
            return cls(tuple(("", name) for name in LOCALS), tuple(("", name) for name in ATTRIBUTES))
        uris = ["", *URIS]
        elements = tuple((uri, name) for uri in uris for name in LOCALS)
        attributes = tuple((uri, name) for uri in uris for name in ATTRIBUTES)
        # The query's prefixes have nothing to do with the document's: any of them may mean any URI.
        prefixes = [(prefix, uri) for prefix, uri in zip(PREFIXES, random.sample(URIS, len(URIS)), strict=True)]
        if random.random() < 0.4:
            prefixes.append(("", random.choice(URIS)))
        return cls(elements, attributes, tuple(prefixes))

    @property
    def oracle_prefixes(self) -> dict[str, str]:
        """URI -> prefix on the oracle's side."""
        return {uri: f"n{place}" for place, uri in enumerate(dict.fromkeys(uri for _, uri in self.prefixes))}

    def element(self, random: Random, uri: str, local: str) -> tuple[str, str]:
        """A name test for this element, for treecast and for the oracle."""
        default = dict(self.prefixes).get("")
        if uri == (default or ""):
            return local, f"{self.oracle_prefixes[uri]}:{local}" if uri else local
        for prefix, bound_uri in self.prefixes:
            if prefix and bound_uri == uri:
                test = random.choice((local, local, "*"))
                return f"{prefix}:{test}", f"{self.oracle_prefixes[uri]}:{test}"
        any_namespace = f"*[local-name()='{local}']"
        return any_namespace, any_namespace

    def attribute(self, random: Random, uri: str, local: str) -> tuple[str, str]:
        if not uri:
            return local, local
        for prefix, bound_uri in self.prefixes:
            if prefix and bound_uri == uri:
                test = random.choice((local, "*"))
                return f"{prefix}:{test}", f"{self.oracle_prefixes[uri]}:{test}"
        return "*", "*"


AXES = (
    ("/", 50), ("//", 30), ("/child::", 5), ("/descendant::", 5), ("//child::", 2), ("//descendant::", 2),
    ("/descendant-or-self::", 3), ("/self::", 2), ("//self::", 1),
)  # fmt: skip
AXIS_NAMES, AXIS_WEIGHTS = zip(*AXES, strict=True)


def draw_path(random: Random, words: Vocabulary, steps_max: int) -> tuple[str, str]:
    text = oracle = ""
    for place in range(random.randint(1, steps_max)):
        axis = random.choices(AXIS_NAMES, AXIS_WEIGHTS)[0]
        if place == 0 and axis in ("/self::", "/descendant-or-self::"):
            axis = "/"
        if random.random() < 0.25:
            test = against = "*"
        else:
            test, against = words.element(random, *random.choice(words.elements))
        text += axis + test
        oracle += axis + against
    final = random.random()
    axis = random.choice(("/", "/", "//"))
    if final < 0.12:
        name, against = words.attribute(random, *random.choice(words.attributes))
        if random.random() < 0.2:
            name = against = "*"
        sign = random.choice(("@", "@", "attribute::"))
        text += axis + sign + name
        oracle += axis + sign + against
    elif final < 0.22:
        text += axis + "text()"
        oracle += axis + "text()"
    return text, oracle


def draw_query(random: Random, words: Vocabulary, steps_max: int = 5) -> Query:
    branches = [draw_path(random, words, steps_max)]
    while random.random() < 0.1 and len(branches) < 4:
        branches.append(draw_path(random, words, steps_max))
    between = random.choice(("|", " | "))
    oracle_namespaces = tuple((prefix, uri) for uri, prefix in words.oracle_prefixes.items())
    texts, oracles = zip(*branches, strict=True)
    return Query(between.join(texts), between.join(oracles), words.prefixes, oracle_namespaces)


def draw_queries(random: Random, words: Vocabulary, count: int, steps_max: int = 5) -> list[Query]:
    return [draw_query(random, words, steps_max) for _ in range(count)]


# --- queries from a document -----------------------------------------------------------------------------------------


def words_of(random: Random, documents: Sequence[bytes]) -> Vocabulary:
    """The names that occur in these documents, with a prefix for every namespace."""
    elements: dict[tuple[str, str], None] = {}
    attributes: dict[tuple[str, str], None] = {}
    for document in documents:
        for element in etree.fromstring(document, PARSER).iter(etree.Element):
            elements[split_name(element.tag)] = None
            attributes.update(dict.fromkeys(map(split_name, element.attrib)))
    uris = dict.fromkeys(uri for uri, _ in (*elements, *attributes) if uri)
    prefixes = [(f"w{place}", uri) for place, uri in enumerate(uris) if uri != XML_URI]
    if prefixes and random.random() < 0.5:
        prefixes.append(("", random.choice(prefixes)[1]))
    attribute_names = tuple(name for name in attributes if name[0] != XML_URI) or (("", "x"),)
    return Vocabulary(tuple(elements), attribute_names, tuple(prefixes))


XML_URI = "http://www.w3.org/XML/1998/namespace"


def split_name(name: str) -> tuple[str, str]:
    uri, _, local = name.rpartition("}")
    return uri[1:], local


def paths_of(random: Random, document: bytes, words: Vocabulary, count: int) -> list[Query]:
    """Queries that follow paths of this document, some steps left out or changed: half of them match, nearly."""
    elements = list(etree.fromstring(document, PARSER).iter(etree.Element))
    queries = []
    for _ in range(count):
        element = random.choice(elements)
        line = [*reversed(list(element.iterancestors())), element]
        text = oracle = ""
        has_skipped = False
        for member in line:
            if member is not element and random.random() < 0.25:
                has_skipped = True
                continue
            axis = "//" if has_skipped or random.random() < 0.1 else "/"
            has_skipped = False
            name = split_name(member.tag) if random.random() < 0.93 else random.choice(words.elements)
            test, against = ("*", "*") if random.random() < 0.2 else words.element(random, *name)
            text += axis + test
            oracle += axis + against
        final = random.random()
        if final < 0.1 and element.attrib:
            name = split_name(random.choice(list(element.attrib)))
            test, against = words.attribute(random, *name) if name[0] != XML_URI else ("*", "*")
            text, oracle = f"{text}/@{test}", f"{oracle}/@{against}"
        elif final < 0.2:
            text, oracle = text + "/text()", oracle + "/text()"
        oracle_namespaces = tuple((prefix, uri) for uri, prefix in words.oracle_prefixes.items())
        queries.append(Query(text, oracle, words.prefixes, oracle_namespaces))
    return queries
