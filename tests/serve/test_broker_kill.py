"""A broker that is killed under load loses nothing that it acknowledged, and delivers nothing wrong.

tests/long/test_full_broker_kill.py does the same fifty times.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.broker_trial import Trial
from support.delivery_record import Changed, Expectation, Published, Received

pytestmark = pytest.mark.house


def test_a_broker_that_is_killed_twice_loses_nothing(tmp_path: Path) -> None:
    with Trial(tmp_path, seed=1) as trial:
        trial.wait_for_deliveries(50)
        for _ in range(2):
            trial.kill_once()
        verdict = trial.finish()
    print(verdict)
    assert verdict.faults() == []
    assert verdict.documents and verdict.deliveries and trial.kills >= 2
    assert {"added", "replaced", "removed"} <= verdict.changes.keys()


def test_a_broker_that_answers_before_it_writes_is_found_out(tmp_path: Path) -> None:
    with Trial(tmp_path, seed=2, fault="send_before_the_write") as trial:
        trial.wait_for_deliveries(50)
        trial.kill_once()
        verdict = trial.finish(quiet_seconds=2)
    assert verdict.faults()


# --- the oracle -------------------------------------------------------------------------------------------------------

B, C = ("//b", "elements"), ("//c", "elements")


def expectation() -> Expectation:
    """Documents 1 to 8 all have a `b` and a `c`; another publisher has 4 and 5, around the second change of `x`."""
    body = b"<a><b/><c/></a>"
    first: list[Published | Changed] = [
        Published([1], [body]),
        Changed("x", B),
        Changed("gone", B),
        Published([2, 0, 3], [body, b"<", body]),
        Changed("x", C),
        Published([6], [body]),
        Changed("gone", None),
        Published([7, 8], [body, body]),
    ]
    return Expectation([first, [Published([4, 5], [body, body])]])


def received(*documents: int, subscription: str = "x") -> list[Received]:
    return [
        Received(subscription, number, f"{subscription}-{number}", b"<b/>" if number < 5 else b"<c/>")
        for number in documents
    ]


RIGHT = received(2, 3, 4, 5, 6, 7, 8)


def test_the_oracle_accepts_what_is_right() -> None:
    expected = expectation()
    assert expected.size() == 5, "2, 3, 6, 7 and 8; at 4 and 5 either query may have been in force"
    verdict = expected.verdict([*RIGHT, *received(2, 7)])
    assert (verdict.faults(), verdict.documents, verdict.deliveries, verdict.duplicates) == ([], 8, 7, 2)
    assert verdict.changes == {"added": 2, "replaced": 1, "removed": 1}
    # What waits for a subscription goes with it, so 2 to 6 may have been delivered to it, or not.
    gone = [Received("gone", number, f"g{number}", b"<b/>") for number in (2, 5, 6)]
    assert expected.verdict([*RIGHT, *gone]).faults() == []


@pytest.mark.parametrize(
    ("deliveries", "fault"),
    [
        (received(2, 3, 4, 5, 6, 8), "('x', 7) is missing"),
        ([*received(1), *RIGHT], "('x', 1) must not be delivered"),
        ([*RIGHT, Received("gone", 7, "g7", b"<b/>")], "('gone', 7) must not be delivered"),
        (received(3, 2, 6, 7, 8), "('x', 2) came after document 3 of the same publisher"),
        ([Received("x", 2, "x-2", b"<c/>"), *RIGHT[1:]], "('x', 2) has a wrong payload"),
        ([*RIGHT, Received("x", 8, "x-8", b"<b/>")], "('x', 8) came again with another payload"),
        ([*RIGHT, Received("x", 8, "other", b"<c/>")], "7 deliveries have 8 ids"),
        ([*RIGHT[:-1], Received("x", 8, "x-7", b"<c/>")], "('x', 8) and ('x', 7) have the same id"),
    ],
)
def test_the_oracle_finds_what_is_wrong(deliveries: list[Received], fault: str) -> None:
    assert fault in expectation().verdict(deliveries).faults()


def test_the_oracle_wants_numbers_in_the_order_of_publication() -> None:
    entries = [Published([2], [b"<a/>"]), Published([1], [b"<a/>"])]
    assert Expectation([list(entries)]).faults == ["document 1 of publisher 0 is numbered before 2"]
