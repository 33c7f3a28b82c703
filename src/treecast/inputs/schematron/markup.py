"""A file of XML -> elements with their content in order and their lines, for files that people write.

Documents are read by `treecast.document`, which keeps texts and elements in columns. Here a few hundred elements are
read once, and the order of texts and elements counts. What is not well-formed, or has a DTD, is refused by the same
reader as documents are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from treecast.document import Limits, read
from treecast.errors import DocumentError

FILE_LIMITS = Limits(document_bytes_max=8 << 20, depth_max=128)


@dataclass
class Markup:
    """An element: its name in Clark's notation `{uri}local`, attributes, and what is in it."""

    name: str
    attributes: dict[str, str]
    line: int
    content: list[Markup | str] = field(default_factory=list)

    def get(self, name: str, default: str = "") -> str:
        return self.attributes.get(name, default)

    @property
    def local(self) -> str:
        return self.name.rpartition("}")[2]

    def elements(self) -> Iterator[Markup]:
        return (each for each in self.content if isinstance(each, Markup))


def read_markup(data: bytes) -> Markup:
    """The root element. Raises DocumentError as reading a document would."""
    source = read(data, limits=FILE_LIMITS).data
    builder = _Builder()
    try:
        builder.parser.Parse(source, True)
    except (
        expat.ExpatError
    ) as error:  # `read` knows the names of the fifth edition of XML 1.0, expat those of the fourth
        raise DocumentError(str(error), code="TC201", line=error.lineno, offset=error.offset) from None
    assert builder.root is not None
    return builder.root


class _Builder:
    def __init__(self) -> None:
        self.root: Markup | None = None
        self.open_elements: list[Markup] = []
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text

    def start(self, name: str, attributes: dict[str, str]) -> None:
        element = Markup(
            _clark(name), {_clark(key): value for key, value in attributes.items()}, self.parser.CurrentLineNumber
        )
        if self.open_elements:
            self.open_elements[-1].content.append(element)
        else:
            self.root = element
        self.open_elements.append(element)

    def end(self, name: str) -> None:
        self.open_elements.pop()

    def text(self, text: str) -> None:
        self.open_elements[-1].content.append(text)


def _clark(name: str) -> str:
    uri, space, local = name.rpartition(" ")
    return f"{{{uri}}}{local}" if space else name
