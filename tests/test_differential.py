"""treecast answers what lxml answers. The small twin of tests/long/test_full_differential.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from generators.paths_and_documents import Vocabulary, chain, draw_document, draw_queries
from generators.search_cases import SEARCHED
from hypothesis import given
from oracles.differential import CACHES, CALLS, WAYS, Query, Setting, compare, differs, plain, smallest
from support.rounds import ROUNDS, published_answers, real_documents, round_real, round_schema
from support.sanitized import fewer

from treecast import Index
from treecast.workload import Schema

ROUNDS_EACH = {"tiny": fewer(25), "namespaces": fewer(20), "deep": fewer(6), "schema": fewer(8)}


@pytest.mark.parametrize("name", list(ROUNDS))
def test_drawn_rounds(name: str) -> None:
    random = Random(f"{name}/1")
    decisions = sum(ROUNDS[name](random, 60, 12) for _ in range(ROUNDS_EACH[name]))
    assert decisions == ROUNDS_EACH[name] * 60 * 12


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("cache", list(CACHES))
@pytest.mark.parametrize("simd", [0, 2])
def test_every_way_in(way: str, cache: str, simd: int) -> None:
    """Each way with each cache and each instruction set, every call once, on the same case."""
    random = Random(7)
    documents = [draw_document(random) for _ in range(10)]
    queries = draw_queries(random, Vocabulary.tiny(random), 40)
    assert compare(queries, documents, [Setting(way, call, cache, simd, seed=5) for call in CALLS]) == 400


def test_many_queries_in_one_index() -> None:
    """More queries than one round holds, so that words, blocks and directories of the machine are crossed."""
    random = Random(11)
    assert round_schema(random, 3000, 5) == 15_000


def test_the_deepest_documents() -> None:
    """As deep as the default limit allows; short queries, for lxml takes quadratic time and more per `//`."""
    random = Random(13)
    documents = [chain(random, 511 - place) for place in range(3)]
    queries = draw_queries(random, Vocabulary.tiny(random), 60, steps_max=2)
    assert compare(queries, documents, [Setting(cache=cache) for cache in CACHES]) == 180


def test_an_empty_cdata_section_is_not_a_text() -> None:
    """Where the oracle deviates from XPath 1.0, whose text nodes have at least one character."""
    index = Index()
    index.add_many(
        [("x", "//text()"), ("predicate", "/a[text()]"), ("position", "/a/text()[1]"), ("negation", "/a[not(text())]")]
    )
    assert index.match(b"<a><![CDATA[]]></a>") == ["negation"]
    assert index.match(b"<a><![CDATA[]]><b/><![CDATA[ ]]></a>") == ["x", "predicate", "position"]


@given(SEARCHED)
def test_searched(case: tuple[list[str], list[bytes], Setting]) -> None:
    """A tiny alphabet, searched and shrunk by hypothesis."""
    queries, documents, setting = case
    compare([plain(query) for query in queries], documents, [setting])


# --- real documents --------------------------------------------------------------------------------------------------


def test_real_documents(data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    if data_directory is None:
        leave_out("paths of real documents against lxml")
        return
    random = Random(3)
    everything = real_documents(data_directory)
    assert len(everything) > 500
    assert sum(round_real(random, everything, 60, 10) for _ in range(10)) >= 6_000


def test_real_schema(data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    if data_directory is None:
        leave_out("documents and queries of the NITF DTD against lxml")
        return
    schema = Schema.from_dtd(data_directory / "dtd/nitf-2.5/nitf-2-5.dtd")
    assert round_schema(Random(5), 500, 10, schema) == 5_000


@pytest.mark.parametrize("cache", list(CACHES))
def test_published_answers(cache: str, data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    if data_directory is None:
        leave_out("the published answers of YFilter's test: 200 queries, 100 documents")
        return
    queries, answers = published_answers(data_directory)
    assert (len(queries), len(answers)) == (200, 100)
    limit = CACHES[cache]
    index = Index() if limit is None else Index(cache_bytes_max=limit)
    index.add_many((str(number), query) for number, query in enumerate(queries, start=1))
    for document, expected in answers:
        assert {int(name) for name in index.match(document)} == expected


# --- the harness itself ----------------------------------------------------------------------------------------------


@pytest.mark.house  # the oracle is not asked under the sanitizers
def test_a_wrong_answer_is_found_and_shrunk() -> None:
    """An oracle that is asked for something else stands for a wrong answer: the report shows one query, one element."""
    wrong = Query("/a/b", "/a/c")
    queries = [plain("//a"), plain("/a"), wrong, plain("//b/text()")]
    documents = [b"<a/>", b"<a x='1'><c/>text<b><a/></b></a>", b"<a><b/></a>"]
    setting = Setting("one by one", "match")
    assert differs(queries, documents, setting)
    with pytest.raises(pytest.fail.Exception) as caught:
        compare(queries, documents, [setting])
    report = str(caught.value)
    assert report == smallest(queries, documents, setting)
    assert report.count("\n  q") == 1
    assert "b'<a><b/></a>'" in report
    assert "treecast says [0], lxml []" in report
