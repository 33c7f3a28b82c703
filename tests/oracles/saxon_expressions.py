"""Saxon as the second oracle for expressions: XPath 3.1 with XPath 1.0 compatibility, asked where lxml needs a judge.

Even in that mode Saxon differs from XPath 1.0, which is no fault of treecast's: it takes `+1` for a number; where a
boolean is compared by `<` or its like, it makes a boolean of the other side too; it refuses comparisons that are
chained without parentheses; and it writes large numbers with an exponent. What it refuses or fails on is None here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from oracles.differential import Query


@lru_cache(maxsize=1)
def processor() -> Any:
    """One for the whole process: more would not be freed."""
    from saxonche import PySaxonProcessor

    return PySaxonProcessor(license=False)


def saxon_holds(query: Query, document: bytes) -> bool | None:
    """Whether the document satisfies the query, by Saxon."""
    from saxonche import PySaxonApiError

    xpath = processor().new_xpath_processor()
    xpath.set_backwards_compatible(True)
    for prefix, uri in query.oracle_namespaces:
        xpath.declare_namespace(prefix, uri)
    xpath.set_context(xdm_item=processor().parse_xml(xml_text=document.decode()))
    try:
        return bool(xpath.effective_boolean_value(f"boolean({query.oracle})"))
    except PySaxonApiError:
        return None
