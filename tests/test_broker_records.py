"""Values that the doors of a broker keep in it: they survive, they are counted, and no connection may set them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.messages import (
    Answer,
    Command,
    Document,
    Publish,
    RegisterSource,
    RemoveRecord,
    Request,
    SetRecord,
)
from treecast.overlay.peer import Send, Store
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house


class Keeper:
    """A broker whose changes are stored at once."""

    def __init__(self, **settings: Any) -> None:
        self.storage = SimulatedStorage()
        self._settings = BrokerSettings(**settings)
        self._number = 0
        self.restart()

    def restart(self) -> None:
        self.broker = Broker("b", self.storage, Random(1), self._settings)

    def ask(self, command: Command) -> str:
        """The code of its refusal, or nothing."""
        self._number += 1
        answers = []
        for effect in self.broker.receive("door", Request(self._number, command), 0):
            if isinstance(effect, Store):
                self.storage.write(effect.changes)
            elif isinstance(effect, Send) and isinstance(effect.message, Answer):
                answers.append(effect.message)
        (answer,) = answers
        return answer.refusals[0].code if answer.refusals else ""

    def rows(self, kind: str) -> dict[str, bytes]:
        return dict(self.broker.records(kind))


def test_records_survive_a_restart_and_kinds_are_apart() -> None:
    keeper = Keeper()
    for kind, key in (("hooks", "a/b"), ("hooks", "c"), ("hook", "s/a"), ("hooks2", "x")):
        assert keeper.ask(SetRecord(kind, key, f"{kind} {key}".encode())) == ""
    assert keeper.ask(SetRecord("hooks", "c", b"changed")) == ""
    assert keeper.ask(RemoveRecord("hooks", "nothing")) == ""
    for _ in range(2):
        assert keeper.rows("hooks") == {"a/b": b"hooks a/b", "c": b"changed"}
        assert keeper.rows("hook") == {"s/a": b"hook s/a"}
        assert keeper.broker.record("hooks", "c") == b"changed" and keeper.broker.record("hooks", "d") is None
        keeper.restart()
    assert keeper.ask(RemoveRecord("hooks", "c")) == ""
    keeper.restart()
    assert keeper.rows("hooks") == {"a/b": b"hooks a/b"}


def test_records_are_limited_in_number_and_size_also_after_a_restart() -> None:
    keeper = Keeper(records_per_kind_max=2, record_kinds_max=2, record_bytes_max=4)
    assert [keeper.ask(SetRecord("a", key, b"1234")) for key in ("1", "2", "3")] == ["", "", "TC413"]
    keeper.restart()
    assert keeper.ask(SetRecord("a", "3", b"")) == "TC413"
    assert keeper.ask(SetRecord("a", "2", b"12345")) == "TC418"
    assert keeper.ask(SetRecord("a", "2", b"")) == ""
    assert [keeper.ask(SetRecord(kind, "1", b"")) for kind in ("b", "c")] == ["", "TC413"]
    assert [keeper.ask(RemoveRecord("a", key)) for key in ("1", "1", "2")] == ["", "", ""]
    assert keeper.ask(SetRecord("c", "1", b"")) == ""  # the last of a kind makes room for another kind
    assert [keeper.ask(SetRecord(*name, b"")) for name in (("a/b", "1"), ("", "1"), ("b", ""))] == ["TC414"] * 3


def test_records_are_not_what_clients_of_the_broker_see() -> None:
    """They share nothing with documents and subscriptions."""
    keeper = Keeper()
    assert keeper.ask(SetRecord("tokens", "a", b"secret")) == ""
    assert keeper.ask(RegisterSource("s")) == "" and keeper.ask(Publish("s", [Document(b"<a/>")])) == ""
    assert keeper.broker.stats()["sources"] == 1 and keeper.rows("s") == {}
