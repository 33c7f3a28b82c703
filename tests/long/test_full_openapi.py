"""tests/serve/test_openapi.py, at full size."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.openapi_trial import SETTINGS, schemathesis
from support.served_http import Service

pytestmark = [pytest.mark.long, pytest.mark.house]


def test_schemathesis_finds_nothing_for_long(tmp_path: Path) -> None:
    with Service(tmp_path / "data", **SETTINGS) as service:
        finished = schemathesis(service, tmp_path, examples=200)
        print(finished.stdout[-1_500:])
        assert finished.returncode == 0, finished.stdout[-8_000:]
        assert service.end() == (0, "")
