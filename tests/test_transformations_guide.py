"""The page on transformations is correct: its tables parse, and what it lists as refused is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from treecast import Index, QueryError

PAGE = (Path(__file__).parent.parent / "docs" / "guide" / "transformations.md").read_text("utf-8")
ACCEPTED, REFUSED = PAGE.split("## Refused")
STARTS = ("for ", "<", "(", "if ", "let ")
DOCUMENT = b'<a k="1"><b k="1">x</b><article id="a1" lang="en"><title>T</title><p>1</p><price>2</price></article></a>'


def queries(cell: str) -> list[str]:
    found = [code.replace("\\|", "|") for code in re.findall(r"`([^`]+)`", cell)]
    return [text for text in found if text.startswith(STARTS)]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| code", "|---"))]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_what_is_shown_is_accepted() -> None:
    shown = [text for row in rows(ACCEPTED) for text in queries(row[0])]
    assert len(shown) > 8
    for text in shown:
        index = Index()
        index.add("q", text)
        (delivery,) = index.render(DOCUMENT)
        assert delivery.payload
        assert delivery.refused is None


def test_what_is_refused_is_refused() -> None:
    code, count = "", 0
    for row in rows(REFUSED):
        code = row[0] or code
        for text in queries(row[1]):
            count += 1
            with pytest.raises(QueryError) as refusal:
                Index().add("q", text)
            assert (text, refusal.value.code) == (text, code)
            assert refusal.value.hint
        for text in queries(row[2]):
            Index().add("q", text)
    assert count > 15
