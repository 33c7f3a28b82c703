"""A client of the service over HTTP, for programs without asyncio: one connection that is kept open.

    client = HttpClient("http://127.0.0.1:8080", token="…")
    client.ask("PUT", subscription_path("sport"), {"query": "//sport"})
    print(client.ask("GET", "/v1/status").json)

`ask` asks once. `ask_again` repeats what is safe to repeat, with pauses that grow, until it is answered or the time for
that is over. Use it for requests that change nothing when they come twice; documents have ids for that. It needs
nothing but the standard library, so `treecast publish` starts quickly and without the extra `serve`.

TC401  whoever answers is no treecast service
TC407  no connection, or no answer in time
TC409  a file of certificates that cannot be used

All other codes are those of the service: its problems are raised as `AnswerError`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote, urlsplit

from treecast.durable import unused_name
from treecast.errors import PeerError, TreecastError

TRY_AGAIN = frozenset((408, 429, 502, 503, 504))
"""Statuses of answers that may be others soon."""
DETAIL_CHARS_MAX = 1_000
Note = Callable[[str], None]
"""Takes a sentence for people."""


@dataclass(frozen=True, kw_only=True)
class HttpClientSettings:
    """Limits and times of a client."""

    connect_ms: int = 5_000
    answer_ms: int = 60_000
    """An answer has so long to come."""
    answer_bytes_max: int = 64 << 20
    retry_ms: int = 250
    """Before the first repetition; then twice as long, and so on,"""
    retry_ms_max: int = 5_000
    give_up_ms: int = 60_000
    """until so long after the first attempt."""
    silence_ms: int = 45_000
    """An event stream that says nothing for so long, not even a heartbeat, is broken."""
    resume_ms: int = 3_600_000
    """It is opened again for so long, and then given up."""
    event_bytes_max: int = 64 << 20
    """Of one event."""


class AnswerError(TreecastError):
    """The service refuses a request. `status` is that of HTTP; `retry_after_s` what it asks to wait, or 0."""

    def __init__(self, message: str, *, code: str, hint: str = "", status: int = 0, retry_after_s: float = 0) -> None:
        super().__init__(f"{code} {message}" + (f"\n  hint: {hint}" if hint else ""), code=code, hint=hint)
        self.status = status
        self.retry_after_s = retry_after_s


class NoAnswerError(PeerError):
    """There is no connection, or no answer. `is_sent`: the request may have been carried out all the same."""

    def __init__(self, message: str, *, is_sent: bool, code: str = "TC407", hint: str = "") -> None:
        super().__init__(f"{code} {message}" + (f"\n  hint: {hint}" if hint else ""), code=code, hint=hint)
        self.is_sent = is_sent


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class ServiceUrl:
    """Where a service is; `path` goes before those of its pages, for services behind a proxy."""

    is_secure: bool
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, text: str) -> ServiceUrl:
        """Raises ValueError.

        >>> ServiceUrl.parse("https://news.example/treecast/")
        ServiceUrl(is_secure=True, host='news.example', port=443, path='/treecast')
        """
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{text!r} is no address of a service: write http://127.0.0.1:8080")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError(f"{text!r} holds more than an address: write http://127.0.0.1:8080")
        is_secure = parts.scheme == "https"
        try:
            port = parts.port or (443 if is_secure else 80)
        except ValueError:
            raise ValueError(f"{text!r} has no valid port: write http://127.0.0.1:8080") from None
        return cls(is_secure, parts.hostname, port, quote(parts.path.rstrip("/"), safe="/%"))

    @property
    def is_local(self) -> bool:
        """On this machine."""
        return self.host in ("localhost", "127.0.0.1", "::1")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_secure else 'http'}://{host}:{self.port}{self.path}"


def subscription_path(id: str, action: str = "") -> str:
    """
    >>> subscription_path("sport news", ":pull")
    '/v1/subscriptions/sport%20news:pull'
    """
    return f"/v1/subscriptions/{quote(id, safe='')}{action}"


class HttpClient:
    """One connection, which is opened when it is needed, and again when it was lost. For one thread at a time."""

    def __init__(
        self,
        url: str,
        token: str = "",
        ca: str = "",
        settings: HttpClientSettings | None = None,
        note: Note | None = None,
    ) -> None:
        """`ca` is a file of certificates to trust, in place of those of the system. Raises ValueError, PeerError."""
        self.url = ServiceUrl.parse(url)
        self.settings = settings or HttpClientSettings()
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._context = _context(ca) if self.url.is_secure else None
        self._note = note or (lambda _: None)
        self._random = Random(unused_name())
        self._connection: http.client.HTTPConnection | None = None
        self._is_stopped = False

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """What comes next opens another connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def stop(self) -> None:
        """From another thread: end what is under way, and ask nothing more."""
        self._is_stopped = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):  # it is closed already
                connection.sock.shutdown(socket.SHUT_RDWR)

    # --- requests -----------------------------------------------------------------------------------------------------

    def ask(
        self, method: str, path: str, body: bytes | Mapping[str, Any] | None = None, **headers: str | bytes
    ) -> Answer:
        """Raises AnswerError if it is refused, and NoAnswerError."""
        is_kept = self._connection is not None
        try:
            return self._ask(method, path, body, headers)
        except NoAnswerError as error:
            # A connection that was kept may have been closed just now, as the service does after a while: then nothing
            # was wrong. What must not come twice is not repeated.
            if not is_kept or (error.is_sent and method not in ("GET", "PUT", "DELETE")):
                raise
        return self._ask(method, path, body, headers)

    def ask_again(
        self, method: str, path: str, body: bytes | Mapping[str, Any] | None = None, **headers: str | bytes
    ) -> Answer:
        """`ask`, again and again if there is no answer, or one that says to try again. Raises as `ask` at the end."""
        return self.patiently(lambda: self.ask(method, path, body, **headers), is_repeatable=True)

    def patiently(self, attempt: Callable[[], Answer], *, is_repeatable: bool) -> Answer:
        """Until it succeeds, fails for good, or `give_up_ms` are over. Not `is_repeatable`: only if it was not sent."""
        settings = self.settings
        end = time.monotonic() + settings.give_up_ms / 1000
        pause_ms = settings.retry_ms
        said = False
        while True:
            try:
                answer = attempt()
                if said:
                    self._note(f"{self.url} answers again")
                return answer
            except (AnswerError, NoAnswerError) as error:
                pause_s = self.pause_after(error, pause_ms, is_repeatable)
                if pause_s is None or time.monotonic() + pause_s > end:
                    raise
                if not said:
                    self._note(f"{error}".partition("\n")[0] + "; trying again")
                    said = True
            time.sleep(pause_s)
            pause_ms = min(pause_ms * 2, settings.retry_ms_max)

    def pause_after(self, error: TreecastError, pause_ms: int, is_repeatable: bool) -> float | None:
        """How many seconds to wait before another attempt; None if there should be none."""
        if self._is_stopped:
            return None
        if isinstance(error, AnswerError):
            if error.status not in TRY_AGAIN:
                return None
            return max(error.retry_after_s, self._jittered(pause_ms))
        if isinstance(error, NoAnswerError) and error.code == "TC407" and (is_repeatable or not error.is_sent):
            return self._jittered(pause_ms)
        return None

    def _jittered(self, pause_ms: int) -> float:
        """So that those who were cut off together do not come back together."""
        return pause_ms / 1000 * self._random.uniform(0.5, 1.0)

    def _ask(
        self, method: str, path: str, body: bytes | Mapping[str, Any] | None, headers: Mapping[str, str | bytes]
    ) -> Answer:
        response = self.open(method, path, body, headers)
        try:
            data = response.read(self.settings.answer_bytes_max + 1)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._no_answer(error, is_sent=True) from None
        if len(data) > self.settings.answer_bytes_max:
            self.close()
            raise NoAnswerError(
                f"the answer of {self.url} has more than {self.settings.answer_bytes_max} bytes",
                is_sent=True,
                code="TC401",
            )
        return self._checked(response, data)

    def open(
        self,
        method: str,
        path: str,
        body: bytes | Mapping[str, Any] | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        timeout_ms: int = 0,
    ) -> http.client.HTTPResponse:
        """The answer, with its body still to be read. Raises NoAnswerError."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {**self._headers, **{name.replace("_", "-"): value for name, value in (headers or {}).items()}}
        connection = self._connect()
        assert connection.sock is not None
        connection.sock.settimeout((timeout_ms or self.settings.answer_ms) / 1000)
        try:
            connection.request(method, f"{self.url.path}{path}", data, sent)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._no_answer(error, is_sent=True) from None

    def refusal(self, response: http.client.HTTPResponse) -> AnswerError | NoAnswerError:
        """What an answer of `open` that is no success says."""
        try:
            self._checked(response, response.read(self.settings.answer_bytes_max))
        except (AnswerError, NoAnswerError) as error:
            return error
        except (OSError, http.client.HTTPException) as error:
            return self._no_answer(error, is_sent=True)
        raise AssertionError(response.status)

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is not None and self._connection.sock is not None:
            return self._connection
        url, timeout = self.url, self.settings.connect_ms / 1000
        if self._is_stopped:
            raise NoAnswerError(f"nothing more is asked of {url}", is_sent=False)
        connection: http.client.HTTPConnection
        if self._context is not None:
            connection = http.client.HTTPSConnection(url.host, url.port, timeout=timeout, context=self._context)
        else:
            connection = http.client.HTTPConnection(url.host, url.port, timeout=timeout)
        try:
            connection.connect()
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            connection.close()
            raise self._no_answer(error, is_sent=False) from None
        assert connection.sock is not None
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        return connection

    def _no_answer(self, error: Exception, *, is_sent: bool) -> NoAnswerError:
        if isinstance(error, ssl.SSLCertVerificationError):
            hint = "name the file of its certificate authority with --ca"
            message = f"the certificate of {self.url} is not trusted: {error.verify_message}"
            return NoAnswerError(message, is_sent=False, code="TC409", hint=hint)
        if isinstance(error, TimeoutError):
            return NoAnswerError(f"{self.url} does not answer", is_sent=is_sent, hint="is it busy, or unreachable?")
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        what = f"the connection to {self.url} was lost" if is_sent else f"no connection to {self.url}"
        hint = "" if is_sent else "start a service with treecast up, or name another one with --url"
        return NoAnswerError(f"{what}: {reason}", is_sent=is_sent, hint=hint)

    def _checked(self, response: http.client.HTTPResponse, data: bytes) -> Answer:
        """Raises AnswerError if it is a problem, NoAnswerError TC401 if it cannot be from a service."""
        if 200 <= response.status < 300:
            return Answer(response.status, data)
        try:
            problem = json.loads(data)
            code, detail, hint = problem["code"], problem["detail"], problem.get("hint", "")
            if not all(isinstance(text, str) for text in (code, detail, hint)):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            code = "TC407" if response.status in TRY_AGAIN else "TC401"  # a proxy whose service is away, perhaps
            raise AnswerError(
                f"{self.url} answers {response.status} {response.reason}, which is no answer of a treecast service",
                code=code,
                hint="check the address",
                status=response.status,
                retry_after_s=_seconds(response.headers.get("Retry-After", "")),
            ) from None
        raise AnswerError(
            detail[:DETAIL_CHARS_MAX],
            code=code[:20],
            hint=hint[:DETAIL_CHARS_MAX],
            status=response.status,
            retry_after_s=_seconds(response.headers.get("Retry-After", "")),
        )


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 8 else 0.0


def _context(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as error:
        hint = "a PEM file with the certificate of the authority is wanted"
        message = f"TC409 TLS cannot be used with {ca}: {error.strerror or error}\n  hint: {hint}"
        raise PeerError(message, code="TC409", hint=hint) from None
