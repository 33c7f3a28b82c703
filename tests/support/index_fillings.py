"""Indexes of every kind for the tests of saved indexes, and the questions that compare an index with its copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from generators.conditions import ConditionDrawer
from generators.paths_and_documents import Vocabulary

from treecast import Index, Subscription

DOCUMENTS = [
    b"<a x='1'><b/><c>2</c></a>",
    b"<a><c>1</c><b x='2'><c/></b></a>",
    b"<r><a x='1'><b>1</b></a><b/></r>",
    b"<p:a xmlns:p='urn:1'><p:b/></p:a>",
    b"<z/>",
]


def saved(index: Index, path: Path) -> Index:
    index.save(path)
    return Index.load(path)


def same(one: Index, other: Index, ids: list[str]) -> None:
    """Everything that can be asked is answered alike."""
    assert len(one) == len(other)
    assert [id in one for id in ids] == [id in other for id in ids]
    for id in ids:
        if id in one:
            assert one[id] == other[id]
    for document in DOCUMENTS:
        assert one.match(document) == other.match(document)
    tables = [index.match_many(DOCUMENTS, threads=2).to_pylist() for index in (one, other)]
    rows = [sorted((row["document"], row["subscription"]) for row in table) for table in tables]
    assert rows[0] == rows[1]


def fill_nothing(index: Index) -> None:
    pass


def fill_paths(index: Index) -> None:
    index.add_many([("1", "/a"), ("2", "//b"), ("3", "/a/*/c"), ("4", "//@x"), ("5", "//c/text()"), ("6", "/a")])


def fill_unions(index: Index) -> None:
    index.add_many([("1", "/z | //b"), ("2", "//b | //c | //@x"), ("3", "/a[b] | /r")])


def fill_predicates(index: Index) -> None:
    index.add_many(
        [("1", "/a[b]"), ("2", "//a[@x = 1][b]"), ("3", "//b[not(c)]"), ("4", "//c[. > 1]"), ("5", "//*[2]")]
    )
    index.add_many(
        [("6", "//a[contains(., '1')]"), ("7", "//a[starts-with(b, '1')]"), ("8", "//c[/a/@x < 2 or 1 != .]")]
    )


def fill_ordered(index: Index) -> None:
    for id, query in (("1", "/a[b][c]"), ("2", "/a[c][b]"), ("3", "//a[c]/b")):
        index.add(id, query, ordered=True)
        index.add(f"{id}, any order", query)


def fill_deliver(index: Index) -> None:
    index.add("elements", "//b", deliver="elements")
    index.add("document", "//b", deliver="document")
    index.add_many([Subscription("both", "//a[b]", ordered=True, deliver="elements")])


def fill_namespaces(index: Index) -> None:
    index.add("1", "/q:a", namespaces={"q": "urn:1"})
    index.add("2", "/q:a/b", namespaces={"q": "urn:1", "": "urn:1"})
    index.add("3", "/q:a", namespaces={"q": "urn:2"})
    index.add("4", "/*[q:b]", namespaces={"q": "urn:1"})


def fill_removed(index: Index) -> None:
    fill_paths(index)
    index.add_many([(f"gone {number}", "//b") for number in range(50)])
    for number in range(50):
        index.remove(f"gone {number}")
    index.remove("1")


def fill_replaced(index: Index) -> None:
    fill_paths(index)
    index.replace("2", "//a[b]")
    index.replace("1", "//c")
    index.add("7", "//*")
    index.replace("2", "//b")


def fill_singly(index: Index) -> None:
    """So few that no machine was built."""
    index.add("1", "/a")
    index.add("2", "//b/c")
    index.remove("1")


def fill_machines(index: Index) -> None:
    """Several machines of different ages, something in the delta, dirty chains and dead slots."""
    random = Random("machines")
    drawer = ConditionDrawer(random, Vocabulary((("", "a"), ("", "b"), ("", "c")), (("", "x"), ("", "y"))))
    for size in (3000, 300, 40):
        start = len(index)
        index.add_many((str(start + number), drawer.query().text) for number in range(size))
        index.add_many((f"p{start + number}", f"//a/b{number}//c") for number in range(size))
    for number in range(0, 3000, 7):
        index.remove(str(number))
    for number in range(1, 300, 7):
        index.replace(str(number), drawer.query().text)
    for number in range(30):
        index.add(f"late {number}", drawer.query().text if number % 2 else f"/a/late{number}")


FILLINGS: list[Callable[[Index], None]] = [
    fill_nothing, fill_paths, fill_unions, fill_predicates, fill_ordered, fill_deliver, fill_namespaces, fill_removed,
    fill_replaced, fill_singly, fill_machines,
]  # fmt: skip
each_filling = pytest.mark.parametrize("fill", FILLINGS, ids=lambda fill: fill.__name__.removeprefix("fill_"))


# Ids that some of them have, and some that none has.
IDS = [*(str(number) for number in range(10)), "nobody", "elements", "document", "both", "gone 1", "1, any order"]
IDS += [*(f"late {number}" for number in range(30)), *(str(number) for number in range(0, 3000, 29))]
