"""What the hub takes, as a form."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

SECRET_BYTES_MAX = 199
"""Fewer than 200, says the Recommendation."""


class HubForm(
    msgspec.Struct,
    frozen=True,
    rename={
        "callback": "hub.callback",
        "mode": "hub.mode",
        "topic": "hub.topic",
        "lease_seconds": "hub.lease_seconds",
        "secret": "hub.secret",
    },
):
    """A request to subscribe or unsubscribe. Fields that are not known are ignored, as the Recommendation wants it."""

    callback: Annotated[str, msgspec.Meta(min_length=1)]
    mode: Literal["subscribe", "unsubscribe"]
    topic: Annotated[str, msgspec.Meta(min_length=1)]
    lease_seconds: Annotated[int, msgspec.Meta(ge=0)] | None = None
    secret: Annotated[str, msgspec.Meta(max_length=SECRET_BYTES_MAX)] = ""
