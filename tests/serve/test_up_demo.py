"""The first minute with `treecast up`: a demonstration, and mistakes that are one clear sentence."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from support.served_http import eventually

import treecast
from treecast.cli import main
from treecast.serve.demo import SUBSCRIPTIONS, document
from treecast.serve.http_client import HttpClient

pytestmark = pytest.mark.house


def test_a_demonstration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "treecast", "up", "--demo", "--listen", "127.0.0.1:0", "--log-level", "error"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("listening on ").strip()
        assert list(tmp_path.glob("treecast-demo-*/store.json"))
        with HttpClient(url) as client:
            eventually(lambda: client.ask("GET", "/v1/status").json["last_document"] >= 3)
            listed = client.ask("GET", "/v1/subscriptions").json["subscriptions"]
            assert [one["id"] for one in listed] == sorted(one.id for one in SUBSCRIPTIONS)
            first = client.ask("GET", "/v1/documents/1").body
            assert first == document(Random(1), 1)
            assert client.ask("GET", "/").body.startswith(b"<!doctype html>")
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, rest) == (0, "")
    assert list(tmp_path.iterdir()) == []  # as it said
    commands = re.findall(r"^  treecast (.*)$", said, re.MULTILINE)
    assert len(commands) == 3 and all(f"--url {url}" in one for one in commands)
    assert f"{url}/" in said and "removed at the end" in said and "Traceback" not in said


def test_news_are_drawn_by_seed() -> None:
    index = treecast.Index()
    for one in SUBSCRIPTIONS:
        index.add(one.id, one.query)
    random, again = Random(1), Random(1)
    drawn = [document(random, number) for number in range(200)]
    assert drawn == [document(again, number) for number in range(200)]
    matched = {id for body in drawn for id in index.match(body)}
    assert matched == {one.id for one in SUBSCRIPTIONS}


def test_data_are_optional_for_a_demonstration_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--demo", "--check"]) == 0
    assert re.search(r"^demo = true +# --demo$", capsys.readouterr().out, re.MULTILINE)
    with pytest.raises(SystemExit):
        main(["up"])
    assert "--data: it is missing" in capsys.readouterr().err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What `treecast up` says to a mistake: a sentence, with a hint perhaps."""
    try:
        assert main(["up", "--log-level", "error", *arguments]) == 1
    except SystemExit as stop:
        assert stop.code == 2
    said = capsys.readouterr()
    assert said.out == "" and len(said.err.splitlines()) == 2, said
    return said.err


def test_mistakes_of_the_first_minute(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert f"--data: {file}: it is not a directory" in refused(capsys, "--data", str(file))
    assert f"{file} is not a directory" in refused(capsys, "--data", str(file / "data"))
    assert "not empty and not a store" in refused(capsys, "--data", str(tmp_path), "--listen", "127.0.0.1:0")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refused(capsys, "--data", str(tmp_path / "data"), "--listen", address)
        assert f"TC408 cannot listen on {address}: Address already in use" in said
    monkeypatch.setattr(os, "access", lambda *_: False)  # whoever runs the tests may write everywhere
    assert f"{tmp_path} may not be written to" in refused(capsys, "--data", str(tmp_path / "data" / "more"))
