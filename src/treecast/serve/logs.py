"""Structured logs on stderr: one JSON object a line, or text with colours for people.

An event is a short phrase, and everything variable is a field. The content of documents is never logged above DEBUG.

    >>> import io
    >>> stream = io.StringIO()
    >>> log = make_log("json", "info", stream)
    >>> log.info("connection opened", name="alice")
    >>> stream.getvalue()
    '{"name": "alice", "event": "connection opened", "level": "info", "time": "..."}\\n'
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog

FORMATS = ("json", "console")
LEVELS = ("debug", "info", "warning", "error")


def make_log(
    format: str = "json", level: str = "info", stream: TextIO | None = None
) -> structlog.typing.FilteringBoundLogger:
    """A logger of its own: nothing global is configured."""
    stream = sys.stderr if stream is None else stream
    renderer: structlog.typing.Processor
    if format == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=stream.isatty())
    log: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(stream),  # a line is one write: several processes may share a stream
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        cache_logger_on_first_use=True,
    )
    return log
