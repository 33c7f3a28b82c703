"""The experiments on ONYX's routing tables: verdicts on rows made for them, and what small runs count."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from treecast import experiments
from treecast.experiments import onyx_patterns, onyx_routing, onyx_schema
from treecast.experiments.experiment import Row, Sizes
from treecast.overlay.onyx.routing.table import RoutingTable

pytestmark = pytest.mark.house


def answers(name: str, rows: Sequence[Row]) -> list[str]:
    return [finding.answer for finding in experiments.find(name).verdict(rows)]


def routing_rows(queries: int = 2_000, pep: float = 1.5, random: float = 4.0, few: float = 1.2) -> list[Row]:
    """Messages with PEP and with random placement; how many times as many there are with the smallest budget."""
    return [
        {"queries": queries, "budget": budget, "placement": placement, "sent": sent * (few if budget == 10 else 1)}
        for budget in (0, 100, 10)
        for placement, sent in ((onyx_routing.RANDOM, random), (onyx_routing.NEAREST, 3.0), (onyx_routing.PEP, pep))
    ]


def test_verdicts_on_routing() -> None:
    assert answers("onyx-routing", routing_rows()) == ["agree"] * 3
    assert answers("onyx-routing", routing_rows(pep=3.4, random=3.5)) == ["agree", "inconclusive", "agree"]
    assert answers("onyx-routing", routing_rows(pep=6.0, random=5.0))[1] == "differs"
    assert answers("onyx-routing", routing_rows(few=2.0))[2] == "inconclusive"
    assert answers("onyx-routing", routing_rows(few=4.0))[2] == "differs"
    assert answers("onyx-routing", routing_rows(queries=1_999)) == ["inconclusive"] * 3


def test_routing_is_between_what_is_wanted_and_flooding() -> None:
    sizes = Sizes((400,), 24, values=(0, 20))
    outcome = experiments.perform(experiments.find("onyx-routing"), sizes)
    assert outcome.problems == []
    rows = {(row["placement"], row["budget"]): row for row in outcome.rows}
    for (_, budget), row in rows.items():
        assert row["wanted"] <= row["sent"] <= row["flooding"]
        if not budget:
            assert row["sent"] == row["wanted"]  # these subscriptions lose nothing when they are mapped
    random, pep = rows[onyx_routing.RANDOM, 20], rows[onyx_routing.PEP, 20]
    assert pep["sent"] < random["sent"]
    assert rows[onyx_routing.PEP, 20]["entries"] < rows[onyx_routing.PEP, 0]["entries"]


def test_a_document_that_is_lost_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RoutingTable, "route", lambda self, documents: [()] * len(documents))
    outcome = experiments.perform(experiments.find("onyx-routing"), Sizes((80,), 16, values=(0,)))
    assert "does not reach" in outcome.problems[0]
    outcome = experiments.perform(experiments.find("onyx-patterns"), Sizes((10,), 10, passes=1))
    assert "keeps document" in outcome.problems[0]


def pattern_rows(queries: int = 100, sent: float = 2.0, us: float = 15.0) -> list[Row]:
    figures = {onyx_patterns.PATHS: (3.0, 10.0, 0.6), onyx_patterns.EXACT: (sent, us, 1.0)}
    return [
        {"queries": queries, "form": form, "sent": each, "us": time, "precision": precision, "bytes": 1_000}
        for form, (each, time, precision) in figures.items()
    ]


def test_verdicts_on_patterns() -> None:
    assert answers("onyx-patterns", pattern_rows()) == ["agree", "agree"]
    assert answers("onyx-patterns", pattern_rows(sent=2.7, us=11)) == ["inconclusive", "inconclusive"]
    assert answers("onyx-patterns", pattern_rows(sent=2.9, us=9)) == ["differs", "differs"]
    assert answers("onyx-patterns", pattern_rows(queries=99)) == ["inconclusive"] * 2


def test_tree_patterns_are_more_precise() -> None:
    outcome = experiments.perform(experiments.find("onyx-patterns"), Sizes((20,), 40, passes=1))
    assert outcome.problems == []
    paths, exact = outcome.rows
    assert exact["sent"] < paths["sent"] and exact["precision"] == 1.0
    assert exact["bytes"] > paths["bytes"]


def schema_rows(queries: int = 1_000, left: float = 0.5, steps: float = 0.7, us: float = 8.0) -> list[Row]:
    figures = {
        onyx_schema.PLAIN: (1_000, 1_000, 10.0),
        onyx_schema.PRUNED: (1_000 * left, 500, 9.0),
        onyx_schema.SHORT: (1_000 * left, 500 * steps, us),
    }
    return [
        {"queries": queries, "table": name, "entries": entries, "steps": count, "bytes": 9, "us": us, "prepare_us": 1}
        for name, (entries, count, us) in figures.items()
    ]


def test_verdicts_on_schemas() -> None:
    assert answers("onyx-schema", schema_rows()) == ["agree"] * 3
    assert answers("onyx-schema", schema_rows(left=0.7, steps=0.9, us=10)) == ["inconclusive"] * 3
    assert answers("onyx-schema", schema_rows(left=0.95, steps=1.0, us=12)) == ["differs"] * 3
    assert answers("onyx-schema", schema_rows(queries=999)) == ["inconclusive"] * 3


def test_a_schema_leaves_out_what_cannot_be() -> None:
    outcome = experiments.perform(experiments.find("onyx-schema"), Sizes((120,), 10, passes=1))
    assert outcome.problems == []
    plain, pruned, shortened = outcome.rows
    assert pruned["entries"] <= 0.6 * plain["entries"]
    assert shortened["steps"] < pruned["steps"]
