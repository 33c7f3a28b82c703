"""What `treecast subscribe` does with a delivery: print it, write it to a file, or hand it to a command.

    text     a line that says what it is, and the payload
    json     the envelope of the service, one object a line
    payload  the payload alone, byte for byte

On a terminal all of them are shown without control characters (`treecast.cli.console`); files and pipes get the bytes
as they are. Files are `DIR/subscription/0000017.xml`, after the number of the document: no two deliveries share one,
and a delivery that comes again finds its file.
"""

from __future__ import annotations

import base64
import binascii
import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treecast import durable
from treecast.cli.console import results
from treecast.errors import PeerError
from treecast.names import file_name, printable

FORMATS = ("text", "json", "payload")
COMMAND_S_MAX = 600
"""A command that runs for longer is ended."""
DIM, RESET = "\x1b[2m", "\x1b[0m"

Output = Callable[["Received"], bool]
"""Takes a delivery; False if it could not be dealt with."""


@dataclass(frozen=True)
class Received:
    """A delivery, and its envelope as it came."""

    id: str
    document: int
    subscription: str
    published: str
    payload: bytes
    envelope: bytes


def read_envelope(data: bytes | dict[str, Any]) -> Received:
    """Raises PeerError TC401."""
    try:
        fields = json.loads(data) if isinstance(data, bytes) else data
        if fields.get("payload_encoding") == "base64":
            payload = base64.b64decode(fields["payload"], validate=True)
        else:
            payload = fields["payload"].encode("utf-8", "surrogatepass")
        text = data if isinstance(data, bytes) else json.dumps(data, ensure_ascii=False).encode()
        names = [str(fields[name]) for name in ("delivery", "subscription", "published")]
        return Received(names[0], int(fields["document"]), names[1], names[2], payload, text)
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, RecursionError):
        raise PeerError("TC401 a delivery cannot be read: this is no treecast service", code="TC401") from None


def printing(form: str) -> Output:
    """To stdout, each at once."""
    file = results("json" if form == "json" else "text")
    has_colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")

    def put(delivery: Received) -> bool:
        if form == "json":
            file.write(delivery.envelope + b"\n")
        elif form == "payload":
            file.write(delivery.payload)
        else:
            title = f"--- document {delivery.document}, {printable(delivery.subscription)}, {delivery.published}"
            line = f"{DIM}{title}{RESET}\n" if has_colour else f"{title}\n"
            sys.stdout.buffer.write(line.encode("utf-8", "backslashreplace"))
            file.write(delivery.payload + (b"" if delivery.payload.endswith(b"\n") else b"\n"))
        file.flush()
        return True

    return put


def writing(directory: Path) -> Output:
    """To files, each durable before the next delivery is looked at."""
    directory.mkdir(exist_ok=True)

    def put(delivery: Received) -> bool:
        place = directory / file_name(delivery.subscription)
        place.mkdir(exist_ok=True)
        path = place / f"{delivery.document:07d}.xml"
        if not durable.write_new(path, delivery.payload) and path.read_bytes() != delivery.payload:
            # It came again with another payload, or this directory is that of another service.
            raise OSError(errno.EEXIST, "there is another payload already", str(path))
        return True

    return put


def running(command: str, say: Callable[[str], None]) -> Output:
    """A command of the shell gets the payload on its standard input; what is untrusted is only in its environment."""

    def put(delivery: Received) -> bool:
        environment = {
            **os.environ,
            "TREECAST_DELIVERY": delivery.id,
            "TREECAST_DOCUMENT": str(delivery.document),
            "TREECAST_SUBSCRIPTION": delivery.subscription.replace("\0", ""),
            "TREECAST_PUBLISHED": delivery.published,
        }
        try:
            done = subprocess.run(
                command, shell=True, input=delivery.payload, env=environment, timeout=COMMAND_S_MAX, check=False
            )
            problem = f"exit status {done.returncode}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            problem = f"it ran for more than {COMMAND_S_MAX} s"
        if problem:
            say(f"document {delivery.document}, {delivery.subscription}: the command failed: {problem}")
        return not problem

    return put
