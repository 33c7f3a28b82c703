"""The experiment on what is done before links: verdicts on rows made for them, and a small run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from treecast import experiments
from treecast.experiments.experiment import Row, Sizes
from treecast.experiments.onyx_early import ANYWHERE, EARLY, PROJECTION, RESTRUCTURING, TOGETHER, WHOLE, Place
from treecast.overlay.onyx.network_messages import Plan

pytestmark = pytest.mark.house

SMALL = Sizes((3,), 2, values=(0, 0.1), passes=1)


def answers(rows: Sequence[Row]) -> list[str]:
    return [finding.answer for finding in experiments.find("onyx-early").verdict(rows)]


def rows(saved: float = 0.6, time: float = 0.9, left: float = 0.5, documents: int = 20) -> list[Row]:
    """`saved`: of the bytes, by either kind; `left`: of that, with some subscribers to whole documents."""
    made: list[Row] = []
    for kind in (PROJECTION, RESTRUCTURING):
        for share, placing in ((0, ANYWHERE), (0.01, ANYWHERE), (0.01, TOGETHER)):
            for plan in (WHOLE, EARLY):
                part = 0.0 if plan == WHOLE else saved * (left if share else 1)
                made.append(
                    {
                        "kind": kind,
                        "share": share,
                        "placing": placing,
                        "plan": plan,
                        "documents": documents,
                        "text_bytes": 1_000 * (1 - part),
                        "wire_bytes": 500 * (1 - part),
                        "early_us": 1.0,
                        "us": 10.0 if plan == WHOLE else 10.0 * time,
                    }
                )
    return made


def test_verdicts() -> None:
    assert answers(rows()) == ["agree", "agree", "agree"]
    assert answers(rows(saved=0.2)) == ["inconclusive", "agree", "agree"]
    assert answers(rows(saved=0.05)) == ["differs", "agree", "agree"]
    assert answers(rows(time=1.1)) == ["agree", "inconclusive", "agree"]
    assert answers(rows(time=1.5)) == ["agree", "differs", "agree"]
    assert answers(rows(left=0.3)) == ["agree", "agree", "inconclusive"]
    assert answers(rows(left=0.1)) == ["agree", "agree", "differs"]
    assert answers(rows(documents=19)) == ["inconclusive"] * 3


def test_a_small_run_saves_bytes_and_delivers_the_same() -> None:
    outcome = experiments.perform(experiments.find("onyx-early"), SMALL)
    assert outcome.problems == []
    found = {(row["kind"], row["share"], row["placing"], row["plan"]): row for row in outcome.rows}
    for kind in (PROJECTION, RESTRUCTURING):
        early, whole = (found[kind, 0, ANYWHERE, plan] for plan in (EARLY, WHOLE))
        assert early["text_bytes"] < 0.8 * whole["text_bytes"] and early["wire_bytes"] < whole["wire_bytes"]
        assert early["deliveries"] == whole["deliveries"] > 0
        assert early["text_bytes"] < found[kind, 0.1, TOGETHER, EARLY]["text_bytes"] < whole["text_bytes"]


def test_a_lost_delivery_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Place.connect

    def forget(place: Place, child: Place) -> None:
        connect(place, child)
        place.plan.set(child.name, Plan("keep /batch/article[@area='a0']"))

    monkeypatch.setattr(Place, "connect", forget)
    outcome = experiments.perform(experiments.find("onyx-early"), Sizes((3,), 2, values=(0,), passes=1))
    assert outcome.problems
