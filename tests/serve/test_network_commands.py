"""`treecast registry`, `treecast broker --registry` and `treecast source`, as people type them."""

from __future__ import annotations

import asyncio
import json
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from support.quick_process import PIPE, QuickProcess
from support.replica_hosts import free_address

from treecast.cli.entry import main
from treecast.serve.client import Connection, RefusedError

pytestmark = pytest.mark.house

WAIT_SECONDS = 60


@contextmanager
def running(log: Path, *arguments: str) -> Iterator[str]:
    """A command of the network; yields where it listens."""
    with log.open("a") as errors:
        process = QuickProcess(["-m", "treecast", *arguments, "--listen", "127.0.0.1:0"], stdout=PIPE, stderr=errors)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), log.read_text()
        yield line.split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def source(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["source", *arguments]) == 0
    return capsys.readouterr().out


def test_a_network_by_its_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as stack:
        log = tmp_path / "log"
        registry = stack.enter_context(running(log, "registry", "--data", str(tmp_path / "registry")))
        addresses = {}
        for name, place in (("b1", "0,0"), ("b2", "5,0")):
            arguments = ("--data", str(tmp_path / name), "--registry", registry, "--location", place)
            addresses[name] = stack.enter_context(running(log, "broker", "--name", name, *arguments))
        added = add_when_all_are_there(capsys, registry, addresses["b2"])
        assert added == f"news: publish at b2, {addresses['b2']}\n"
        (row,) = map(json.loads, source(capsys, "list", "--registry", registry, "--format", "json").splitlines())
        assert row["source"] == "news" and row["root"] == "b2" and row["description"] == "of today"
        assert source(capsys, "list", "--registry", registry).split() == ["news", "b2", "of", "today"]
        asyncio.run(from_b2_to_b1(addresses))
        assert source(capsys, "remove", "news", "--registry", registry) == ""
        assert source(capsys, "list", "--registry", registry) == ""
        assert main(["source", "remove", "news", "--registry", registry]) == 1
        assert "TC410" in capsys.readouterr().err


def add_when_all_are_there(capsys: pytest.CaptureFixture[str], registry: str, wanted: str) -> str:
    """The registry gives a source the nearest broker that it knows at that time: so wait for both."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        rows = asyncio.run(brokers(registry))
        if len(rows) == 2:
            break
    return source(capsys, "add", "news", "--registry", registry, "--location", "4,0", "--description", "of today")


async def brokers(registry: str) -> list[dict[str, str | int]]:
    async with Connection(registry, "looking") as connection:
        return await connection.inspect("brokers")


async def from_b2_to_b1(addresses: dict[str, str]) -> None:
    async with (
        Connection(addresses["b1"], "reader") as reader,
        Connection(addresses["b2"], "publisher") as publisher,
        asyncio.timeout(WAIT_SECONDS),
    ):
        await reader.subscribe("all", "//item")
        with pytest.raises(RefusedError) as refused:
            await elsewhere(reader)
        assert refused.value.code == "TC471"
        await publisher.publish("news", [b"<news><item>1</item></news>"])
        async for delivery in reader.deliveries(["all"]):
            assert delivery.payload == b"<news><item>1</item></news>"
            await delivery.acknowledge()
            break


async def elsewhere(connection: Connection) -> None:
    """Until the broker has heard of the source, there is none."""
    while True:
        try:
            await connection.publish("news", [b"<news/>"])
        except RefusedError as error:
            if error.code != "TC410":
                raise
        await asyncio.sleep(0.02)


def test_status_of_a_registry(tmp_path: Path) -> None:
    status = free_address()
    arguments = ("--data", str(tmp_path / "registry"), "--status", status)
    with (
        running(tmp_path / "log", "registry", *arguments),
        urllib.request.urlopen(f"http://{status}/metrics", timeout=WAIT_SECONDS) as answer,
    ):
        assert b"treecast_peer_in_charge 1" in answer.read()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["broker", "--data", "d", "--registry", "127.0.0.1:1"], "--registry needs --name"),
        (["broker", "--data", "d", "--location", "1,2"], "need --registry"),
        (["broker", "--data", "d", "--location", "here"], "is no location"),
        (["broker", "--data", "d", "--name", "registry", "--registry", "h:1"], "is the name of a registry"),
        (["broker", "--data", "d", "--name", "b", "--registry", "h:1", "--registry", "h:2"], "two registries"),
        (["broker", "--data", "d", "--name", "b", "--registry", "nowhere"], "nowhere"),
        (["registry", "--data", "d", "--partner", "h:1"], "the partner has the same name"),
        (["registry", "--data", "d", "--fan-out-max", "0"], "--fan-out-max is at least 1"),
        (["registry", "--data", "d", "--tls-ca", "f"], "need --tls-cert"),
        (["source", "list"], "--registry"),
    ],
)
def test_options_that_do_not_fit(arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert problem in capsys.readouterr().err


def test_strangers_are_not_let_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["registry", "--data", str(tmp_path), "--listen", "0.0.0.0:0"]) == 1
    assert "TC608" in capsys.readouterr().err
