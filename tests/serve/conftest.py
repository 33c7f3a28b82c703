"""What tests of the HTTP door share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.served_http import Service


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One for all tests that need nothing special: they use names of their own."""
    with Service(tmp_path_factory.mktemp("service") / "data", heartbeat_ms=300, advance_ms=100) as running:
        yield running
        status, logs = running.end()
        assert (status, logs) == (0, "")
