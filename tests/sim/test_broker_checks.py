"""The checkers of the broker's scenario, on histories written by hand: each finds what it is there for, and no more."""

from __future__ import annotations

import pytest

from treecast.overlay.messages import (
    Advance,
    Answer,
    Command,
    Document,
    Publish,
    Refusal,
    RegisterSource,
    RemoveSource,
    Replay,
    Subscribe,
    Unsubscribe,
)
from treecast.sim.broker.checks import Checks, Letter
from treecast.sim.broker.history import History, Operation, Receipt

pytestmark = pytest.mark.house

X1, X2, X3, Y1 = b'<x n="1"/>', b'<x n="2"/>', b'<x n="3"/>', b'<y n="1"/>'


class Story:
    """Writes a history; time passes with each step."""

    def __init__(self) -> None:
        self.history = History()
        self.time_us = 0

    def send(self, command: Command, client: str = "c1") -> Operation:
        self.time_us += 10
        return self.history.send(client, command, self.time_us)

    def answer(self, operation: Operation, *documents: int, is_refused: bool = False, code: str = "TC104") -> None:
        self.time_us += 10
        refusals = [Refusal(0, code, "no")] if is_refused else []
        self.history.answer(operation, Answer(0, list(documents), refusals), self.time_us)

    def do(self, command: Command, *documents: int, client: str = "c1") -> None:
        self.answer(self.send(command, client), *documents)

    def publish(self, *bodies: bytes, first: int = 1, client: str = "p") -> None:
        self.do(Publish("s", [Document(body) for body in bodies]), *range(first, first + len(bodies)), client=client)

    def receive(
        self,
        document: int,
        payload: bytes,
        subscription: str = "q",
        attempt: int = 1,
        by: str = "c1",
        *,
        is_failed: bool = False,
    ) -> None:
        self.time_us += 10
        self.history.attach(by, [subscription])
        self.history.receive(Receipt(self.time_us, by, 1, subscription, document, attempt, payload))
        if not is_failed:
            self.history.acknowledged.add((subscription, document))

    def wrong(self, *letters: Letter) -> str:
        return "\n".join(Checks(self.history, letters).all())


@pytest.fixture
def story() -> Story:
    """A subscription to all x, and two documents that were published after it."""
    story = Story()
    story.do(Subscribe("q", "//x"))
    story.publish(X1, X2)
    return story


def test_all_is_well(story: Story) -> None:
    story.receive(1, X1)
    story.receive(2, X2)
    story.receive(1, X1, attempt=2)
    assert story.wrong() == ""


def test_a_lost_document_is_found(story: Story) -> None:
    story.receive(1, X1)
    assert story.wrong() == "document 2 was acknowledged and never reached subscription q"
    assert story.wrong(Letter("q", 2, X2)) == "", "a dead letter is not lost"


def test_what_failed_and_never_came_again_is_found(story: Story) -> None:
    story.receive(1, X1, is_failed=True)
    story.receive(2, X2)
    assert story.wrong() == "document 1 was not dealt with and never came again to subscription q"
    assert story.wrong(Letter("q", 1, X1)) == ""
    story.receive(1, X1, attempt=2)
    assert story.wrong() == ""


def test_what_somebody_got_without_a_session_need_not_come(story: Story) -> None:
    story.do(Advance([("q", 1)]))
    assert story.wrong() == "document 2 was acknowledged and never reached subscription q"
    story.publish(X3, first=3)
    story.do(Advance([("q", 2), ("other", 3)]))
    assert story.wrong() == "document 3 was acknowledged and never reached subscription q"
    story.send(Advance([("q", 9)]))  # nobody knows whether it was done
    assert story.wrong() == ""


def test_documents_of_a_removed_source_are_found(story: Story) -> None:
    story.receive(1, X1)
    story.receive(2, X2)
    story.do(RegisterSource("own"))
    story.do(RemoveSource("own"))
    story.answer(story.send(Publish("own", [Document(X3)])), is_refused=True, code="TC410")
    assert story.wrong() == ""
    story.do(Publish("own", [Document(b"<y/>")]), 3)
    assert story.wrong().startswith("c1 published to own, and the answer was")
    story = Story()
    story.do(RegisterSource("own"))
    story.answer(story.send(Publish("own", [Document(X3)])), is_refused=True, code="TC410")
    assert story.wrong().startswith("c1 published to own, and the answer was")


def test_an_answer_of_another_request_is_found(story: Story) -> None:
    story.receive(1, X1)
    story.receive(2, X2)
    story.do(Publish("s", [Document(X3)]))
    assert "and was answered Answer" in story.wrong()


def test_a_wrong_payload_is_found(story: Story) -> None:
    story.receive(1, X2)
    story.receive(2, X2)
    assert "received what is not its own: document 1 for q" in story.wrong()
    assert "no one subscribed to" in story.wrong(Letter("q", 1, Y1))


def test_a_document_for_a_stranger_is_found(story: Story) -> None:
    story.receive(1, X1)
    story.receive(2, X2)
    story.receive(2, X2, subscription="unknown")
    assert "for unknown" in story.wrong()


def test_a_document_that_does_not_match_is_found(story: Story) -> None:
    story.publish(Y1, first=3)
    for number, body in enumerate((X1, X2, Y1), 1):
        story.receive(number, body)
    assert "document 3" in story.wrong()


def test_order_counts_at_the_first_receipt(story: Story) -> None:
    story.receive(2, X2)
    story.receive(1, X1)
    assert "received 2 of p before document 1" in story.wrong()
    story.history.attach("c2", ["q"])
    assert story.wrong() == "", "those who share a subscription have no order"


def test_order_holds_for_one_publisher_only() -> None:
    story = Story()
    story.do(Subscribe("q", "//x"))
    story.publish(X1, first=1, client="p")
    story.publish(X2, first=2, client="r")
    story.receive(2, X2)
    story.receive(1, X1)
    assert story.wrong() == ""


def test_what_was_published_before_is_not_for_it() -> None:
    story = Story()
    story.publish(X1)
    story.do(Subscribe("q", "//x"))
    assert story.wrong() == "", "not required"
    story.receive(1, X1)
    assert "not its own" in story.wrong(), "nor allowed"
    story.do(Replay("q", 1), 1)
    assert story.wrong() == "document 1 was not replayed to subscription q", "it has to come again"
    story.receive(1, X1)
    assert story.wrong() == "", "a replay explains it"


def test_a_replay_begins_where_its_answer_says() -> None:
    story = Story()
    story.publish(X1, X2)
    story.do(Subscribe("q", "//x"))
    story.do(Replay("q", 0), 2)
    story.receive(2, X2)
    assert story.wrong() == ""
    story.receive(1, X1)
    assert "document 1" in story.wrong()


def test_what_happens_at_the_same_time_may_be_either() -> None:
    for is_received in (True, False):
        story = Story()
        subscribe = story.send(Subscribe("q", "//x"))
        story.publish(X1)
        story.answer(subscribe)
        if is_received:
            story.receive(1, X1)
        assert story.wrong() == ""


def test_a_refused_subscription_changes_nothing(story: Story) -> None:
    story.answer(story.send(Subscribe("q", "//y")), is_refused=True)
    story.publish(Y1, first=3)
    story.receive(1, X1)
    story.receive(2, X2)
    assert story.wrong() == ""
    story.receive(3, Y1)
    assert "document 3" in story.wrong()


def test_a_replaced_subscription_gets_what_its_versions_matched(story: Story) -> None:
    story.do(Subscribe("q", "//y"))
    story.publish(Y1, first=3)
    story.receive(2, X2)
    story.receive(3, Y1)
    assert "document 1" in story.wrong(), "what it matched before stays to be delivered"


def test_a_removed_subscription_gets_nothing_more(story: Story) -> None:
    story.do(Unsubscribe("q"))
    assert story.wrong() == "", "what it waited for is gone with it"
    story.publish(Y1, first=3)
    story.do(Subscribe("q", "//y"))
    story.receive(3, Y1)
    assert "document 3" in story.wrong()


def test_an_operation_without_an_answer_may_have_been_done() -> None:
    for is_received in (True, False):
        story = Story()
        story.send(Subscribe("q", "//x"))
        story.publish(X1)
        if is_received:
            story.receive(1, X1)
        assert story.wrong() == ""
    # It was done before the next answer to its client, or never.
    story = Story()
    story.send(Publish("s", [Document(X1)]), "p")
    story.publish(X2, first=2)
    story.do(Subscribe("q", "//x"))
    story.receive(1, X1)
    assert "document 1" in story.wrong()


def test_copies_have_one_number(story: Story) -> None:
    document = Document(X1, "first")
    story.do(Publish("s", [document]), 3, client="p")
    story.do(Publish("s", [document]), 4, client="p")
    assert "has numbers [3, 4] in answers" in story.wrong()


def test_copies_are_delivered_once() -> None:
    story = Story()
    story.do(Subscribe("q", "//x"))
    document = Document(X1, "first")
    story.send(Publish("s", [document]), "p")  # its answer is lost
    story.do(Publish("s", [document]), 2, client="p")
    story.receive(2, X1)
    assert story.wrong() == ""
    story.receive(1, X1)
    assert "has numbers [1, 2] in subscription q" in story.wrong()


def test_numbers_ascend_and_name_one_document(story: Story) -> None:
    story.receive(1, X1)
    story.receive(2, X2)
    story.publish(Y1, first=2)
    assert "document 2 is the number of 2 different documents" in story.wrong()
    other = Story()
    other.publish(X1, first=5)
    other.publish(X2, first=4)
    assert "published 5 before 4" in other.wrong()
