"""Index against a model: thousands of random changes, every answer equal to what a dictionary and lxml say.

The model is the ordered dictionary of ids; lxml evaluated every query of a pool on every document of a pool beforehand.
Long runs cross what short tests do not: machines that are merged, slots that are renumbered, names that start afresh.
"""

from __future__ import annotations

from random import Random

import pytest
from generators.paths_and_documents import LOCALS, Vocabulary, chain, draw_document, draw_queries
from oracles.differential import CACHES, Query, add, from_table, lxml_matches, plain
from support.sanitized import fewer

from treecast import Index, Subscription


class Pool:
    """Queries and documents, and which of them match."""

    def __init__(self, seed: int, queries: int) -> None:
        random = Random(seed)
        self.documents = [draw_document(random, namespaces=place % 3 == 0) for place in range(16)]
        self.documents += [chain(random, depth) for depth in (3, 40, 90)]
        self.queries: list[Query] = draw_queries(random, Vocabulary.tiny(random), queries // 2)
        self.queries += draw_queries(random, Vocabulary.tiny(random, namespaces=True), queries // 2)
        # Longer than most machines expect, and many that share a beginning.
        self.queries += [plain("/" + "/".join(random.choice((*LOCALS, "*")) for _ in range(80))) for _ in range(5)]
        self.queries += [plain(f"//a/b/n{place}") for place in range(50)]
        self.oracle_answers = [lxml_matches(self.queries, document) for document in self.documents]

    def expected(self, model: dict[str, int], document: int) -> list[str]:
        return [name for name, query in model.items() if query in self.oracle_answers[document]]


def run(pool: Pool, index: Index, random: Random, changes: int, names: int) -> None:
    model: dict[str, int] = {}
    fresh = 0
    for turn in range(changes):
        draw = random.random()
        query = random.randrange(len(pool.queries))
        known = random.choice(list(model)) if model else None
        if known is None or draw < (0.5 if len(model) < names else 0.3):
            fresh += 1
            add(index, f"s{fresh}", pool.queries[query])
            model[f"s{fresh}"] = query
        elif draw < 0.75:
            index.remove(known)
            del model[known]
            if random.random() < 0.3:
                add(index, known, pool.queries[query])
                model[known] = query
        elif draw < 0.85:
            index.replace(known, pool.queries[query].text, namespaces=dict(pool.queries[query].namespaces))
            model[known] = query
        elif draw < 0.87:
            several = [random.randrange(len(pool.queries)) for _ in range(random.choice((3, 40, 400)))]
            subscriptions = [
                Subscription(f"s{fresh + place}", pool.queries[number].text, dict(pool.queries[number].namespaces))
                for place, number in enumerate(several, start=1)
            ]
            index.add_many(subscriptions)
            model.update((item.id, number) for item, number in zip(subscriptions, several, strict=True))
            fresh += len(several)
        else:
            document = random.randrange(len(pool.documents))
            assert index.match(pool.documents[document]) == pool.expected(model, document), f"after {turn} changes"
        if turn % 500 == 0:
            check_all(pool, index, model)
    check_all(pool, index, model)
    for name in list(model):
        index.remove(name)
    check_all(pool, index, {})


def check_all(pool: Pool, index: Index, model: dict[str, int]) -> None:
    found = from_table(index.match_many(pool.documents, threads=2), len(pool.documents))
    for document in range(len(pool.documents)):
        assert found[document] == set(pool.expected(model, document))
    assert len(index) == len(model) == index.stats().subscriptions
    assert all(name in index for name in model)


@pytest.mark.parametrize("cache", list(CACHES))
@pytest.mark.parametrize("names", [30, 3000])
def test_random_changes(cache: str, names: int) -> None:
    limit = CACHES[cache]
    index = Index() if limit is None else Index(cache_bytes_max=limit)
    steps = 3000 if cache == "default" else fewer(3000)
    run(Pool(names, 300), index, Random(f"{cache}/{names}"), steps, names)


def test_a_large_base_and_many_changes() -> None:
    """The pool many times over: equal paths have many subscribers, and changes touch all of them."""
    pool = Pool(5, 200)
    index = Index()
    model: dict[str, int] = {}
    for part in range(20):
        for number, query in enumerate(pool.queries):
            model[f"b{part}-{number}"] = number
            add(index, f"b{part}-{number}", query)
    check_all(pool, index, model)
    random = Random(9)
    for name in random.sample(list(model), len(model) // 2):
        index.remove(name)
        del model[name]
    check_all(pool, index, model)
    for document in range(len(pool.documents)):
        assert index.match(pool.documents[document]) == pool.expected(model, document)


def test_names_without_end() -> None:
    """Documents full of names never seen before: whatever is remembered of names must not grow or mix them up."""
    index = Index()
    index.add_many([("a", "//a"), ("b", "/r/b"), ("last", "//n3-9999"), ("at", "//@n1-199")])
    for turn in range(6):
        names = [f"n{turn}-{place}" if place % 100 == 99 else f"n{turn}-{place}-{'x' * 100}" for place in range(20_000)]
        body = "".join(f"<{name} {name}='1'/>" for name in names)
        found = index.match(f"<r>{body}<b/></r>".encode())
        assert found == ["b"] + ["last"] * (turn == 3) + ["at"] * (turn == 1)
        assert index.match(b"<r><b/><a/></r>") == ["a", "b"]
