"""The full-size check of long ids: more of them in one answer than an array of Arrow holds, 2 GiB."""

from __future__ import annotations

from typing import Any

import pytest

from treecast import Index
from treecast.cli import match_output

pytestmark = pytest.mark.long

SUBSCRIPTIONS = 250_000
DOCUMENTS = 9


class Counter:
    """A file that counts lines and forgets them."""

    def __init__(self) -> None:
        self.lines = self.bytes = 0

    def write(self, text: Any) -> int:
        self.lines += bytes(text).count(b"\n")
        self.bytes += len(text)
        return len(text)

    def flush(self) -> None:
        pass


@pytest.fixture(scope="module")
def index() -> Index:
    index = Index()
    index.add_many((f"{number:06}" + "x" * 1018, "//a") for number in range(SUBSCRIPTIONS))
    return index


def test_parts(index: Index) -> None:
    done = 0
    while done < DOCUMENTS:
        part = index.match_part([b"<a/>"] * (DOCUMENTS - done), report=True).matches
        assert 0 < len(part) < DOCUMENTS
        assert len(part.flatten()) == SUBSCRIPTIONS * len(part)
        done += len(part)


@pytest.mark.parametrize("form", ["tsv", "json"])
def test_lines(index: Index, form: str) -> None:
    file = Counter()
    names = [f"{number}" + "n" * 1500 for number in range(DOCUMENTS)]
    match_output.TextWriter(file, form).write(names, index.match_many([b"<a/>"] * DOCUMENTS))  # type: ignore[arg-type]
    assert file.lines == SUBSCRIPTIONS * DOCUMENTS
    assert file.bytes > 2 * (1 << 31)
