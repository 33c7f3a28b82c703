"""Python processes that start at once: forked from one that has imported treecast already.

A process of `subprocess` spends most of a second on imports, and the tests start hundreds. One process per session
imports them all, then waits for requests; each start is a fork of it, with its own arguments, directory, environment,
streams and exit status. Use it wherever a test is about what the process does. Where it is about how it starts
(imports, the installed command, `PYTHONHASHSEED`, `LD_PRELOAD`), use `subprocess`.

    with QuickProcess(["-m", "treecast", "match", "-q", "/a", "a.xml"], stdout=PIPE) as process:
        print(process.communicate()[0], process.returncode)
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import IO, Any, Self

__all__ = ["DEVNULL", "PIPE", "QuickProcess"]

REQUEST_BYTES_MAX = 100_000
IMPORTS = """\
import treecast.cli.entry, treecast.serve.service_process, treecast.serve.broker_process, treecast.serve.blocking_client
import treecast.inputs, treecast.serve.fleet.fleet_process, pyarrow.csv, pyarrow.json, rich.live, tomllib
treecast.cli.entry.build_parser()
"""


class QuickProcess:
    """The part of `subprocess.Popen` that tests use, for `python -m MODULE …` and `python -c PROGRAM …`."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stdin: int | IO[Any] | None = DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        read_end, write_end = os.pipe()
        request = {
            "arguments": list(arguments),
            "directory": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        with contextlib.ExitStack() as closing:
            closing.callback(os.close, write_end)
            streams = [self._stream(closing, "", stdin, 0)]
            streams += [self._stream(closing, "stdout", stdout, 1), self._stream(closing, "stderr", stderr, 2)]
            self.pid = _parent().start(request, [*streams, write_end])
        self._status = os.fdopen(read_end, "rb")

    def _stream(self, closing: contextlib.ExitStack, name: str, target: int | IO[Any] | None, default: int) -> int:
        """The descriptor for the process."""
        if target is None:
            return default
        if target == DEVNULL:
            return closing.enter_context(Path(os.devnull).open("r+b", buffering=0)).fileno()
        if target == PIPE:
            assert name, "nothing is written to these processes"
            read_end, write_end = os.pipe()
            closing.callback(os.close, write_end)
            setattr(self, name, os.fdopen(read_end, encoding="utf-8"))
            return write_end
        return target if isinstance(target, int) else target.fileno()

    def poll(self) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if selector.select(0):
                    self._read_status()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self._read_status()
        assert self.returncode is not None
        return self.returncode

    def _read_status(self) -> None:
        self.returncode = int(self._status.read() or -signal.SIGKILL)
        self._status.close()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it wrote, when it has ended."""
        parts = {"stdout": "", "stderr": ""}

        def read(name: str, stream: IO[str]) -> None:
            with stream:
                parts[name] = stream.read()

        streams = [(name, stream) for name in parts if (stream := getattr(self, name)) and not stream.closed]
        readers = [threading.Thread(target=read, args=pair, daemon=True) for pair in streams]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return parts["stdout"], parts["stderr"]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()


# --- the process that forks ------------------------------------------------------------------------------------------


class _Parent:
    """Started with the first request; it ends when this process does."""

    def __init__(self) -> None:
        self._socket, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, str(Path(__file__).resolve()), str(child_socket.fileno())]
        with child_socket:
            self._process = subprocess.Popen(command, pass_fds=[child_socket.fileno()], stdin=DEVNULL)
        atexit.register(self.close)

    def start(self, request: dict[str, Any], descriptors: list[int]) -> int:
        data = json.dumps(request).encode()
        assert len(data) <= REQUEST_BYTES_MAX
        socket.send_fds(self._socket, [data], descriptors)
        return int(self._socket.recv(100))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_parents: list[_Parent] = []


def _parent() -> _Parent:
    if not _parents:
        _parents.append(_Parent())
    return _parents[0]


def serve_requests(requests: socket.socket) -> None:
    """Fork for each request, and tell each caller the exit status through the pipe that came with it."""
    statuses: dict[int, int] = {}
    awake, wake = os.pipe()
    for end in (awake, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    selector.register(awake, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fd == awake:
                os.read(awake, 1000)
                continue
            data, descriptors, *_ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 4)
            if not data:
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for descriptor in (requests.fileno(), awake, wake, *statuses.values()):
                    os.close(descriptor)
                run_request(json.loads(data), descriptors)
            requests.send(str(pid).encode())
            *streams, statuses[pid] = descriptors
            for stream in streams:
                os.close(stream)
        reap(statuses)


def reap(statuses: dict[int, int]) -> None:
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it
            os.write(statuses[pid], str(os.waitstatus_to_exitcode(status)).encode())
        os.close(statuses.pop(pid))


def run_request(request: dict[str, Any], descriptors: list[int]) -> None:
    """Be the process that was asked for, to its end."""
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        if descriptor > 2:
            os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        number = ("stdin", "stdout", "stderr").index(name)
        setattr(sys, name, os.fdopen(number, mode, -1 if number < 2 else 1, encoding="utf-8", closefd=False))
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    sys.path.insert(0, request["directory"])
    status, is_interrupted = 1, False
    try:
        run_python(request["arguments"])
        status = 0
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        is_interrupted = isinstance(error, KeyboardInterrupt)
    finally:
        # As at the end of any process: what is buffered, and threads that are not daemons.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        if is_interrupted:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(status)


def run_python(arguments: list[str]) -> None:
    import runpy

    kind, what, *rest = arguments
    sys.argv = [what if kind == "-m" else "-c", *rest]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    import gc

    exec(IMPORTS)
    sys.path.pop(0)  # the directory of this file
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    serve_requests(socket.socket(fileno=int(sys.argv[1])))
