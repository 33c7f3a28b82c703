"""The operator network of ONYX: Figure 5 box by box, answers of every switch against lxml and Index, and what runs."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from generators.paths_and_documents import draw_document
from lxml import etree
from test_papers import ONYX
from test_papers_transformations import SERIES, TIDES, article

from treecast import Index
from treecast.document import read
from treecast.engines.operators import Outcome, Plan, Priority, RunSettings, Target, run_plan
from treecast.engines.operators.decomposition import Linear, decompose
from treecast.engines.operators.path_nfa import PathNfa
from treecast.engines.operators.plan import write
from treecast.errors import DocumentLimitError, QueryError
from treecast.experiments.yfilter_predicates import with_numbers
from treecast.query import parse
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

SWITCHES = [RunSettings(short_cuts=short, priorities=first) for short, first in product((True, False), repeat=2)]


def run(plan: Plan, document: str, **settings: bool) -> Outcome:
    return run_plan(plan, read(document.encode()), RunSettings(**settings))


# ONYX, Figure 5.


def figure_5() -> Plan:
    plan = Plan()
    plan.add_local("Q1", ONYX["Q1"])
    plan.add_local("Q2", ONYX["Q2"])
    plan.add_local("Q3", parse(TIDES), lambda document: "the content")
    return plan


def test_figure_5_box_by_box() -> None:
    """The states have the paper's numbers: 4 is pubdata, 6 is tobject.subject. All three share the selection at 4."""
    plan = figure_5()
    assert plan.describe()[:-1] == [
        "1 path: state 4, /nitf/head/pubdata",
        '2 selection of 1: step 3, [@edition.area="SF"]',
        "3 path: state 6, /nitf//tobject.subject",
        '4 selection of 3: step 2, [@tobject.subject.type="Stock"]',
        "5 join of 2, 4: step 1 -> local Q1",
        '6 selection of 3: step 2, [@tobject.subject.matter="fishing"]',
        "7 join of 2, 6: step 1 -> local Q2",
        "8 path: state 7, /nitf//series",
        '9 selection of 8: step 2, [@series.name="Tide Forecasts"]',
        "10 join of 2, 9: step 1",
    ]
    assert plan.describe()[-1] == f"11 transformation of 10: {parse(TIDES)} -> local Q3"
    assert len(plan.nfa) == 7


@pytest.mark.parametrize("settings", SWITCHES)
def test_figure_5_runs(settings: RunSettings) -> None:
    plan = figure_5()
    found = run_plan(plan, read(article("SF", "Stock").encode()), settings)
    assert (found.local, found.delivered) == (["Q1"], {})
    found = run_plan(plan, read(article("SF", "Fishing", SERIES).encode()), settings)
    assert (found.local, found.delivered) == (["Q3"], {"Q3": "the content"})
    assert run_plan(plan, read(article("NY", "Stock", SERIES).encode()), settings).local == []


def test_map_puts_and_in_the_place_of_joins() -> None:
    """Figure 6, boxes b and c: the routing queries of brokers 5 and 6 share the selection at state 4."""
    plan = Plan()
    plan.add_route("5", ONYX["Q1"])
    plan.add_route("5", ONYX["Q2"])
    plan.add_route("6", parse(TIDES))
    ends = [line for line in plan.describe() if "->" in line]
    assert ends == ["5 and of 2, 4 -> route 5", "7 and of 2, 6 -> route 5", "10 and of 2, 9 -> route 6"]


# The machine.


@pytest.mark.parametrize("seed", range(4))
def test_the_nfa_accepts_what_the_native_one_accepts(seed: int) -> None:
    random = Random(f"nfa {seed}")
    queries = list(dict.fromkeys(draw_path(random, random.randint(1, 5)) for _ in range(60)))
    index, nfa = Index(engine="yfilter"), PathNfa()
    index.add_many([(query, query) for query in queries])
    states = {query: nfa.add(decompose(parse(query).matching)[0].path) for query in queries}
    for _ in range(15):
        data = draw_document(random)
        accepted = nfa.run(read(data)).accepted
        assert [query for query in queries if states[query] in accepted] == index.match(data)
        tree = list(etree.fromstring(data.removeprefix(b"\xef\xbb\xbf")).iter("*"))
        for query in queries[:20]:
            chosen = [tree.index(element) for element in tree[0].xpath(query)]
            assert accepted.get(states[query], []) == chosen


def draw_path(random: Random, steps: int) -> str:
    return "".join(random.choice(("/", "/", "//")) + random.choice("abc*") for _ in range(steps))


# Answers.


def draw_query(random: Random, depth: int = 0) -> str:
    """Nested paths, values, `//` and wildcards over a tiny vocabulary."""
    text = ""
    for place in range(random.randint(1, 3)):
        first = depth and not place
        text += random.choice(("", ".//") if first else ("/", "/", "//")) + random.choice("abc*")
        while random.random() < 0.4 - 0.1 * depth:
            text += f"[{draw_query(random, depth + 1) if random.random() < 0.5 else draw_test(random)}]"
    if random.random() < 0.2:
        text += random.choice(("/@x", "/text()"))
        return text + random.choice(("", '="1"', "=1")) if depth else text
    return text


def draw_test(random: Random) -> str:
    one = random.choice(("@x", "@y", "@*", "text()", "."))
    simple = random.choice(
        (
            one, f'{one}="1"', f"{one}!=1", f"{one}>=0", f'contains({random.choice(("@x", "."))}, "a")',
            'starts-with(@y, "a")', "not(@x)", f"@x or {one}='text'", "@x and @y",
        )
    )  # fmt: skip
    return simple


def relaxed(linear: Linear) -> list[str]:
    """The absolute paths of a routing query, as XPath."""
    found = []
    for each in linear.flat():
        text = ""
        for step, (gap, name) in enumerate(each.path, start=1):
            text += ("//" if gap else "/") + ("*" if name is None else name[1])
            text += "".join(f"[{write(test)}]" for at, test in each.tests if at == step)
        found.append(text)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_answers_equal_lxml_with_every_switch(seed: int) -> None:
    """Local queries and transformations are exact; a link is chosen where the absolute paths of a query all match."""
    random = Random(f"answers {seed}")
    queries = [draw_query(random) for _ in range(40)]
    plan = Plan()
    links: dict[str, list[str]] = {}
    for number, query in enumerate(queries):
        plan.add_local(f"q{number}", query)
        link = f"link{number % 12}"
        if number % 3 == 0:
            links.setdefault(link, []).append(query)
            plan.add_route(link, query)
        if number in (1, 3, 6):
            plan.add_transformation(link, query, lambda document, query=query: query)  # type: ignore[misc]
    for _ in range(25):
        data = draw_document(random)
        tree = etree.fromstring(data.removeprefix(b"\xef\xbb\xbf"))
        local = [f"q{number}" for number, query in enumerate(queries) if tree.xpath(query)]
        chosen = {
            link
            for link, routed in links.items()
            if any(all(map(tree.xpath, relaxed(one))) for query in routed for one in decompose(parse(query).matching))
        }
        exact = {link for link, routed in links.items() if any(tree.xpath(query) for query in routed)}
        assert exact <= chosen, "never a false negative"
        built = {f"link{n}": queries[n] for n in (1, 3, 6) if f"link{n}" in chosen and tree.xpath(queries[n])}
        for settings in SWITCHES:
            found = run_plan(plan, read(data), settings)
            assert sorted(found.local) == sorted(local), (settings, data)
            assert len(found.links) == len(set(found.links)) and set(found.links) == chosen, (settings, data)
            assert found.transformed == built


def test_answers_equal_the_index_on_a_drawn_population() -> None:
    schema = with_numbers(Schema.news())
    values = Values({"@*": NumberRange(1, 5)})
    settings = QuerySettings(depth_max=5, predicates=1.0, nested=1.0, values=values)
    queries = list(generate_queries(schema, 150, settings, seed=3))
    index, plan = Index(), Plan()
    for number, query in enumerate(queries):
        index.add(str(number), query)
        plan.add_local(str(number), query)
    total = 0
    for data in generate_documents(schema, 8, DocumentSettings(bytes_target=2_000, attributes=0.7, values=values)):
        expected = sorted(index.match(data))
        total += len(expected)
        for each in SWITCHES:
            assert sorted(run_plan(plan, read(data), each).local) == expected
    assert total > 50


# What runs, and what does not.


def disjunction() -> Plan:
    plan = Plan()
    for number in range(10):
        plan.add_route("5", f'/a/b[@x="{number}"]')
    plan.add_route("6", '/a[c]/b[@y="1"]')
    return plan


def test_short_cuts_skip_what_leads_only_to_reached_targets() -> None:
    """Broker 5 is reached by its first query. Of the rest, only what leads to broker 6 runs."""
    document = '<a><b x="0" y="2"/></a>'
    short, all_of_it = run(disjunction(), document), run(disjunction(), document, short_cuts=False)
    assert short.links == all_of_it.links == ["5"]
    assert (short.predicates, all_of_it.predicates) == (2, 11)
    assert (short.operators, short.skipped) == (3, 9)
    assert (all_of_it.operators, all_of_it.skipped) == (12, 0)


def test_an_operator_before_skipped_ones_is_skipped_as_well() -> None:
    """The second path of the conjunction need not even make tuples."""
    plan = Plan()
    plan.add_route("5", "/a/b")
    plan.add_route("5", '/a/c[@x="1"][@y="1"]')
    found = run(plan, '<a><b/><c x="1" y="1"/></a>')
    assert (found.operators, found.skipped, found.predicates) == (1, 1, 0)
    assert run(plan, '<a><b/><c x="1" y="1"/></a>', short_cuts=False).operators == 4


def test_what_another_target_needs_still_runs() -> None:
    plan = Plan()
    plan.add_route("5", "/a/b")
    plan.add_route("5", '/a/c[@x="1"]')
    plan.add_local("q", '/a/c[@x="1"]')
    for settings in SWITCHES:
        found = run_plan(plan, read(b'<a><b/><c x="1"/></a>'), settings)
        assert (found.links, found.local) == (["5"], ["q"])


def test_routing_is_first_with_priorities() -> None:
    """Local queries come before the route in the document, and after it with priorities."""
    plan = Plan()
    for number in range(10):
        plan.add_local(f"q{number}", f'/a/b[@x="{number}"]')
    plan.add_route("5", '/a/z[@x="1"]')
    document = '<a><b x="1"/><z x="1"/></a>'
    first, one_queue = run(plan, document), run(plan, document, priorities=False)
    assert first.links == one_queue.links == ["5"] and first.local == one_queue.local == ["q1"]
    assert first.routed_after == 2
    assert one_queue.routed_after == one_queue.operators == 13


def test_a_shared_operator_runs_in_the_highest_class_that_needs_it() -> None:
    plan = Plan()
    plan.add_local("other", '/a/b[@y="1"]')
    plan.add_local("shared", '/a/b[@x="1"]')
    plan.add_route("5", '/a/b[@x="1"]')
    order: list[Target | None] = []
    found = run_plan(plan, read(b'<a><b x="1" y="1"/></a>'), watch=order.append)
    assert found.local == ["shared", "other"] and found.routed_after == 2
    assert order == [None, Target(Priority.ROUTE, "5"), None]


def test_routing_is_over_when_no_route_needs_an_operator() -> None:
    """The link is chosen by its first query; the second one's selection runs later, for a local query only."""
    plan = Plan()
    plan.add_route("5", "/a/b")
    plan.add_route("5", '/a/c[@x="1"]')
    plan.add_local("q", '/a/c[@x="1"]')
    document = '<a><b/><c x="1"/></a>'
    for first in (True, False):
        found = run(plan, document, priorities=first)
        assert (found.operators, found.routed_after) == (3, 1)
        assert run(plan, document, priorities=first, short_cuts=False).routed_after == 3


def test_a_transformation_waits_until_its_link_is_chosen() -> None:
    plan = Plan()
    plan.add_transformation("5", '/a/b[@x="1"]', lambda document: b"five")
    plan.add_transformation("6", '/a/b[@x="1"]', lambda document: b"six")
    plan.add_route("5", "/a/five")
    plan.add_route("6", "/a/six")
    neither = run(plan, '<a><b x="1"/></a>')
    assert (neither.operators, neither.waited, neither.built, neither.transformed) == (0, 1, 0, {})
    one = run(plan, '<a><b x="1"/><six/></a>')
    assert (one.built, one.transformed, one.waited) == (1, {"6": b"six"}, 1)
    eager = run(plan, '<a><b x="1"/><six/></a>', priorities=False)
    assert (eager.built, eager.transformed, eager.waited) == (2, {"6": b"six"}, 0)


def test_what_waits_for_a_link_runs_for_a_local_query_all_the_same() -> None:
    plan = Plan()
    plan.add_transformation("5", '/a/b[@x="1"]', lambda document: b"five")
    plan.add_route("5", "/a/five")
    plan.add_local("q", '/a/b[@x="1"]')
    found = run(plan, '<a><b x="1"/></a>')
    assert (found.local, found.built, found.links) == (["q"], 0, [])


def test_an_element_is_tested_once() -> None:
    """Tuples of a path that another query asks for two elements of have the last one twice."""
    plan = Plan()
    plan.add_local("one", "//a//b[@x]/c")
    plan.add_local("two", "//a[@y]//b/c")
    found = run(plan, '<a y="1"><a><b><c/></b></a></a>')
    assert (found.local, found.tuples, found.predicates) == (["two"], 2, 3)


def test_too_many_ways() -> None:
    plan = Plan()
    plan.add_local("q", "//a[@x]//a[@x]//a[@x]")
    deep = read(b'<a x="1">' * 40 + b"</a>" * 40)
    assert run_plan(plan, deep).local == ["q"]
    with pytest.raises(DocumentLimitError) as caught:
        run_plan(plan, deep, RunSettings(tuples_max=1_000))
    assert caught.value.code == "TC341"


@pytest.mark.parametrize(
    "query",
    [
        "//a[2]",
        "//a[b or c]",
        "//a[not(b)]",
        "/a[//b]",
        "//@x",
        "/a[.//@x]",
        "//a/descendant-or-self::b",
    ],
)
def test_the_rest_of_the_language_is_refused(query: str) -> None:
    with pytest.raises(QueryError) as caught:
        Plan().add_local("q", query)
    assert caught.value.code == "TC150"


def test_equal_plans_are_run_alike() -> None:
    """First come, first served: nothing depends on hashes."""
    order = run(figure_5(), article("SF", "Stock", SERIES)).local
    assert order == ["Q1", "Q3"]
