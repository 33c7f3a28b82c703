"""Event streams read by clients that nobody here wrote: they resume by `Last-Event-ID`, by themselves.

PyPI's httpx-sse is used by tests/support/doors_trial.py, with services that are killed.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.served_http import Service

pytestmark = pytest.mark.house

PACKAGES = Path(__file__).resolve().parents[2] / "build" / "npm"
LEFT_OUT = "npm's eventsource: node or npm is not installed, or tools/setup.sh could not fetch tests/npm"
PROGRAM = """\
import { EventSource } from "eventsource";
const source = new EventSource(process.argv[1]);
source.addEventListener("delivery", (event) => console.log(JSON.parse(event.data).document));
"""


def test_eventsource_resumes(tmp_path: Path, leave_out: Callable[[str], None]) -> None:
    node = shutil.which("node")
    if node is None or not (PACKAGES / "node_modules" / "eventsource").is_dir():
        leave_out(LEFT_OUT)
        pytest.skip(LEFT_OUT)
    with Service(tmp_path / "data") as service:
        service.subscribe("source", "/source")
        first = [service.publish("<source/>") for _ in range(3)]
        url = f"http://127.0.0.1:{service.port}/v1/events?subscription=source"
        command = [node, "--input-type=module", "-e", PROGRAM, url]
        with subprocess.Popen(command, cwd=PACKAGES, stdout=subprocess.PIPE, text=True) as reader:
            try:
                assert reader.stdout is not None
                assert [int(reader.stdout.readline()) for _ in first] == first
                service.end(signal.SIGKILL)
                service.start()
                second = [service.publish("<source/>") for _ in range(3)]
                assert [int(reader.stdout.readline()) for _ in second] == second
            finally:
                reader.kill()
