"""Keeps the processes of a network alive: the registry and its brokers. What dies is started again, on the same data.

What cannot start at all, because its data are not what they should be, ends the network before it begins.

A process keeps its port when it is started again, so the others find it where it was.
"""

from __future__ import annotations

import asyncio
from random import Random

import msgspec
import structlog

from treecast.errors import TreecastError
from treecast.overlay.retry import Retry
from treecast.serve.address import parse_address
from treecast.serve.connection import steady_ms
from treecast.serve.network.fork_server import STATUS_UNKNOWN, AnyOptions, ForkServer, MemberProcess
from treecast.serve.network.member import Addresses, MemberOptions, NotStarted

REGISTRY = "registry"
IN_USE = "TC423"
"""A directory that is in use, or no store."""


class SupervisorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times of a supervisor."""

    start_ms_max: int = 60_000
    """A process that does not say where it listens within this time is ended, and started again."""
    restart_ms: int = 20
    """Before a process that has ended is started again; then twice as long, and so on,"""
    restart_ms_max: int = 10_000
    lived_ms: int = 10_000
    """unless it lived so long."""
    stop_ms_max: int = 20_000
    """A process that does not end within this time is killed."""
    in_use_ms: int = 5_000
    """At first, data that another process has open are waited for so long: it may be about to end."""


class Supervised:
    """One process, whenever it is started."""

    def __init__(
        self,
        options: AnyOptions,
        forks: ForkServer,
        random: Random,
        log: structlog.typing.FilteringBoundLogger,
        settings: SupervisorSettings,
    ) -> None:
        self.name = options.name
        self.options: AnyOptions = options
        self.addresses = Addresses("")
        self.restarts = 0
        self.pid = 0
        self.is_up = asyncio.Event()
        self._has_served = False
        self._refusal: NotStarted | None = None
        self._forks = forks
        self._log = log
        self._settings = settings
        self._retry = Retry(random, settings.restart_ms, settings.restart_ms_max)
        self._process: MemberProcess | None = None
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it, and wait until it serves. Raises TreecastError if that cannot be."""
        self._task = asyncio.create_task(self._keep())
        waiting = asyncio.create_task(self.is_up.wait())
        await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._refusal is not None and not self.is_up.is_set():
            raise TreecastError(self._refusal.message, code=self._refusal.code, hint=self._refusal.hint)

    async def _keep(self) -> None:
        first_ms = steady_ms()
        while not self._is_stopping:
            begun_ms = steady_ms()
            status = await self._run_once()
            self.is_up.clear()
            if self._is_stopping or self._has_to_give_up(begun_ms - first_ms):
                return
            self.restarts += 1
            self._log.error("a process has ended and is started again", name=self.name, status=status)
            if steady_ms() - begun_ms > self._settings.lived_ms:
                self._retry.reset()
            self._retry.start(steady_ms())
            while not self._retry.is_due(steady_ms()) and not self._is_stopping:
                await asyncio.sleep(0.02)

    def _has_to_give_up(self, tried_ms: int) -> bool:
        """It has never served, and says why it cannot."""
        if self._has_served or self._refusal is None:
            return False
        return self._refusal.code != IN_USE or tried_ms > self._settings.in_use_ms

    async def _run_once(self) -> int:
        """Returns the exit status."""
        try:
            self._process = process = await self._forks.start(self.options)
        except OSError as error:
            self._log.error("a process cannot be started", name=self.name, error=str(error))
            return STATUS_UNKNOWN
        self.pid = process.pid
        try:
            async with asyncio.timeout(self._settings.start_ms_max / 1000):
                line = await process.readline()
            said = msgspec.json.decode(line, type=Addresses | NotStarted)
        except (TimeoutError, msgspec.MsgspecError, ValueError):
            await process.kill()
        else:
            if isinstance(said, NotStarted):
                self._refusal = said
                self._log.error("a process cannot start", name=self.name, reason=said.message)
                return await process.wait()
            self.addresses = said
            self._has_served = True
            self.options = msgspec.structs.replace(self.options, listen=parse_address(self.addresses.peer))
            self.is_up.set()
            self._log.info("a process serves", name=self.name, pid=process.pid, address=self.addresses.peer)
            if self._is_stopping:
                process.end()
        return await process.wait()

    async def stop(self) -> None:
        self._is_stopping = True
        if self._task is None:
            return
        if self._process is not None:
            self._process.end()
        await asyncio.wait([self._task], timeout=self._settings.stop_ms_max / 1000)
        if not self._task.done() and self._process is not None:
            await self._process.kill()
        await self._task


class Supervisor:
    """A registry and some brokers. `make_options` has what a process is started with, by its name."""

    def __init__(
        self,
        registry: MemberOptions,
        brokers: list[MemberOptions],
        random: Random,
        log: structlog.typing.FilteringBoundLogger,
        settings: SupervisorSettings | None = None,
    ) -> None:
        settings = settings or SupervisorSettings()
        self._forks = ForkServer()
        self.registry = Supervised(registry, self._forks, random, log, settings)
        self.brokers = {one.name: Supervised(one, self._forks, random, log, settings) for one in brokers}

    async def start(self) -> None:
        await self.registry.start()
        registries = {REGISTRY: self.registry.addresses.peer}
        for broker in self.brokers.values():
            broker.options = msgspec.structs.replace(broker.options, registries=registries)
        await asyncio.gather(*(broker.start() for broker in self.brokers.values()))

    async def stop(self) -> None:
        """Brokers first, so that none of them misses the registry."""
        await asyncio.gather(*(broker.stop() for broker in self.brokers.values()))
        await self.registry.stop()
        await self._forks.close()
