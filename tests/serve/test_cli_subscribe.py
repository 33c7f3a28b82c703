"""`treecast subscribe`: deliveries as they come, resumed after a restart, shared with others, safe on a terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from support.quick_process import PIPE, QuickProcess
from support.served_http import Service, eventually

from treecast.cli import main
from treecast.serve.event_reader import Event, EventDecoder

pytestmark = pytest.mark.house

NUMBERS = count()


@pytest.fixture
def name(service: Service, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of elements and subscriptions that no other test has."""
    monkeypatch.setenv("TREECAST_URL", f"http://127.0.0.1:{service.port}")
    return f"subscribe{next(NUMBERS)}"


def subscribe(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["subscribe", *arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


@contextmanager
def started(service: Service, *arguments: str) -> Iterator[QuickProcess]:
    """The command in a process of its own, which is ended with the block."""
    command = ["-m", "treecast", "subscribe", *arguments, "--url", f"http://127.0.0.1:{service.port}"]
    with QuickProcess(command, stdout=PIPE, stderr=PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path / "data", advance_ms=50) as running:
        yield running


def test_formats_and_where_it_begins(service: Service, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = [service.publish(f"<{name}><b>{number}</b></{name}>") for number in range(3)]
    query = ["-q", f"/{name}/b", "--deliver", "elements"]
    status, out, err = subscribe(capsys, name, *query, "--from", "beginning", "--count", "3")
    assert status == 0
    lines = out.splitlines()
    assert [line.split(", ")[0] for line in lines[::2]] == [f"--- document {number}" for number in numbers]
    assert lines[1::2] == ["<b>0</b>", "<b>1</b>", "<b>2</b>"]
    assert err == f"treecast: {name} is registered; waiting for what it matches\n"
    _, out, err = subscribe(capsys, name, "--from", str(numbers[1]), "--count", "2", "--format", "json")
    assert [json.loads(line)["payload"] for line in out.splitlines()] == ["<b>1</b>", "<b>2</b>"]
    assert err == ""
    _, out, _ = subscribe(capsys, name, "--from", "1h", "--count", "3", "--format", "payload")
    assert out == "<b>0</b><b>1</b><b>2</b>"


def test_now_leaves_out_what_waits(own: Service, capsys: pytest.CaptureFixture[str]) -> None:
    own.subscribe("all", "/a")
    own.publish("<a>before</a>")
    with started(own, "all", "--from", "now", "--format", "payload", "--count", "1") as process:
        eventually(lambda: own.ask("GET", "/v1/status").json["sizes"]["streams"] == 1)
        own.publish("<a>after</a>")
        assert process.communicate(timeout=60)[0] == "<a>after</a>"


def test_it_goes_on_after_the_service_was_killed(own: Service) -> None:
    own.subscribe("all", "/a")
    own.publish("<a>1</a>")
    with started(own, "all", "--format", "payload", "--count", "4") as process:
        assert process.stdout is not None
        assert process.stdout.read(8) == "<a>1</a>"
        own.publish("<a>2</a>")
        assert process.stdout.read(8) == "<a>2</a>"
        own.end(signal.SIGKILL)
        own.start()
        own.publish("<a>3</a>")
        own.publish("<a>4</a>")
        rest, said = process.communicate(timeout=60)
    assert rest == "<a>3</a><a>4</a>"
    assert process.returncode == 0
    lines = said.splitlines()
    assert lines[0].startswith("treecast: the connection was lost (") and lines[-1] == "treecast: connected again"


def test_those_who_acknowledge_share(own: Service, capsys: pytest.CaptureFixture[str]) -> None:
    own.subscribe("jobs", "/job")
    for number in range(4):
        own.publish(f"<job>{number}</job>")
    url = f"http://127.0.0.1:{own.port}"
    arguments = ["jobs", "--url", url, "--ack", "--format", "payload", "--count", "2"]
    assert subscribe(capsys, *arguments) == (0, "<job>0</job><job>1</job>", "")
    # The broker has sent nothing ahead to somebody who did not ask for more.
    assert subscribe(capsys, *arguments, "--from", "beginning")[1] == "<job>0</job><job>1</job>"
    assert subscribe(capsys, *arguments)[1] == "<job>2</job><job>3</job>"


def test_a_command_that_fails_gets_the_delivery_again(own: Service, tmp_path: Path) -> None:
    own.subscribe("jobs", "/job")
    number = own.publish("<job>1</job>")
    log = tmp_path / "log"
    command = f'echo "$TREECAST_DOCUMENT $TREECAST_SUBSCRIPTION $(cat)" >> {log}; [ $(wc -l < {log}) -gt 1 ]'
    with started(own, "jobs", "--ack", "--exec", command, "--count", "1") as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1  # one attempt failed
    assert log.read_text() == f"{number} jobs <job>1</job>\n" * 2
    assert said == f"treecast: document {number}, jobs: the command failed: exit status 1\n"


def test_files(service: Service, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = f"../{name}/x"
    service.subscribe(odd, f"/{name}")
    numbers = [service.publish(f"<{name}>{number}</{name}>") for number in range(2)]
    for _ in range(2):  # the second time, they are there already
        assert subscribe(capsys, odd, "--from", "beginning", "--count", "2", "-o", str(tmp_path / "out"))[0] == 0
    made = {path.relative_to(tmp_path / "out"): path.read_text() for path in (tmp_path / "out").rglob("*.xml")}
    directory = Path(f"%2E.%2F{name}%2Fx")
    assert made == {directory / f"{number:07d}.xml": f"<{name}>{at}</{name}>" for at, number in enumerate(numbers)}
    (tmp_path / "out" / directory / f"{numbers[0]:07d}.xml").write_text("something else")
    status, _, err = subscribe(capsys, odd, "--from", "beginning", "--count", "2", "-o", str(tmp_path / "out"))
    assert status == 1 and "another payload" in err


def test_the_subscription_is_removed_at_the_end(
    service: Service, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    service.publish(f"<{name} xmlns='urn:x'/>")
    query = ["-q", f"/p:{name}", "--namespace", "p=urn:x", "--from", "beginning", "--count", "1", "--delete-after"]
    assert subscribe(capsys, name, *query)[0] == 0
    assert service.problem("GET", f"/v1/subscriptions/{name}") == (404, "TC412")


def test_an_interrupt_removes_it_too(own: Service) -> None:
    with started(own, "mine", "-q", "/a", "--delete-after") as process:
        eventually(lambda: own.ask("GET", "/v1/status").json["sizes"]["streams"] == 1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert said.splitlines()[-1] == "treecast: interrupted" and process.returncode == 130
    assert own.problem("GET", "/v1/subscriptions/mine") == (404, "TC412")


def test_refusals(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = subscribe(capsys, name)
    assert (status, err) == (1, f"treecast: TC412 no subscription has the id '{name}'\n")
    status, _, err = subscribe(capsys, name, "-q", "/a[")
    assert status == 1 and err.startswith("treecast: TC101 ")
    status, _, err = subscribe(capsys, name, "--url", "http://127.0.0.1:1")
    assert status == 1 and err.startswith("treecast: TC407 ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a", "b", "-q", "/a"], "one ID"),
        (["a", "b", "--ack"], "one ID"),
        (["a", "--deliver", "elements"], "-q QUERY"),
        (["a", "--delete-after"], "-q QUERY"),
        (["a", "--exec", "cat", "--output", "x"], "--output and --exec"),
        (["a", "--from", "yesterday"], "how long ago"),
        (["a", "--count", "0"], "from 1"),
    ],
)
def test_wrong_usage(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["subscribe", *arguments])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and expected in said and len(said.splitlines()) == 1


@pytest.mark.parametrize("form", ["text", "json", "payload"])
def test_nothing_moves_the_cursor(service: Service, name: str, form: str) -> None:
    odd = f"{name}\x1b[2J"
    service.subscribe(odd, f"/{name}")
    service.publish(f"<{name}>\u202e\x9b5m</{name}>")
    ours, theirs = pty.openpty()
    command = ["-m", "treecast", "subscribe", odd, "--count", "1", "--format", form]
    with QuickProcess(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 1 << 16):
                shown += piece
        except OSError:  # the other end is closed
            pass
        process.wait(60)
    os.close(ours)
    text = shown.decode().replace("\x1b[2m", "").replace("\x1b[0m", "").replace("\r\n", "").replace("\n", "")
    assert text.isprintable() and "u202e" in text


def test_events_may_be_cut_anywhere() -> None:
    data = (
        b':\n\nid: 1.2.\n\nid: 1.2.a\nevent: delivery\ndata: {"a":\ndata: 1}\n\nid: 1.3.b\r\ndata:x\r\n\r\nid: 9\ndata'
    )
    expected = [Event("1.2.a", "delivery", b'{"a":\n1}'), Event("1.3.b", "message", b"x")]
    for cut in range(len(data)):
        decoder = EventDecoder(100)
        assert decoder.feed(data[:cut]) + decoder.feed(data[cut:]) == expected
        assert decoder.last_id == "1.3.b"  # the last one is not complete
    decoder = EventDecoder(100)
    with pytest.raises(ValueError, match="100 bytes"):
        decoder.feed(b"data: " + b"x" * 100)


def test_what_streams_have_sent_does_not_undo_a_replay(own: Service) -> None:
    """The broker is told a moment later what was sent; a replay that comes in between wins."""
    own.subscribe("again", "/again")
    number = own.publish("<again/>")
    for _ in range(3):
        with own.events("again") as events:
            assert [event["document"] for event in events.take(1)] == [number]
        assert own.ask("POST", "/v1/subscriptions/again:replay", {"from_document": number}).status == 200
        time.sleep(0.1)  # without care, that is when the broker is told
