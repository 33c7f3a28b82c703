"""Starts the processes of a network at once: each is a fork of one process that has imported everything already.

A Python process that has to import a broker spends a second on it, and several on a busy machine; a fork takes a few
milliseconds. That is most of the time for which the subscribers of a broker that died would have to wait.

    server = ForkServer()
    process = await server.start(options)      # the first start waits for the imports
    await process.readline()                   # what it has to say
    process.end()                              # its standard input ends
    await process.wait()                       # its exit status
    await server.close()

The process that forks does nothing else: it has no event loop, no connections and no files of a broker, so a fork has
nothing of another one's. Native code keeps no threads of its own, and those of the libraries that have some (the
allocator of Arrow, OpenBLAS) are prepared for a fork. If it dies, the others live on, and the next start makes another.

As a program it is that process: `python -m treecast.serve.network.fork_server SOCKET`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO

import msgspec

from treecast.serve.broker_process import warm_up
from treecast.serve.network.member import MemberOptions, run_member
from treecast.serve.notify import NOTIFY_SOCKET
from treecast.serve.ring.peer_process import PeerOptions, run_supervised

REQUEST_BYTES_MAX = 1 << 20
STATUS_UNKNOWN = -1
"""The exit status of a process whose parent has died before it."""
NAME_CHARS_MAX = 15
"""Of a process, as the system shows it."""


AnyOptions = MemberOptions | PeerOptions
"""Of a process of a network of brokers, or of a peer of a ring."""


class Start(msgspec.Struct, frozen=True, tag=True):
    """Two descriptors come with it: the standard input of the process, and its standard output."""

    options: AnyOptions


class Kill(msgspec.Struct, frozen=True, tag=True):
    """End a process at once."""

    pid: int


class Wait(msgspec.Struct, frozen=True, tag=True):
    """For the exit status of a process that is ending. Until then its number is nobody else's."""

    pid: int


Request = Start | Kill | Wait
_DECODER = msgspec.json.Decoder(Request)


class MemberProcess:
    """A process that was started. It ends when its standard input does."""

    def __init__(self, server: ForkServer, pid: int, stdin: int, stdout: asyncio.StreamReader) -> None:
        self.pid = pid
        self._server = server
        self._stdin = stdin
        self._stdout = stdout

    async def readline(self) -> bytes:
        return await self._stdout.readline()

    def end(self) -> None:
        """Let it finish what it has begun."""
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1

    async def kill(self) -> None:
        await self._server.ask(Kill(self.pid))

    async def wait(self) -> int:
        """Until it has ended: then nobody holds its standard output any more."""
        await self._stdout.read()
        self.end()
        return await self._server.ask(Wait(self.pid))


class ForkServer:
    """Starts members. `serve_requests` runs in the other process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._answers: BinaryIO | None = None

    async def start(self, options: AnyOptions) -> MemberProcess:
        """Raises OSError if there is no process that forks, and none can be started."""
        its_stdin, stdin = os.pipe()
        stdout, its_stdout = os.pipe()
        try:
            pid = await self.ask(Start(options), [its_stdin, its_stdout])
        except BaseException:
            os.close(stdin)
            os.close(stdout)
            raise
        finally:
            os.close(its_stdin)
            os.close(its_stdout)
        reader = asyncio.StreamReader()
        pipe = os.fdopen(stdout, "rb", 0)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        return MemberProcess(self, pid, stdin, reader)

    async def ask(self, request: Request, descriptors: list[int] | None = None) -> int:
        return await asyncio.to_thread(self._ask, request, descriptors or [])

    def _ask(self, request: Request, descriptors: list[int]) -> int:
        with self._lock:
            try:
                return self._ask_once(request, descriptors)
            except OSError:
                self._close()  # it has died
                if not isinstance(request, Start):
                    return STATUS_UNKNOWN
                return self._ask_once(request, descriptors)

    def _ask_once(self, request: Request, descriptors: list[int]) -> int:
        if self._socket is None or self._answers is None:
            self._open()
        assert self._socket is not None and self._answers is not None
        data = msgspec.json.encode(request) + b"\n"
        sent = socket.send_fds(self._socket, [data], descriptors)
        self._socket.sendall(data[sent:])
        answer = self._answers.readline()
        if not answer:
            raise ConnectionError("the process that forks has ended")
        return int(answer)

    def _open(self) -> None:
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, "-m", __spec__.name, str(theirs.fileno())]
        # Brokers compute nothing that these threads would be good for.
        environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
        environment.pop(NOTIFY_SOCKET, None)  # systemd is told by the supervisor, when all of them are there
        with theirs:
            # Ctrl-C is for the supervisor, which ends the others in order.
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        self._answers = self._socket.makefile("rb")

    def _close(self) -> None:
        if self._answers is not None:
            self._answers.close()
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.wait()
        self._socket = self._answers = self._process = None

    async def close(self) -> None:
        """Call it when all processes have ended."""
        await asyncio.to_thread(self._close)


# --- the process that forks -------------------------------------------------------------------------------------------


def serve_requests(requests: socket.socket) -> AnyOptions | None:
    """Returns in every process that is forked, with what it is to be; in this one, None when nobody asks any more."""
    children: set[int] = set()
    while True:
        data, descriptors = _receive(requests)
        if not data:
            return None
        request = _DECODER.decode(data)
        if isinstance(request, Start):
            pid = os.fork()
            if pid == 0:
                requests.close()
                _become(request.options.name, descriptors)
                return request.options
            for descriptor in descriptors:
                os.close(descriptor)
            children.add(pid)
            answer = pid
        elif request.pid not in children:
            answer = STATUS_UNKNOWN  # of another one that forked before this one
        elif isinstance(request, Kill):
            os.kill(request.pid, signal.SIGKILL)
            answer = 0
        else:
            children.discard(request.pid)
            answer = os.waitstatus_to_exitcode(os.waitpid(request.pid, 0)[1])
        requests.sendall(b"%d\n" % answer)


def _receive(requests: socket.socket) -> tuple[bytes, list[int]]:
    """A line, and the descriptors that came with it. No line: the other side has ended."""
    data, descriptors, *_ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 2)
    while data and not data.endswith(b"\n"):
        more = requests.recv(REQUEST_BYTES_MAX)
        data = data + more if more else b""
    return data, list(descriptors)


def _become(name: str, descriptors: list[int]) -> None:
    """A process with streams and a session of its own."""
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    with contextlib.suppress(OSError):  # only Linux has it
        Path("/proc/self/comm").write_text(name[:NAME_CHARS_MAX])


def main() -> None:
    # What the first document would have to wait for is there as well.
    warm_up()
    gc.collect()
    gc.freeze()
    options = serve_requests(socket.socket(fileno=int(sys.argv[1])))
    if isinstance(options, PeerOptions):
        run_supervised(options)
    elif options is not None:
        run_member(options)


if __name__ == "__main__":
    main()
