"""What the pages of the firewall answer."""

from __future__ import annotations

import msgspec


class BackendOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """`status` is what the back end answered, 0 if it did not; `error` says what is wrong."""

    backend: str
    status: int = 0
    error: str = ""


class RuleAnswer(msgspec.Struct, frozen=True):
    """What became of a document by one rule."""

    rule: str
    backends: list[BackendOutcome]


class DispatchAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """`document` is its number, if it is kept."""

    rules: list[RuleAnswer]
    document: int = 0


class BackendStatus(msgspec.Struct, frozen=True):
    """`state` is up, down or trying."""

    name: str
    url: str
    state: str
    outstanding: int
    waiting: int
    sent: int
    failed: int
    last_error: str


class RuleStatus(msgspec.Struct, frozen=True):
    """`documents` is how often it applied, `failed` how often no back end answered then."""

    name: str
    query: str
    policy: str
    priority: int
    then: str
    backends: list[str]
    documents: int
    failed: int


class FirewallAnswer(msgspec.Struct, frozen=True):
    """The rules in force, highest priority first; `counts` are documents by what became of them."""

    rules: list[RuleStatus]
    backends: list[BackendStatus]
    paths: list[str]
    unwanted: str
    store: bool
    counts: dict[str, int]
