"""Golden errors: tests/errors holds, for each code, an input that is refused and the whole message.

TC104.query is refused with the text of TC104.txt; documents are read with the small limits below. After a deliberate
change of wording, TREECAST_GOLDEN=write makes the texts anew, to be read before they are committed.
"""

from __future__ import annotations

import asyncio
import copy as copying
import os
import pickle
import re
import shutil
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from random import Random
from unittest.mock import Mock, patch

import msgspec
import pytest
from support.hook_receiver import HookReceiver, Response
from support.network_refusals import (
    refuse_joining,
    refuse_move,
    refuse_network,
    refuse_older_disk,
    refuse_registration,
)
from support.ring_refusals import refuse_ring
from support.selective_refusals import refuse_selective, refuse_subtrees

import treecast
from treecast import _native, durable
from treecast.async_index import AsyncIndex
from treecast.cli.up_settings import resolve
from treecast.engines.operators import Plan, RunSettings, run_plan
from treecast.errors import MESSAGE_CHARS_MAX
from treecast.inputs.document_files import ReadSettings, Refusal, read_file
from treecast.inputs.listing import list_files
from treecast.inputs.schematron import parse_rules
from treecast.inputs.subscriptions import read_subscriptions
from treecast.model import DeliveryLimits
from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.broker.refused import RequestError
from treecast.overlay.broker.schemas import Schemas
from treecast.overlay.client import Client, ClientSettings
from treecast.overlay.frames import FrameDecoder
from treecast.overlay.messages import Command, Document, Hello, Publish, RegisterSource, Request
from treecast.overlay.peer import Send
from treecast.overlay.replica.member import MEMBERS
from treecast.overlay.replica.space import decode_changes
from treecast.overlay.storage import Append, Put
from treecast.placement import FilterSharing, Router
from treecast.serve import admission
from treecast.serve.access.access import Access
from treecast.serve.access.exposure import check_exposure
from treecast.serve.access.gate import Gate
from treecast.serve.access.scopes import Scopes
from treecast.serve.access.sites import check_site
from treecast.serve.access.tokens import TokenLimits, TokenStore
from treecast.serve.address import parse_address
from treecast.serve.blocking_client import BlockingConnection
from treecast.serve.broker_process import BrokerOptions, run_broker
from treecast.serve.doors.calls import Bodies, Call, decode_form
from treecast.serve.doors.routes import Router as HttpRouter
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.socket_session import Sockets
from treecast.serve.doors.transfers import check_import
from treecast.serve.doors.web_socket import handshake
from treecast.serve.firewall.dispatcher import RuleOutcome
from treecast.serve.firewall.firewall import load_rules
from treecast.serve.firewall.forwarding import Outcome
from treecast.serve.firewall.pages import _reply
from treecast.serve.firewall.rules import Rule
from treecast.serve.firewall.rules_file import RuleForm
from treecast.serve.firewall.settings import FirewallSettings
from treecast.serve.fleet.backbone import Backbone
from treecast.serve.fleet.pages import not_offered
from treecast.serve.fleet.settings import FleetSettings
from treecast.serve.hooks.hook_error import AttemptError
from treecast.serve.hooks.hooks import Hooks
from treecast.serve.hooks.rows import HookRow, StateRow
from treecast.serve.hooks.sender import Sender, check_url
from treecast.serve.hooks.sending import Sending
from treecast.serve.hooks.settings import HookSettings
from treecast.serve.hooks.signing import parse_secret
from treecast.serve.logs import make_log
from treecast.serve.metrics import Metrics
from treecast.serve.network_process import NetworkOptions, NetworkPeer
from treecast.serve.store import Store
from treecast.serve.store import directory as store_directory
from treecast.serve.tls import TlsFiles, server_context
from treecast.sim import SimulatedStorage
from treecast.spark.batch.place import divide
from treecast.spark.batch.row_limit import check_room
from treecast.spark.batch.sinks import check_payloads
from treecast.wire import Codec
from treecast.workload import Schema
from treecast.workload.dtd_source import decode

ERRORS = Path(__file__).parent / "errors"
NATIVE = Path(__file__).parent.parent / "native"


def refuse_query(data: bytes) -> None:
    """Parse a query; one that parses is no ordered pattern."""
    query = treecast.Query(data.decode().removesuffix("\n"))._native
    _native.testing.check_ordered(query)


def refuse_transformation(data: bytes) -> None:
    """Add a transformation; one that is accepted has no order of branches."""
    text = data.decode().removesuffix("\n")
    treecast.Index().add("one", text)
    treecast.Index().add("one", text, ordered=True)


def refuse_render(data: bytes) -> None:
    """Render transformations, one a line, with small limits: one of them is refused."""
    renderer = _native.testing.TextRenderer(payload_bytes_max=64, document_payload_bytes_max=100, bindings_max=20)
    for made in renderer.render(b'<a k="1"><b>text</b><b/><b/></a>', data.decode().splitlines()):
        if isinstance(made, Exception):
            raise made


def refuse_work(data: bytes) -> None:
    """Decide a query on elements in elements, with the smallest limit."""
    index = treecast.Index(limits=treecast.Limits(work_per_item_max=1))
    index.add("one", data.decode().removesuffix("\n"))
    index.match_part([b"<b>" * 500 + b"</b>" * 500], report=False)


def refuse_tuples(data: bytes) -> None:
    """Run one query on elements in elements, as an operator network."""
    plan = Plan()
    plan.add_local("one", data.decode().removesuffix("\n"))
    run_plan(plan, treecast.read(b"<b>" * 50 + b"</b>" * 50), RunSettings(tuples_max=1_000))


def refuse_document(data: bytes) -> None:
    """Read a document."""
    treecast.read(data, limits=SMALL)


def refuse_calls(data: bytes) -> None:
    """Call an index from an event loop more often than its calls may wait."""

    async def main() -> None:
        async with AsyncIndex(treecast.Index(), calls_max=1, **tomllib.loads(data.decode())) as calls:
            event = threading.Event()
            waiting = [asyncio.create_task(calls.call(event.wait, 60)) for _ in range(2)]
            await asyncio.sleep(0)
            try:
                await calls.match(b"<a/>")
            finally:
                event.set()
                await asyncio.gather(*waiting)

    asyncio.run(main())


def refuse_dtd(data: bytes) -> None:
    """Read a DTD whose documents begin with the element a."""
    text, _ = decode(data, "golden.dtd")
    Schema.from_text(text, root="a", name="golden.dtd")


def refuse_validity(data: bytes) -> None:
    """Check a document by a small DTD: its first line is the DTD."""
    dtd, _, document = data.partition(b"\n")
    schemas = Schemas(BrokerSettings(schema_transitions_max=50, validated_bytes_max=100))
    schemas.check(schemas.compile(dtd.decode()), document)


def refuse_placement(data: bytes) -> None:
    """Divide subscriptions by a placement of others: both are tables of the file."""
    given = tomllib.loads(data.decode())
    placement = FilterSharing(2)
    placement.add_many(given["placement"].items())
    divide(placement, list(given["subscriptions"]))


def refuse_router(data: bytes) -> None:
    """Read a router."""
    Router.from_bytes(data)


def refuse_deliveries(data: bytes) -> None:
    """Render with a limit, or write payloads of these columns as files."""
    given = tomllib.loads(data.decode())
    if "columns" in given:
        check_payloads(given["columns"], given["path"], tuple(given["key"]), ".xml")
    check_room(treecast.Index(delivery_limits=DeliveryLimits(**given)))


def refuse_subscriptions(data: bytes) -> None:
    """Read a file of subscriptions: its name is the first line, and without a second one there is none."""
    with written(data) as name:
        read_subscriptions(name)


def refuse_wire(data: bytes) -> None:
    """Decode a body: a format, and bytes in hexadecimal."""
    format, body = data.decode().split()
    Codec(format).decode(bytes.fromhex(body))


def refuse_file(data: bytes) -> None:
    """Read a document from a file, likewise."""
    with written(data) as name:
        for file in list_files([name]):
            for item in read_file(file, ReadSettings()):
                assert isinstance(item, Refusal)
                raise item.error


def refuse_frame(data: bytes) -> None:
    """Read frames that another peer sent."""
    FrameDecoder().feed(data)


def refuse_replica(data: bytes) -> None:
    """Read a group of changes that a primary sent to its backup."""
    decode_changes(data)


def refuse_host(data: bytes) -> None:
    """Open a store that holds replicas for a broker without."""
    with tempfile.TemporaryDirectory() as directory, chdir(directory):
        with Store.open("b1-data") as store:
            store.write([Put(MEMBERS, "b1", data)])
        NetworkPeer(NetworkOptions(directory="b1-data", listen=("", 0), name="b1", registries={"r": "r:1"})).open()


def refuse_request(data: bytes) -> None:
    """Publish with a client of these settings."""
    client = Client("golden", "broker", Random(1), ClientSettings(**tomllib.loads(data.decode())))
    client.publish("source", [b"<a/>"], now_ms=0)


def refuse_command(data: bytes) -> None:
    """Ask a small broker for these things, one a line: the last is refused."""
    settings = BrokerSettings(sources_max=1, documents_per_publish_max=1, store_bytes_max=20, record_bytes_max=20)
    broker = Broker("golden", SimulatedStorage(), Random(1), settings)
    for number, line in enumerate(data.splitlines(), 1):
        request = Request(number, msgspec.json.decode(line, type=Command))
        answers = [effect.message for effect in broker.receive("client", request, 0) if isinstance(effect, Send)]
        for refusal in answers[-1].refusals:
            raise RequestError(refusal.message.removeprefix(f"{refusal.code} "), code=refusal.code)


def refuse_connection(data: bytes) -> None:
    """Listen, connect, load a certificate, or be told a name."""
    given = tomllib.loads(data.decode())
    if "listen" in given:
        with tempfile.TemporaryDirectory() as directory:
            options = BrokerOptions(directory=directory, listen=parse_address(given["listen"]), open=True)
            run_broker(options, make_log(), print)
    if "connect" in given:
        BlockingConnection(given["connect"], "golden", connect_s=0.1).__enter__()
    if "certificate" in given:
        server_context(TlsFiles(certificate=given["certificate"]))
    broker = Broker("broker", SimulatedStorage(), Random(1))
    error = admission.refusal(Hello(given["client"]), "", broker, (), given.get("certified"))
    assert error is not None
    raise error


def refuse_store(data: bytes) -> None:
    """Write to a store, and read from it, where something goes wrong: an error of the disk, a byte, a directory."""
    given = tomllib.loads(data.decode())
    with tempfile.TemporaryDirectory() as directory, chdir(directory), ExitStack() as patches:
        for name, error in given.get("errors", {}).items():
            module, function = name.split(".")
            failing = OSError(error, os.strerror(error))
            patches.enter_context(patch.object({"os": os, "durable": durable}[module], function, side_effect=failing))
        for name in given.get("files", ()):
            Path("store").mkdir()
            Path("store", name).touch()
        with Store.open("store") as store:
            store.write([Append(1, b"<a/>")])
            if "flipped" in given:
                (file,) = Path("store", "bodies").iterdir()
                content = bytearray(file.read_bytes())
                content[given["flipped"]] ^= 1
                file.write_bytes(content)
            if given.get("twice"):
                Store.open("store")
            if "removed" in given:  # from what a process that is killed leaves
                store.write([Append(2, b"<b/>")])
                shutil.copytree("store", "killed/store")
                Path("killed/store", given["removed"]).unlink()
                Store.open("killed/store")
            store.body(given.get("body", 1))
            if "version" in given:
                with patch.object(store_directory, "VERSION", given["version"]):
                    Store.open("other").close()
                Store.open("other")


def refuse_http(data: bytes) -> None:
    """Route a request, and read its body: parts that arrive one after the other, and then nothing more."""
    given = tomllib.loads(data.decode())
    parts = [{"type": "http.request", "body": part.encode(), "more_body": True} for part in given.get("parts", ())]
    headers = [(name.encode(), value.encode()) for name, value in given.get("headers", {}).items()]

    async def receive() -> dict[str, object]:
        if not parts and given.get("is_endless"):
            await asyncio.sleep(60)
        return parts.pop(0) if parts else {"type": "http.request"}

    async def send(message: object) -> None:
        raise AssertionError(message)

    async def read() -> None:
        route, _ = HttpRouter().find(given["method"], given["path"])
        scope = {"headers": headers, "query_string": b""}
        call = Call(scope, receive, send, Bodies(DoorSettings(body_ms=10, **given.get("settings", {}))))
        data = await call.body(given.get("bytes_max", 100))
        decode_form(data, route.form)

    asyncio.run(read())


def refuse_socket(data: bytes) -> None:
    """Open a WebSocket, and say something."""
    given = tomllib.loads(data.decode())
    headers = {"Host": "localhost:8080", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    headers |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **given.get("headers", {})}
    handshake("/v1/socket", [(name.encode(), value.encode()) for name, value in headers.items()], DoorSettings())
    sockets = Sockets(Mock(), Mock(), DoorSettings())
    sockets.open(Access(), [], Mock()).receive(given["message"].encode())


def refuse_schematron(data: bytes) -> None:
    """Read rules."""
    parse_rules(data, name="rules.sch")


def refuse_import(data: bytes) -> None:
    """Import subscriptions; the first line of the file is its format."""
    format, _, content = data.partition(b"\n")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "subscriptions")
        path.write_bytes(content)
        check_import(path, format.decode())


def refuse_access(data: bytes) -> None:
    """Ask from another site, listen, read a file of tokens, make one, send one, or use one up."""
    given = tomllib.loads(data.decode())
    if "host" in given:
        headers = [(name.encode(), given[name].encode()) for name in ("host", "origin") if name in given]
        check_site(headers, is_change=True, is_open=True)
    if "listen" in given:
        check_exposure(parse_address(given["listen"]), None, has_tokens=False, has_peer_certificates=False)
    if "peer_listen" in given:
        check_exposure(
            ("127.0.0.1", 0), parse_address(given["peer_listen"]), has_tokens=True, has_peer_certificates=False
        )
    with tempfile.TemporaryDirectory() as directory:
        tokens = TokenStore(Path(directory))
        if "file" in given:
            tokens.path.write_text(given["file"])
            tokens.path.chmod(0o600)
        tokens.create(given.get("scopes", ["admin"]))
        if "authorization" in given:
            gate = Gate(Path(directory), make_log())
            gate.load()
            gate.admit(given["authorization"])
    access = Access(scopes=Scopes.parse(given["scopes"]), limits=TokenLimits(**given.get("limits", {})))
    with access.holding(lambda: None):
        access.check_page(given["page"])
        access.charge(10, 1_000)
        access.charge(1, 100)
        access.holding(lambda: None).__enter__()


def refuse_settings(data: bytes) -> None:
    """A file of settings, beside which nothing is given."""
    with tempfile.TemporaryDirectory() as directory, chdir(directory):
        Path("treecast.toml").write_bytes(data)
        resolve({"config": "treecast.toml"}, ["door.page_rows_max=many"], ["--lisen"], {"TREECAST_UP_NAM": "a"})


def refuse_fleet(data: bytes) -> None:
    """Join a fleet where no NATS server is, or ask it for a page that it does not have."""
    given = tomllib.loads(data.decode())
    if "page" in given:
        raise not_offered(given["page"])
    backbone = Backbone(given["servers"], given["fleet"], FleetSettings(connect_ms=200), make_log("json", "error"))
    asyncio.run(backbone.open())


def refuse_hook(data: bytes) -> None:
    """Ask for a hook, add one beside another, or send one to an endpoint that answers so."""
    given = tomllib.loads(data.decode())
    settings = HookSettings(allow=given.get("allow", []))
    hooks = Hooks(Sending(Mock(), Mock(), settings, Random(1), make_log(), Metrics()))

    async def run() -> None:
        sender = Sender(settings)
        await sender.open()
        try:
            if "answer" in given:
                with HookReceiver(lambda request: Response(given["answer"])) as receiver:
                    outcome = await sender.send("POST", check_url(receiver.url, 100), {})
                raise AttemptError(outcome.error.removeprefix("TC444 "))
            await sender.check_host(check_url(given["url"], 100))
        finally:
            await sender.close()

    if "secret" in given:
        parse_secret(given["secret"])
    if "id" in given:
        hooks.get(given["id"])
    if "subscriptions" in given:
        hooks._add("one", HookRow("", given["subscriptions"], [], "raw", False, 1, 0, 1, 0), StateRow())
        asyncio.run(hooks.put("two", hooks.get("one").row))
    asyncio.run(run())


def refuse_firewall(data: bytes) -> None:
    """Rules; a document for them, whose back end is busy or cannot answer; or one that nobody wants."""
    given = tomllib.loads(data.decode())
    with tempfile.TemporaryDirectory() as directory, chdir(directory):
        Path("rules.toml").write_text(given.get("rules", ""))
        load_rules("rules.toml", FirewallSettings())
    if "error" in given:
        _reply([RuleOutcome(Rule(RuleForm(name="r", query="/a", backends=["a"]), []), [Outcome(**given["error"])])], 0)
    broker = Broker("golden", SimulatedStorage(), Random(1), BrokerSettings(refuse_unwanted=True))
    broker.receive("client", Request(1, RegisterSource("news")), 0)
    effects = broker.receive("client", Request(2, Publish("news", [Document(given["document"].encode())])), 0)
    (refusal,) = next(one.message.refusals for one in effects if isinstance(one, Send) and one.to == "client")
    raise RequestError(refusal.message.removeprefix(f"{refusal.code} "), code=refusal.code)


@contextmanager
def written(data: bytes) -> Iterator[str]:
    """A file in a directory of its own, where we are meanwhile: messages name it as it is named here."""
    name, line_end, content = data.partition(b"\n")
    with tempfile.TemporaryDirectory() as directory, chdir(directory):
        if line_end and content:
            Path(name.decode()).write_bytes(content)
        yield name.decode()


SMALL = treecast.Limits(
    document_bytes_max=1024, depth_max=8, attributes_max=4, name_bytes_max=32, attribute_bytes_max=64, names_max=16
)
REFUSALS: dict[str, Callable[[bytes], None]] = {
    ".query": refuse_query,
    ".regex": refuse_query,
    ".xml": refuse_document,
    ".calls": refuse_calls,
    ".dtd": refuse_dtd,
    ".validity": refuse_validity,
    ".placement": refuse_placement,
    ".router": refuse_router,
    ".deliveries": refuse_deliveries,
    ".transformation": refuse_transformation,
    ".render": refuse_render,
    ".work": refuse_work,
    ".tuples": refuse_tuples,
    ".subscriptions": refuse_subscriptions,
    ".schematron": refuse_schematron,
    ".file": refuse_file,
    ".frame": refuse_frame,
    ".replica": refuse_replica,
    ".host": refuse_host,
    ".move": refuse_move,
    ".joining": refuse_joining,
    ".position": refuse_older_disk,
    ".request": refuse_request,
    ".connection": refuse_connection,
    ".command": refuse_command,
    ".network": refuse_network,
    ".registration": refuse_registration,
    ".store": refuse_store,
    ".http": refuse_http,
    ".socket": refuse_socket,
    ".import": refuse_import,
    ".access": refuse_access,
    ".firewall": refuse_firewall,
    ".settings": refuse_settings,
    ".fleet": refuse_fleet,
    ".hook": refuse_hook,
    ".wire": refuse_wire,
    ".selective": refuse_selective,
    ".subtrees": refuse_subtrees,
    ".ring": refuse_ring,
}
INPUTS = sorted(path for path in ERRORS.iterdir() if path.suffix in REFUSALS)


@pytest.mark.parametrize("source", INPUTS, ids=lambda path: path.stem)
def test_golden(source: Path) -> None:
    with pytest.raises(treecast.TreecastError) as caught:
        REFUSALS[source.suffix](source.read_bytes())
    error = caught.value
    golden = source.with_suffix(".txt")
    if os.environ.get("TREECAST_GOLDEN") == "write":
        golden.write_text(f"{error}\n")
    assert f"{error}\n" == golden.read_text()
    assert source.stem.startswith(error.code)
    assert isinstance(error, treecast.LimitError) == error.code.startswith("TC3")
    of_query = (
        source.suffix in (".query", ".regex", ".transformation", ".subscriptions", ".subtrees", ".schematron")
        or error.code == "TC119"
    )
    assert isinstance(error, treecast.QueryError) == of_query
    assert len(str(error)) <= MESSAGE_CHARS_MAX
    for copy in (pickle.loads(pickle.dumps(error)), copying.copy(error), copying.deepcopy(error)):
        assert (type(copy), str(copy), copy.__dict__) == (type(error), str(error), error.__dict__)


def test_every_code_of_dtds_has_its_golden() -> None:
    """Those of workloads beside them: TC284 and TC381 depend on settings, and have tests of their own."""
    room = Path(treecast.__file__).parent / "workload"
    raised = {code for source in room.glob("*.py") for code in re.findall(r'"(TC\d+)"', source.read_text())}
    goldens = {path.stem[:5] for path in INPUTS if path.suffix in (".dtd", ".validity")}
    assert raised - goldens == {"TC284", "TC381"}
    assert goldens - {"TC383"} <= raised  # a broker's limit


@pytest.mark.parametrize(
    ("stem", "suffix"),
    [
        ("query", ".query"),
        ("regex", ".regex"),
        ("reader", ".xml"),
        ("transformation", ".transformation"),
        ("render", ".render"),
        ("evaluate", ".work"),
    ],
)
def test_every_code_has_its_golden(stem: str, suffix: str) -> None:
    """The table at the top of the header, what the sources throw, and the files are the same codes."""
    (header,) = NATIVE.rglob(f"{stem}.hpp")
    comment = header.read_text().split("#pragma once")[0]
    table = re.findall(r"\b(TC\d+)  \S", comment)
    thrown = {code for source in NATIVE.rglob(f"{stem}*.?pp") for code in re.findall(r'"(TC\d+)"', source.read_text())}
    out_of_memory = {"TC333"} if stem == "render" else set()  # tests/test_render_order.py
    assert set(table) - out_of_memory == {path.stem[:5] for path in INPUTS if path.suffix == suffix}
    shared = {"TC107", "TC108", "TC113"}  # the parser of queries throws them, for transformations only
    if stem == "transformation":
        shared = {"TC101", "TC104", "TC105", "TC106", "TC323", "TC325"}
    assert thrown - shared <= set(table)
