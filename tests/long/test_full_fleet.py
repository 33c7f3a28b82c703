"""A fleet at full size: many documents, workers killed one after the other, the server killed and stopped meanwhile."""

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

pytestmark = [pytest.mark.house, pytest.mark.long]
SETTINGS = {"document_ack_ms": 3_000, "request_ms": 1_000, "reconnect_ms": 50, "documents_per_batch_max": 32}


def test_many_documents_and_many_kills(tmp_path: Path, leave_out: Callable[[str], None]) -> None:
    if program() is None:
        leave_out(LEFT_OUT)
        return
    with ExitStack() as stack:
        server = stack.enter_context(NatsServer(tmp_path / "nats"))
        workers = [stack.enter_context(FleetWorker(server, "long", SETTINGS)) for _ in range(3)]

        def kill(place: int) -> Callable[[], None]:
            def fault() -> None:
                workers[place].end(signal.SIGKILL)
                workers[place].start()

            return fault

        def restart(number: int, seconds: float) -> Callable[[], None]:
            def fault() -> None:
                server.end(number)
                time.sleep(seconds)
                server.start()

            return fault

        faults = [
            *(kill(0), restart(signal.SIGKILL, 0.5), kill(1), kill(2)),
            *(restart(signal.SIGTERM, 3.0), kill(1), restart(signal.SIGKILL, 1.0), kill(0)),
        ]
        counts = run_load(workers, 6_000, 40, faults, patience_seconds=600)
        print(counts)
        assert counts["stored"] == counts["deliveries"]
