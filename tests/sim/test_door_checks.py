"""The checks of what doors ask for, on histories written by hand: each finds what it is there for, and no more."""

from __future__ import annotations

import pytest
from test_broker_checks import X1, X2, Story

from treecast.overlay.messages import Hasten, RemoveRecord, SetRecord, Subscribe
from treecast.sim.broker.door_checks import early_receipts, possible_values, wrong_records, wrong_refusals
from treecast.sim.broker.history import Postponement

pytestmark = pytest.mark.house

A, B = ("hooks", "a"), ("hooks", "b")


def test_a_record_is_the_last_that_was_acknowledged_or_one_asked_for_since() -> None:
    story = Story()
    assert possible_values(story.history, A) == [None]
    story.do(SetRecord(*A, b"1"))
    story.send(SetRecord(*A, b"2"))
    assert possible_values(story.history, A) == [b"1", b"2"]
    story.do(SetRecord(*A, b"3"))
    assert possible_values(story.history, A) == [b"3"]
    story.send(RemoveRecord(*A))
    assert possible_values(story.history, A) == [b"3", None]
    story.answer(story.send(SetRecord(*A, b"4")), is_refused=True)
    assert possible_values(story.history, A) == [b"3", None], "refused: it was never set"


def test_records_that_are_lost_wrong_or_too_many_are_found() -> None:
    story = Story()
    story.do(SetRecord(*A, b"1"))
    story.do(SetRecord(*B, b"2"))
    assert list(wrong_records(story.history, {A: b"1", B: b"2"}, 2)) == []
    assert list(wrong_records(story.history, {A: b"1"}, 2)) == ["record hooks/b is None, and not one of [b'2']"]
    assert len(list(wrong_records(story.history, {A: b"1", B: b"1"}, 2))) == 1
    assert len(list(wrong_records(story.history, {A: b"1", B: b"2", ("hooks", "c"): b""}, 3))) == 1, "of nobody"
    (text,) = wrong_records(story.history, {A: b"1", B: b"2"}, 1)
    assert text == "there are 2 records of kind hooks, and 1 are allowed"


def test_a_record_is_refused_only_if_there_is_no_room() -> None:
    story = Story()
    story.do(SetRecord(*A, b"1"))
    story.answer(story.send(SetRecord(*B, b"2")), is_refused=True, code="TC413")
    assert list(wrong_refusals(story.history, 1)) == []
    assert len(list(wrong_refusals(story.history, 2))) == 1
    removal = story.send(RemoveRecord(*A))
    story.answer(story.send(SetRecord(*B, b"2"), "c2"), is_refused=True, code="TC413")
    assert list(wrong_refusals(story.history, 1)) == [], "it may still have been there"
    story.answer(removal)
    story.answer(story.send(SetRecord(*B, b"2"), "c2"), is_refused=True, code="TC413")
    assert len(list(wrong_refusals(story.history, 1))) == 1


def test_what_comes_before_its_time_is_found() -> None:
    story = Story()
    story.do(Subscribe("q", "//x"))
    story.publish(X1, X2)
    story.receive(1, X1, is_failed=True)
    story.history.postponed.append(Postponement(story.time_us, "c1", "q", 1, wait_ms=1_000))
    story.receive(2, X2)
    assert list(early_receipts(story.history, 10_000)) == []
    story.receive(1, X1, attempt=2)
    (text,) = early_receipts(story.history, 10_000)
    assert text.startswith("document 1 for q came at")
    assert list(early_receipts(story.history, 1)) == [], "the broker waits no longer than that"
    story.history.session_ends.append((story.time_us, "c1"))
    assert list(early_receipts(story.history, 10_000)) == [], "its session may have ended before"


def test_what_somebody_wants_at_once_may_come_at_once() -> None:
    story = Story()
    story.publish(X1)
    story.history.postponed.append(Postponement(story.time_us, "c1", "q", 1, wait_ms=1_000))
    story.do(Hasten("other"))
    story.receive(1, X1, attempt=2)
    assert len(list(early_receipts(story.history, 10_000))) == 1
    story.do(Hasten("q"))
    assert len(list(early_receipts(story.history, 10_000))) == 1, "that was later"
    story = Story()
    story.history.postponed.append(Postponement(story.time_us, "c1", "q", 1, wait_ms=1_000))
    story.do(Hasten("q"))
    story.receive(1, X1, attempt=2)
    assert list(early_receipts(story.history, 10_000)) == []
