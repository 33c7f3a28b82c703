"""A worker of a fleet in a process of its own: the connection to NATS, the matcher, HTTP, and signals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import msgspec
import structlog

from treecast.serve.broker_process import warm_up
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


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is started with."""

    servers: tuple[str, ...]
    """Addresses of NATS."""
    fleet: str
    listen: tuple[str, int]
    """For HTTP."""
    version: str = ""
    settings: FleetSettings = FleetSettings()
    door: DoorSettings = DoorSettings()


class Worker:
    """All that a worker is made of."""

    def __init__(self, options: WorkerOptions, log: structlog.typing.FilteringBoundLogger) -> None:
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
        self.door = FleetDoor(
            documents, subscriptions, self.is_ready, self.feed.__len__, metrics, log, options.version, options.door
        )

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


def run_worker(
    options: WorkerOptions,
    log: structlog.typing.FilteringBoundLogger,
    announce: Callable[[tuple[str, int]], None],
) -> None:
    """`serve`, in an event loop of its own."""
    asyncio.run(serve(options, log, announce))


async def serve(
    options: WorkerOptions,
    log: structlog.typing.FilteringBoundLogger,
    announce: Callable[[tuple[str, int]], None],
) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the address when clients may come. Raises TreecastError."""
    worker = Worker(options, log)
    server = HttpServer(worker.door, options.door, log)
    address = server.listen(*options.listen)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await loop.run_in_executor(None, warm_up)
    opening = asyncio.create_task(worker.open())
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait([opening, stopping], return_when=asyncio.FIRST_COMPLETED)
    try:
        if not opening.done():
            opening.cancel()
            return
        opening.result()
        serving = asyncio.create_task(server.run())
        log.info("ready", address=f"{address[0]}:{address[1]}", fleet=options.fleet)
        announce(address)
        await asyncio.wait([stopping, serving], return_when=asyncio.FIRST_COMPLETED)
        worker.door.is_stopping = True
        worker.feed.close_all()
        server.stop()
        await serving
    finally:
        stopping.cancel()
        await worker.close()
    log.info("stopped")
