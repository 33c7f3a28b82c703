"""A broker in a process of its own: the real store, the real runtime, and signals. `treecast broker` calls it."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import msgspec
import structlog

from treecast.durable import unused_name
from treecast.index import Index
from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.peer import Peer
from treecast.serve.access.exposure import check_peer_exposure
from treecast.serve.access.tokens import TokenStore
from treecast.serve.address import format_address
from treecast.serve.memory import keep_freed_memory
from treecast.serve.notify import notify
from treecast.serve.peer_life import PeerStore
from treecast.serve.runtime import Runtime
from treecast.serve.settings import RuntimeSettings
from treecast.serve.status_pages import StatusPages
from treecast.serve.store import Store
from treecast.serve.tls import TlsFiles, server_context


class BrokerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker is started with."""

    directory: str
    listen: tuple[str, int]
    status: tuple[str, int] | None = None
    """Where to serve metrics and readiness."""
    name: str = "broker"
    tls: TlsFiles | None = None
    open: bool = False
    """Clients need no certificates, wherever they are."""
    broker: BrokerSettings = BrokerSettings()
    runtime: RuntimeSettings = RuntimeSettings()


def open_broker(options: BrokerOptions) -> tuple[Peer, PeerStore]:
    """Open the store, and make the broker from what it holds. Raises StorageError."""
    store = Store.open(options.directory)
    try:
        # PERF: bench/broker_restart.py. Nothing that is made here is garbage, and there may be much of it.
        gc.disable()
        index, version = store.load_index() or (None, 0)
        return Broker(options.name, store, Random(unused_name()), options.broker, index, version, in_thread), store
    except BaseException:
        store.close()
        raise
    finally:
        gc.enable()


def in_thread(work: Callable[[], None]) -> Callable[[], None]:
    """Do something in a thread; returns how to wait for its end, which raises what the work raised.

    PERF: bench/broker_restart.py. Changing an index is native work, which leaves the interpreter to others.
    """
    executor = ThreadPoolExecutor(1, "beside")
    ended = executor.submit(work)
    executor.shutdown(wait=False)
    return ended.result


def run_broker(
    options: BrokerOptions, log: structlog.typing.FilteringBoundLogger, announce: Callable[[str, int], None]
) -> None:
    """`serve_broker`, in an event loop of its own."""
    asyncio.run(serve_broker(options, log, announce))


async def serve_broker(
    options: BrokerOptions, log: structlog.typing.FilteringBoundLogger, announce: Callable[[str, int], None]
) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the address when clients may come. Raises TreecastError."""
    tls = server_context(options.tls) if options.tls else None
    check_options(options)
    runtime = Runtime(lambda: open_broker(options), Random(unused_name()), log, options.runtime, tls)
    await serve(runtime, options.listen, options.status, options.directory, log, announce)


async def serve(
    runtime: Runtime,
    listen: tuple[str, int],
    status: tuple[str, int] | None,
    directory: str,
    log: structlog.typing.FilteringBoundLogger,
    announce: Callable[[str, int], None],
) -> None:
    """Run a peer until SIGTERM or SIGINT, with its status pages; `announce` gets the address when others may come."""
    keep_freed_memory()
    pages = StatusPages(runtime.metrics, runtime.is_ready, log)
    if status is not None:
        pages.listen(*status)
    try:
        address = await runtime.start(*listen)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _stop, runtime)
        log.info("ready", address=format_address(*address), directory=directory)
        announce(*address)
        notify("READY=1")
        warming = loop.run_in_executor(None, warm_up)
        await runtime.run()
        await warming
        log.info("stopped")
    finally:
        await pages.close()


def _stop(runtime: Runtime) -> None:
    notify("STOPPING=1")
    runtime.stop()


def check_options(options: BrokerOptions) -> None:
    """Whether strangers would be let in. Raises AccessRefusedError TC608."""
    if not options.open and not (options.tls and options.tls.ca):
        # The directory of a service may have tokens: they would be worth nothing.
        has_tokens = TokenStore(Path(options.directory)).path.exists()
        advice = "give --tls-cert, --tls-key and --tls-ca"
        check_peer_exposure(
            options.listen, has_tokens=has_tokens, advice=advice if has_tokens else f"{advice}, or listen on 127.0.0.1"
        )


def warm_up() -> None:
    """Load what the first document would have to wait for: pyarrow takes longer to import than a broker to start."""
    index = Index()
    index.add("warm", "/up")
    index.render_part([b"<up/>"], report=True)
    settle_collector()


YOUNG_OBJECTS = 10_000
"""A broker makes many objects for a frame, and hardly any cycles: young ones are looked at after so many, not 700."""


def settle_collector() -> None:
    """What there is after the start stays: the collector of garbage need not look at it again."""
    # PERF: bench/network_cpu.py. A tenth of the CPU of a broker that delivers went into collections.
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
