"""Checks generated documents with lxml's DTD validation."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lxml import etree

from treecast.workload import Schema

# libxml2 refuses more than 256 levels by default.
HUGE = etree.XMLParser(huge_tree=True)


def grammar_of(dtd: str | Path, schema: Schema) -> Any:
    """The DTD as lxml loads it. Where it uses prefixes that it declares no `xmlns:` attribute for, no document is both
    valid and well-formed with namespaces: then every element is allowed to have these attributes, and nothing else."""
    attribute_names = {a.name for element in schema.elements.values() for a in element.attributes}
    names = [f"xmlns:{prefix}" for prefix in schema.namespaces if f"xmlns:{prefix}" not in attribute_names]
    if isinstance(dtd, Path):
        if not names:
            return etree.DTD(str(dtd))
        dtd = f'<!ENTITY % all SYSTEM "{dtd}"> %all;'
    extra = "".join(f"<!ATTLIST {name} {xmlns} CDATA #IMPLIED>" for name in schema.elements for xmlns in names)
    return etree.DTD(io.BytesIO((dtd + extra).encode()))


def validate(grammar: Any, documents: Iterable[bytes], what: object) -> list[Any]:
    """The trees of these documents, all of them valid."""
    trees = []
    for document in documents:
        tree = etree.fromstring(document, HUGE)
        assert grammar.validate(tree), (what, str(grammar.error_log)[:500], document[:1000])
        trees.append(tree)
    return trees


def loadable(directory: Path) -> list[Path]:
    """The DTDs below a directory that lxml itself can load and that declare elements."""
    paths = []
    for path in sorted(directory.rglob("*.dtd")):
        try:
            grammar = etree.DTD(str(path))
        except etree.DTDParseError:
            continue
        if next(iter(grammar.iterelements()), None) is not None:
            paths.append(path)
    return paths
