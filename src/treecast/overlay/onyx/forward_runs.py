"""Joins messages that came together: ranges of documents that continue each other become a run.

A parent sends documents in the order of their root, each message behind the last. Where several have come by the time a
broker looks, they are one range: read, routed and matched in one go, and stored in one group of changes.

    >>> from treecast.overlay.onyx.network_messages import Taken
    >>> messages = [Forward("r", "s", 1, 7, 3, 0, 64), Forward("r", "s", 1, 7, 3, 64, 128), Taken("q", 1, 5)]
    >>> [len(run) if isinstance(run, list) else run for run in runs(messages)]
    [2, Taken(root='q', epoch=1, upto=5)]

PERF: bench/network_cpu.py. Most of what Python does for a message it does for a run once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from treecast.overlay.onyx.network_messages import Forward


def runs(messages: Sequence[Any]) -> Iterator[Any]:
    """Messages in order, where those with documents of one tree that continue each other are a list."""
    run: list[Forward] = []
    for message in messages:
        is_forward = isinstance(message, Forward)
        if run and not (is_forward and _continues(message, run[-1])):
            yield run
            run = []
        if is_forward:
            run.append(message)
        else:
            yield message
    if run:
        yield run


def _continues(message: Forward, before: Forward) -> bool:
    """Nothing is missing between them, and whoever may take the first may take both."""
    fields = (message.root, message.store, message.epoch, message.life, message.version, message.after)
    return fields == (before.root, before.store, before.epoch, before.life, before.version, before.upto)
