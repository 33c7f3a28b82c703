"""What hooks and the hub have in common: one client of the broker, one sender, and those who hear of it."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import structlog

from treecast.serve.doors.local import LocalClient
from treecast.serve.hooks.sender import Sender
from treecast.serve.hooks.settings import HookSettings
from treecast.serve.metrics import Metrics


class Sending(NamedTuple):
    """`settings` are those of attempts: both try again alike."""

    client: LocalClient
    sender: Sender
    settings: HookSettings
    random: Random
    log: structlog.typing.FilteringBoundLogger
    metrics: Metrics
