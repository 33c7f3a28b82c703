"""Serves the console: a few files of the package, read once, with headers that let the page load nothing else.

The page itself holds nothing: all it shows comes from the pages under `/v1`, like for any other client. Its policy
allows scripts and styles from here only and none within the page, and forbids making elements out of text
(`require-trusted-types-for`): what it shows was written by strangers.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

from treecast.serve.doors.calls import Call, Reply
from treecast.serve.doors.problems import DoorError

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-cache"),
)
PAGE = "console.html"
OF_A_BROKER = b'<body data-door="broker">'
"""Which sections the page has."""
DoorKind = Literal["broker", "network", "peer", "ring"]
"""A network is one of brokers; a ring is one of peers, seen from the door of all of them."""


class ConsolePages:
    """The page, and its files. The door of a network or a ring does not offer the data of one broker."""

    def __init__(self, door: DoorKind = "broker") -> None:
        self._files = {
            file.name: Reply(200, file.read_bytes(), kind, HEADERS)
            for file in files("treecast.serve.console").iterdir()
            for suffix, kind in TYPES.items()
            if file.name.endswith(suffix)
        }
        page = self._files[PAGE].body.replace(OF_A_BROKER, OF_A_BROKER.replace(b"broker", door.encode()))
        self._files[PAGE] = Reply(200, page, TYPES[".html"], HEADERS)

    async def console(self, call: Call) -> Reply:
        return self._files[PAGE]

    async def console_file(self, call: Call) -> Reply:
        reply = self._files.get(call.parameter)
        if reply is None:
            raise DoorError("the console has no such file", code="TC430")
        return reply
