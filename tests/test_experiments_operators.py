"""The experiments on ONYX's operators: verdicts on rows made for them, what small runs count, and lost links."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from treecast import experiments
from treecast.experiments import onyx_priorities, onyx_sharing, operator_inputs
from treecast.experiments.experiment import Row, Sizes
from treecast.experiments.operator_inputs import TWO_STAGES
from treecast.overlay.onyx.routing.table import RoutingTable

pytestmark = pytest.mark.house


def answers(name: str, rows: Sequence[Row]) -> list[str]:
    return [finding.answer for finding in experiments.find(name).verdict(rows)]


# Short-cuts.


def sharing_rows(queries: int = 100, separate: float = 200, left: float = 0.5, factor: float = 0.9) -> list[Row]:
    """`left`: predicates that short-cuts leave; `factor`: these against the predicates of separate networks."""
    figures = {
        onyx_sharing.SEPARATE: (separate, 1_000 * left / factor),
        onyx_sharing.COMBINED: (150, 1_000),
        onyx_sharing.SHORT: (100, 1_000 * left),
        TWO_STAGES: (0, 0),
    }
    return [
        {
            "selectivity": selectivity,
            "queries": queries,
            "plan": plan,
            "us": 10.0,
            "nfa_us": 5.0,
            "skipped": 0,
            "operators": operators,
            "predicates": predicates,
            "tuples": 1,
            "links": 4,
            "documents": 5,
        }
        for selectivity in (0.1, 0.5)
        for plan, (operators, predicates) in figures.items()
    ]


def test_verdicts_on_short_cuts() -> None:
    assert answers("onyx-sharing", sharing_rows()) == ["agree", "agree", "agree"]
    assert answers("onyx-sharing", sharing_rows(separate=120)) == ["inconclusive", "agree", "agree"]
    assert answers("onyx-sharing", sharing_rows(separate=90)) == ["differs", "agree", "agree"]
    assert answers("onyx-sharing", sharing_rows(left=0.8)) == ["agree", "inconclusive", "agree"]
    assert answers("onyx-sharing", sharing_rows(left=0.95)) == ["agree", "differs", "agree"]
    assert answers("onyx-sharing", sharing_rows(factor=1.05)) == ["agree", "agree", "inconclusive"]
    assert answers("onyx-sharing", sharing_rows(factor=1.5)) == ["agree", "agree", "differs"]
    assert answers("onyx-sharing", sharing_rows(queries=99)) == ["inconclusive"] * 3


def test_short_cuts_are_counted() -> None:
    outcome = experiments.perform(experiments.find("onyx-sharing"), Sizes((10,), 3, values=(0.5,), passes=1))
    assert outcome.problems == []
    rows = {row["plan"]: row for row in outcome.rows}
    short, combined, separate = (
        rows[name] for name in (onyx_sharing.SHORT, onyx_sharing.COMBINED, onyx_sharing.SEPARATE)
    )
    assert short["links"] == combined["links"] == separate["links"] > 1
    assert short["skipped"] > 0 == combined["skipped"]
    assert short["operators"] < combined["operators"] and short["predicates"] < combined["predicates"]
    assert short["operators"] < separate["operators"] and short["predicates"] <= separate["predicates"]


# Priorities.


def priority_rows(
    queries: int = 1_000, after: float = 400, routed: float = 900, eager: float = 6, operators: float = 500
) -> list[Row]:
    """Figures of one queue; with priorities 100 operators and 300 µs until routed, and 3 transformations."""
    figures = {
        onyx_priorities.ONE_QUEUE: (500.0, after, routed, eager),
        onyx_priorities.PRIORITIES: (operators, 100, 300, 3),
        TWO_STAGES: (0, 0, 30, 0),
    }
    return [
        {
            "queries": queries,
            "local": local,
            "plan": plan,
            "us": 1_000,
            "chosen_us": 1,
            "nfa_us": 100,
            "operators": run,
            "routed_after": after,
            "routed_us": routed_us,
            "built": built,
            "waited": 0,
            "links": 4,
            "documents": 5,
        }
        for local in (0.1, 0.9)
        for plan, (run, after, routed_us, built) in figures.items()
    ]


def test_verdicts_on_priorities() -> None:
    assert answers("onyx-priorities", priority_rows()) == ["agree"] * 4
    assert answers("onyx-priorities", priority_rows(after=130))[0] == "inconclusive"
    assert answers("onyx-priorities", priority_rows(after=100))[0] == "differs"
    assert answers("onyx-priorities", priority_rows(routed=350))[1] == "inconclusive"
    assert answers("onyx-priorities", priority_rows(routed=290))[1] == "differs"
    assert answers("onyx-priorities", priority_rows(eager=3.5))[2] == "inconclusive"
    assert answers("onyx-priorities", priority_rows(eager=3))[2] == "differs"
    assert answers("onyx-priorities", priority_rows(operators=550))[3] == "inconclusive"
    assert answers("onyx-priorities", priority_rows(operators=700))[3] == "differs"
    assert answers("onyx-priorities", priority_rows(queries=999)) == ["inconclusive"] * 4


def test_priorities_are_counted() -> None:
    outcome = experiments.perform(experiments.find("onyx-priorities"), Sizes((80,), 3, values=(0.9,), passes=1))
    assert outcome.problems == []
    rows = {row["plan"]: row for row in outcome.rows}
    first, one_queue = rows[onyx_priorities.PRIORITIES], rows[onyx_priorities.ONE_QUEUE]
    assert first["links"] == one_queue["links"]
    assert 0 < first["routed_after"] < one_queue["routed_after"]
    assert first["waited"] > 0 == one_queue["waited"] and first["built"] < one_queue["built"]


def test_predicates_are_removed_with_those_inside() -> None:
    assert onyx_priorities.without_predicates("/a[b[@x=1]/c][@y]//d[@z]") == "/a//d"


def test_a_table_that_loses_a_link_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(RoutingTable):
        def route(self, documents: Sequence[Any], enough: Collection[str] = ()) -> list[tuple[str, ...]]:
            return [links[1:] for links in super().route(documents, enough)]

    monkeypatch.setattr(operator_inputs, "RoutingTable", Forgetful)
    outcome = experiments.perform(experiments.find("onyx-sharing"), Sizes((5,), 3, values=(0.5,), passes=1))
    assert any(problem.startswith(f"{TWO_STAGES} keeps document") for problem in outcome.problems)
