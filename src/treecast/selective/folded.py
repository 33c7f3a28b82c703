"""Elements that stand alone: text, comments and processing instructions are folded into their element.

Selective dissemination sends elements, each of which may go to other people than its parent. So whatever is no element
has to belong to one: attributes to their element, and what stands between the children to the parent, as *gaps*. An
element with k children has k+1 gaps. The names and attributes of an element use prefixes that some ancestor may have
bound; the bindings that an element itself uses are kept with it, as in Exclusive XML Canonicalization, so that it needs
no ancestor to be understood.

    >>> from treecast.selective.folded import fold
    >>> document = fold(b'<n:a xmlns:n="urn:n">one<b n:x="1"/>two<!--three--></n:a>')
    >>> [(element.name, element.gaps) for element in document.elements]
    [('n:a', ('one', 'two<!--three-->')), ('b', ('',))]
    >>> document.elements[1].bindings
    (('', ''), ('n', 'urn:n'))
    >>> document.to_bytes()
    b'<n:a xmlns:n="urn:n">one<b n:x="1"></b>two<!--three--></n:a>'

Source: Selective, section IV-A. We differ: the paper folds into attributes; `treecast.selective.encoding` does that.
The document is read by `treecast.document.read` first, so its limits hold, and nothing is fetched or expanded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from xml.parsers import expat

from treecast.document import Bytes, Limits, read
from treecast.errors import DocumentError

XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"
Pairs = tuple[tuple[str, str], ...]

_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#xD;"})
_VALUE = str.maketrans({"&": "&amp;", "<": "&lt;", '"': "&quot;", "\t": "&#x9;", "\n": "&#xA;", "\r": "&#xD;"})


class Element(NamedTuple):
    """An element without its child elements. Everything is text in canonical form, so equal elements are equal."""

    name: str
    """As written, with its prefix."""
    attributes: Pairs
    """(name as written, value), in canonical order, without namespace declarations."""
    declarations: Pairs
    """(prefix, URI) of the namespaces declared here; "" is the default namespace."""
    bindings: Pairs
    """(prefix, URI) of the namespaces that its own name and attributes use."""
    gaps: tuple[str, ...]
    """What stands before the first child, between children and behind the last, as canonical XML."""

    def start_tag(self, declarations: Sequence[tuple[str, str]]) -> str:
        """The start tag with these namespace declarations."""
        if not self.attributes and not declarations:
            return f"<{self.name}>"
        spaces = (f' xmlns{":" if prefix else ""}{prefix}="{escape(uri)}"' for prefix, uri in sorted(declarations))
        values = (f' {name}="{escape(value)}"' for name, value in self.attributes)
        return f"<{self.name}{''.join(spaces)}{''.join(values)}>"


def escape(value: str) -> str:
    """The value of an attribute, in canonical form."""
    return value.translate(_VALUE)


@dataclass(frozen=True, slots=True)
class FoldedDocument:
    """A document as elements in document order, the root first."""

    elements: list[Element]
    parents: list[int]
    """The parent of each element; -1 for the root."""
    before: str = ""
    """Comments and processing instructions before the root element, in canonical form."""
    after: str = ""

    def to_bytes(self) -> bytes:
        """The document in canonical form: equal to C14N 1.0 with comments."""
        parts: list[str] = [self.before]
        scopes: list[dict[str, str]] = [{"": ""}]
        closed_children = [0] * len(self.elements)  # how many children of each
        for event in events(self.parents):
            if event >= 0:
                element, scope = self.elements[event], scopes[-1]
                new = [(prefix, uri) for prefix, uri in element.declarations if scope.get(prefix) != uri]
                scopes.append({**scope, **dict(new)} if new else scope)
                parts += (element.start_tag(new), element.gaps[0])
                continue
            scopes.pop()
            parts.append(f"</{self.elements[~event].name}>")
            parent = self.parents[~event]
            if parent >= 0:
                closed_children[parent] += 1
                parts.append(self.elements[parent].gaps[closed_children[parent]])
        parts.append(self.after)
        return "".join(parts).encode()


def events(parents: Sequence[int]) -> Iterator[int]:
    """Start and end of each element: i where the i-th starts, ~i where it ends."""
    open_elements: list[int] = []
    for element, parent in enumerate(parents):
        while open_elements and open_elements[-1] != parent:
            yield ~open_elements.pop()
        open_elements.append(element)
        yield element
    while open_elements:
        yield ~open_elements.pop()


def fold(data: Bytes, *, limits: Limits | None = None) -> FoldedDocument:
    """Read a document and fold everything into its elements. Raises DocumentError."""
    read(data, limits=limits)
    return _Folder().fold(bytes(data))


class _Open:
    """An element whose end has not been seen."""

    __slots__ = ("attributes", "bindings", "declarations", "gaps", "name", "number", "scope", "text")

    def __init__(self, number: int, name: str, pairs: Sequence[str], scope: dict[str, str]) -> None:
        self.number, self.name = number, name
        self.gaps: list[str] = []
        self.text: list[str] = []
        attributes = list(zip(pairs[::2], pairs[1::2], strict=True))
        self.declarations: Pairs = ()
        if any(one.startswith("xmlns") for one, _ in attributes):
            declarations = [(one[6:], uri) for one, uri in attributes if one == "xmlns" or one.startswith("xmlns:")]
            self.declarations = tuple(sorted(pair for pair in declarations if pair[0] != "xml"))
            attributes = [pair for pair in attributes if pair[0] != "xmlns" and not pair[0].startswith("xmlns:")]
            scope = {**scope, **dict(declarations)}
        self.scope = scope
        prefix = name.rpartition(":")[0]
        if not attributes:
            self.attributes: Pairs = ()
            self.bindings: Pairs = ((prefix, scope.get(prefix, "")),)
            return
        self.attributes = tuple(sorted(attributes, key=self._canonical_key))
        prefixes = {prefix} | {one.rpartition(":")[0] for one, _ in attributes if ":" in one}
        self.bindings = tuple((one, scope.get(one, "")) for one in sorted(prefixes) if one != "xml")

    def _canonical_key(self, pair: tuple[str, str]) -> tuple[str, str]:
        prefix, _, local = pair[0].rpartition(":")
        return (self.scope[prefix] if prefix else "", local)

    def close_gap(self) -> None:
        self.gaps.append("".join(self.text))
        self.text.clear()


class _Folder:
    """Collects what expat reports. The document is valid and has no internal DTD subset: `read` has seen to that."""

    def __init__(self) -> None:
        self._elements: list[Element | None] = []
        self._parents: list[int] = []
        self._open: list[_Open] = []
        self._before: list[str] = []
        self._after: list[str] = []
        self._in_doctype = False

    def fold(self, data: bytes) -> FoldedDocument:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.ordered_attributes = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.CommentHandler = self._comment
        parser.ProcessingInstructionHandler = self._instruction
        parser.StartDoctypeDeclHandler = self._start_doctype
        parser.EndDoctypeDeclHandler = self._end_doctype
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            # `read` knows the names of the fifth edition of XML 1.0, expat those of the fourth.
            raise DocumentError(
                "selective publishing does not read this name",
                code="TC230",
                hint="in names use characters up to U+FFFF",
                offset=parser.ErrorByteIndex,
                line=error.lineno,
            ) from None
        elements = [element for element in self._elements if element is not None]
        assert len(elements) == len(self._parents)
        return FoldedDocument(elements, self._parents, "".join(self._before), "".join(self._after))

    def _start(self, name: str, pairs: list[str]) -> None:
        scope = {"": "", "xml": XML_NAMESPACE}
        if self._open:
            self._open[-1].close_gap()
            scope = self._open[-1].scope
        self._parents.append(self._open[-1].number if self._open else -1)
        self._open.append(_Open(len(self._elements), name, pairs, scope))
        self._elements.append(None)

    def _end(self, name: str) -> None:
        one = self._open.pop()
        one.close_gap()
        self._elements[one.number] = Element(one.name, one.attributes, one.declarations, one.bindings, tuple(one.gaps))

    def _characters(self, text: str) -> None:
        self._open[-1].text.append(text.translate(_TEXT))

    def _comment(self, text: str) -> None:
        self._add(f"<!--{text}-->")

    def _instruction(self, target: str, text: str) -> None:
        self._add(f"<?{target} {text}?>" if text else f"<?{target}?>")

    def _add(self, markup: str) -> None:
        if self._open:
            self._open[-1].text.append(markup)
        elif self._elements:
            self._after.append("\n" + markup)
        elif not self._in_doctype:
            self._before.append(markup + "\n")

    def _start_doctype(self, *_: object) -> None:
        self._in_doctype = True

    def _end_doctype(self) -> None:
        self._in_doctype = False
