"""Hooks verified by npm's standardwebhooks, which nobody here wrote: also during a rotation, and not when changed.

It parses every message as JSON, whatever its type. So envelopes can be read with it; of raw XML it checks the
signature, and then fails to parse it, which is another error. The guide says so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.hook_receiver import HookReceiver, Received
from support.served_http import Service, eventually

pytestmark = pytest.mark.house

PACKAGES = Path(__file__).resolve().parents[2] / "build" / "npm"
LEFT_OUT = "npm's standardwebhooks: node or npm is not installed, or tools/setup.sh could not fetch tests/npm"
PROGRAM = """\
import { Webhook } from "standardwebhooks";
const cases = JSON.parse(process.argv[1]);
console.log(JSON.stringify(cases.map(({ secret, body, headers }) => {
  try {
    return { message: new Webhook(secret).verify(body, headers) };
  } catch (error) {
    return { error: error.constructor.name };
  }
})));
"""


def verify(cases: list[tuple[str, Received]]) -> list[dict[str, Any]]:
    """What the package says of each: a message, or the name of an error."""
    node = shutil.which("node")
    assert node is not None
    given = [{"secret": secret, "body": one.body.decode(), "headers": one.headers} for secret, one in cases]
    command = [node, "--input-type=module", "-e", PROGRAM, json.dumps(given)]
    done = subprocess.run(command, cwd=PACKAGES, capture_output=True, text=True, check=True)
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def test_npm_verifies_signatures(tmp_path: Path, leave_out: Callable[[str], None]) -> None:
    if shutil.which("node") is None or not (PACKAGES / "node_modules" / "standardwebhooks").is_dir():
        leave_out(LEFT_OUT)
        pytest.skip(LEFT_OUT)
    hooks = {"allow": ["127.0.0.0/8"]}
    with HookReceiver() as receiver, Service(tmp_path / "data", hooks=hooks) as service:

        def deliver() -> Received:
            count = len(receiver.requests)
            service.publish("<signed>ä</signed>")
            eventually(lambda: len(receiver.requests) > count)
            return receiver.requests[-1]

        service.subscribe("signed", "/signed")
        form = {"url": receiver.url, "subscriptions": ["signed"]}
        first = service.ask("PUT", "/v1/hooks/signed", form).json["secret"]
        one = deliver()
        second = service.ask("POST", "/v1/hooks/signed:rotate", {}).json["secret"]
        both = deliver()
        service.ask("PUT", "/v1/hooks/signed", {**form, "format": "raw"})
        raw = deliver()
    changed = Received(one.path, one.headers, one.body + b" ")
    old = Received(one.path, {**one.headers, "webhook-timestamp": "1"}, one.body)
    answers = verify([(first, one), (second, one), (first, both), (second, both), (first, changed), (first, old)])
    assert [answer["message"]["data"]["payload"] for answer in answers if "message" in answer] == [
        "<signed>ä</signed>"
    ] * 3
    refused = {"error": "WebhookVerificationError"}
    assert [place for place, answer in enumerate(answers) if answer == refused] == [1, 4, 5]
    assert raw.body.decode() == "<signed>ä</signed>"
    altered = Received(raw.path, raw.headers, raw.body + b" ")
    assert verify([(second, raw), (second, altered)]) == [{"error": "SyntaxError"}, refused]
