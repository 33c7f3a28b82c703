"""What the pages of web hooks take and give, as JSON."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from treecast.overlay.messages import Name, Number
from treecast.serve.doors.envelopes import timestamp
from treecast.serve.hooks.endpoint import Endpoint
from treecast.serve.hooks.rows import AttemptRow
from treecast.serve.hooks.signing import SECRET_CHARS_MAX

Secret = Annotated[str, msgspec.Meta(max_length=SECRET_CHARS_MAX)]


class HookForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An endpoint, and what is sent to it. Without a secret, one is made, or the old one stays.

    `format`: `envelope` is JSON, `raw` the payload as it is. `ordered`: one delivery at a time, in the order of each
    subscription's documents; else up to `concurrency` at a time. `rate_max`: attempts a second, 0 for any number.
    """

    url: Annotated[str, msgspec.Meta(min_length=1)]
    subscriptions: Annotated[list[Name], msgspec.Meta(min_length=1)]
    format: Literal["envelope", "raw"] = "envelope"
    ordered: bool = False
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 10
    rate_max: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    attempts_max: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 20
    secret: Secret = ""


class HookAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """`status` is `active`, `failing` or `disabled`, for the reason in `disabled`. `secrets` counts those that sign.

    `secret` is there once: when it was just made.
    """

    id: str
    url: str
    subscriptions: list[str]
    format: str
    ordered: bool
    concurrency: int
    rate_max: int
    attempts_max: int
    status: str
    created: str
    secrets: int
    disabled: str = ""
    failing_since: str = ""
    secret: str = ""


class HooksAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """`next`, if there are more: ask again with `?after=` this."""

    hooks: list[HookAnswer]
    next: str = ""


class RotateForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new secret, or one is made. The old ones sign as well for `overlap_ms`; 0: not at all, -1: as usual."""

    secret: Secret = ""
    overlap_ms: Annotated[int, msgspec.Meta(ge=-1, le=1 << 53)] = -1


class HookRedeliverForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dead letters of its subscriptions, by their numbers; none is all of them."""

    letters: Annotated[list[Number], msgspec.Meta(max_length=10_000)] = []


class HookRedeliverAnswer(msgspec.Struct, frozen=True):
    """How many dead letters are delivered again."""

    letters: int


class Attempt(msgspec.Struct, frozen=True):
    """`status` is that of the answer, 0 if there was none. `result`: `delivered`, `again`, `given up`, `disabled`."""

    time: str
    delivery: str
    document: int
    subscription: str
    attempt: int
    status: int
    duration_ms: int
    result: str
    error: str
    response: str


class AttemptsAnswer(msgspec.Struct, frozen=True):
    """The newest first."""

    attempts: list[Attempt]


def hook_answer(endpoint: Endpoint, now_ms: int, secret: str = "") -> HookAnswer:
    row = endpoint.row
    failing_ms = endpoint.state().failing_since_ms
    return HookAnswer(
        endpoint.id,
        row.url,
        row.subscriptions,
        row.format,
        row.ordered,
        row.concurrency,
        row.rate_max,
        row.attempts_max,
        endpoint.status,
        timestamp(row.created_ms),
        len(row.signing_secrets(now_ms)),
        row.disabled,
        timestamp(failing_ms) if failing_ms else "",
        secret,
    )


def attempt_answer(row: AttemptRow) -> Attempt:
    return Attempt(
        timestamp(row.time_ms),
        row.delivery,
        row.document,
        row.subscription,
        row.attempt,
        row.status,
        row.duration_ms,
        row.result,
        row.error,
        row.response,
    )
