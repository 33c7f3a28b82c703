"""The DTDs of a broker's sources: documents are checked before anything is stored."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from treecast.errors import DocumentError
from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.broker.schemas import Schemas
from treecast.overlay.messages import (
    Answer,
    Command,
    Document,
    Publish,
    RegisterSource,
    RemoveSource,
    Request,
    Subscribe,
)
from treecast.overlay.peer import Send
from treecast.overlay.storage import one_by_one
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.fleet.pages import FleetDocumentPages
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house

DTD = "<!ELEMENT order (item+)> <!ELEMENT item (#PCDATA)>"
VALID, INVALID = b"<order><item>tea</item></order>", b"<order/>"


class Asker:
    """Asks a broker, and takes it for granted that everything is stored at once."""

    def __init__(self, storage: SimulatedStorage, settings: BrokerSettings | None = None) -> None:
        self.storage = storage
        self.broker = Broker("broker", storage, Random(1), settings)
        self.number = 0

    def ask(self, command: Command) -> Answer:
        self.number += 1
        effects = self.broker.receive("client", Request(self.number, command), 0)
        self.stored = [change for effect in effects for change in one_by_one(getattr(effect, "changes", ()))]
        answers = [
            effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Answer)
        ]
        return answers[-1]

    def publish(self, *bodies: bytes) -> list[str]:
        """The code of each that is refused, else its number."""
        answer = self.ask(Publish("shop", [Document(body, "") for body in bodies]))
        codes = {refusal.item: refusal.code for refusal in answer.refusals}
        return [codes.get(place) or str(number) for place, number in enumerate(answer.documents)] or [codes[-1]]


def test_invalid_documents_are_refused_and_nothing_of_them_is_stored() -> None:
    asker = Asker(SimulatedStorage())
    assert not asker.ask(RegisterSource("shop", DTD)).refusals
    assert asker.publish(VALID, INVALID, b"<order", VALID) == ["1", "TC220", "TC209", "2"]
    assert INVALID not in [getattr(change, "body", b"") for change in asker.stored]
    assert VALID in [getattr(change, "body", b"") for change in asker.stored]
    assert not asker.ask(RegisterSource("shop")).refusals  # without a DTD, everything well-formed is accepted
    assert asker.publish(INVALID) == ["3"]


def test_a_wrong_dtd_is_refused_and_changes_nothing() -> None:
    asker = Asker(SimulatedStorage(), BrokerSettings(schema_bytes_max=2_000, schema_chars_max=5_000))
    asker.ask(RegisterSource("shop", DTD, "the first"))
    bomb = "<!ENTITY % a 'x | x | x | x | x'>"
    bomb += "".join(
        f"<!ENTITY % {b} '%{a}; | %{a}; | %{a}; | %{a}; | %{a};'>" for a, b in ("ab", "bc", "cd", "de", "ef")
    )
    for wrong, code in (
        ("<!ELEMENT order (item>", "TC280"),
        ("not a DTD", "TC280"),
        ("<!ENTITY % p SYSTEM 'http://example.org/p'> %p; <!ELEMENT a EMPTY>", "TC285"),
        (f"{bomb} <!ELEMENT r (%f;)>", "TC380"),
        (f"<!-- {'long ' * 400} --> {DTD}", "TC380"),
    ):
        assert [refusal.code for refusal in asker.ask(RegisterSource("shop", wrong, "another")).refusals] == [code], (
            wrong
        )
        assert asker.broker.tail.sources()["shop"].description == "the first"
    assert asker.publish(VALID, INVALID) == ["1", "TC220"]


def test_a_schema_is_compiled_once_and_shared() -> None:
    asker = Asker(SimulatedStorage())
    asker.ask(RegisterSource("shop", DTD))
    asker.ask(RegisterSource("store", DTD))
    first = asker.broker.validator("shop")
    assert first is not None and first is asker.broker.validator("store")
    asker.ask(RemoveSource("shop"))
    assert asker.publish(VALID) == ["TC410"]


def test_what_was_not_used_for_longest_is_dropped_first() -> None:
    def dtd(number: int) -> str:
        return f"<!ELEMENT a{number} (#PCDATA)>"

    size = Schemas(BrokerSettings()).compile(dtd(1)).transitions
    schemas = Schemas(BrokerSettings(schemas_transitions_max=3 * size))
    kept = [schemas.validator(dtd(number)) for number in range(3)]
    assert schemas.validator(dtd(0)) is kept[0]
    schemas.validator(dtd(3))
    assert schemas.validator(dtd(0)) is kept[0] and schemas.validator(dtd(1)) is not kept[1]


def test_large_documents_are_refused_before_they_are_checked() -> None:
    schemas = Schemas(BrokerSettings(validated_bytes_max=100))
    with pytest.raises(DocumentError, match="TC383"):
        schemas.check(schemas.validator(DTD), VALID.replace(b"tea", b"tea" * 40))


def test_unwanted_documents_are_refused_if_the_operator_says_so() -> None:
    asker = Asker(SimulatedStorage(), msgspec.structs.replace(BrokerSettings(), refuse_unwanted=True))
    asker.ask(RegisterSource("shop"))
    asker.ask(Subscribe("orders", "/order"))
    assert asker.publish(VALID, b"<other/>") == ["1", "TC419"]
    assert b"<other/>" not in [getattr(change, "body", b"") for change in asker.stored]


def test_workers_of_a_fleet_check_documents_too() -> None:
    unused: Any = None
    pages = FleetDocumentPages(unused, unused, unused, DoorSettings())
    validator = Schemas(BrokerSettings()).validator(DTD)
    problems = pages._check([VALID, INVALID, b"<order"], validator)
    assert {place: problem.code for place, problem in problems.items()} == {1: "TC220", 2: "TC209"}
    assert list(pages._check([VALID, INVALID], None)) == []
