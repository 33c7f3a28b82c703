"""lxml's isoschematron as the oracle of Schematron: which items of a document break which assertion, by its own XSLT.

Its stylesheet looks at comments and processing instructions only where no context has a parenthesis, though it means
the opposite; a parameter sets that right. It does not say which comment it means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from lxml import etree, isoschematron

from treecast.inputs.schematron import Rules

SVRL = "{http://purl.oclc.org/dsdl/svrl}"


class IsoSchematron:
    """A compiled schema. Raises lxml's SchematronParseError or XSLTParseError."""

    def __init__(self, schema: bytes, phase: str | None = None) -> None:
        self.schema = isoschematron.Schematron(
            etree.fromstring(schema),
            phase=phase,
            store_report=True,
            compile_params={"only-child-elements": "false"},
        )

    def failures(self, document: Any) -> Iterator[tuple[str, str, str]]:
        """The test of each assertion that is broken, the message, and the location."""
        self.schema.validate(document)
        for row in self.schema.validation_report.iter(f"{SVRL}failed-assert", f"{SVRL}successful-report"):
            texts = [
                row.findtext(f"{SVRL}text") or "",
                *(each.text or "" for each in row.iter(f"{SVRL}diagnostic-reference")),
            ]
            yield row.get("test"), " ".join(" ".join(texts).split()), row.get("location")

    def counts(self, document: Any) -> Counter[str]:
        return Counter(test for test, _, _ in self.failures(document))


def lxml_counts(rules: Rules, document: Any) -> Counter[str]:
    """The same by lxml's XPath and our queries: this judges the translation alone."""
    counts: Counter[str] = Counter()
    for assertion in rules:
        # Counted there: lxml has no object for the root.
        counts[assertion.test] += int(document.xpath(f"count({assertion.query})", namespaces=dict(rules.namespaces)))
    return +counts
