"""Three workers on one NATS server: workers are killed under load, the server is killed and started again.

Every delivery of every acknowledged document arrives, once after deduplication by its id. `tests/long` has more of it.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.fleet import LEFT_OUT, FleetWorker, NatsServer
from support.fleet_load import run_load
from support.nats_server import program

pytestmark = pytest.mark.house
QUICK = {"document_ack_ms": 2_000, "request_ms": 1_000, "reconnect_ms": 50, "documents_per_batch_max": 16}


def test_every_delivery_once_though_all_are_killed(tmp_path: Path, leave_out: Callable[[str], None]) -> None:
    if program() is None:
        leave_out(LEFT_OUT)
        return
    with ExitStack() as stack:
        server = stack.enter_context(NatsServer(tmp_path / "nats"))
        workers = [stack.enter_context(FleetWorker(server, "killed", QUICK)) for _ in range(3)]

        def kill_worker() -> None:
            workers[1].end(signal.SIGKILL)

        def kill_server() -> None:
            server.end(signal.SIGKILL)
            time.sleep(0.3)
            server.start()

        counts = run_load(workers, 450, 12, [kill_worker, kill_server])
        assert counts["connections"] > 1  # the worker that was killed had readers
        assert counts["stored"] == counts["deliveries"]  # NATS recognised what the worker had stored before
        for worker in (workers[0], workers[2]):
            assert worker.end() == (0, "")
