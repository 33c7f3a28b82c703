"""Cases over a tiny alphabet for hypothesis to search and shrink: queries, documents and a configuration."""

from __future__ import annotations

from hypothesis import strategies as st
from oracles.differential import CACHES, CALLS, WAYS, Setting

from generators.paths_and_documents import ATTRIBUTES, LOCALS

ELEMENTS = st.recursive(
    st.builds(lambda name, attribute, text: f"<{name}{attribute}>{text}</{name}>",
              st.sampled_from(LOCALS), st.sampled_from(["", ' x="1"', ' y=""']), st.sampled_from(["", "t", "<!---->"])),
    lambda inner: st.builds(lambda name, parts: f"<{name}>{''.join(parts)}</{name}>",
                            st.sampled_from(LOCALS), st.lists(inner, max_size=4)),
    max_leaves=12,
)  # fmt: skip
STEPS = st.lists(
    st.tuples(st.sampled_from(["/", "//"]), st.sampled_from([*LOCALS, "*"])).map("".join), min_size=1, max_size=5
).map("".join)
FINALS = st.sampled_from(["", "", "", "/text()", "//text()", "/@*", *(f"//@{name}" for name in ATTRIBUTES)])
PATHS = st.tuples(STEPS, FINALS).map("".join)
SETTINGS = st.builds(
    Setting,
    st.sampled_from(list(WAYS)),
    st.sampled_from(list(CALLS)),
    st.sampled_from(list(CACHES)),
    st.sampled_from([0, 1]),
    st.integers(0, 99),
)
SEARCHED = st.tuples(
    st.lists(PATHS, min_size=1, max_size=8),
    st.lists(ELEMENTS.map(str.encode), min_size=1, max_size=3),
    SETTINGS,
)
