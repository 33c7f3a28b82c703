"""What a receiver says about messages of which some items failed or were postponed, and which acknowledgements it
repeats."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from treecast.overlay.messages import Acknowledge, Attached, Confirmation, Deliveries, Detach, Flow, Item, Postponed
from treecast.overlay.peer import Deliver, Send
from treecast.overlay.receiver import Delivered, Delivery, Receiver, ReceiverSettings, Roster, Settled

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


def settled(effects: list[Any]) -> list[Settled]:
    events = [effect.event for effect in effects if isinstance(effect, Deliver)]
    return [event for event in events if isinstance(event, Settled)]


def test_what_is_to_be_confirmed_is_said_until_it_is() -> None:
    receiver, (first, second, third) = receiver_with(3)
    (part,) = said(receiver.settle([first, third], False, 0, confirmation=5), Acknowledge)
    assert (part.messages, part.done, part.confirmation) == ([], [(1, 0), (1, 2)], 5)
    (whole,) = said(receiver.settle([second], False, 0, confirmation=6), Acknowledge)
    assert (whole.messages, whole.done, whole.confirmation) == ([1], [], 6)
    assert said(receiver.connected(1), Acknowledge) == [part, whole]
    assert said(receiver.tick(20_000), Acknowledge) == [part, whole]
    assert settled(receiver.take_confirmation(Confirmation(receiver.session, 5))) == [Settled(5, [])]
    assert settled(receiver.take_confirmation(Confirmation(receiver.session, 5))) == []
    assert said(receiver.connected(2), Acknowledge) == [whole]


def test_what_a_broker_does_not_hold_any_more_is_doubtful() -> None:
    receiver, (first, second, third) = receiver_with(3)
    receiver.settle([first, second], False, 0, confirmation=5)
    confirmation = Confirmation(receiver.session, 5, [], [(1, 0), (1, 2)])
    assert settled(receiver.take_confirmation(confirmation)) == [Settled(5, [first])]
    receiver.settle([third], False, 0, confirmation=6)
    assert settled(receiver.take_confirmation(Confirmation(receiver.session, 6, [1]))) == [Settled(6, [third])]
    assert settled(receiver.settle([third], False, 0, confirmation=7)) == [Settled(7, [third])]


def test_when_a_session_ends_what_is_not_confirmed_is_doubtful() -> None:
    for is_detached in (False, True):
        receiver, deliveries = receiver_with(2)
        receiver.settle(deliveries[:1], False, 0, confirmation=5)
        receiver.settle(deliveries[1:], True, 0, confirmation=6)
        end = receiver.detach() if is_detached else receiver.take_detach(Detach(receiver.session), 1)
        assert settled(end) == [Settled(5, deliveries[:1]), Settled(6, deliveries[1:])]
        assert is_detached or said(receiver.connected(2), Acknowledge) == []
