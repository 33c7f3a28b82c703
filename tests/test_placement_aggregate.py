"""Aggregates cover all their subscriptions, keep to their size, and report correctly how much they forward in vain."""

from __future__ import annotations

from random import Random

import pytest
from support.placements import draw_population, drawn_paths

from treecast import Index, Subscription, parse
from treecast.placement import aggregate, exclusive_sets, name_sets, survey
from treecast.placement.aggregate import Selectivity, generalisations, shorten_paths

pytestmark = pytest.mark.house

PATHS = ["/a", "//a", "/a/b//c", "/*/a/*", "//*/b", "/a/*[local-name() = 'x']//b", "//*", "/*", "/*/*"]
VALUED = ["/a/*[@x = 'y = ]']", "//*[. = 3]", '/a/b[text() = "\'"]', '/*[@x = "/a[. = 1]/b"]', "//a[. = '/b/c']"]


@pytest.mark.parametrize("path", PATHS + VALUED)
def test_generalisations_cover(path: str) -> None:
    texts = generalisations(path)
    assert texts[-1] == "/*" and len(texts) == len(set(texts))
    for text in texts:
        assert parse(text).covers(parse(path)), text


def test_too_many_paths_are_shortened_to_prefixes_that_cover() -> None:
    paths = [f"/r/a{n % 7}/b{n}/c" for n in range(60)] + [f'/*/*[@href = "/a{n}/b[. = {n}]"]' for n in range(60)]
    assert shorten_paths(paths) == {path: path for path in paths}
    cut = shorten_paths(paths, 10)
    assert len(set(cut.values())) <= 10
    assert all(parse(prefix).covers(parse(path)) for path, prefix in cut.items())


@pytest.mark.parametrize("filters_max", [1, 3, 10, 1000])
def test_every_expression_is_covered(filters_max: int) -> None:
    random = Random(filters_max)
    for _ in range(4):
        subscriptions, documents = draw_population(random, queries=80, documents=60)
        found = aggregate(subscriptions, documents=documents[:30], filters_max=filters_max)
        assert 1 <= len(found.filters) <= filters_max
        assert set(found.covering.values()) == set(found.filters)
        table = survey(subscriptions)
        for row in range(len(table)):
            for text in table.covers_of(row):
                assert parse(found.covering[text]).covers(parse(text))
        exact, coarse = Index(), Index()
        exact.add_many(subscriptions)
        coarse.add_many([(str(number), text) for number, text in enumerate(found.filters)])
        wanted = [bool(exact.match(document)) for document in documents]
        forwarded = [bool(coarse.match(document)) for document in documents]
        assert all(passed for want, passed in zip(wanted, forwarded, strict=True) if want)
        assert (found.documents, found.wanted, found.forwarded) == (30, sum(wanted[:30]), sum(forwarded[:30]))
        assert found.expressions == 80 and f"{len(found.filters)} filters" in found.describe()


def test_covering_is_known_by_covers_too() -> None:
    """For single paths the covering by construction is one that `Query.covers` confirms."""
    queries = ["/a/b[@x = 1]/c", "/a/b[d]/c[. > 2]", "/a/z/y", "//q[@k]/r", "//q/s"]
    found = aggregate([(str(n), query) for n, query in enumerate(queries)], filters_max=2)
    for query in queries:
        assert any(parse(text).covers(parse(query)) for text in found.filters), query


def test_similar_expressions_shrink_without_loss_and_documents_decide_how() -> None:
    random = Random(5)
    subscriptions = [Subscription(f"q{n}", drawn_paths(random, ("news", "order"))) for n in range(3000)]
    documents = [
        f"<{root}><{kind}><id>1</id></{kind}></{root}>".encode()
        for root in ("news", "order", "log", "x")
        for kind in "ab"
    ]
    found = aggregate(subscriptions, documents=documents, filters_max=20)
    assert found.shrinkage >= 100
    assert found.false_forwards <= 0.25 and found.precision >= 0.5
    # `common` is in every document, `rare` in none: the way to generalise /r/common/rare is to keep the rare name.
    odd = [("1", "/r/common/rare/x"), ("2", "/r/common/seldom/y"), ("3", "/r/common/rare/z")]
    sample = [b"<r><common/></r>"] * 9 + [b"<r><common><rare><x/></rare></common></r>"]
    narrow = aggregate(odd, documents=sample, filters_max=2)
    assert narrow.false_forwards == 0


def test_unnamed_content_is_named_by_what_must_be_there() -> None:
    queries = [("1", "/*[isbn]"), ("2", '/*[@lang = "de"]'), ("3", "//*/*[@k = 1]"), ("4", "/book//title")]
    sample = [
        b"<a/>",
        b"<a><isbn/></a>",
        b'<a lang="de"/>',
        b"<a><b k='1.0'/></a>",
        b"<book><title/></book>",
        b"<c k='1'/>",
    ]
    found = aggregate(queries, documents=sample, filters_max=5)
    assert (found.wanted, found.forwarded) == (4, 4)


def test_invalid_documents_of_the_sample_do_not_count() -> None:
    sample = Selectivity([b"<a/>", b"<a>", b"<b/>"])
    sample.learn(["/a", "/b", "/c"])
    assert (sample.bits("/a"), sample.bits("/b"), sample.bits("/c")) == (1, 2, 0)
    assert name_sets([b"<a><b/></a>", b"<"]) == [frozenset("ab")]
    with pytest.raises(ValueError):
        aggregate([("a", "/a")], filters_max=0)


def test_exclusive_sets() -> None:
    documents = [{"r", "a", "b"}, {"r", "a"}, {"r", "c", "d"}, {"r", "c"}, {"r", "e"}, {"r"}]
    assert {frozenset(names) for names in exclusive_sets(documents)} == {
        frozenset("ab"),
        frozenset("cd"),
        frozenset("e"),
    }
    assert exclusive_sets([]) == []
