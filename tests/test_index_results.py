"""Where the results of `match_many` lie: blocks that threads fill, and that are used again."""

from __future__ import annotations

import resource

import pyarrow as pa
import pytest

from treecast import Index, _native

DOCUMENTS = 40


@pytest.fixture(scope="module")
def index() -> Index:
    """Eight thousand subscriptions; each document satisfies about half of them."""
    index = Index()
    index.add_many([(f"s{number}", f"/a/b{number}") for number in range(4000)])
    index.add_many([(f"t{number}", f"//a/*/c{number}") for number in range(4000)])
    return index


@pytest.fixture(scope="module")
def documents() -> list[bytes]:
    children = ["".join(f"<b{number}/>" for number in range(start, 4000, 2)) for start in (0, 1)]
    return [b"<a>%s</a>" % children[number % 2].encode() for number in range(DOCUMENTS)]


def pairs(table: pa.Table) -> list[tuple[int, str]]:
    return list(zip(table["document"].to_pylist(), table["subscription"].to_pylist(), strict=True))


def test_threads_and_blocks_change_nothing(index: Index, documents: list[bytes]) -> None:
    expected = [(number, name) for number, document in enumerate(documents) for name in index.match(document)]
    for threads in (1, 2, 3, 16, 64):
        table = index.match_many(documents, threads=threads)
        assert pairs(table) == expected


def test_numbers_go_on_from_batch_to_batch(index: Index, documents: list[bytes]) -> None:
    whole = index.match_many(documents)
    tables = list(index.match_batches(iter(documents), matches_max=5000, threads=2))
    assert len(tables) > 1
    assert pairs(pa.concat_tables(tables)) == pairs(whole)


def test_few_matches_take_few_batches(index: Index, documents: list[bytes]) -> None:
    """A thread's neighbouring documents are one record batch, whatever the number of its chunks."""
    index.match_many(documents, threads=2)  # says how much room the next call needs
    assert index.match_many(documents).column(0).num_chunks == 1
    assert index.match_many(documents, threads=2).column(0).num_chunks <= 16


@pytest.mark.house  # it counts page faults, and the sanitizers' allocator has many of its own
def test_memory_of_results_is_used_again(index: Index, documents: list[bytes]) -> None:
    """The pages of a result that is gone serve the next one: the system is asked for none."""
    for _ in range(3):
        index.match_many(documents, threads=2)
    assert _native.testing.spare_output_bytes() > 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        index.match_many(documents, threads=2)
    pages = 10 * index.match_many(documents).num_rows * 12 // 4096
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < pages / 4
    index.drop_caches()
    assert _native.testing.spare_output_bytes() == 0


def test_what_was_given_back_last_is_kept(index: Index, documents: list[bytes]) -> None:
    """Mappings of sizes that nobody asks for any more make room for those that are in use."""
    _native.testing.set_spare_output_bytes_max(8 << 20)
    try:
        index.match_many(documents, threads=1)
        small = [index.match_many(documents, threads=1) for _ in range(60)]
        del small
        assert _native.testing.spare_output_bytes() > 6 << 20
        many = documents * 3
        index.match_many(many, threads=1)  # says how much room the next call needs
        index.match_many(many, threads=1)
        before = _native.testing.fresh_outputs()
        for _ in range(5):
            index.match_many(many, threads=1)
        assert _native.testing.fresh_outputs() == before
        assert _native.testing.spare_output_bytes() <= 8 << 20
    finally:
        _native.testing.set_spare_output_bytes_max(1 << 40)


def test_every_instruction_set_expands_alike(index: Index, documents: list[bytes]) -> None:
    answers = []
    for level in (0, 1, 2):
        _native.testing.simd_force(level)
        try:
            answers.append(pairs(index.match_many(documents)))
        finally:
            _native.testing.simd_force(-1)
    assert answers[0] == answers[1] == answers[2]


def test_strings_of_ids_are_made_once(index: Index, documents: list[bytes]) -> None:
    """The same objects again, until caches are dropped or slots get other ids."""
    first, again = index.match(documents[0]), index.match(documents[0])
    assert all(one is other for one, other in zip(first, again, strict=True))
    index.drop_caches()
    assert index.match(documents[0]) == first
    small = Index()
    small.add_many([("a", "/a"), ("b", "/a")])
    assert small.match(b"<a/>") == ["a", "b"]
    small.remove("a")
    small.compact()
    small.add("c", "/a")
    assert small.match(b"<a/>") == ["b", "c"]
