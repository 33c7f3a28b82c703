"""Signals such as Ctrl-C end long native calls; the end of the process does not wait for them; neither does harm."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from support.sanitized import fewer

import treecast

# Calls that take a minute and more, if they are left alone, of an index that goes on to match.
BEGIN = """
import sys, treecast
import pyarrow  # here, so that the signal does not come while it is imported
from treecast.model import DeliveryLimits
part = b"<a><b/><c>x</c></a>" * 2000
index = treecast.Index(delivery_limits=DeliveryLimits(bindings_max=1 << 30))
index.add("z", "/z")
"""
CALLS = {
    "match": (
        "index.add_many((str(n), f'//a[b]/c[last() + 0 = {n}]') for n in range(2, 9000))",
        "index.match(b'<r>' + part * 100 + b'</r>')",
    ),
    "match_many": (
        "index.add_many((str(n), f'//a[b = {n}]/c') for n in range(2000))",
        "index.match_many([b'<r>' + part + b'</r>'] * 100_000, threads=2)",
    ),
    "match_many, waiting for another thread": (
        "index.add_many((str(n), f'//a[b]/c[last() + 0 = {n}]') for n in range(2, 9000))",
        "index.match_many([b'<z/>', b'<r>' + part * 100 + b'</r>'], threads=2)",
    ),
    "render": (
        "index.add('pairs', 'for $a in $msg//a, $b in $msg//a, $c in $msg//a where $c/d return <x/>')",
        "index.render(b'<r><a><d/></a>' + part + b'</r>')",
    ),
    "render_many": (
        "index.add('pairs', 'for $a in $msg//a, $b in $msg//a where $b/d return <x/>')",
        "index.render_many([b'<z/>'] + [b'<r><a><d/></a>' + part + b'</r>'] * 1000, threads=2)",
    ),
    "xfilter": (
        "index = treecast.Index(engine='xfilter'); index.add('z', '/z')\n"
        "index.add_many((str(n), f'//*//*[@x{n}]//*') for n in range(20_000))",
        "index.match_many([b'<r>' + part + b'</r>'] * 100_000)",
    ),
}
CALLING = """
try:
    print("begin", flush=True)
    CALL
except KeyboardInterrupt:
    print("interrupted", index.match(b"<z/>"), flush=True)
"""


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_a_call(name: str) -> None:
    before, call = CALLS[name]
    program = BEGIN + before + CALLING.replace("CALL", call)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begin\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        try:
            said, errors = process.communicate(timeout=50)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert (said, errors, process.returncode) == (b"interrupted ['z']\n", b"", 0)


class AlarmError(Exception):
    """What the handler of the tests below raises."""


@contextmanager
def alarm(after_s: float) -> Iterator[None]:
    """An AlarmError after so long, wherever the program is by then."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise AlarmError

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, after_s)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def subscriptions(count: int) -> list[tuple[str, str]]:
    """Plain paths and patterns alternately, some of them repeated."""
    return [(str(n), f"//a{n % 997}/b{n // 2}" if n % 2 else f"/r/a{n % 97}[c = {n // 3}][d]") for n in range(count)]


def interrupted_additions(
    index: treecast.Index, many: list[tuple[str, str]], after_s: float, growth: float
) -> Iterator[None]:
    """Add the subscriptions; yield after each call that a signal ends, and let the next one run longer."""
    before = len(index)
    while True:
        try:
            with alarm(after_s):
                index.add_many(many)
            return
        except AlarmError:
            if len(index) > before:  # the signal came when all was done
                return
        yield
        after_s *= growth


def test_an_interrupted_add_many_adds_nothing() -> None:
    """Wherever it is interrupted: while texts are read, slots are filled, or machines are built."""
    index = treecast.Index()
    index.add_many([("first", "/r/a1"), ("second", "//a1/b2[c]")])
    document = b"<r><a1><b2><c/></b2><b0/></a1><a6><c>2</c><d/></a6></r>"
    many = subscriptions(fewer(30_000))
    interruptions = 0
    for _ in interrupted_additions(index, many, after_s=0.002, growth=1.6):
        interruptions += 1
        assert many[-1][0] not in index
        assert index.match(document) == ["first", "second"]
        index.add("one", many[6][1])  # a path that the interrupted call had begun with
        assert index.match(document) == ["first", "second", "one"]
        index.remove("one")
    assert interruptions > 2
    whole = treecast.Index()
    whole.add_many([("first", "/r/a1"), ("second", "//a1/b2[c]"), *many])
    assert index.match(document) == whole.match(document)
    assert len(index) == len(whole) == len(many) + 2


def test_an_interrupted_merge_changes_nothing(tmp_path: Path) -> None:
    """The match that was to merge raises; the next one does without, as the merge was paid for."""
    base = treecast.Index()
    base.add_many((f"s{n}", f'/r/a[@n = "{n}"][b]') for n in range(fewer(60_000)))
    base.save(tmp_path / "base.tcx")
    document = b"<r><a n='7'><b/></a><a n='new 7'><b/></a></r>"
    interruptions = 0
    for after_s in (0.01, 0.03, 0.06, 0.1):
        index = treecast.Index.load(tmp_path / "base.tcx")
        index.add_many((f"new {n}", f'/r/a[@n = "new {n}"][b]') for n in range(len(base) // 20))
        assert index.stats().machines == 2
        try:
            with alarm(after_s):
                index.match(document)
                assert index.stats().machines == 1
        except AlarmError:
            interruptions += index.stats().machines == 2
        machines = index.stats().machines
        assert index.match(document) == ["s7", "new 7"]
        assert index.stats().machines == machines
        index.remove("s7")
        assert index.match(document) == ["new 7"]
    assert interruptions


@pytest.mark.parametrize("engine", ["yfilter", "xtrie"])
def test_an_interrupted_add_many_leaves_an_engine_as_it_was(engine: str) -> None:
    index = treecast.Index(engine=engine)
    index.add("first", "/r/a1")
    many = [(str(n), f"//a{n % 997}/b{n}") for n in range(20_000)]
    interruptions = 0
    for _ in interrupted_additions(index, many, after_s=0.005, growth=2):
        interruptions += 1
        assert index.match(b"<r><a1><b1/></a1></r>") == ["first"]
    assert interruptions > 0
    assert len(index) == 20_001
    assert index.match(b"<r><a1><b1/></a1></r>") == ["first", "1"]


def test_interrupted_saves_and_loads_leave_nothing_behind(tmp_path: Path) -> None:
    index = treecast.Index()
    index.add_many(subscriptions(30_000))
    place = tmp_path / "saved.tcx"
    for after_s in (0.001, 0.003, 0.01, 0.03):
        try:
            with alarm(after_s):
                index.save(place)
        except AlarmError:
            assert [path.name for path in tmp_path.iterdir()] in ([], ["saved.tcx"])
    index.save(place)
    for after_s in (0.001, 0.003, 0.01, 0.03):
        try:
            with alarm(after_s):
                loaded = treecast.Index.load(place)
                assert len(loaded) == 30_000
        except AlarmError:
            pass
    assert treecast.Index.load(place).match(b"<r><a3><b1/></a3></r>") == ["3"]


def test_a_handler_that_does_not_raise_lets_the_call_go_on() -> None:
    index = treecast.Index()
    index.add_many((str(n), f"//a[b]/c[last() + 0 = {n}]") for n in range(2, 100))
    document = b"<r>" + b"<a><b/><c/></a>" * 20_000 + b"</r>"
    rings: list[list[str]] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rings.append(index.match(b"<r><a><b/><c/><c/></a></r>")))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        assert index.match(document) == []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert rings
    assert all(answer == ["2"] for answer in rings)


@pytest.mark.parametrize("engine", ["auto", "yfilter"])
def test_a_handler_cannot_change_an_index_that_its_thread_is_at_work_on(engine: str) -> None:
    """It would wait for itself; instead it raises, which ends the call."""
    index = treecast.Index(engine=engine)
    index.add("first", "/r")
    numbers = itertools.count()
    before = signal.signal(signal.SIGALRM, lambda *_: index.add(f"late {next(numbers)}", "/late"))
    many = [(str(n), f"//a{n % 997}/b{n}") for n in range(100_000)]
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        with pytest.raises(RuntimeError, match="signal handler"):
            while True:  # in the end a signal comes while native code is at work
                index.add_many(many)
                index = treecast.Index(engine=engine)
                index.add("first", "/r")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert "99999" not in index
    assert index.match(b"<r/>") == ["first"]


# What ends late takes the GIL again and again while daemon threads come back to Python. Tables of matches are left out:
# pyarrow itself may abort the process when one of its functions comes back then.
EXITING = """
import sys, threading, time
import pyarrow, treecast
index = treecast.Index()
index.add_many((str(n), f"//a{n}[b]") for n in range(2000))
documents = [b"<r>" + b"<a1><b/></a1>" * REPEATS + b"</r>", b"<bad"] * 4
match_many = index._native.match_many

class Late:
    def __del__(self, sleep=time.sleep):
        for _ in range(20):
            sleep(0.01)

late = sys.late = Late()
begun = threading.Barrier(4)

def work(call):
    call()
    begun.wait()
    while True:
        call()

for call in (
    lambda: match_many(documents, 1, True, 0, 0),
    lambda: match_many(documents, 2, True, 0, 0),
    lambda: index.render(documents[0]),
):
    threading.Thread(target=work, args=(call,), daemon=True).start()
begun.wait()
"""


@pytest.mark.parametrize("repeats", [1, 20, 2000])
def test_the_end_of_the_process_does_not_wait_for_daemon_threads(repeats: int) -> None:
    program = EXITING.replace("REPEATS", str(repeats))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=100, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
