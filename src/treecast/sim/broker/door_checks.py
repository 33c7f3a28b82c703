"""What must hold of what doors ask a broker for: records, and deliveries that their receiver postpones.

- A record that was set, and acknowledged, is there: in the end, and whenever the broker has restarted. It has the
  last value, or one that was asked for since.
- There are never more records of a kind than the broker allows, and none is refused while there is room.
- A delivery that was postponed does not come before its time, unless something explains it. Looked at only in runs
  without faults, where nothing that is sent gets lost or late.

That it comes at all, or is a dead letter, is what `treecast.sim.broker.checks` finds out. Each check here is a function
that yields what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from treecast.overlay.messages import Command, Hasten, RemoveRecord, Replay, SetRecord
from treecast.sim.broker.history import History, Operation, Postponement

RecordName = tuple[str, str]
"""Kind and key."""
LATE_US = 250_000
"""A message may take so long where there are no faults, with the time that its receiver works on it."""


def possible_values(history: History, name: RecordName) -> list[bytes | None]:
    """What a record may be now; None: it may be missing. All that concerns it is asked for by one client, in order."""
    values: list[bytes | None] = [None]
    for operation in _operations(history, name):
        value = operation.command.value if isinstance(operation.command, SetRecord) else None
        values = [value] if operation.is_done else [*values, value]
    return values


def wrong_records(history: History, records: Mapping[RecordName, bytes], records_max: int) -> Iterator[str]:
    """`records` is what the broker has on its disk now."""
    names = {_name(operation.command) for operation in history.operations} - {None}
    for name in sorted({*names, *records}):  # type: ignore[type-var]
        assert name is not None
        values = possible_values(history, name)
        if records.get(name) not in values:
            yield f"record {'/'.join(name)} is {records.get(name)!r}, and not one of {values}"
    for kind in sorted({kind for kind, _ in records}):
        count = sum(its_kind == kind for its_kind, _ in records)
        if count > records_max:
            yield f"there are {count} records of kind {kind}, and {records_max} are allowed"


def wrong_refusals(history: History, records_max: int) -> Iterator[str]:
    """Records that were refused although there was room for them."""
    for operation in history.operations:
        if isinstance(operation.command, SetRecord) and operation.is_refused:
            others = {
                name
                for other in history.operations
                if (name := _name(other.command)) is not None and name[0] == operation.command.kind
                if _may_be_set(history, name, operation)
            }
            if len(others - {_name(operation.command)}) < records_max:
                yield f"{operation.client} may set {operation.command}, and was answered {operation.answer}"


def early_receipts(history: History, postponed_ms_max: int) -> Iterator[str]:
    """Deliveries that came again before the time that their receiver asked for."""
    for postponement in history.postponed:
        pair = (postponement.subscription, postponement.document)
        due_us = postponement.time_us + min(postponement.wait_ms, postponed_ms_max) * 1000 - 1_000  # clocks count ms
        for receipt in history.receipts:
            if (receipt.subscription, receipt.document) == pair and postponement.time_us < receipt.time_us < due_us:
                if not _is_explained(history, postponement, receipt.time_us):
                    yield f"document {pair[1]} for {pair[0]} came at {receipt.time_us} us, in spite of {postponement}"
                break


def _is_explained(history: History, postponement: Postponement, until_us: int) -> bool:
    """Somebody wanted it earlier, or the session ended before it could be postponed."""
    pair = (postponement.subscription, postponement.document)
    if pair in history.redelivered:
        return True
    return any(
        isinstance(operation.command, Hasten | Replay) and operation.command.id == postponement.subscription
        for operation in history.operations
        if operation.sent_us <= until_us and operation.effect_until_us >= postponement.time_us
    ) or any(
        client == postponement.client and abs(time_us - postponement.time_us) <= LATE_US
        for time_us, client in history.session_ends
    )


def _name(command: Command) -> RecordName | None:
    return (command.kind, command.key) if isinstance(command, SetRecord | RemoveRecord) else None


def _operations(history: History, name: RecordName) -> Iterator[Operation]:
    """Those that concern a record, and were not refused."""
    for operation in history.operations:
        if _name(operation.command) == name and not operation.is_refused:
            yield operation


def _may_be_set(history: History, name: RecordName, refusal: Operation) -> bool:
    """The record may have existed at some time while another operation was under way."""
    may_be = False
    for operation in _operations(history, name):
        if operation.sent_us > refusal.effect_until_us:
            break
        if isinstance(operation.command, SetRecord):
            may_be = True
        elif operation.is_done and (operation.answered_us or 0) < refusal.sent_us:
            may_be = False
    return may_be
