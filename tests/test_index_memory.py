"""Index: what it holds. stats() counts, grows and shrinks; the cache keeps to its limit."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.sanitized import fewer

from treecast import Index
from treecast.workload import DocumentSettings, Schema, generate_documents, generate_queries

QUERIES = list(generate_queries(Schema.news(), fewer(30_000), seed=1))
TURN = fewer(5000)
DOCUMENTS = list(generate_documents(Schema.news(), 60, DocumentSettings(bytes_target=5000), seed=1))


def big(cache_bytes_max: int | None = None) -> Index:
    index = Index() if cache_bytes_max is None else Index(cache_bytes_max=cache_bytes_max)
    index.add_many((f"s{place}", query) for place, query in enumerate(QUERIES))
    return index


def test_stats_of_an_empty_index() -> None:
    stats = Index().stats()
    assert stats.subscriptions == 0
    assert stats.bytes < 2_000_000
    assert stats.cache_bytes >= 0


def test_what_is_learned_takes_memory_for_what_was_met() -> None:
    """Each state meets one name of hundreds: no state has room for all of them."""
    names = range(300)
    index = Index()
    index.add_many((f"s{name}", f"/r/a{name}/b{name}/c") for name in names)
    document = "".join(f"<a{name}><b{name}><c/></b{name}></a{name}>" for name in names)
    assert len(index.match(f"<r>{document}</r>".encode())) == len(names)
    assert 0 < index.stats().cache_bytes < 300_000


@pytest.mark.house
def test_bytes_are_few_and_shrink_to_nearly_nothing() -> None:
    """The small twin of the million in bench/churn.py."""
    index = big()
    index.match_many(DOCUMENTS)
    stats = index.stats()
    assert stats.subscriptions == len(QUERIES)
    assert stats.states > 0
    assert stats.bytes / len(QUERIES) < 200
    assert stats.cache_bytes > 0
    for place in range(len(QUERIES)):
        index.remove(f"s{place}")
    index.match_many(DOCUMENTS[:1])
    after = index.stats()
    assert after.subscriptions == 0
    assert after.bytes <= 0.05 * stats.bytes
    assert index.match_many(DOCUMENTS).num_rows == 0


def test_adding_and_removing_forever_does_not_grow() -> None:
    index = big()
    index.match_many(DOCUMENTS)
    sizes = []
    for turn in range(6):
        for place in range(TURN):
            index.add(f"t{place}", QUERIES[(place + turn * TURN) % len(QUERIES)])
        index.match_many(DOCUMENTS[:5])
        for place in range(TURN):
            index.remove(f"t{place}")
        index.match_many(DOCUMENTS[:5])
        sizes.append(index.stats().bytes)
    assert max(sizes[3:]) < 1.3 * max(sizes[:3])


# What each thread's cache needs before it holds anything, and what the last entry may go beyond the limit.
CACHE_BYTES_FIXED = 16_384


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("limit", [0, 4096, 100_000, 1 << 20])
def test_the_cache_keeps_to_its_limit(limit: int, threads: int) -> None:
    """All threads together have one; where it is full, one of them makes room, and the others go on with the rest."""
    index = big(limit)
    expected = big().match_many(DOCUMENTS).num_rows
    for _ in range(3):
        assert index.match_many(DOCUMENTS, threads=threads).num_rows == expected
        assert index.stats().cache_bytes <= limit + threads * CACHE_BYTES_FIXED


def test_what_one_thread_has_learned_all_have_learned() -> None:
    """Four threads that match at the same time take no four caches; each has marks of its own beside a common one."""
    index = big()
    index.match_many(DOCUMENTS, threads=1)
    learned = index.stats().cache_bytes
    barrier = threading.Barrier(4)

    def match() -> None:
        barrier.wait()
        for _ in range(3):
            for document in DOCUMENTS:
                index.match_many([document], threads=1)

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(match) for _ in range(4)]:
            future.result()
    assert index.stats().cache_bytes < 2 * learned


@pytest.mark.parametrize("limit", [-1, "1"])
def test_a_wrong_limit_is_refused(limit: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        Index(cache_bytes_max=limit)  # type: ignore[arg-type]
