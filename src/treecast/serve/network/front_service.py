"""Serving a front door: from the moment its processes are there until the service is told to end."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import structlog

from treecast.serve.access.gate import Gate
from treecast.serve.certificate import Certificate
from treecast.serve.doors.http_server import HttpServer
from treecast.serve.network.front_door import FrontDoor
from treecast.serve.notify import notify
from treecast.serve.service_process import Announce, ServiceOptions, watch


class Stoppable(Protocol):
    """What supervises the processes behind the door."""

    async def stop(self) -> None: ...


async def serve_front(
    door: FrontDoor,
    supervisor: Stoppable,
    options: ServiceOptions,
    gate: Gate,
    certificate: Certificate | None,
    log: structlog.typing.FilteringBoundLogger,
    announce: Announce,
    stopping: asyncio.Task[bool],
    **ready: Any,
) -> None:
    """Serve until `stopping` is done; then everything behind the door has stopped too. `ready` is for the log."""
    server = HttpServer(door, options.door, log, None, certificate)
    address = server.listen(*options.listen)
    await door.open()
    looking = asyncio.create_task(gate.run())
    watching = asyncio.create_task(watch(certificate, options.access.look_ms))
    serving = asyncio.create_task(server.run())
    log.info("ready", address=f"{address[0]}:{address[1]}", directory=options.directory, **ready)
    announce(address, None)
    notify("READY=1")
    await asyncio.wait([stopping, serving], return_when=asyncio.FIRST_COMPLETED)
    notify("STOPPING=1")
    for task in (looking, watching):
        task.cancel()
    door.is_stopping = True
    server.stop()
    # The processes end their streams when they end, and with them those of the door.
    await asyncio.gather(supervisor.stop(), serving)
    await door.close()
