"""`treecast publish`: documents reach the service once, whatever happens on the way."""

from __future__ import annotations

import argparse
import io
import json
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.served_http import Service, eventually

from treecast.cli import main
from treecast.cli.publish import _Publishing, document_id
from treecast.serve.batch_publisher import BatchPublisher, Finished, PublishSettings
from treecast.serve.http_client import AnswerError, HttpClient, HttpClientSettings, NoAnswerError, ServiceUrl

pytestmark = pytest.mark.house

NUMBERS = count()
QUICK = HttpClientSettings(retry_ms=1, retry_ms_max=20, give_up_ms=20_000)


@pytest.fixture
def source(service: Service, monkeypatch: pytest.MonkeyPatch) -> str:
    """One of its own, so that no other test has published the same."""
    monkeypatch.setenv("TREECAST_URL", f"http://127.0.0.1:{service.port}")
    return f"publish{next(NUMBERS)}"


def publish(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """The exit status, and the lines on stderr."""
    status = main(["publish", *arguments])
    said = capsys.readouterr()
    assert said.out == ""
    return status, said.err.splitlines()


def test_files_directories_and_archives(
    service: Service, source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    for number in range(3):
        (tmp_path / "docs" / f"{number}.xml").write_text(f"<a>{number} {source}</a>")
    (tmp_path / "latin.xml").write_bytes(b'<?xml version="1.0" encoding="iso-8859-1"?><a>\xe9</a>')
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("x.xml", "<a>x</a>")
        archive.writestr("broken.xml", "<a>")
    places = [str(tmp_path / name) for name in ("docs", "latin.xml", "more.zip")]
    status, lines = publish(capsys, "--source", source, "--register", *places)
    assert status == 1
    assert lines[0].startswith(f"treecast: {tmp_path}/more.zip!/broken.xml: TC209 ")
    assert lines[-1].startswith("5 accepted, 0 copies, 1 refused in ")
    kept = [one for one in service.ask("GET", "/v1/documents?count=5").json["documents"] if one["source"] == source]
    assert [one["bytes"] for one in kept] == [8, 51, 17, 17, 17]  # newest first; byte for byte
    latin = service.ask("GET", f"/v1/documents/{kept[1]['document']}")
    assert latin.body == (tmp_path / "latin.xml").read_bytes()
    assert publish(capsys, "--source", source, *places)[1][-1].startswith("0 accepted, 5 copies, 1 refused in ")


def test_records_of_standard_input(
    source: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"<all>" + b"".join(b"<item>%d</item>" % number for number in range(1_200)) + b"</all>"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    status, lines = publish(capsys, "--source", source, "--register", "--record", "item", "--compress", "gzip", "-")
    assert (status, lines[-1].partition(" in ")[0]) == (0, "1,200 accepted, 0 copies, 0 refused")


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_compressed_bodies_and_large_documents(service: Service, source: str, compression: str) -> None:
    """A document that is larger than a batch goes by itself."""
    bodies = [b"<a>%d%s</a>" % (number, b" " * size) for number, size in enumerate((10, 5_000, 90_000, 20))]
    done = publish_all(service, source, bodies, PublishSettings(batch_bytes_max=6_000, compression=compression))
    assert [(one.code, one.is_copy) for one in done] == [("", False)] * 4
    numbers = [one.document for one in done]
    assert numbers == sorted(numbers)
    got = [service.ask("GET", f"/v1/documents/{number}").body for number in numbers]
    assert got == bodies
    assert all(one.is_copy for one in publish_all(service, source, bodies, PublishSettings()))


def publish_all(
    service: Service, source: str, bodies: list[bytes], settings: PublishSettings, port: int = 0
) -> list[Finished]:
    service.ask("PUT", f"/v1/sources/{source}")
    done: list[Finished] = []
    url = f"http://127.0.0.1:{port or service.port}"
    with BatchPublisher(lambda: HttpClient(url, settings=QUICK), source, done.append, settings) as publisher:
        for number, body in enumerate(bodies):
            publisher.add(str(number), body, f"{number}")
    return done


def test_a_service_that_takes_less_at_a_time(tmp_path: Path) -> None:
    with Service(tmp_path / "data", documents_per_batch_max=3, document_bytes_max=1_000) as small:
        bodies = [b"<a>%d</a>" % number for number in range(10)] + [b"<a>" + b" " * 2_000 + b"</a>"]
        done = publish_all(small, "default", bodies, PublishSettings())
        assert [one.document for one in done] == [*range(1, 11), 0]
        assert done[-1].code == "TC432"
        done = publish_all(small, "default", [bodies[-1]], PublishSettings(batch_bytes_max=100))
        assert done[0].code == "TC432"


def test_what_comes_slowly_is_not_kept_waiting(service: Service, source: str) -> None:
    service.ask("PUT", f"/v1/sources/{source}")
    done: list[Finished] = []
    url = f"http://127.0.0.1:{service.port}"
    settings = PublishSettings(gather_ms=1)
    with BatchPublisher(lambda: HttpClient(url, settings=QUICK), source, done.append, settings) as publisher:
        publisher.add("first", b"<a/>", "first")
        eventually(lambda: len(done) == 1)


class Unreliable:
    """A proxy that answers some requests itself, or not at all, in the order of `moods`."""

    def __init__(self, port: int, moods: list[str]) -> None:
        moods_left = iter(moods)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                mood = next(moods_left, "good")
                if mood == "busy":
                    return self.reply(503, b'{"code":"TC436","detail":"too much waits","hint":""}')
                with HttpClient(f"http://127.0.0.1:{port}") as client:
                    answer = client.ask("POST", self.path, body, **{"Content-Type": self.headers["Content-Type"]})
                if mood == "unreached":  # as a ring says it
                    content = answer.json
                    content["documents"][0] |= {"filtering": "partial", "unreachable": ["/{}a", "10.0.0.1:7501"]}
                    self.reply(200, json.dumps(content).encode())
                elif mood == "partly":  # some are stored, the last one is to come again
                    content = answer.json
                    problem = {"code": "TC415", "detail": "the store is full", "hint": ""}
                    content["documents"][-1] = {"status": 507, "problem": problem}
                    self.reply(200, json.dumps(content).encode())
                elif mood == "lost":  # after the documents were published
                    self.close_connection = True
                    self.connection.close()
                else:
                    self.reply(answer.status, answer.body)

            def reply(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Unreliable:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


def test_documents_are_sent_again_with_the_same_ids(service: Service, source: str) -> None:
    with Unreliable(service.port, ["busy", "lost", "busy", "good", "lost"]) as proxy:
        bodies = [b"<a>%d</a>" % number for number in range(30)]
        done = publish_all(service, source, bodies, PublishSettings(batch_documents_max=10), proxy.port)
    assert [one.name for one in done] == [str(number) for number in range(30)]
    assert [one.is_copy for one in done] == [True] * 20 + [False] * 10
    kept = service.ask("GET", "/v1/documents?count=100").json["documents"]
    assert sum(one["source"] == source for one in kept) == 30


def test_what_is_refused_for_now_comes_again_with_all_of_its_batch(service: Service, source: str) -> None:
    with Unreliable(service.port, ["partly", "partly"]) as proxy:
        done = publish_all(service, source, [b"<a/>", b"<b/>", b"<c/>"], PublishSettings(), proxy.port)
    assert [(one.code, one.is_copy) for one in done] == [("", True)] * 3


def test_documents_without_ids_are_not_sent_twice(service: Service, source: str) -> None:
    service.ask("PUT", f"/v1/sources/{source}")
    with Unreliable(service.port, ["busy", "lost"]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        publisher = BatchPublisher(lambda: HttpClient(url, settings=QUICK), source, lambda _: None)
        with pytest.raises(NoAnswerError, match="TC407"), publisher:
            publisher.add("a", b"<a/>")
    kept = service.ask("GET", "/v1/documents?count=100").json["documents"]
    assert sum(one["source"] == source for one in kept) == 1


def test_it_gives_up(service: Service, source: str) -> None:
    with Unreliable(service.port, ["busy"] * 1_000) as proxy:
        settings = HttpClientSettings(retry_ms=1, give_up_ms=30)
        said: list[str] = []
        client = HttpClient(f"http://127.0.0.1:{proxy.port}", settings=settings, note=said.append)
        with pytest.raises(AnswerError, match="TC436"), client:
            client.ask_again("POST", "/v1/documents:batch", b"")
        assert said == ["TC436 too much waits; trying again"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--url", "http://127.0.0.1:1"], "TC407 no connection to http://127.0.0.1:1: Connection refused"),
        (["--source", "nobody"], "TC410 no source is called 'nobody'"),
    ],
)
def test_mistakes_that_concern_everything(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (tmp_path / "a.xml").write_text("<a/>")
    status, lines = publish(capsys, "--quiet", *arguments, str(tmp_path / "a.xml"))
    assert status == 1
    assert lines[0] == f"treecast: {message}"
    assert lines[1].startswith("  hint: ") and len(lines) == 2


def test_a_server_that_is_no_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Unreliable(1, []) as proxy:  # it knows no GET
        status, lines = publish(capsys, "--url", f"http://127.0.0.1:{proxy.port}", str(tmp_path))
    assert status == 1 and "TC401" in lines[0]


def test_a_token_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    main(["token", "create", "--data", str(data), "--scope", "publish:default"])
    token = capsys.readouterr().out.strip()
    (tmp_path / "a.xml").write_text("<a/>")
    with Service(data) as guarded:
        monkeypatch.setenv("TREECAST_URL", f"http://127.0.0.1:{guarded.port}")
        assert "TC602" in publish(capsys, "--quiet", str(tmp_path / "a.xml"))[1][0]
        monkeypatch.setenv("TREECAST_TOKEN", token)
        assert publish(capsys, "--quiet", str(tmp_path / "a.xml")) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--url", "ftp://x", "a"], "http://127.0.0.1:8080"),
        (["--url", "http://u:p@x", "a"], "more than an address"),
        (["--id-from", "name", "-"], "no name"),
        (["-", "-"], "once"),
        (["--token", "a b", "a"], "no token"),
        (["--entities", "html", "a"], "--record"),
        (["--connections", "99", "a"], "16"),
    ],
)
def test_wrong_usage(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["publish", *arguments])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and expected in said and len(said.splitlines()) == 1


def test_ids() -> None:
    assert document_id("content", "a", b"x") == document_id("content", "b", b"x") != document_id("content", "a", b"y")
    odd = ["a\nb", "x" * 2_000, "sha256-0", "caf\udce9"]
    ids = [document_id("name", name, b"") for name in odd]
    assert len(set(ids)) == len(odd) and all(id.isprintable() and len(id) <= 1_000 for id in ids)


def test_addresses() -> None:
    assert str(ServiceUrl.parse("http://[::1]:80/")) == "http://[::1]:80"
    for wrong in ("127.0.0.1:8080", "http://", "http://a:b", "http://a?b=c", ""):
        with pytest.raises(ValueError, match="write http://"):
            ServiceUrl.parse(wrong)


@pytest.fixture
def pipe_reader() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "treecast", *arguments]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, text=True, **pipes))  # type: ignore[call-overload]
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_an_interrupt_says_what_was_done(
    service: Service, source: str, tmp_path: Path, pipe_reader: Callable[..., subprocess.Popen[str]]
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"<{name}/>")
    places = [str(tmp_path / "a"), str(tmp_path / "b"), "-"]  # nothing comes of the last one
    process = pipe_reader("publish", "--source", source, "--register", *places)

    def is_published() -> bool:
        kept = service.ask("GET", "/v1/documents?count=100").json["documents"]
        return [one["source"] for one in kept].count(source) == 2

    eventually(is_published)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    lines = said.splitlines()
    assert lines[0].startswith("2 accepted, 0 copies, 0 refused in ")
    assert lines[1:] == ["treecast: interrupted"]
    assert process.returncode == 130


def test_a_partial_document_is_named(service: Service, source: str) -> None:
    """What a ring could not reach is said, and counted; it is no failure."""
    said: list[str] = []
    console: Any = SimpleNamespace(say=said.append, update=lambda *_: None)
    publishing = _Publishing(console, argparse.Namespace(documents=[], id_from="none"))
    with Unreliable(service.port, ["unreached"]) as between:
        url = f"http://127.0.0.1:{between.port}"
        with BatchPublisher(lambda: HttpClient(url, settings=QUICK), "default", publishing.finished) as publisher:
            publisher.add("a.xml", b"<a/>", source)
    assert said == ["treecast: a.xml: partial, the ring goes on trying to reach /{}a, 10.0.0.1:7501"]
    assert publishing.summary(publisher.counts).startswith("1 accepted, 0 copies, 0 refused, 1 partial in ")
