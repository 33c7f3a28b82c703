"""Generated queries: every parameter does what it says, all compile, none repeats, and they can match."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from oracles.dtd_validation import loadable

import treecast
from treecast import LimitError, QueryError
from treecast.workload import (
    DocumentSettings,
    NumberRange,
    QuerySettings,
    Schema,
    Values,
    generate_documents,
    generate_queries,
)

pytestmark = pytest.mark.house

MANY = QuerySettings(distinct=False)


def draw(count: int = 5000, schema: Schema | None = None, seed: int = 1, **settings: Any) -> list[str]:
    settings.setdefault("distinct", False)
    return list(generate_queries(schema or Schema.news(), count, QuerySettings(**settings), seed=seed))


def main_path(query: str) -> list[str]:
    """The steps of a query, with their axes and without predicates."""
    while "[" in query:
        query = re.sub(r"\[[^][]*\]", "", query)
    return re.findall("/+[^/]+", query)


def steps(queries: list[str]) -> list[str]:
    return [step for query in queries for step in main_path(query)]


def share(found: list[Any], test: Callable[[Any], bool]) -> float:
    return sum(map(test, found)) / len(found)


# The walk.


@pytest.mark.parametrize("chance", [0, 0.2, 0.7, 1])
def test_wildcards(chance: float) -> None:
    assert share(steps(draw(wildcard=chance)), lambda step: step.endswith("*")) == pytest.approx(chance, abs=0.02)


@pytest.mark.parametrize("chance", [0, 0.2, 0.7, 1])
def test_descendants(chance: float) -> None:
    found = steps(draw(descendant=chance))
    assert share(found, lambda step: step.startswith("//")) == pytest.approx(chance, abs=0.02)


def test_skipped_levels() -> None:
    """The chain a-b-c-d-e: what the first step names tells how many levels were skipped."""
    schema = Schema.from_text(
        "".join(f"<!ELEMENT {a} ({b})>" for a, b in ("ab", "bc", "cd", "de")) + "<!ELEMENT e EMPTY>"
    )
    assert Counter(draw(1000, schema, descendant=1, skip=0, wildcard=0, depth_max=1)) == {"//a": 1000}
    found = Counter(draw(8000, schema, descendant=1, skip=0.5, wildcard=0, depth_max=1))
    for name, expected in zip("abcde", (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16), strict=True):
        assert found[f"//{name}"] / 8000 == pytest.approx(expected, abs=0.02)


def test_stops() -> None:
    lengths = Counter(len(main_path(query)) for query in draw(8000, stop=0.5, descendant=0))
    assert lengths[1] / 8000 == pytest.approx(0.5, abs=0.03)
    assert lengths[2] / 8000 == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize(("low", "high"), [(1, 1), (1, 10), (2, 4), (6, 6), (9, 12)])
def test_depths(low: int, high: int) -> None:
    lengths = Counter(len(main_path(query)) for query in draw(depth_min=low, depth_max=high))
    assert set(lengths) == set(range(low, high + 1))


def test_depth_needs_a_schema_that_is_deep_enough() -> None:
    schema = Schema.records()
    assert {len(main_path(query)) for query in draw(200, schema, depth_min=6, depth_max=9, descendant=0.5)} == {6}
    with pytest.raises(LimitError, match="no path of the schema has 7 steps"):
        generate_queries(schema, 1, QuerySettings(depth_min=7))


@pytest.mark.parametrize(
    ("skew", "shares"), [(0, (1 / 3,) * 3), (1, (6 / 11, 3 / 11, 2 / 11)), (3, (0.86, 0.11, 0.03))]
)
def test_elements_are_skewed(skew: float, shares: tuple[float, ...]) -> None:
    schema = Schema.from_text("<!ELEMENT a (b | c | d)> <!ELEMENT b EMPTY> <!ELEMENT c EMPTY> <!ELEMENT d EMPTY>")
    found = Counter(draw(6000, schema, skew=skew, wildcard=0, descendant=0, depth_min=2))
    for name, expected in zip("bcd", shares, strict=True):
        assert found[f"/a/{name}"] / 6000 == pytest.approx(expected, abs=0.03)
    # With skipped levels, too, and in nested paths.
    nested = draw(3000, schema, skew=skew, nested=1, wildcard=0, descendant=0, depth_max=1)
    assert share(nested, lambda query: query == "/a[b]") == pytest.approx(shares[0], abs=0.04)


def test_final_attributes_and_texts() -> None:
    found = draw(attribute=0.3, text=0.3)
    assert share(found, lambda query: query.endswith("/text()")) == pytest.approx(0.3, abs=0.03)
    assert 0.15 < share(found, lambda query: "/@" in query) < 0.32


def test_every_plain_query_can_match() -> None:
    schema = Schema.from_text("<!ELEMENT a (b?, c?)> <!ELEMENT b (d)> <!ELEMENT c EMPTY> <!ELEMENT d (#PCDATA)>")
    tree = etree.fromstring("<a><b><d>x</d></b><c/></a>")
    queries = list(generate_queries(schema, 60, QuerySettings(text=0.1)))
    assert len(set(queries)) == 60
    for query in queries:
        assert tree.xpath(query) or query.endswith("text()"), query


# Predicates.


@pytest.mark.parametrize("mean", [0, 1, 1.5, 3])
def test_predicates_per_query(mean: float) -> None:
    numbers = Counter(query.count("[") for query in draw(predicates=mean))
    assert set(numbers) == ({int(mean)} if mean == int(mean) else {int(mean), int(mean) + 1})
    assert sum(number * times for number, times in numbers.items()) / 5000 == pytest.approx(mean, abs=0.05)


def test_kinds_of_predicates() -> None:
    found = draw(predicates=1, kinds={"attribute": 1, "text": 2, "position": 1})
    patterns = {"attribute": r"\[@[\w.:-]+=", "text": r"\[text\(\)=", "position": r"\[\d+\]"}
    shares = {
        kind: sum(bool(re.search(pattern, query)) for query in found) / len(found) for kind, pattern in patterns.items()
    }
    assert shares == pytest.approx({"attribute": 0.25, "text": 0.5, "position": 0.25}, abs=0.03)
    assert all(re.search(r"\[\d+\]", query) for query in draw(500, predicates=1, kinds={"position": 1}))


def test_positions() -> None:
    found = Counter(re.findall(r"\[(\d+)\]", " ".join(draw(predicates=1, kinds={"position": 1}, position_max=4))))
    assert set(found) == {"1", "2", "3", "4"}
    assert all(1100 < number < 1400 for number in found.values())


def test_predicates_ask_for_what_the_step_can_have() -> None:
    schema = Schema.records()
    for query in draw(2000, schema, predicates=2, wildcard=0):
        for element, predicates in re.findall(r"([\w-]+)((?:\[[^]]*\])+)", query):
            names = {attribute.name for attribute in schema.elements[element].attributes}
            assert set(re.findall(r"@([\w-]+)", predicates)) <= names, query


@pytest.mark.parametrize("mean", [0, 1, 0.5, 2])
def test_nested_paths_per_query(mean: float) -> None:
    found = draw(nested=mean)
    numbers = Counter(query.count("[") for query in found)
    assert sum(number * times for number, times in numbers.items()) / 5000 == pytest.approx(mean, abs=0.05)
    paths = re.findall(r"\[([^][]*)\]", " ".join(found))
    assert all(re.fullmatch(r"(\.//)?[\w.*-]+(//?[\w.*-]+)*", path) for path in paths)
    if mean:
        lengths = Counter(len(re.findall(r"[\w*-]+", path)) for path in paths)
        assert set(lengths) == {1, 2, 3}


def test_nested_paths_have_their_own_depth() -> None:
    paths = re.findall(r"\[([^][]*)\]", " ".join(draw(nested=1, nested_depth_max=1)))
    assert {len(re.findall(r"[\w*-]+", path)) for path in paths} == {1}


# Values.

FLAT = """<!ELEMENT r (e+)> <!ELEMENT e (#PCDATA)> <!ATTLIST e word CDATA #REQUIRED number CDATA #REQUIRED
    kind (x | y | z) #REQUIRED same CDATA #FIXED "s">"""


def flat_tree(values: Values) -> Any:
    settings = DocumentSettings(bytes_target=60_000, values=values, attributes=1)
    return etree.fromstring(next(generate_documents(Schema.from_text(FLAT), 1, settings, seed=3)))


def hits(tree: Any, selectivity: float | None, values: Values, target: str) -> float:
    """Which share of the elements of a document satisfies a predicate on this target, on average over 250 queries."""
    settings = QuerySettings(
        predicates=1, selectivity=selectivity, values=values, depth_min=2, depth_max=2, wildcard=0, descendant=0,
        kinds={"text": 1.0} if target == "text()" else {"attribute": 1.0}, distinct=False,
    )  # fmt: skip
    drawn = generate_queries(Schema.from_text(FLAT), 2500, settings, seed=1)
    queries = list(islice((query for query in drawn if target in query), 250))
    assert len(queries) == 250
    return sum(len(tree.xpath(query)) for query in queries) / len(queries) / len(tree)


@pytest.mark.parametrize("selectivity", [0, 0.01, 0.1, 0.3, 0.5, 0.8, 1])
@pytest.mark.parametrize("skew", [0, 1])
def test_selectivity(selectivity: float, skew: float) -> None:
    values = Values({"@number": NumberRange(1, 5000)}, skew=skew)
    tree = flat_tree(values)
    for target in ("@word", "@number", "@kind", "@same", "text()"):
        assert hits(tree, selectivity, values, target) == pytest.approx(selectivity, abs=0.1), target


def test_ranges_have_the_selectivity_one_by_one() -> None:
    values = Values({"@number": NumberRange(-1, 1, 3)})
    schema = Schema.from_text(FLAT)
    settings = DocumentSettings(bytes_target=150_000, values=values)
    tree = etree.fromstring(next(generate_documents(schema, 1, settings, seed=3)))
    queries = draw(400, schema, predicates=1, selectivity=0.25, values=values, depth_min=2, wildcard=0, descendant=0)
    asked = [query for query in queries if "@number" in query and query.startswith("/r/e[")]
    assert len(set(asked)) > 50
    for query in asked:
        assert len(tree.xpath(query)) / len(tree) == pytest.approx(0.25, abs=0.05), query
        treecast.parse(query)


def test_drawn_values_are_those_of_the_documents() -> None:
    """Without a selectivity a value is met as often as two draws are equal: the more so, the more skewed."""
    numbers = Values({"@number": NumberRange(1, 20)})
    assert hits(flat_tree(numbers), None, numbers, "@number") == pytest.approx(0.05, abs=0.02)
    even, skewed = (hits(flat_tree(values), None, values, "@word") for values in (Values(), Values(skew=1)))
    assert 0.001 < even < 0.02 < skewed
    assert hits(flat_tree(Values()), None, Values(), "@kind") == pytest.approx(1 / 3, abs=0.05)


def test_values_with_quotes() -> None:
    values = Values({"@word": ('one "two"', "it's", "plain <&>")})
    found = [query for query in draw(900, Schema.from_text(FLAT), predicates=1, values=values) if "@word" in query]
    assert {re.search(r"@word=(.*?)\]", query)[1] for query in found} == {  # type: ignore[index]
        "'one \"two\"'", '"it\'s"', '"plain <&>"',
    }  # fmt: skip
    both = Values({"@word": ("'\"", "x")})
    found = draw(300, Schema.from_text(FLAT), predicates=1, values=both)
    assert not any("'" in query for query in found)


# Distinct or not; several schemas.


def test_distinct_queries() -> None:
    for settings in (QuerySettings(), QuerySettings(predicates=1, nested=1), QuerySettings(skew=2)):
        queries = list(generate_queries(Schema.news(), 20_000, settings, seed=3))
        assert len(set(queries)) == 20_000
    assert len(set(draw(20_000))) < 15_000


def test_a_prefix_of_a_workload_is_one() -> None:
    whole = list(generate_queries(Schema.news(), 500, seed=3))
    assert list(generate_queries(Schema.news(), 100, seed=3)) == whole[:100]
    assert list(generate_queries(Schema.news(), 100, seed=4)) != whole[:100]


def test_a_small_schema_runs_out_of_queries() -> None:
    schema = Schema.from_text("<!ELEMENT a (b)> <!ELEMENT b EMPTY>")
    with pytest.raises(QueryError, match="gave only 2 distinct queries of the 3") as caught:
        list(generate_queries(schema, 3, QuerySettings(wildcard=0, descendant=0)))
    assert isinstance(caught.value, LimitError)
    assert caught.value.code == "TC381"
    assert len(list(generate_queries(schema, 50, MANY))) == 50


@pytest.mark.parametrize("distinct", [True, False])
def test_predicates_that_no_step_can_have(distinct: bool) -> None:
    schema = Schema.from_text("<!ELEMENT a EMPTY>")
    for settings in ({"predicates": 1}, {"predicates": 1, "kinds": {"text": 1}}, {"nested": 1}):
        with pytest.raises(LimitError, match="no path of the schema serves"):
            list(generate_queries(schema, 3, QuerySettings(**settings, distinct=distinct)))


def root_of(query: str) -> str:
    return main_path(query)[0].strip("/")


def test_several_schemas_take_turns() -> None:
    schemas = [Schema.news(), Schema.records()]
    settings = QuerySettings(wildcard=0, descendant=0)
    found = Counter(map(root_of, generate_queries(schemas, 60, settings, seed=1)))
    assert found == {"news": 30, "trades": 30}
    found = Counter(map(root_of, generate_queries(schemas, 100, settings, seed=1, weights=[9, 1])))
    assert found == {"news": 90, "trades": 10}
    found = Counter(
        map(root_of, generate_queries(schemas, 100, QuerySettings(wildcard=0, descendant=0, distinct=False)))
    )
    assert found == {"news": 50, "trades": 50}


def test_a_schema_without_more_queries_is_passed_over() -> None:
    small = Schema.from_text("<!ELEMENT a (b)> <!ELEMENT b EMPTY>", name="small")
    notes: list[str] = []
    plain = QuerySettings(wildcard=0, descendant=0)
    found = list(generate_queries([small, Schema.news()], 100, plain, seed=1, note=notes.append))
    assert Counter(map(root_of, found)) == {"a": 2, "news": 98}
    assert notes == ["small has hardly more than 2 distinct queries; the others make up for the rest"]
    with pytest.raises(LimitError, match="gave only 4 distinct queries of the 5"):
        other = Schema.from_text("<!ELEMENT c (d)> <!ELEMENT d EMPTY>", name="other")
        list(generate_queries([small, other], 5, plain, seed=1, note=notes.append))


def test_queries_that_two_schemas_share_come_once() -> None:
    queries = list(generate_queries([Schema.news(), Schema.news()], 2000, seed=1))
    assert len(set(queries)) == 2000


# All of them compile.

FORMS = [
    QuerySettings(attribute=0.2, text=0.2),
    QuerySettings(predicates=2, nested=1, kinds={"attribute": 1, "text": 1, "position": 1}),
    QuerySettings(predicates=1, selectivity=0.3, kinds={"attribute": 1, "text": 1}, skew=1),
]


def compile_all(schema: Schema, count: int, seed: int = 1) -> int:
    """Compile queries of every form with lxml and with our own parser, and add them to an index; how many."""
    index = treecast.Index(namespaces=dict(schema.namespaces))
    place = 0
    for form in FORMS:
        try:
            for query in generate_queries(schema, count, form, seed=seed):
                etree.XPath(query, namespaces=dict(schema.namespaces) or None)
                index.add(f"q{place}", query)
                place += 1
        except LimitError:
            continue  # a small schema: what there was is compiled
    return place


@pytest.mark.parametrize("schema", [Schema.news(), Schema.records()], ids=lambda schema: str(schema.name))
def test_all_queries_compile(schema: Schema) -> None:
    assert compile_all(schema, 2000) == 6000


def test_all_queries_of_real_dtds_compile(data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    if data_directory is None:
        leave_out("queries of DTDs in use")
        return
    for path in loadable(data_directory / "dtd"):
        assert compile_all(Schema.from_dtd(path), 100) > 5, path.name


def test_queries_with_prefixes_match() -> None:
    schema = Schema.from_text(
        """<!ELEMENT p:a (q:b+)> <!ATTLIST p:a xmlns:p CDATA #FIXED "urn:p"> <!ELEMENT q:b EMPTY>
        <!ATTLIST q:b q:x CDATA #REQUIRED>"""
    )
    [document] = generate_documents(schema, 1, DocumentSettings(bytes_target=500), seed=1)
    index = treecast.Index(namespaces=dict(schema.namespaces))
    queries = list(generate_queries(schema, 6, QuerySettings(attribute=1, wildcard=0), seed=1))
    index.add_many((query, query) for query in queries)
    assert index.match(document) == queries
    assert "/p:a/q:b/@q:x" in queries


@pytest.mark.parametrize(
    "settings",
    [
        {"depth_max": 0}, {"depth_max": 101}, {"depth_min": 0}, {"depth_min": 5, "depth_max": 4}, {"wildcard": -1},
        {"descendant": 1.1}, {"skip": 2}, {"stop": -0.1}, {"attribute": 0.6, "text": 0.6}, {"selectivity": 2},
        {"predicates": -1}, {"predicates": 21}, {"nested": -1}, {"nested": 21}, {"nested_depth_max": 0},
        {"position_max": 0}, {"skew": 11}, {"kinds": {"attribute": 0}}, {"kinds": {"order": 1}},
        {"kinds": {"text": -1, "attribute": 1}},
    ],
)  # fmt: skip
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|probabilities|a skew is|from 0 to 20|kinds of predicates"):
        QuerySettings(**settings)


def test_missing_things_are_refused() -> None:
    with pytest.raises(ValueError, match="prize"):
        generate_queries(Schema.news(), 1, QuerySettings(values=Values({"prize": ("1",)})))
    with pytest.raises(ValueError, match="not negative"):
        generate_queries(Schema.news(), -1)
    with pytest.raises(ValueError, match="one weight for every schema"):
        generate_queries(Schema.news(), 1, weights=[1, 2])
