"""The command `treecast` for shells of tests: each start is a fork of a process that has imported everything.

A page of the guide starts it a dozen times, and imports take most of a second each time. `treecast` in the directory
that `quick_command()` returns is a small program that hands its arguments, directory, environment and streams to a
thread of the tests, which starts a `QuickProcess`. It passes signals on, and ends as that process does.

    places = f"{quick_command()}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", "treecast match -q /a a.xml"], env={**os.environ, "PATH": places})
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.quick_process import REQUEST_BYTES_MAX, QuickProcess

PROGRAM = """\
#!{python} -IS
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as tests:
    tests.connect({address!r})
    request = [sys.argv[1:], os.getcwd(), dict(os.environ)]
    socket.send_fds(tests, [json.dumps(request).encode()], [0, 1, 2])
    pid = int(tests.recv(100))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: os.kill(pid, number))
    status = int(tests.recv(100))
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@functools.cache
def quick_command() -> Path:
    """The directory for the PATH, the same for the whole session."""
    directory = Path(tempfile.mkdtemp(prefix="treecast-command-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    address = str(directory / "socket")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(address)
    listening.listen(100)
    program = directory / "treecast"
    program.write_text(PROGRAM.format(python=sys.executable, address=address), encoding="utf-8")
    program.chmod(0o755)
    threading.Thread(target=_accept, args=(listening,), daemon=True).start()
    return directory


def _accept(listening: socket.socket) -> None:
    lock = threading.Lock()  # one start at a time
    while True:
        asking, _ = listening.accept()
        threading.Thread(target=_run, args=(asking, lock), daemon=True).start()


def _run(asking: socket.socket, lock: threading.Lock) -> None:
    """One command, until it ends or nobody waits for it any more."""
    with asking:
        process = _start(asking, lock)
        gone = threading.Thread(target=_kill_if_nobody_waits, args=(asking, process), daemon=True)
        gone.start()
        status = process.wait()
        with suppress(OSError):  # it was killed itself
            asking.send(str(status).encode())
            asking.shutdown(socket.SHUT_RDWR)
        gone.join()


def _start(asking: socket.socket, lock: threading.Lock) -> QuickProcess:
    data, streams, *_ = socket.recv_fds(asking, REQUEST_BYTES_MAX, 3)
    arguments, directory, environment = json.loads(data)
    named: dict[str, Any] = dict(zip(("stdin", "stdout", "stderr"), streams, strict=True))
    with lock:
        process = QuickProcess(["-m", "treecast", *arguments], cwd=directory, env=environment, **named)
    for stream in streams:
        os.close(stream)
    asking.send(str(process.pid).encode())
    return process


def _kill_if_nobody_waits(asking: socket.socket, process: QuickProcess) -> None:
    """The program says nothing: what arrives is its end."""
    with suppress(OSError):
        asking.recv(1)
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
