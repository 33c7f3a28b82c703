"""A broker with its doors in one process: the store, the runtime, HTTP, and signals. `treecast up` calls it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from random import Random

import msgspec
import structlog

from treecast.durable import unused_name
from treecast.overlay.broker import BrokerSettings
from treecast.serve.broker_process import BrokerOptions, open_broker, warm_up
from treecast.serve.doors.http import HttpDoor
from treecast.serve.doors.http_server import HttpServer
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.runtime import Runtime
from treecast.serve.settings import RuntimeSettings


class ServiceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a service is started with."""

    directory: str
    listen: tuple[str, int]
    """For HTTP."""
    peer_listen: tuple[str, int] | None = None
    """For clients that speak the broker's own protocol."""
    name: str = "broker"
    version: str = ""
    broker: BrokerSettings = BrokerSettings()
    runtime: RuntimeSettings = RuntimeSettings()
    door: DoorSettings = DoorSettings()


Announce = Callable[[tuple[str, int], tuple[str, int] | None], None]


def run_service(options: ServiceOptions, log: structlog.typing.FilteringBoundLogger, announce: Announce) -> None:
    """`serve`, in an event loop of its own."""
    asyncio.run(serve(options, log, announce))


async def serve(options: ServiceOptions, log: structlog.typing.FilteringBoundLogger, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the addresses when clients may come. Raises TreecastError."""
    broker = BrokerOptions(
        directory=options.directory,
        listen=options.peer_listen or ("", 0),
        name=options.name,
        broker=msgspec.structs.replace(options.broker, announces=True),
        runtime=options.runtime,
    )
    runtime = Runtime(lambda: open_broker(broker), Random(unused_name()), log, options.runtime)
    door = HttpDoor(runtime, Random(unused_name()), log, options.version, options.door)
    server = HttpServer(door, options.door, log, door)
    address = server.listen(*options.listen)
    peer_address = None
    if options.peer_listen is not None:
        peer_address = await runtime.start(*options.peer_listen)
    else:
        await runtime.open()
    running = asyncio.create_task(runtime.run())
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    warming = loop.run_in_executor(None, warm_up)
    await asyncio.sleep(0)
    await door.start()
    serving = asyncio.create_task(server.run())
    log.info("ready", address=f"{address[0]}:{address[1]}", directory=options.directory)
    announce(address, peer_address)
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait([stopping, running, serving], return_when=asyncio.FIRST_COMPLETED)
    server.stop()
    door.stop()
    await serving
    runtime.stop()
    await running
    await warming
    log.info("stopped")
