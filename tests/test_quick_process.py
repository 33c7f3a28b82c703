"""Processes that are forked behave as those that are started: arguments, streams, exit status, signals, buffers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.quick_command import quick_command
from support.quick_process import PIPE, QuickProcess

pytestmark = pytest.mark.house

PROGRAMS = {
    "arguments": "import sys; print(sys.argv, __name__)",
    "place": "import os, sys; print(os.getcwd(), os.environ.get('QUICK'), os.environ.get('HOME'), sys.stdin.read())",
    "unflushed": "import sys; sys.stdout.write('left in the buffer')",
    "status": "import sys; sys.exit(7)",
    "message": "import sys; sys.exit('a reason')",
    "exception": "raise ValueError('wrong')",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "at exit": "import atexit, threading, time\natexit.register(print, 'last')\n"
    "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\nprint('main')",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_as_a_process_of_its_own(name: str, tmp_path: Path) -> None:
    arguments = ["-c", PROGRAMS[name], "one", "-two"]
    environment = {"QUICK": "yes", "PATH": os.environ["PATH"]}
    with QuickProcess(arguments, stdout=PIPE, stderr=PIPE, cwd=tmp_path, env=environment) as quick:
        shown, errors = quick.communicate(60)
    done = subprocess.run(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert (shown, quick.returncode) == (done.stdout, done.returncode)
    assert errors.splitlines()[-1:] == done.stderr.splitlines()[-1:]


def test_signals_and_waiting() -> None:
    program = "import time; print('here', flush=True); time.sleep(60)"
    with QuickProcess(["-c", program], stdout=PIPE, stderr=PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == "here\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(60)
    assert (errors.splitlines()[-1], process.returncode) == ("KeyboardInterrupt", -signal.SIGINT)
    process.kill()  # it has ended
    assert process.poll() == process.wait() == process.returncode


def test_a_command_of_a_shell(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<a><b/></a>")
    shell = """
        cat a.xml | treecast match -q "$QUERY" a.xml 2>counts | cat
        cut -d' ' -f 1-6 counts; status=0; treecast match -q '][' a.xml 2>message || status=$?
        echo "status $status, $(grep -o TC1 message)"
    """
    places = f"{quick_command()}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": places, "QUERY": "//b"}
    done = subprocess.run(["bash", "-euc", shell], cwd=tmp_path, env=environment, capture_output=True, text=True)
    quick = done.stdout, done.stderr
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-euc", shell], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert quick == (done.stdout, done.stderr)
    assert "TC1" in quick[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    """Signals reach the process behind it, and nothing outlives a command that was killed."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    command = [str(quick_command() / "treecast"), "match", "-q", "//b", str(ready)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        writer = os.open(ready, os.O_WRONLY)  # returns when it is read
        process.send_signal(number)
        assert process.wait(60) != 0
        with pytest.raises(BrokenPipeError):
            while True:
                os.write(writer, b" ")
                time.sleep(0.01)
        os.close(writer)
