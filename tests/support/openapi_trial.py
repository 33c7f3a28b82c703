"""Runs schemathesis on a service."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from support.served_http import Service

SETTINGS: dict[str, Any] = {"pull_wait_ms_max": 100, "request_bytes_max": 1 << 20}
CONFIG = """\
[checks.negative_data_rejection]
expected-statuses = [400, 404, 405, 409, 413, 415, 422, 426, 503]
"""
ENDLESS = "/v1/events"
UNDECIDABLE = "positive_data_acceptance"
"""A schema cannot say which strings are queries or documents."""


def schemathesis(service: Service, directory: Path, examples: int = 0) -> subprocess.CompletedProcess[str]:
    """Everything but event streams, which do not end: what the schema's limits suggest, and examples of anything."""
    service.subscribe("a", "/a")
    service.publish("<a/>")
    (directory / "schemathesis.toml").write_text(CONFIG)
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", "schemathesis.toml", "run"]
    command += [f"http://127.0.0.1:{service.port}/openapi.json", "--exclude-path", ENDLESS]
    command += ["--checks", "all", "--exclude-checks", UNDECIDABLE, "--seed", "1", "--no-color"]
    command += (
        ["--phases", "coverage,fuzzing", "--max-examples", str(examples)] if examples else ["--phases", "coverage"]
    )
    command += ["--suppress-health-check", "all", "--request-timeout", "60", "--generation-database", ":memory:"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True)
