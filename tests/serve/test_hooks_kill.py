"""A service that is killed while it sends web hooks: nothing is lost, and what comes twice has the same id."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import pytest
from support.hook_receiver import HookReceiver, Received, Response
from support.served_http import Service, eventually

pytestmark = pytest.mark.house

DOCUMENTS = 150
SETTINGS = {"allow": ["127.0.0.0/8"], "retry_ms": 20, "retry_ms_max": 50}


@pytest.mark.parametrize("ordered", [False, True])
def test_killed_under_load(tmp_path: Path, ordered: bool) -> None:
    kill_at = threading.Event()

    def answer(request: Received) -> Response:
        count = len(receiver.requests)
        if count >= DOCUMENTS // 3:
            kill_at.set()
        return Response(500 if count % 7 == 0 else 204)

    with HookReceiver(answer) as receiver, Service(tmp_path / "data", hooks=SETTINGS) as service:
        service.subscribe("all", "/a")
        form = {"url": receiver.url, "subscriptions": ["all"], "ordered": ordered, "attempts_max": 100}
        assert service.ask("PUT", "/v1/hooks/all", form).status == 201
        lines = "\n".join(json.dumps({"document": f"<a>{number}</a>"}) for number in range(DOCUMENTS))
        answered = service.ask("POST", "/v1/documents:batch", lines.encode()).json["documents"]
        published = {item["document"] for item in answered}
        assert len(published) == DOCUMENTS
        assert kill_at.wait(30)
        service.end(signal.SIGKILL)
        service.start()
        ids: dict[int, set[str]] = {}

        def is_complete() -> bool:
            for request in receiver.requests:
                ids.setdefault(json.loads(request.body)["data"]["document"], set()).add(request.id)
            return ids.keys() == published

        eventually(is_complete, 60)
        assert all(len(of_document) == 1 for of_document in ids.values())
        if ordered:  # the first time each came is in order; what was in doubt came again
            first = list(dict.fromkeys(json.loads(request.body)["data"]["document"] for request in receiver.requests))
            assert first == sorted(published)
