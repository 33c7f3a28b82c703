"""One request of HTTP, and its answer: headers, parameters, a body that arrives in time and has a limited size."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from treecast.errors import PipelineError, TreecastError
from treecast.inputs.inflate import inflating
from treecast.serve.access.access import Access
from treecast.serve.access.scopes import Scopes
from treecast.serve.doors.problems import CONTENT_TYPE as PROBLEM_TYPE
from treecast.serve.doors.problems import RETRY_AFTER_S, DoorError, Problem
from treecast.serve.doors.settings import DoorSettings

JSON = "application/json"
ENCODINGS = {"gzip": "gz", "x-gzip": "gz", "zstd": "zst"}
INFLATED_AT_ONCE_BYTES = 64 << 10
"""A larger body is unpacked in a thread,"""
INFLATIONS_MAX = 4
"""and so many at a time: each may need as much memory as its decompressor is allowed."""
PARAMETERS_MAX = 2_000
NUMBER_MAX = 1 << 62
"""Documents and the like have smaller numbers."""
INERT = ((b"content-security-policy", b"default-src 'none'; sandbox"), (b"x-content-type-options", b"nosniff"))
"""For answers that strangers have written, such as documents: a browser that is led to one runs nothing of it."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Form = TypeVar("Form")


class Reply:
    """What is answered."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self, status: int, body: bytes = b"", content_type: str = JSON, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers


def json_reply(status: int, content: Any, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    return Reply(status, msgspec.json.encode(content), JSON, headers)


def problem_reply(problem: Problem, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers = (*headers, ("retry-after", str(RETRY_AFTER_S)))
    return Reply(problem.status, msgspec.json.encode(problem), PROBLEM_TYPE, headers)


class Bodies:
    """Bodies that are arriving, over all requests."""

    def __init__(self, settings: DoorSettings) -> None:
        self.settings = settings
        self.bytes = 0
        self.inflations = asyncio.Semaphore(INFLATIONS_MAX)


NOBODY = Access(scopes=Scopes.parse(()))


class Call:
    """A request."""

    __slots__ = ("_bodies", "_query", "access", "is_read", "parameter", "receive", "scope", "send")

    def __init__(self, scope: Scope, receive: Receive, send: Send, bodies: Bodies) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.access = NOBODY
        """What its token allows."""
        self.parameter = ""
        """The id in the path."""
        self.is_read = False
        """The body has arrived, as far as there is one."""
        self._bodies = bodies
        self._query: list[tuple[str, str]] | None = None

    # --- parameters ---------------------------------------------------------------------------------------------------

    def header(self, name: bytes) -> str:
        """Its value as text, or empty. Raises DoorError TC434 if it is there twice, or not text."""
        values = [value for key, value in self.scope["headers"] if key == name]
        if not values:
            return ""
        if len(values) > 1:
            raise DoorError(f"the header {name.decode()} is there {len(values)} times", code="TC434")
        try:
            text: str = values[0].decode("utf-8")
        except UnicodeDecodeError:
            raise DoorError(f"the header {name.decode()} is not UTF-8", code="TC434") from None
        return text

    def authorization(self) -> str:
        """The header, or nothing where it cannot be used."""
        values = [value for key, value in self.scope["headers"] if key == b"authorization"]
        return values[0].decode("latin-1") if len(values) == 1 else ""

    def has_authorization(self) -> bool:
        return any(key == b"authorization" for key, _ in self.scope["headers"])

    def query(self, name: str) -> list[str]:
        """All values of a parameter."""
        if not self.scope["query_string"]:
            return []
        if self._query is None:
            text = self.scope["query_string"].decode("latin-1")
            try:
                self._query = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX)
            except ValueError as error:
                raise DoorError(f"the parameters cannot be read: {error}", code="TC434") from None
        return [value for key, value in self._query if key == name]

    def text_parameter(self, name: str) -> str:
        values = self.query(name)
        return values[-1] if values else ""

    def number_parameter(self, name: str, default: int, largest: int) -> int:
        text = self.text_parameter(name)
        if not text:
            return default
        if not (text.isascii() and text.isdecimal() and 1 <= int(text[:19]) <= largest):
            raise DoorError(f"the parameter {name} is a number from 1 to {largest}", code="TC434")
        return int(text)

    def choice(self, name: str, values: tuple[str, ...]) -> str:
        """One of these, the first by default. Raises DoorError TC434."""
        text = self.text_parameter(name) or values[0]
        if text not in values:
            raise DoorError(f"the parameter {name} is {text[:100]!r}", code="TC434", hint=f"it is {', '.join(values)}")
        return text

    # --- the body -----------------------------------------------------------------------------------------------------

    def has_body(self) -> bool:
        for key, value in self.scope["headers"]:
            if key == b"transfer-encoding" or (key == b"content-length" and value != b"0"):
                return True
        return False

    def _expect_body(self, bytes_max: int) -> str:
        """What packs the body, if anything. Raises DoorError: unknown encoding, too large by what the header says."""
        encoding = self.header(b"content-encoding").strip().lower()
        if encoding not in ("", "identity", *ENCODINGS):
            hint = f"send {', '.join(ENCODINGS)}, or none, and only one of them"
            raise DoorError(f"the encoding {encoding[:100]!r} is not known here", code="TC435", hint=hint)
        length = self.header(b"content-length")
        if length.isdecimal() and int(length[:19]) > bytes_max:
            raise too_large(bytes_max)
        return encoding

    async def body(self, bytes_max: int) -> bytes:
        """All of it, unpacked. Raises DoorError: too large, too slow, unknown or broken encoding."""
        encoding = self._expect_body(bytes_max)
        try:
            async with asyncio.timeout(self._bodies.settings.body_ms / 1000):
                data = await self._arrive(bytes_max)
        except TimeoutError:
            raise DoorError("the body did not arrive in time", code="TC433") from None
        if encoding in ENCODINGS:
            return await self._inflate(data, ENCODINGS[encoding], bytes_max)
        return data

    async def _arrive(self, bytes_max: int) -> bytes:
        message = await self.receive()
        data: bytes = message.get("body", b"")
        if message["type"] == "http.request" and not message.get("more_body") and len(data) <= bytes_max:
            self.is_read = True
            return data
        bodies = self._bodies
        parts = [data]
        size = len(data)
        bodies.bytes += size
        try:
            while message["type"] == "http.request":
                if size > bytes_max:
                    raise too_large(bytes_max)
                if bodies.bytes > bodies.settings.bodies_bytes_max:
                    raise DoorError("too many bodies are arriving", code="TC436", hint="try again soon")
                if not message.get("more_body"):
                    self.is_read = True
                    return b"".join(parts)
                message = await self.receive()
                data = message.get("body", b"")
                parts.append(data)
                size += len(data)
                bodies.bytes += len(data)
        finally:
            bodies.bytes -= size
        raise DisconnectedError

    async def _inflate(self, data: bytes, kind: str, bytes_max: int) -> bytes:
        def inflate() -> bytes:
            stream = inflating(io.BytesIO(data), kind)
            plain = stream.read(bytes_max + 1)
            return plain + stream.read(1)  # what is wrong behind the last good byte is only said now

        try:
            if len(data) <= INFLATED_AT_ONCE_BYTES and kind == "gz" and bytes_max <= 16 * INFLATED_AT_ONCE_BYTES:
                plain = inflate()
            else:
                async with self._bodies.inflations:
                    plain = await asyncio.to_thread(inflate)
        except PipelineError as error:
            raise _not_packed(error) from None
        if len(plain) > bytes_max:
            raise too_large(bytes_max)
        return plain

    async def save_body(self, path: Path, bytes_max: int, arrives_ms: int) -> None:
        """Write the body to a file, unpacked, without holding it in memory. Raises DoorError as `body` does."""
        encoding = self._expect_body(bytes_max)
        packed_path = path.with_suffix(".packed") if encoding in ENCODINGS else path
        size = 0
        try:
            async with asyncio.timeout(arrives_ms / 1000):
                with packed_path.open("wb") as file:
                    while not self.is_read:
                        message = await self.receive()
                        if message["type"] != "http.request":
                            raise DisconnectedError
                        size += len(message.get("body", b""))
                        if size > bytes_max:
                            raise too_large(bytes_max)
                        file.write(message.get("body", b""))
                        self.is_read = not message.get("more_body")
        except TimeoutError:
            raise DoorError("the body did not arrive in time", code="TC433") from None
        if packed_path != path:
            async with self._bodies.inflations:
                await asyncio.to_thread(_inflate_file, packed_path, path, ENCODINGS[encoding], bytes_max)

    async def form(self, kind: type[Form], *, optional: bool = False) -> Form:
        """The body as JSON. Raises DoorError TC434."""
        data = await self.body(self._bodies.settings.request_bytes_max)
        if optional and not data.strip():
            data = b"{}"
        return decode_form(data, kind)

    # --- the answer ---------------------------------------------------------------------------------------------------

    async def answer(self, reply: Reply) -> None:
        headers = [
            (b"content-type", reply.content_type.encode()),
            (b"content-length", b"%d" % len(reply.body)),
            *((name.encode(), value.encode()) for name, value in reply.headers),
        ]
        if not self.is_read and self.has_body():
            headers.append((b"connection", b"close"))  # nobody reads the rest
        await self.send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": reply.body})

    async def stream(self, pieces: AsyncIterator[bytes], content_type: str) -> None:
        """Answer with these, as fast as the other side takes them. Raises DisconnectedError if it goes."""
        disconnection = asyncio.create_task(self._watch())
        headers = [(b"content-type", content_type.encode()), (b"cache-control", b"no-store")]
        try:
            await self.send({"type": "http.response.start", "status": 200, "headers": headers})
            async for piece in pieces:
                if disconnection.done():
                    raise DisconnectedError
                await self.send({"type": "http.response.body", "body": piece, "more_body": True})
            await self.send({"type": "http.response.body", "body": b""})
        except TreecastError:
            raise DisconnectedError from None  # too late for another status: the answer ends before its end
        finally:
            disconnection.cancel()

    async def _watch(self) -> None:
        """Until the other side has gone."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


class DisconnectedError(Exception):
    """The other side is gone: there is nobody to answer."""


def decode_form(data: bytes, kind: type[Form]) -> Form:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError) as error:  # ValueError: not UTF-8
        raise DoorError(f"the body cannot be used: {error}", code="TC434") from None
    except RecursionError:
        raise DoorError("the body cannot be used: it is nested too deeply", code="TC434") from None


def _inflate_file(packed_path: Path, path: Path, kind: str, bytes_max: int) -> None:
    size = 0
    try:
        with packed_path.open("rb") as source, path.open("wb") as file:
            stream = inflating(source, kind)
            while piece := stream.read(1 << 20):
                size += len(piece)
                if size > bytes_max:
                    raise too_large(bytes_max)
                file.write(piece)
    except PipelineError as error:
        raise _not_packed(error) from None


def _not_packed(error: PipelineError) -> DoorError:
    text = str(error).removeprefix(error.code).strip().partition("\n")[0]
    return DoorError(text, code="TC434" if error.code == "TC714" else "TC432")


def too_large(bytes_max: int) -> DoorError:
    return DoorError(f"the body has more than {bytes_max} bytes", code="TC432", hint="send less at a time")
