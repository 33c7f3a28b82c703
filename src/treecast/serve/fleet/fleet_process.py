"""A worker of a fleet in its own process: the connection to NATS, the matcher, HTTP, and signals."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import structlog

from treecast.serve.access.exposure import check_exposure
from treecast.serve.access.gate import Gate
from treecast.serve.access.settings import AccessSettings
from treecast.serve.broker_process import warm_up
from treecast.serve.certificate import Certificate
from treecast.serve.doors.http_server import HttpServer
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.fleet.backbone import Backbone
from treecast.serve.fleet.catalog import Catalog
from treecast.serve.fleet.door import FleetDoor
from treecast.serve.fleet.feed import FleetFeed
from treecast.serve.fleet.matching import Matcher
from treecast.serve.fleet.pages import FleetDocumentPages, FleetSubscriptionPages
from treecast.serve.fleet.parts import Parts
from treecast.serve.fleet.pulls import FleetPulls
from treecast.serve.fleet.settings import FleetSettings
from treecast.serve.metrics import Metrics
from treecast.serve.notify import notify
from treecast.serve.service_process import Announce, handle_signals, watch
from treecast.serve.tls import TlsFiles


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is started with."""

    servers: tuple[str, ...]
    """Addresses of NATS."""
    fleet: str
    listen: tuple[str, int]
    """For HTTP."""
    directory: str = ""
    """Where the file of tokens is, if there is one: the same for all workers."""
    version: str = ""
    settings: FleetSettings = FleetSettings()
    door: DoorSettings = DoorSettings()
    access: AccessSettings = AccessSettings()
    tls: TlsFiles | None = None
    open: bool = False
    """Strangers are let in without tokens."""


class Worker:
    """All that a worker is made of."""

    def __init__(
        self, options: WorkerOptions, log: structlog.typing.FilteringBoundLogger, gate: Gate | None = None
    ) -> None:
        self.backbone = Backbone(options.servers, options.fleet, options.settings, log)
        self._parts = Parts(self.backbone)
        self.catalog = Catalog(self.backbone, log)
        self.matcher = Matcher(self.backbone, self.catalog, self._parts, log)
        self.feed = FleetFeed(self.backbone, self.catalog, self._parts, options.door)
        self._pulls = FleetPulls(self.backbone, self.catalog, self._parts, options.door)
        self._is_open = False
        documents = FleetDocumentPages(self.backbone, self.catalog, self._parts, options.door)
        subscriptions = FleetSubscriptionPages(self.catalog, self.feed, self._pulls, options.door)
        metrics = Metrics(self.stats)
        gate = gate or Gate(None, log)
        pages = (documents, subscriptions)
        self.door = FleetDoor(pages, self.is_ready, self.feed, metrics, log, options.version, options.door, gate)

    def is_ready(self) -> bool:
        return self._is_open and self.backbone.is_connected()

    def stats(self) -> dict[str, int]:
        matcher = self.matcher
        return {
            "documents_matched": matcher.documents,
            "documents_returned": matcher.returned,
            "deliveries_stored": matcher.deliveries,
            "deliveries_copies": matcher.copies,
            "refused": matcher.refused,
            "subscriptions": len(self.catalog.subscriptions),
            "version": self.catalog.version,
        }

    async def open(self) -> None:
        """Raises BackboneError."""
        await self.backbone.open()
        await self.catalog.open()
        await self._pulls.open()
        await self.matcher.open()
        self._is_open = True

    async def close(self) -> None:
        """What was taken and not acknowledged is taken by others."""
        self._is_open = False
        await self.matcher.close()
        await self.catalog.close()
        await self.backbone.close()


def run_worker(options: WorkerOptions, log: structlog.typing.FilteringBoundLogger, announce: Announce) -> None:
    """`serve`, in its own event loop."""
    asyncio.run(serve(options, log, announce))


async def serve(options: WorkerOptions, log: structlog.typing.FilteringBoundLogger, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the address when clients may come. Raises TreecastError."""
    gate = Gate(Path(options.directory) if options.directory else None, log, options.access, is_public=options.open)
    gate.load()
    if not options.open:
        check_exposure(options.listen, None, has_tokens=not gate.is_open, has_peer_certificates=False)
    certificate = Certificate(options.tls, log) if options.tls is not None else None
    worker = Worker(options, log, gate)
    server = HttpServer(worker.door, options.door, log, None, certificate)
    address = server.listen(*options.listen)
    stop = handle_signals(gate, certificate)
    await asyncio.get_running_loop().run_in_executor(None, warm_up)
    opening = asyncio.create_task(worker.open())
    stopping = asyncio.create_task(stop.wait())
    looking = asyncio.create_task(gate.run())
    watching = asyncio.create_task(watch(certificate, options.access.look_ms))
    await asyncio.wait([opening, stopping], return_when=asyncio.FIRST_COMPLETED)
    try:
        if not opening.done():
            opening.cancel()
            return
        opening.result()
        serving = asyncio.create_task(server.run())
        log.info("ready", address=f"{address[0]}:{address[1]}", fleet=options.fleet)
        announce(address, None)
        notify("READY=1")
        await asyncio.wait([stopping, serving], return_when=asyncio.FIRST_COMPLETED)
        notify("STOPPING=1")
        worker.door.is_stopping = True
        worker.feed.close_all()
        server.stop()
        await serving
    finally:
        for task in (stopping, looking, watching):
            task.cancel()
        await worker.close()
    log.info("stopped")
