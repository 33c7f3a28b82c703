"""The experiments on clusters and partitions: the model of routers, verdicts on rows made for them, lost matches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from treecast import experiments
from treecast.errors import PipelineError
from treecast.experiments import executors, onyx_pep, router_model, xtrie_routers
from treecast.experiments.executors import Run
from treecast.experiments.experiment import Row, Sizes, overall
from treecast.experiments.router_model import Cost, Curve, paper_cost
from treecast.experiments.router_verdict import DATA, FILTER, HIERARCHICAL, OURS, PAPER, PLACED, XTRIE, break_even
from treecast.experiments.session import Session
from treecast.index import Index
from treecast.placement import Pep, root_name

pytestmark = pytest.mark.house


def answers(name: str, rows: Sequence[Row]) -> list[str]:
    return [finding.answer for finding in experiments.find(name).verdict(rows)]


# The model.


def test_a_curve_goes_through_its_points_and_stays_flat_beyond() -> None:
    curve = Curve([(1_000, 40.0), (10, 4.0), (100, 4.0)])
    assert [round(curve(n), 6) for n in (1, 10, 50, 100, 1_000, 9_000)] == [4, 4, 4, 4, 40, 40]
    assert round(curve(10**2.5), 6) == round(4 * 10**0.5, 6), "straight on logarithmic scales"
    for bad in ([], [(0, 1.0)], [(5, 0.0)]):
        with pytest.raises(ValueError, match="positive"):
            Curve(bad)


def test_the_three_strategies_as_the_paper_has_them() -> None:
    one = router_model.data_sharing(1, 200_000, paper_cost)
    assert (round(one.speed), one.latency_us) == (27, 37_000)
    many = router_model.data_sharing(50, 200_000, paper_cost)
    assert (round(many.speed / one.speed), many.latency_us) == (50, one.latency_us)
    shared = router_model.filter_sharing(50, 200_000, paper_cost)
    assert shared.latency_us == paper_cost(4_000) and round(shared.speed) == 132
    assert router_model.hierarchical(20, 200_000, paper_cost, top_us=1, fan_out=1) is None, "20 of them stand above"
    tree = router_model.hierarchical(100, 200_000, paper_cost, top_us=1, fan_out=2)
    assert tree and tree.leaves == 80 and tree.router_us == paper_cost(2_500) and tree.latency_us == tree.router_us + 1
    assert round(tree.speed) == round(80 / 2 / paper_cost(2_500) * 1e6)


def test_more_routers_stand_above_where_root_tags_are_slow() -> None:
    tree = router_model.hierarchical(1_000, 1_000, lambda n: 10.0, top_us=10.0, fan_out=1)
    assert tree and tree.leaves == 500 and tree.speed == 50e6
    assert tree.latency_us == 20.0


# Figure 7.


def cluster_rows(cost: Cost, filters: int = 200_000, routers: Sequence[int] = (1, 2, 10, 50, 100, 1_000)) -> list[Row]:
    """What the model makes of a cost, for all three engines."""
    rows = []
    for engine in (XTRIE, OURS, PAPER):
        for count in routers:
            reached = [
                (DATA, 1, router_model.data_sharing(count, filters, cost)),
                (FILTER, count, router_model.filter_sharing(count, filters, cost)),
                *(
                    (HIERARCHICAL, fan_out, router_model.hierarchical(count, filters, cost, top_us=1, fan_out=fan_out))
                    for fan_out in (1, 5)
                ),
            ]
            for strategy, fan_out, one in reached:
                if one is not None:
                    rows.append(xtrie_routers.table_row(filters, engine, strategy, fan_out, count, one, cost(0), 1.0))
    return rows


def real_rows(gain: float, filter_cost: float, fan_out: float = 2.0, cores: int = 4, load: float = 1.0) -> list[Row]:
    """Runs on two executors: data-sharing gains so much; the others cost so much a message on each executor."""

    def run(strategy: str, count: int, speed: float, fan: float) -> Row:
        reached = router_model.Performance(speed, 1e6 / speed, 1e6 / speed, count)
        theory = paper_cost(100_000 if strategy == FILTER else 200_000)
        labels = (200_000, XTRIE, strategy, fan, count)
        more: dict[str, Any] = {
            "source": "executors",
            "expected_us": theory,
            "net_speed": speed,
            "cores": cores,
            "load": load,
        }
        return xtrie_routers.table_row(*labels, reached, 7_000, 1.0, **more)

    each = 1e6 / paper_cost(200_000)
    return [run(DATA, 1, each, 1), run(DATA, 2, each * gain, 1), run(FILTER, 2, 2e6 / (fan_out * filter_cost), fan_out)]


def placed(fan_out: float, vain: float = 0.0) -> Row:
    reached = router_model.Performance(1_000.0, 10.0, 10.0, 80)
    labels = (200_000, XTRIE, PLACED, fan_out, 100)
    return xtrie_routers.table_row(*labels, reached, 7_000, 1.0, needed=fan_out * (1 - vain))


def test_the_papers_own_costs_agree_with_the_paper() -> None:
    rows = [*cluster_rows(paper_cost), placed(4.0), *real_rows(gain=1.9, filter_cost=paper_cost(100_000))]
    assert answers("xtrie-routers", rows) == ["agree"] * 8
    found = break_even(rows, XTRIE)
    assert found and 4.5 < found < 5.5
    assert "142" in experiments.find("xtrie-routers").verdict(rows)[2].seen


def test_other_costs_differ() -> None:
    def steep(filters: float) -> float:
        """Twice as many filters cost four times as much, and reading next to nothing."""
        return float(1e-6 * filters**2 + 1)

    rows = [*cluster_rows(steep), placed(1.0), *real_rows(gain=1.1, filter_cost=9 * paper_cost(100_000))]
    assert answers("xtrie-routers", rows) == [
        "differs", "differs", "agree", "inconclusive", "agree", "differs", "differs", "differs",
    ]  # fmt: skip
    flat = cluster_rows(lambda n: 10.0)
    assert answers("xtrie-routers", flat)[4:6] == ["differs", "differs"], "a hierarchy has nothing to win"
    slow = [{**row, "read_us": row["read_us"] / 1e3} for row in cluster_rows(paper_cost)]
    assert answers("xtrie-routers", slow)[2] == "differs", "what remains is not reading"


def test_what_was_not_run_has_no_verdict() -> None:
    assert answers("xtrie-routers", cluster_rows(paper_cost)) == [
        "inconclusive", "agree", "agree", "agree", "agree", "agree", "inconclusive", "inconclusive",
    ]  # fmt: skip
    assert answers("xtrie-routers", cluster_rows(paper_cost, filters=5_000)) == ["inconclusive"] * 8
    few = cluster_rows(paper_cost, routers=(1, 2))
    assert answers("xtrie-routers", few)[2:6] == ["inconclusive"] * 4, "no cluster is large enough"


def test_the_whole_figure_at_a_small_size() -> None:
    """Large enough for a hierarchy of our own; the points of one run share what is measured."""
    experiment = experiments.find("xtrie-routers")
    sizes = Sizes((600,), 6, values=(1, 5, 50, 100), passes=1, cell_seconds=0.01)
    assert [point["what"] for point in experiment.points(sizes)] == ["one"] * 4 + ["model", "placed"]
    outcome = experiments.perform(experiment, sizes)
    assert outcome.problems == []
    assert {row["strategy"] for row in outcome.rows} == {DATA, FILTER, HIERARCHICAL, PLACED}
    for engine in (XTRIE, OURS):
        shared = [row for row in outcome.rows if row["engine"] == engine and row["strategy"] == DATA]
        assert len({row["latency_us"] for row in shared}) == 1 and [row["routers"] for row in shared][-1] == 100
    assert len(experiment.panels(outcome.rows)) == 5
    assert any("our placement: hierarchical" in note for note in outcome.notes)
    larger = experiment.points(Sizes((20_000,), 6, values=(1,)))
    assert larger[-1]["what"] == "executors"


def prepared() -> Session:
    """A session in which the costs of one router are known."""
    session = Session(Sizes((20,), 4, values=(1,)))
    for cost in xtrie_routers.costs_of(session, 20).values():
        cost.part, cost.read = {20.0: 100.0, 10.0: 60.0}, 5.0
    return session


def runs(wrong: int = 0) -> list[Run]:
    """Spark takes 400 µs of CPU a message. XTrie takes 1,000 with all filters, 300 with half of them."""
    return [
        Run(DATA, 1, OURS, 500.0, 600.0, 1.0, 3.0, 0),
        Run(DATA, 1, XTRIE, 1_400.0, 2_000.0, 1.0, 3.0, wrong),
        Run(FILTER, 2, OURS, 520.0, 360.0, 2.0, 3.0, 0),
        Run(FILTER, 2, XTRIE, 1_000.0, 500.0, 2.0, 3.0, 0),
    ]


def executed(monkeypatch: pytest.MonkeyPatch, made: list[Run]) -> tuple[Session, list[Row]]:
    monkeypatch.setattr(executors, "on_executors", lambda inputs, engines, messages: made)
    monkeypatch.setattr(executors, "machine_now", lambda: executors.Machine(4, 1.2))
    monkeypatch.setattr("treecast.spark.session.check", lambda: None)
    session = prepared()
    return session, xtrie_routers.measure(session, {"queries": 20, "what": "executors"})


def test_the_speed_of_real_runs_is_wall_clock_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wall-clock time decides, whatever the CPU time; Spark's own part is subtracted from both."""
    session, rows = executed(monkeypatch, runs())
    assert [(row["strategy"], row["routers"], round(row["us"]), round(row["speed"])) for row in rows] == [
        (DATA, 1, 1_000, 500),
        (FILTER, 2, 300, 2_000),
    ]
    # In wall-clock time Spark takes 600 - 100 and 360 - 60 µs, which leaves 1,500 and 200 to XTrie.
    assert [round(row["net_speed"]) for row in rows] == [667, 5_000]
    assert [(row["expected_us"], row["cores"], row["load"]) for row in rows] == [(100, 4, 1.2), (60, 4, 1.2)]
    assert any("Spark itself takes about 400 µs of CPU and 500 µs of wall-clock time" in note for note in session.notes)
    assert session.problems == []
    half = [run._replace(cpu_us=run.cpu_us / 2) for run in runs()]
    _, again = executed(monkeypatch, half)
    assert [row["speed"] for row in again] == [row["speed"] for row in rows], "CPU time decides no throughput"


def test_what_cannot_be_separated_from_spark_has_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    close = [run._replace(wall_us=605.0) for run in runs()]
    _, rows = executed(monkeypatch, close)
    assert rows[0]["net_speed"] > 0 and rows[1]["net_speed"] == 0, "60 of 605 µs could be anything"


def real_answers(**options: Any) -> tuple[str, str, str]:
    """Of the two findings on real runs, and why."""
    rows = [*cluster_rows(paper_cost), *real_rows(filter_cost=paper_cost(100_000), **options)]
    found = experiments.find("xtrie-routers").verdict(rows)
    return found[0].answer, found[7].answer, found[0].why


def test_two_executors_have_to_be_faster_by_the_wall() -> None:
    assert real_answers(gain=1.9)[0] == "agree"
    assert real_answers(gain=1.4)[0] == "inconclusive"
    for gain in (0.7, 1.0, 1.1):
        assert real_answers(gain=gain)[0] == "differs", "nothing in the figure is two by construction"


def test_a_machine_that_is_busy_or_small_decides_nothing() -> None:
    first, second, why = real_answers(gain=1.9, load=4.2)
    assert (first, second) == ("inconclusive", "inconclusive") and "not idle: a load of 4.2" in why
    first, second, why = real_answers(gain=0.5, cores=1)
    assert (first, second) == ("inconclusive", "inconclusive") and "2 executors had 1 core to share" in why
    assert real_answers(gain=1.9, load=1.4)[0] == "agree"


def test_a_worse_placement_does_not_agree_more() -> None:
    def answer(fan_out: float, vain: float) -> str:
        rows = [*cluster_rows(paper_cost), placed(fan_out, vain)]
        return experiments.find("xtrie-routers").verdict(rows)[6].answer

    assert [answer(f, 0.0) for f in (1.0, 2.0, 4.9)] == ["differs", "agree", "agree"]
    assert [answer(f, 0.0) for f in (6.0, 8.0, 80.0)] == ["inconclusive", "differs", "differs"]
    # What a message visits in vain is the placement's: the same need with more of it agrees at most as much.
    order = ["differs", "inconclusive", "agree"]
    for needed in (1.0, 1.3, 2.0, 4.0):
        answers = [order.index(answer(needed / (1 - vain), vain)) for vain in (0.0, 0.3, 0.6, 0.9)]
        assert answers == sorted(answers, reverse=True), (needed, answers)


def test_a_leaf_holds_the_filters_of_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """7c: a leaf that held filters of other types, which its messages never match, would be faster than it can be."""
    filters = [f"/{root}/x{n}" for n in range(6) for root in ("a", "b")]
    roots = [xtrie_routers.root_of(text) for text in filters]
    leaf = xtrie_routers.leaf_filters(filters, roots, "b", 4)
    assert leaf == ["/b/x0", "/b/x1", "/b/x2", "/b/x3"]
    assert xtrie_routers.leaf_filters(filters, roots, "b", 8)[6:] == ["/a/x0", "/a/x1"], "where there are too few"
    measured: list[tuple[set[str], set[str]]] = []  # the roots of the filters, and those of the messages

    def rows(self: Session, engines: Any, queries: Sequence[str], documents: Sequence[bytes], **more: Any) -> list[Row]:
        measured.append(
            (set(map(xtrie_routers.root_of, queries)), {root_name(document) or "" for document in documents})
        )
        return [{"engine": engine, "us": 1.0} for engine in (OURS, XTRIE)]

    session = Session(Sizes((60,), 6, values=(1,)))
    monkeypatch.setattr(Session, "rows", rows)
    xtrie_routers.measure(session, {"queries": 60, "what": "one", "routers": 20})
    types = {root for _, roots in measured for root in roots}
    leaves = measured[-len(types) :]
    assert len(types) > 1 and leaves == [(its, its) for _, its in leaves], leaves


def test_wrong_matches_on_executors_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    session, _ = executed(monkeypatch, runs(wrong=2))
    assert session.problems == [
        "xtrie-single-path, data-sharing on 1 executors finds other matches than one index in 2 of 4 messages"
    ]


def test_without_spark_the_real_runs_are_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise PipelineError("Spark needs Java, and none was found", code="TC701", hint="install it")

    monkeypatch.setattr("treecast.spark.session.check", missing)
    session = prepared()
    assert xtrie_routers.measure(session, {"queries": 20, "what": "executors"}) == []
    assert any("left out: real runs" in note and "TC701 Spark needs Java" in note for note in session.notes)


def test_roots_of_expressions() -> None:
    assert [xtrie_routers.root_of(text) for text in ("/a", "/a/b", "/a//b", "/x:a/y:b")] == ["a", "a", "a", "a"]


# Figure 9.


def pep_rows(pep: float = 1.0, random: float = 3.0, queries: int = 1_000_000) -> list[Row]:
    """Shares as PEP's formula has them, times a factor; random partitioning so many times as much, at most all."""
    rows = []
    for values, repetition in product((onyx_pep.VALUES, onyx_pep.MORE_VALUES), (1, 2, 5, 10)):
        expected = onyx_pep.expected(repetition)
        shares = {
            onyx_pep.ROUTED: expected * pep,
            onyx_pep.MATCHED: expected * pep,
            onyx_pep.RANDOM_ROUTED: 1.0,
            onyx_pep.RANDOM: min(1.0, expected * pep * random * repetition),
        }
        for name, share in shares.items():
            rows.append(
                {
                    "queries": queries,
                    "values": values,
                    "repetition": repetition,
                    "partitioning": name,
                    "share": share,
                    "expected": expected,
                    "matches": 30.0,
                }
            )
    return rows


def both(*answers: str) -> list[str]:
    """Each finding has a verdict for each of the two numbers of values."""
    return [answer for answer in answers for _ in (onyx_pep.VALUES, onyx_pep.MORE_VALUES)]


def test_verdict_on_pep() -> None:
    assert answers("onyx-pep", pep_rows()) == both("agree", "agree", "agree", "agree")
    assert answers("onyx-pep", pep_rows(pep=0.8)) == both("inconclusive", "inconclusive", "agree", "agree")
    assert answers("onyx-pep", pep_rows(pep=1.6)) == both("differs", "differs", "agree", "agree")
    assert answers("onyx-pep", pep_rows(random=0.1)) == both("agree", "agree", "differs", "differs")
    assert answers("onyx-pep", pep_rows(random=0.6)) == both("agree", "agree", "inconclusive", "differs")
    assert answers("onyx-pep", pep_rows(queries=1_000)) == ["inconclusive"] * 8


def test_more_values_have_a_verdict_too() -> None:
    """What holds for 200 values need not hold for 1,000: then the verdict says so, and is not agree."""
    few, many = (
        [row for row in pep_rows(random=random) if row["values"] == values]
        for random, values in ((3.0, onyx_pep.VALUES), (0.1, onyx_pep.MORE_VALUES))
    )
    found = experiments.find("onyx-pep").verdict([*few, *many])
    assert [finding.answer for finding in found] == ["agree"] * 5 + ["differs", "agree", "differs"]
    assert overall(found) == "differs"
    assert "(1,000 values a pattern)" in found[5].claim and "(200 values a pattern)" in found[4].claim


def test_pep_comes_out_as_the_formula_has_it_at_a_small_size() -> None:
    """No time decides: shares are counted. Each value is asked for, so that routing does not depend on the queries."""
    outcome = experiments.perform(experiments.find("onyx-pep"), Sizes((20_000,), 60, values=(1, 4)))
    assert outcome.problems == []
    rows = [row for row in outcome.rows if row["values"] == onyx_pep.VALUES]
    assert len(rows) == len(outcome.rows) / 2 == 8
    shares = {(row["repetition"], row["partitioning"]): row["share"] for row in rows}
    for repetition in (1, 4):
        routed = shares[repetition, onyx_pep.ROUTED]
        assert routed == pytest.approx(onyx_pep.expected(repetition), rel=0.1)
        assert shares[repetition, onyx_pep.MATCHED] <= routed
        assert shares[repetition, onyx_pep.RANDOM_ROUTED] > 0.2 > onyx_pep.expected(repetition)
    assert any("PEP chose 10 patterns" in note for note in outcome.notes)


def test_a_message_has_each_element_as_often_as_requested() -> None:
    parts = onyx_pep.draw_message(Random(1), 3, values=5)
    assert sorted(part[:3] for part in parts) == sorted(b"<p%d" % n for n in range(10) for _ in range(3))
    query, other = onyx_pep.query([(1, 5), (1, 7)]), onyx_pep.query([(1, 5), (2, 7)])
    index = Index()
    index.add_many([("q", query), ("o", other)])
    assert index.match(b"<message>" + onyx_pep.element((1, 5)) + onyx_pep.element((1, 7)) + b"</message>") == ["q"]


class Forgetful(Pep):
    """Sends every message to its first partition only."""

    def route(self, documents: Sequence[Any]) -> list[Any]:
        return [(0,) for _ in documents]


def test_a_lost_match_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(onyx_pep, "Pep", Forgetful)
    outcome = experiments.perform(experiments.find("onyx-pep"), Sizes((5_000,), 10, values=(10,)))
    assert outcome.problems and outcome.problems[0].startswith("PEP loses matches of")
