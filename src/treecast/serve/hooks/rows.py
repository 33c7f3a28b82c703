"""What is kept of web hooks, as records of the broker. Fields go by position, new ones to the end with a default."""

from __future__ import annotations

import msgspec

HOOKS, STATES = "hooks", "hook-states"
"""Kinds of records; the keys are the hooks' ids."""


class _Row(msgspec.Struct, frozen=True, array_like=True):
    pass


class SecretRow(_Row, frozen=True):
    """A secret, which signs until this time; 0: for good."""

    secret: bytes
    until_ms: int = 0


class HookRow(_Row, frozen=True):
    """`hooks[id]`: what its owner wants."""

    url: str
    subscriptions: list[str]
    secrets: list[SecretRow]
    """The newest first."""
    format: str
    ordered: bool
    concurrency: int
    rate_max: int
    attempts_max: int
    created_ms: int
    disabled: str = ""
    """Why nothing is sent; empty if something is."""
    disabled_ms: int = 0

    def signing_secrets(self, now_ms: int) -> list[bytes]:
        return [row.secret for row in self.secrets if not row.until_ms or now_ms < row.until_ms]


class AttemptRow(_Row, frozen=True):
    """One line of the log."""

    time_ms: int
    delivery: str
    document: int
    subscription: str
    attempt: int
    status: int
    duration_ms: int
    error: str
    result: str
    """`delivered`, `again`, `given up` or `disabled`."""
    response: str
    """The beginning of what was answered."""


class StateRow(_Row, frozen=True):
    """`hook-states[id]`: what happened to it. It is stored now and then."""

    failing_since_ms: int = 0
    attempts: list[AttemptRow] = []


encode = msgspec.msgpack.Encoder().encode
decode_hook = msgspec.msgpack.Decoder(HookRow).decode
decode_state = msgspec.msgpack.Decoder(StateRow).decode
