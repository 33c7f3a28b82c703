"""An endpoint of web hooks, in a thread: it remembers what it got, and answers as it is told."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class Received:
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes
    method: str = "POST"

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class Response:
    """What is answered. `chunks` follow each other for ever if `is_endless`."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_endless: bool = False


Answer = Callable[[Received], Response]


class HookReceiver:
    """`answer` decides what each request gets; it runs in the thread of the request, and may block."""

    def __init__(self, answer: Answer | None = None, host: str = "127.0.0.1", port: int = 0) -> None:
        self.answer: Answer = answer or (lambda request: Response())
        self.requests: list[Received] = []
        self.open = 0
        self.open_most = 0
        """So many requests were under way at the same time."""
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((host, port), self._handler(), bind_and_activate=False)
        self._server.daemon_threads = True
        self._server.request_queue_size = 128
        self._server.server_bind()
        self._server.server_activate()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def encrypt(self, context: ssl.SSLContext) -> None:
        """Before it starts."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

            def handle_request(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Received(self.path, headers, body, self.command)
                with receiver._lock:
                    receiver.open += 1
                    receiver.open_most = max(receiver.open_most, receiver.open)
                    receiver.requests.append(request)
                response = receiver.answer(request)
                with receiver._lock:
                    receiver.open -= 1
                self.respond(response)

            do_POST = do_GET = handle_request  # noqa: N815

            def respond(self, response: Response) -> None:
                self.send_response(response.status)
                for name, value in response.headers.items():
                    self.send_header(name, value)
                if response.is_endless:
                    self.close_connection = True
                elif response.status != 204:
                    self.send_header("content-length", str(len(response.body)))
                self.end_headers()
                try:
                    self.wfile.write(response.body)
                    while response.is_endless:
                        self.wfile.write(response.body)
                except OSError:
                    self.close_connection = True

        return Handler
