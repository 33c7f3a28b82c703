"""Saxon, through saxonche, is the oracle for transformations: what they give on documents, by XQuery 3.1.

All queries of a round become functions of one module, which is run once over all documents, so compiling is shared.
Each result stands in its own element: that is the wrapper within which payloads are compared. A dynamic error of
one query on one document is caught there; a query that does not compile is left out and counted.

    oracle = SaxonOracle()
    for row in oracle.results(queries, documents): ...     # rows of Verdict, one per document and query
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from generators.transformation_pieces import Drawn
from lxml import etree

PARSER = etree.XMLParser(huge_tree=True, resolve_entities=False, no_network=True)
WRAPPER = b"<w>%s</w>"
MADE_UP = re.compile(rb"[\w.-]+_\d+:")  # Saxon's prefixes for attributes whose own is taken


@dataclass(frozen=True)
class Verdict:
    """Of one query on one document: whether anything is bound; the wrapper around the result, or the error's code."""

    bound: bool
    result: Any = None  # the element w
    error: str = ""


class SaxonOracle:
    """One processor for a process: more would not be freed."""

    def __init__(self) -> None:
        from saxonche import PySaxonProcessor

        self.processor = PySaxonProcessor(license=False)
        # Its optimiser fails on some of these queries with errors of its own ("bad parent pointer").
        self.processor.set_configuration_property("http://saxon.sf.net/feature/optimizationLevel", "0")
        self.uncompiled: list[tuple[Drawn, str]] = []

    def results(self, queries: Sequence[Drawn], documents: Sequence[bytes]) -> list[list[Verdict | None]]:
        """For each document, for each query; None where the query does not compile."""
        sources = [self.processor.parse_xml(xml_text=document.decode("utf-8-sig")) for document in documents]
        try:
            return self.run(queries, sources)
        except OracleError as error:
            if len(queries) == 1:
                self.uncompiled.append((queries[0], str(error)))
                return [[None] for _ in documents]
        half = len(queries) // 2
        parts = [self.results(part, documents) for part in (queries[:half], queries[half:])]
        return [[*first, *second] for first, second in zip(*parts, strict=True)]

    def run(self, queries: Sequence[Drawn], sources: Sequence[Any]) -> list[list[Verdict | None]]:
        from saxonche import PySaxonApiError, PyXdmValue

        value = PyXdmValue(self.processor)
        for source in sources:
            value.add_xdm_item(source)
        xquery = self.processor.new_xquery_processor()
        xquery.set_parameter("documents", value)
        try:
            xquery.set_query_content(module(queries))
            text = xquery.run_query_to_string()
        except PySaxonApiError as error:
            raise OracleError(str(error)) from error
        if text is None:
            raise OracleError("no result")
        root = etree.fromstring(text.encode(), PARSER)
        return [[verdict(row) for row in rows] for rows in root]


class OracleError(Exception):
    """The module does not compile."""


def verdict(row: Any) -> Verdict:
    error = row.get("error") or ""
    return Verdict(row.get("bound") == "true", None if error else row[0], error)


def module(queries: Sequence[Drawn]) -> str:
    """One XQuery module of all queries, which have the same namespaces."""
    lines = ['xquery version "3.1";', "declare default order empty least;"]
    for prefix, uri in queries[0].namespaces.items():
        word = f"namespace {prefix} =" if prefix else "default element namespace"
        lines.append(f'declare {word} "{uri}";')
    lines.append("declare variable $documents external;")
    for number, query in enumerate(queries):
        lines.append(f"declare function local:q{number}($msg) {{ {query.oracle} }};")
        lines.append(f"declare function local:b{number}($msg) {{ {query.bound} }};")
    rows = ",\n".join(row(number) for number in range(len(queries)))
    lines.append(f"declare function local:all($msg) {{ ({rows}) }};")
    lines.append(f"{element('all')} {{ for $msg in $documents return {element('d')} {{ local:all($msg) }} }}")
    return "\n".join(lines)


def element(name: str) -> str:
    """A constructor that no default namespace touches."""
    return f'element {{ QName("", "{name}") }}'


def row(number: int) -> str:
    attribute = f"attribute bound {{ local:b{number}($msg) }}"
    result_element = f"{element('r')} {{ {attribute}, {element('w')} {{ local:q{number}($msg) }} }}"
    error_element = f"{element('r')} {{ {attribute}, attribute error {{ local-name-from-QName($err:code) }} }}"
    # reverse() of the one element: without it the result is written before it is whole, and no error can be caught.
    return f"try {{ reverse({result_element}) }} catch * {{ {error_element} }}"


# --- comparing -------------------------------------------------------------------------------------------------------


def wrapped(payload: bytes) -> Any:
    """The payload inside the wrapper; libxml2 raises XMLSyntaxError if it is not well-formed element content."""
    return etree.fromstring(WRAPPER % payload, PARSER)


def canonical(element: Any, *, exclusive: bool) -> bytes:
    form: bytes = etree.tostring(element, method="c14n", exclusive=exclusive, with_comments=True, with_tail=False)
    return form


def likeness(payload: Any, result: Any) -> str:
    """How alike two wrappers are: "equal", or what differs, from the harmless to the wrong."""
    if canonical(payload, exclusive=False) == canonical(result, exclusive=False):
        return "equal"
    if canonical(payload, exclusive=True) == canonical(result, exclusive=True):
        same = expanded(payload, scopes=True) == expanded(result, scopes=True)
        return "default namespace" if same else "unused namespaces"
    return "prefixes" if expanded(payload) == expanded(result) else "content"


def expanded(element: Any, *, scopes: bool = False) -> list[Any]:
    """An element without its prefixes: names, attributes, content; perhaps with the prefixes that are bound in it."""
    if not isinstance(element.tag, str):
        return [str(element.tag), getattr(element, "target", ""), element.text or ""]
    bindings = sorted((prefix, uri) for prefix, uri in element.nsmap.items() if prefix) if scopes else []
    content: list[Any] = [element.text or ""]
    for child in element:
        content += [expanded(child, scopes=scopes), child.tail or ""]
    return [element.tag, sorted(element.attrib.items()), bindings, content]
