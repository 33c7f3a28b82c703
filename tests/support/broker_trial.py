"""A real broker that is killed with SIGKILL again and again, under load, and started on the same directory.

`Trial` starts the broker, and its clients in other processes (`broker_load.py`); `kill_once` kills the broker at a
moment that the seed decides, now and then while it is starting. `finish` lets everything come to its end and compares
what was received with what was published (`delivery_record.py`).

To see that a fault would be found, the broker can be started with one:

    python -m support.broker_trial FAULT broker --data DIR --listen 127.0.0.1:0
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from support.broker_load import read_published, read_received
from support.delivery_record import Expectation, Verdict
from support.quick_process import PIPE, QuickProcess
from treecast.overlay.broker.backlog import Backlog
from treecast.overlay.peer import Effect, Outbox
from treecast.serve.store import Store

TESTS = Path(__file__).resolve().parents[1]
WAIT_SECONDS = 120


class Trial:
    """One run. The seed decides what is drawn; the rest is up to the machine."""

    def __init__(self, directory: Path, seed: int, *, fault: str = "") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.seed = seed
        self.fault = fault
        self.kills = self.starts = 0
        self._random = Random(seed)
        self._broker: QuickProcess | None = None
        self._clients: dict[str, QuickProcess] = {}
        self._address = "127.0.0.1:0"
        self._start_broker()
        for kind in ("publish", "receive"):
            arguments = ["-m", "support.broker_load", kind, self._address, str(directory), str(seed)]
            with (directory / f"{kind}.log").open("ab") as log:
                self._clients[kind] = QuickProcess(arguments, cwd=TESTS, stdout=log, stderr=log)

    # --- the broker ---------------------------------------------------------------------------------------------------

    def _launch(self) -> QuickProcess:
        module = ["support.broker_trial", self.fault] if self.fault else ["treecast"]
        data = ["--data", str(self.directory / "data"), "--listen", self._address, "--log-level", "error"]
        self.starts += 1
        with (self.directory / "broker.log").open("ab") as log:
            return QuickProcess(["-m", *module, "broker", *data], cwd=TESTS, stdout=PIPE, stderr=log)

    def _start_broker(self) -> None:
        self._broker = self._launch()
        assert self._broker.stdout
        line = self._broker.stdout.readline()
        assert line.startswith("listening on "), (self.directory / "broker.log").read_text()
        self._address = line.split()[-1]

    def _kill_broker(self) -> None:
        assert self._broker is not None
        os.kill(self._broker.pid, signal.SIGKILL)
        self._broker.communicate()
        self.kills += 1

    def kill_once(self) -> None:
        """At some moment, mostly at work, and then perhaps another one that is still starting; then start it again."""
        if self._random.random() < 0.8:
            self.wait_for_deliveries(self._deliveries() + self._random.randrange(1, 500))
        time.sleep(self._random.uniform(0, 0.5))
        self._kill_broker()
        if self._random.random() < 0.2:
            self._broker = self._launch()
            time.sleep(self._random.uniform(0, 0.2))
            self._kill_broker()
        self._start_broker()

    def wait_for_deliveries(self, count: int) -> None:
        """Until the receivers have got so many: everybody is at work."""
        self._until(lambda: self._deliveries() >= count)

    def _deliveries(self) -> int:
        path = self.directory / "received.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_so():
            for kind, process in self._clients.items():
                assert process.poll() in (None, 0), (self.directory / f"{kind}.log").read_text()[-4_000:]
            assert time.monotonic() < deadline, "nothing happens"
            time.sleep(0.02)

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self, *, quiet_seconds: float = 30) -> Verdict:
        """Let publishers stop, wait until everything has arrived, or nothing comes any more; returns what is wrong."""
        self._stop("publish")
        entries, refusals = read_published(self.directory)
        expected = Expectation(entries)
        expected.faults += refusals
        path = self.directory / "received.jsonl"
        size, since = -1, time.monotonic()
        while time.monotonic() - since < quiet_seconds:
            if path.stat().st_size != size:
                size, since = path.stat().st_size, time.monotonic()
                if not expected.verdict(read_received(self.directory)).missing:
                    break
            time.sleep(0.1)
        time.sleep(0.5)  # for what should not come
        self._stop("receive")
        assert self._broker is not None
        self._broker.send_signal(signal.SIGTERM)
        self._broker.communicate(timeout=WAIT_SECONDS)
        verdict = expected.verdict(read_received(self.directory))
        with Store.open(self.directory / "data") as store:
            verdict.wrong += (f"damaged: {damage}" for damage in store.verify())
            if letters := store.count("letters"):
                verdict.wrong.append(f"{letters} deliveries were given up")
        return verdict

    def _stop(self, kind: str) -> None:
        (self.directory / f"stop-{kind}").touch()
        self._until(lambda: self._clients[kind].poll() is not None)
        assert self._clients[kind].returncode == 0, (self.directory / f"{kind}.log").read_text()[-4_000:]

    def close(self) -> None:
        """End what is still running, by its id."""
        for process in (self._broker, *self._clients.values()):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- faults -----------------------------------------------------------------------------------------------------------


def send_before_the_write() -> None:
    """Answers leave at once, and the disk is slow: a kill then takes back what was acknowledged."""

    def take_all(outbox: Outbox) -> list[Effect]:
        ready = [effect for _, effect in outbox._waiting]
        outbox._waiting.clear()
        return ready

    write = Store.write

    def write_slowly(store: Store, changes: list[object]) -> None:
        time.sleep(0.05)
        write(store, changes)  # type: ignore[arg-type]

    Outbox.take_ready = take_all  # type: ignore[method-assign, assignment]
    Store.write = write_slowly  # type: ignore[method-assign, assignment]


def forget_what_waits() -> None:
    """After a restart, what was not delivered yet is forgotten."""
    Backlog.load = lambda *_: None  # type: ignore[method-assign]


FAULTS = {each.__name__: each for each in (send_before_the_write, forget_what_waits)}


if __name__ == "__main__":
    from treecast.cli import main

    FAULTS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
