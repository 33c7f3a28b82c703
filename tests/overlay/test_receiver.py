"""What a receiver says about messages of which some items failed or were postponed, and which acknowledgements it
repeats."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from treecast.overlay.messages import Acknowledge, Attached, Deliveries, Flow, Item, Postponed
from treecast.overlay.peer import Deliver, Send
from treecast.overlay.receiver import Delivered, Delivery, Receiver, ReceiverSettings, Roster

pytestmark = pytest.mark.house


def receiver_with(count: int, *, is_patient: bool = False) -> tuple[Receiver, list[Delivery]]:
    """One that has got a message with so many deliveries."""
    receiver = Receiver(1, "r", 1, "broker", ["q"], 10, Random(1), ReceiverSettings(), Roster(), is_patient)
    receiver.take_attached(Attached(receiver.session, [], 7), 0)
    message = Deliveries(receiver.session, 1, [Item("q", n, 0, 1, 0) for n in range(1, count + 1)], [b"<a/>"], 7)
    (effect,) = receiver.take_deliveries(message, "store", 0)
    assert isinstance(effect, Deliver) and isinstance(effect.event, Delivered)
    return receiver, effect.event.deliveries


def said(effects: list[Any], kind: type[Any]) -> list[Any]:
    return [effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def test_the_end_of_a_message_says_again_what_was_postponed() -> None:
    """What said so first may be lost, or come later: the broker would take the item for done."""
    receiver, (first, second) = receiver_with(2)
    verdict = Postponed(1, 0, 5_000, "busy")
    (early,) = said(receiver.postpone(first, 5_000, "busy"), Acknowledge)
    assert early.postponed == [verdict] and early.messages == []
    (whole,) = said(receiver.settle([second], False, 0), Acknowledge)
    assert (whole.messages, whole.postponed) == ([1], [verdict])
    (again,) = said(receiver.connected(1), Acknowledge)
    assert (again.messages, again.postponed) == ([1], [verdict])


def test_the_end_of_a_message_says_again_what_failed_singly() -> None:
    receiver, (first, second) = receiver_with(2)
    (early,) = said(receiver.settle([first], True, 0, singly=True), Acknowledge)
    assert early.failed == [(1, 0)] and early.messages == []
    (whole,) = said(receiver.settle([second], False, 0, singly=True), Acknowledge)
    assert (whole.messages, whole.failed) == ([1], [(1, 0)])
    (again,) = said(receiver.connected(1), Acknowledge)
    assert (again.messages, again.failed) == ([1], [(1, 0)])


def test_a_patient_receiver_says_what_it_still_works_on() -> None:
    receiver, (first, second) = receiver_with(2, is_patient=True)
    assert [flow.open for flow in said(receiver.ask(10, 0), Flow)] == [[1]]
    receiver.postpone(first, 0, "")
    receiver.postpone(second, 0, "")
    assert [flow.open for flow in said(receiver.ask(10, 0), Flow)] == [[]]
    impatient, _ = receiver_with(1)
    assert [flow.open for flow in said(impatient.ask(10, 0), Flow)] == [None]
