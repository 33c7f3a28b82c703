"""Families of growing work for the subscriptions of an index: each takes n and gives the call to time.

Nothing here may grow faster than n: double n a few times and compare.

    >>> from bench.growth_subscriptions import FAMILIES
    >>> FAMILIES["removals of one query"](1_000)()
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from treecast import Index, QueryError, Subscription

Call = Callable[[], object]


def distinct_namespaces(n: int) -> Call:
    """Each subscription binds a namespace of its own."""
    subscriptions = [Subscription(f"s{number}", "//p:a", {"p": f"urn:{number}"}) for number in range(n)]
    return lambda: Index().add_many(subscriptions)


def ids(n: int) -> Call:
    pairs = [(f"subscription {number}", "//a/b") for number in range(n)]
    return lambda: Index().add_many(pairs)


def removals_of_one_query(n: int) -> Call:
    """The oldest first, which is the end of the chain."""
    index = Index()
    index.add_many((f"s{number}", "//a/b") for number in range(n))

    def remove() -> None:
        for number in range(n):
            index.remove(f"s{number}")

    return remove


def refused_additions(n: int) -> Call:
    """Names that nobody has had before, in queries that are refused."""
    index = Index()
    index.add("taken", "//a")

    def add() -> None:
        for number in range(n):
            try:
                index.add("taken", f"//n{number}[@x{number} = 1]", namespaces={"p": f"urn:{number}"})
            except QueryError:
                continue

    return add


def names_in_documents(n: int) -> Call:
    """A document of names that are all different, for queries of local names and of positions."""
    index = Index()
    index.add_many([("local", "//*[local-name() = 'b']"), ("second", "//*[local-name() = 'b'][2]"), ("name", "//b")])
    document = b"<a>" + b"".join(b"<n%d/>" % number for number in range(n)) + b"</a>"
    return lambda: index.match(document)


def literals(n: int) -> Call:
    pairs = [(f"s{number}", f'//a[@x = "{number}"][contains(., "word{number}")]') for number in range(n)]
    return lambda: Index().add_many(pairs)


def literals_in_documents(n: int) -> Call:
    """n literals, and a document that has all of them."""
    index = Index()
    index.add_many((f"s{number}", f'//a[contains(., "word{number}")]') for number in range(n))
    document = b"<r>" + b"".join(b"<a>word%d</a>" % number for number in range(n)) + b"</r>"
    return lambda: index.match_many([document])


def long_literals(n: int) -> Call:
    """One literal, and a text that is nearly the literal again and again."""
    index = Index()
    index.add("long", '//a[contains(., "{}")]'.format("ab" * min(n, 16_000)))
    document = b"<a>" + (b"ab" * (n // 2) + b"b") * 4 + b"</a>"
    return lambda: index.match(document)


def literals_that_end_each_other(n: int) -> Call:
    """Every letter of the document ends all the literals."""
    index = Index()
    index.add_many((f"s{length}", '//a[contains(., "{}")]'.format("a" * length)) for length in range(1, 200))
    document = b"<a>" + b"a" * n + b"</a>"
    return lambda: index.match(document)


FAMILIES: dict[str, Callable[[int], Call]] = {
    "distinct namespaces": distinct_namespaces,
    "ids": ids,
    "removals of one query": removals_of_one_query,
    "refused additions": refused_additions,
    "names in documents": names_in_documents,
    "literals": literals,
    "literals in documents": literals_in_documents,
    "long literals": long_literals,
    "literals that end each other": literals_that_end_each_other,
}


if __name__ == "__main__":
    from math import log
    from time import process_time

    def seconds(call: Call) -> float:
        begin = process_time()
        call()
        return process_time() - begin

    for name, family in FAMILIES.items():
        times = [min(seconds(family(n)) for _ in range(3)) for n in (20_000, 40_000, 80_000, 160_000)]
        steps = " ".join(f"{log(after / before, 2):.2f}" for before, after in pairwise(times))
        print(f"{name}: {times[-1] * 1000:.1f} ms, exponents {steps}, in all {log(times[-1] / times[0], 8):.2f}")
