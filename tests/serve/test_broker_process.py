"""`treecast broker` as a process: it starts, is killed, starts again, stops when told to, and says what is wrong."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from pathlib import Path

import pytest
import trustme
from support.served_broker import QUICK, BrokerProcess, take

from treecast.cli import main
from treecast.serve.access.tokens import TokenStore
from treecast.serve.blocking_client import BlockingConnection
from treecast.serve.client import Connection
from treecast.serve.transport_error import TransportError

pytestmark = pytest.mark.house


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    async def run() -> None:
        with BrokerProcess(tmp_path / "data") as broker:
            async with Connection(broker.address, "alice", settings=QUICK) as alice:
                await alice.register_source("s")
                await alice.subscribe("q", "/a")
                assert await alice.publish("s", [b"<a>1</a>", b"<a>2</a>"]) == [1, 2]
                broker.end(signal.SIGKILL)
                publishing = asyncio.create_task(alice.publish("s", [b"<a>3</a>"]))  # waits for the next one
                await asyncio.to_thread(broker.start, broker.address)
                assert await publishing == [3]
                assert await take(alice, ["q"], 3) == [b"<a>1</a>", b"<a>2</a>", b"<a>3</a>"]
            status, logs = broker.end(signal.SIGTERM)
            assert status == 0
            events = [json.loads(line)["event"] for line in logs.splitlines()]
            assert events[0] == "ready" and events[-1] == "stopped" and "the index is saved" in events
            assert "<a>" not in logs  # no content of documents

    asyncio.run(run())


def test_a_program_without_asyncio(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", "--log-level", "error") as broker:
        with BlockingConnection(broker.address, "alice") as alice:
            alice.register_source("s")
            alice.subscribe("q", "/a")
            assert alice.publish("s", [b"<a/>"]) == [1]
            deliveries = alice.deliveries(["q"])
            delivery = next(deliveries)
            assert (delivery.payload, delivery.document, delivery.attempt) == (b"<a/>", 1, 1)
            delivery.acknowledge()
            deliveries.close()
        assert broker.end(signal.SIGINT) == (0, "")
        with pytest.raises(TransportError, match="TC407 no connection to"):
            BlockingConnection(broker.address, "alice", connect_s=0.1).__enter__()


def test_mistakes_are_said_in_plain_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["broker", "--data", str(tmp_path / "d"), "--listen", f"127.0.0.1:{port}"]) == 1
        assert f"TC408 cannot listen on 127.0.0.1:{port}: Address already in use" in capsys.readouterr().err
        status = ["--listen", "127.0.0.1:0", "--status", f"127.0.0.1:{port}"]
        assert main(["broker", "--data", str(tmp_path / "d"), *status]) == 1
        assert "TC408" in capsys.readouterr().err
    (tmp_path / "file").write_text("not a directory")
    assert main(["broker", "--data", str(tmp_path / "file"), "--listen", "127.0.0.1:0"]) == 1
    assert "TC423" in capsys.readouterr().err
    assert main(["broker", "--data", str(tmp_path / "d"), "--listen", "127.0.0.1:0", "--tls-cert", "none.pem"]) == 1
    assert "TC409" in capsys.readouterr().err
    for wrong in (["--listen", "nowhere"], ["--tls-key", "k.pem"], ["--connections-max", "0"], ["--status", "::1:80"]):
        with pytest.raises(SystemExit) as caught:
            main(["broker", "--data", str(tmp_path / "d"), *wrong])
        assert caught.value.code == 2


def test_a_broker_that_strangers_can_reach_wants_certificates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same rule as for the peers of `treecast up`."""
    place = ["broker", "--data", str(tmp_path / "data")]
    assert main([*place, "--listen", "0.0.0.0:0"]) == 1
    assert "TC608 without certificates, everybody who can reach 0.0.0.0:0" in capsys.readouterr().err
    authority = trustme.CA()
    pem = tmp_path / "broker.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(pem))
    assert main([*place, "--listen", "0.0.0.0:0", "--tls-cert", str(pem)]) == 1, "encrypted, but anybody may come"
    assert "hint: give --tls-cert, --tls-key and --tls-ca, or listen on 127.0.0.1" in capsys.readouterr().err
    TokenStore(tmp_path / "data").create(["admin"])
    assert main([*place, "--listen", "127.0.0.1:0"]) == 1, "tokens are worth nothing beside clients that are not known"
    assert "hint: give --tls-cert, --tls-key and --tls-ca, or allow it with --open" in capsys.readouterr().err
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for allowed in (["--open"], ["--tls-cert", str(pem), "--tls-ca", str(tmp_path / "ca.pem")]):
        with BrokerProcess(tmp_path / "data", *allowed, "--log-level", "error") as broker:
            assert broker.address.startswith("127.0.0.1:")
