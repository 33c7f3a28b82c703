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
import trustme
from support.quick_process import PIPE, QuickProcess
from support.replica_hosts import free_address

from treecast.cli import source as source_command
from treecast.cli.entry import main
from treecast.overlay.messages import PlaceSubscription
from treecast.serve.client import Connection, RefusedError

pytestmark = pytest.mark.house

WAIT_SECONDS = 60


@contextmanager
def running(log: Path, *arguments: str, listen: str = "127.0.0.1:0") -> Iterator[str]:
    """A command of the network; yields where it listens."""
    with log.open("a") as errors:
        process = QuickProcess(["-m", "treecast", *arguments, "--listen", listen], stdout=PIPE, stderr=errors)
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
        for name, place, bandwidth in (("b1", "0,0", "1G"), ("b2", "5,0", "1M")):
            here = ("--location", place, "--bandwidth", bandwidth)
            arguments = ("--data", str(tmp_path / name), "--registry", registry, *here)
            addresses[name] = stack.enter_context(running(log, "broker", "--name", name, *arguments))
        added = add_when_all_are_there(capsys, registry, addresses["b2"])
        assert added == f"news: publish at b2, {addresses['b2']}\n"
        (row,) = map(json.loads, source(capsys, "list", "--registry", registry, "--format", "json").splitlines())
        assert row["source"] == "news" and row["root"] == "b2" and row["description"] == "of today"
        assert source(capsys, "list", "--registry", registry).split() == ["news", "b2", "of", "today"]
        many = ("--messages-per-second", "1000", "--message-bytes", "5000")
        added = source(capsys, "add", "large", "--registry", registry, "--location", "4,0", *many)
        assert added.startswith("large: publish at b1, "), "the nearer one cannot send so much"
        assert source(capsys, "remove", "large", "--registry", registry) == ""
        assert asyncio.run(hosts(registry)) == [("b1", addresses["b1"]), ("b2", addresses["b2"])]
        asyncio.run(from_b2_to_b1(addresses))
        assert source(capsys, "remove", "news", "--registry", registry) == ""
        asyncio.run(until_refused(addresses["b2"]))
        assert main(["source", "list", "--registry", registry]) == 0
        assert "no sources" in capsys.readouterr().err
        assert main(["source", "remove", "news", "--registry", registry]) == 1
        assert "TC410" in capsys.readouterr().err
        opened = [line for line in log.read_text().splitlines() if '"connection opened"' in line]
        assert opened and all(json.loads(line)["address"].startswith("127.0.0.1:") for line in opened)
    stopped = [line for line in map(json.loads, log.read_text().splitlines()) if "stops" in line.get("reason", "")]
    assert stopped and {line["level"] for line in stopped} == {"info"}, "nothing is wrong"


def test_what_is_wrong_with_a_source_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "wrong.dtd").write_text("<!ELEMENT a (b")
    log, wrong, missing = tmp_path / "log", str(tmp_path / "wrong.dtd"), str(tmp_path / "missing.dtd")

    def refused(*arguments: str) -> str:
        assert main(["source", *arguments]) == 1
        return capsys.readouterr().err

    with ExitStack() as stack:
        registry = stack.enter_context(running(log, "registry", "--data", str(tmp_path / "registry")))
        member = ("--data", str(tmp_path / "b1"), "--name", "b1", "--registry", registry)
        broker = stack.enter_context(running(log, "broker", *member))
        alone = stack.enter_context(running(log, "broker", "--data", str(tmp_path / "alone")))
        while not asyncio.run(brokers(registry)):
            time.sleep(0.05)
        assert "TC280" in refused("add", "news", "--registry", registry, "--schema", wrong)
        assert "TC283" in refused("add", "news", "--registry", registry, "--schema", missing)
        assert source(capsys, "list", "--registry", registry) == ""
        assert "TC480 a broker does not keep" in refused("add", "news", "--registry", broker)
        assert "TC480 no registry listens there" in refused("add", "news", "--registry", alone)
        assert "TC480 no registry listens there" in refused("list", "--registry", alone)


def test_the_name_of_a_source_s_owner_is_that_of_the_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority, ca = trustme.CA(), str(tmp_path / "ca.pem")
    authority.cert_pem.write_to_path(ca)
    files = {}
    for name in ("registry", "me"):
        files[name] = str(tmp_path / f"{name}.pem")
        issued = authority.issue_cert("127.0.0.1", common_name=name)
        issued.private_key_and_cert_chain_pem.write_to_path(files[name])
    own = ("--data", str(tmp_path / "registry"), "--tls-cert", files["registry"], "--tls-ca", ca)
    with running(tmp_path / "log", "registry", *own) as registry:
        mine = ("--registry", registry, "--tls-cert", files["me"], "--tls-ca", ca)
        assert source(capsys, "list", *mine) == ""
        assert main(["source", "list", *mine, "--name", "you"]) == 1
    said = capsys.readouterr().err
    assert "TC601" in said and said.splitlines()[-1].strip() == "hint: its certificate is for me, 127.0.0.1"


def test_a_registry_that_is_not_in_charge_names_the_other_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_command, "CONNECT_SECONDS", 1.0)
    address = {"r1": free_address(), "r2": free_address()}
    with ExitStack() as stack:
        for name, other in (("r1", "r2"), ("r2", "r1")):
            own = ("--name", name, "--data", str(tmp_path / name), "--partner", f"{other}={address[other]}")
            stack.enter_context(running(tmp_path / "log", "registry", *own, listen=address[name]))
        end = time.monotonic() + WAIT_SECONDS
        while main(["source", "list", "--registry", address["r1"]]) and time.monotonic() < end:
            pass
        capsys.readouterr()
        assert main(["source", "list", "--registry", address["r2"]]) == 1
        refused, hint = capsys.readouterr().err.splitlines()[-2:]
        assert refused.endswith(f"TC407 no connection to {address['r2']}: this registry is not in charge")
        assert hint == "  hint: ask 'r1', the other one"
        both = [f"--registry={name}={place}" for name, place in sorted(address.items(), reverse=True)]
        assert source(capsys, "list", *both) == ""


def test_a_registry_that_is_not_there_is_logged(tmp_path: Path) -> None:
    log, nobody = tmp_path / "log", free_address()
    with running(log, "broker", "--data", str(tmp_path / "b1"), "--name", "b1", "--registry", nobody):
        end = time.monotonic() + WAIT_SECONDS
        while '"a peer cannot be reached"' not in log.read_text() and time.monotonic() < end:
            time.sleep(0.1)
    (line,) = [line for line in map(json.loads, log.read_text().splitlines()) if line["level"] == "warning"]
    assert (line["name"], line["address"], line["reason"]) == ("registry", nobody, "Connection refused")


def test_a_registry_with_tls_and_a_broker_without(tmp_path: Path) -> None:
    authority, ca, own = trustme.CA(), str(tmp_path / "ca.pem"), str(tmp_path / "registry.pem")
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert("127.0.0.1", common_name="registry").private_key_and_cert_chain_pem.write_to_path(own)
    log, tls = tmp_path / "log", ("--tls-cert", own, "--tls-ca", ca)
    with (
        running(tmp_path / "other", "registry", "--data", str(tmp_path / "registry"), *tls) as registry,
        running(log, "broker", "--data", str(tmp_path / "b1"), "--name", "b1", "--registry", registry),
    ):
        end = time.monotonic() + WAIT_SECONDS
        while "both sides use TLS or neither does" not in log.read_text():
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)


def test_two_brokers_of_one_name_are_told(tmp_path: Path) -> None:
    log, other = tmp_path / "log", tmp_path / "other"
    with ExitStack() as stack:
        registry = stack.enter_context(running(other, "registry", "--data", str(tmp_path / "registry")))
        for number, its_log in enumerate((log, other)):
            own = ("--name", "b1", "--data", str(tmp_path / f"b{number}"), "--registry", registry)
            stack.enter_context(running(its_log, "broker", *own))
        end = time.monotonic() + WAIT_SECONDS
        while "give each a name of its own" not in log.read_text():
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)


def test_of_two_registries_the_one_that_is_there_is_asked_soon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_command, "CONNECT_SECONDS", 30.0)
    with running(tmp_path / "log", "registry", "--data", str(tmp_path / "registry")) as registry:
        begun = time.monotonic()
        assert source(capsys, "list", f"--registry=r1={free_address()}", f"--registry=r2={registry}") == ""
        assert time.monotonic() - begun < 20


def test_waiting_for_a_registry_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_command, "CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(source_command, "NOTE_SECONDS", 0.1)
    nobody = free_address()
    assert main(["source", "list", "--registry", nobody]) == 1
    first, *_, hint = capsys.readouterr().err.splitlines()
    assert first == f"treecast: {nobody} does not answer yet; trying for 0.5 s"
    assert hint == "  hint: check that a broker or registry runs there, and that both sides use TLS or neither does"


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


async def hosts(registry: str) -> list[tuple[str, str]]:
    """ONYX, Figure 3, messages 5 and 7: a user near each broker asks the registry where to go."""
    chosen = []
    async with Connection(registry, "user") as connection:
        for id, location in (("near-b1", (1.0, 0.0)), ("near-b2", (6.0, 0.0))):
            (place,) = (await connection.request(PlaceSubscription(id, "//item", location=location))).places
            chosen.append((place.broker, place.address))
            found = await connection.where("subscription", id)
            assert (found.broker, found.address) == chosen[-1]
    return chosen


async def from_b2_to_b1(addresses: dict[str, str]) -> None:
    async with (
        Connection(addresses["b1"], "reader") as reader,
        Connection(addresses["b2"], "publisher") as publisher,
        asyncio.timeout(WAIT_SECONDS),
    ):
        await reader.subscribe("all", "//item")
        with pytest.raises(RefusedError, match="treecast source") as refused:
            await reader.register_source("mine")
        assert refused.value.code == "TC480"
        with pytest.raises(RefusedError) as refused:
            await elsewhere(reader)
        assert refused.value.code == "TC471"
        await publisher.publish("news", [b"<news><item>1</item></news>"])
        async for delivery in reader.deliveries(["all"]):
            assert delivery.payload == b"<news><item>1</item></news>"
            await delivery.acknowledge()
            break


async def until_refused(root: str) -> None:
    """Of a source that was removed, documents are not taken any more, as soon as its root hears of it."""
    async with Connection(root, "publisher") as publisher, asyncio.timeout(WAIT_SECONDS):
        with pytest.raises(RefusedError, match="TC410"):
            while True:
                await publisher.publish("news", [b"<news/>"])
                await asyncio.sleep(0.02)


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
        (["broker", "--data", "d", "--name", "", "--registry", "h:1"], "'' is no name"),
        (["broker", "--data", "d", "--name", "host:b1", "--registry", "h:1"], "host: is for hosts"),
        (["registry", "--data", "d", "--name", "r\n1"], "is no name"),
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
