"""The OpenAPI description, taken at its word by programs that nobody here wrote.

tests/long/test_full_openapi.py asks more.
"""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
from pathlib import Path

import pytest
from support.openapi_trial import SETTINGS, schemathesis
from support.served_http import Service

pytestmark = pytest.mark.house


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    with Service(tmp_path / "data", **SETTINGS) as service:
        finished = schemathesis(service, tmp_path)
        assert finished.returncode == 0, finished.stdout[-8_000:]
        assert service.end() == (0, "")


def test_a_client_made_from_the_description_works(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    description = tmp_path / "openapi.json"
    description.write_bytes(service.ask("GET", "/openapi.json").body)
    (tmp_path / "settings.yml").write_text("project_name_override: made\npackage_name_override: made\npost_hooks: []\n")
    command = [str(Path(sys.executable).with_name("openapi-python-client")), "generate", "--path", str(description)]
    command += ["--meta", "none", "--config", "settings.yml", "--output-path", "made"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    monkeypatch.syspath_prepend(tmp_path)

    client = importlib.import_module("made").Client(base_url=f"http://127.0.0.1:{service.port}", timeout=30)
    models = importlib.import_module("made.models")
    calls = {
        name: importlib.import_module(f"made.api.default.{name}").sync
        for name in ("put_subscription", "get_subscription", "publish", "pull", "acknowledge")
    }
    form = models.SubscriptionForm(query="//made", namespaces=models.SubscriptionFormNamespaces())
    added = calls["put_subscription"]("made", client=client, body=form)
    assert (added.id, added.query) == ("made", "//made")
    assert calls["get_subscription"]("made", client=client) == added
    assert calls["get_subscription"]("unmade", client=client).code == "TC412"
    file = importlib.import_module("made.types").File(payload=io.BytesIO(b"<made/>"))
    number = calls["publish"](client=client, body=file).document
    (delivery,) = calls["pull"]("made", client=client, body=models.PullForm(max_=10, wait_ms=10_000)).deliveries
    assert (delivery.document, delivery.payload) == (number, "<made/>")
    settled = calls["acknowledge"]("made", client=client, body=models.SettleForm(deliveries=[delivery.delivery]))
    assert (settled.settled, settled.unknown) == (1, [])
