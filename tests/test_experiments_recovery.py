"""The experiment on failures: its verdict on rows made for it. A small run is among those of `test_experiments.py`."""

from __future__ import annotations

import pytest

from treecast import experiments
from treecast.experiments.experiment import Row

pytestmark = pytest.mark.house


def made_rows(
    worst_s: float = 1.0, registry_s: float = 0.1, lost: int = 0, failures: int = 5, load: float = 0.5
) -> list[Row]:
    return [
        {
            "brokers": 8,
            "fails": fails,
            "failures": failures,
            "median_s": seconds / 2,
            "worst_s": seconds,
            "acknowledged": 100,
            "lost": lost,
            "twice": 0,
            "load": load,
        }
        for fails, seconds in (("leaf", worst_s / 2), ("root", worst_s), ("registry", registry_s))
    ]


def answers(rows: list[Row]) -> list[str]:
    return [finding.answer for finding in experiments.find("onyx-recovery").verdict(rows)]


def test_the_verdict() -> None:
    assert answers(made_rows()) == ["agree", "agree", "agree"]
    assert answers(made_rows(lost=1))[0] == "differs"
    assert answers(made_rows(worst_s=7.0))[1] == "inconclusive"
    assert answers(made_rows(worst_s=11.0))[1] == "differs"
    assert answers(made_rows(worst_s=11.0, load=9.0))[1] == "inconclusive", "a busy machine decides nothing"
    assert answers(made_rows(worst_s=1.0, load=9.0))[1] == "agree", "unless it was fast enough all the same"
    assert answers(made_rows(registry_s=6.0))[2] == "differs"
    assert answers(made_rows(failures=1)) == ["inconclusive"] * 3
    assert answers(made_rows(failures=1, lost=1))[0] == "differs", "one that is lost is enough"


def test_its_columns_are_those_of_failures() -> None:
    """Nothing here is a time for each document, or depends on how many documents there are."""
    columns = experiments.find("onyx-recovery").columns
    assert not {"us", "documents"} & set(columns)
    assert set(columns) == set(made_rows()[0])
