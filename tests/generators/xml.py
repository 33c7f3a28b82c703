"""Random well-formed documents, and what lxml and expat see in a document, in the reader's terms."""

from __future__ import annotations

import random
from typing import Any, NamedTuple
from xml.parsers import expat

from lxml import etree

from treecast.document import Document

Name = tuple[str, str]
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "us-ascii", "iso-8859-1", "windows-1252")
LOCALS = (
    "a",
    "b",
    "c",
    "item",
    "tobject.subject",
    "x-1",
    "_",
    "ümlaut",
    "中文",
    "a-name-that-is-longer-than-thirty-two-bytes",
)
PREFIXES = ("p", "q", "ns1", "xml-ish")
URIS = ("urn:one", "urn:two", "http://example.org/ns?a=1&amp;b=2", "urn:th&#114;ee")
TEXTS = (
    *(
        "x",
        "one two three",
        " \n\t ",
        "]]",
        "]",
        ">",
        "&amp;",
        "&lt;&gt;",
        "&#65;",
        "&#x1F600;",
        "&#13;",
        "é",
        "😀",
        "“q”",
    ),
    *(
        "\r\n",
        "\r",
        "text that is long enough to need more than one load of bytes, so it goes on and on past sixty-four",
    ),
)
VALUES = (
    "",
    "1",
    "a b",
    "\t\n",
    "\r\n",
    "&quot;&apos;",
    "&#9;&#10;",
    "é",
    ">",
    "=/>",
    "much longer than thirty-two bytes, so two loads",
)
SPACES = (" ", "  ", "\n", "\r\n\t")


class Seen(NamedTuple):
    """What the columns of a Document should be."""

    names: list[Name]
    attributes: list[tuple[int, Name, str]]
    texts: list[tuple[int, str]]


class Generator:
    """Makes documents that use everything the reader knows; the same seed makes the same documents."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def document(self, encoding: str) -> bytes:
        rng, pick = self.rng, self.rng.choice
        label = {"utf-8-sig": "UTF-8", "utf-16-le": "UTF-16LE", "utf-16-be": "UTF-16BE"}.get(encoding, encoding)
        parts = []
        if encoding not in ("utf-8", "utf-8-sig", "utf-16") or rng.random() < 0.7:
            parts.append(f'<?xml version="1.0" encoding="{label}"?>')
        if rng.random() < 0.3:
            parts.append(
                pick(("<!DOCTYPE a>", "<!DOCTYPE a SYSTEM 'none.dtd' [ <!-- --> ]>", "<!-- - -->", "<?p q?>\n"))
            )
        self.element(parts, 0, {"": "", "xml": "x"})
        parts.append(pick(("", "\n", "<!-- end -->", "<?p?>\r\n")))
        return self.fit("".join(parts), encoding)

    def fit(self, text: str, encoding: str) -> bytes:
        """The text in the encoding, with plain letters for what it lacks."""
        if encoding in ("us-ascii", "iso-8859-1", "windows-1252"):
            text = "".join(c if c.encode(encoding, "ignore") else "u" for c in text)
        return text.encode(encoding)

    def element(self, parts: list[str], depth: int, scope: dict[str, str]) -> None:
        rng, pick = self.rng, self.rng.choice
        scope = dict(scope)
        value_by_name: dict[str, str] = {}
        if rng.random() < 0.2:
            prefix = pick(PREFIXES)
            value_by_name[f"xmlns:{prefix}"] = scope[prefix] = pick(URIS)
        if rng.random() < 0.1:
            value_by_name["xmlns"] = scope[""] = pick((*URIS, ""))
        expanded_names = set()
        for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
            prefix, local = pick([p for p in scope if p != "xmlns"]), pick(LOCALS)
            if prefix and (scope[prefix], local) in expanded_names:
                continue
            expanded_names.add((scope[prefix], local))
            value_by_name[f"{prefix}:{local}" if prefix else local] = pick(VALUES)
        attributes = list(value_by_name.items())
        rng.shuffle(attributes)
        prefix = pick([p for p in scope if p != "xml"])
        name = f"{prefix}:{pick(LOCALS)}" if prefix else pick(LOCALS)
        parts.append(f"<{name}")
        for attribute, value in attributes:
            quote = "'" if '"' in value else pick("\"'")
            equals = pick(("=", "=", "=", " = ", "\n="))
            parts.append(f"{pick(SPACES)}{attribute}{equals}{quote}{value.replace(quote, '')}{quote}")
        parts.append(pick(("", "", *SPACES)))
        if rng.random() < 0.2:
            parts.append("/>")
            return
        parts.append(">")
        self.content(parts, depth, scope)
        parts.append(f"</{name}{pick(('', '', ' ', chr(10)))}>")

    def content(self, parts: list[str], depth: int, scope: dict[str, str]) -> None:
        for _ in range(self.rng.randint(0, 6)):
            kind = self.rng.random()
            if kind < 0.45 and depth < 8:
                self.element(parts, depth + 1, scope)
            elif kind < 0.8:
                parts.append(self.rng.choice(TEXTS))
                if parts[-1].endswith("]"):
                    parts.append("x")
            else:
                parts.append(
                    self.rng.choice(("<!-- c -->", "<?p q?>", "<![CDATA[]]>", "<![CDATA[<&]]]]>", "<![CDATA[\r\nx]]>"))
                )


def name_of(tag: str) -> Name:
    uri, _, local = tag.rpartition("}")
    return uri.removeprefix("{"), local


def lxml_tree(data: bytes) -> Any:
    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True))


def seen_by_lxml(root: Any) -> Seen:
    content = Seen([], [], [])
    numbers: dict[Any, int] = {}
    for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        if event == "start":
            numbers[element] = number = len(content.names)
            content.names.append(name_of(element.tag))
            content.attributes.extend((number, name_of(name), value) for name, value in element.attrib.items())
            if element.text:
                content.texts.append((number, element.text))
        elif element is not root and element.tail:
            content.texts.append((numbers[element.getparent()], element.tail))
    return content


def seen_by_treecast(document: Document) -> Seen:
    return Seen(document.names, document.attributes, document.texts)


def starts_by_expat(data: bytes) -> list[int]:
    """The byte index of each start tag. If expat does not know the encoding name, it gets another one."""
    encoding = (
        None
        if b"utf16" not in data.replace(b"\0", b"").replace(b"_", b"")
        else "utf-16be"
        if data[0] == 0
        else "utf-16"
    )
    parser = expat.ParserCreate(encoding)
    starts: list[int] = []
    parser.StartElementHandler = lambda name, attributes: starts.append(parser.CurrentByteIndex)
    parser.Parse(data, True)
    return starts


def canonical(element: Any) -> bytes | None:
    """Exclusive canonical XML; None where it refuses to be, because a namespace is relative."""
    try:
        form: bytes = etree.tostring(element, method="c14n", exclusive=True, with_tail=False)
    except etree.C14NError:
        return None
    return form


def in_scope(element: Any) -> dict[str | None, str]:
    """Its namespaces by prefix, without a default one that was taken back."""
    return {prefix: uri for prefix, uri in element.nsmap.items() if uri}


def check_slices(document: Document, root: Any) -> None:
    """Each element's slice, parsed alone, is the same element with the same namespaces in scope."""
    elements = [element for element in root.iter() if isinstance(element.tag, str)]
    assert len(elements) == len(document)
    for number, element in enumerate(elements):
        alone = etree.fromstring(document.slice(number))
        assert in_scope(alone) == in_scope(element)
        assert seen_by_lxml(alone) == seen_by_lxml(element)
        assert canonical(alone) == canonical(element)
