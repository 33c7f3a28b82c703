"""Runs a peer in the real world: on sockets, a disk and a clock. `treecast.sim` does the same in a simulated one.

What arrives is handed to the peer, and its effects go into an `Outbox`. **Group commit**: one group of changes is
written in a thread of its own; everything that arrives meanwhile forms the next group. Messages leave when what they
follow is durable, together, in few frames. Changes that no message follows wait a moment for others: where many clients
acknowledge a delivery each, that would be a group for each of them.

**Back-pressure**: when too much waits for the disk, nothing is read from any connection, so that its other side has to
wait, and who is behind that. Who does not read what it is sent is sent nothing for a while, and then closed.

**Failures**: if the disk fails, or the peer has a bug, the peer is ahead of its storage, or wrong. Everything that
waits is dropped, connections are closed, and the peer is made anew from a store that is opened anew. Clients come back
and send again what has no answer. The process goes on.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Any, assert_never

import structlog

from treecast.errors import TreecastError
from treecast.overlay.frames import encode
from treecast.overlay.messages import Detach, Hello, IndexSaved
from treecast.overlay.packets import Packet, packet_of
from treecast.overlay.peer import Deliver, Peer, SaveIndex, Send, Store, receive_all
from treecast.overlay.retry import Retry
from treecast.overlay.storage import Change, Storage
from treecast.serve.acceptor import Acceptor, AcceptPolicy, address_of, bind
from treecast.serve.admission import addressee, is_own, refusal
from treecast.serve.connection import FrameConnection, now_ms, steady_ms
from treecast.serve.local_peers import LocalPeer, LocalPeers
from treecast.serve.metrics import Metrics
from treecast.serve.peer_life import PeerLife, PeerStore
from treecast.serve.peer_links import STOPS, PeerLinks
from treecast.serve.settings import RuntimeSettings
from treecast.serve.tls import certificate_names
from treecast.serve.transport_error import TransportError

CHECK_MS = 500
"""How often connections are looked at for their deadlines."""
TOO_MANY = "TC406 there are too many connections"


class Runtime:
    """Runs one peer. `open_peer` opens its store and makes it; it is called in a thread, and again after a failure."""

    def __init__(
        self,
        open_peer: Callable[[], tuple[Peer, PeerStore]],
        random: Random,
        log: structlog.typing.FilteringBoundLogger,
        settings: RuntimeSettings | None = None,
        tls: ssl.SSLContext | None = None,
        metrics: Metrics | None = None,
        links: PeerLinks | None = None,
    ) -> None:
        """`links` are the connections to other peers of a network."""
        self._links = links
        self._open_peer = open_peer
        self._log = log
        self._settings = settings or RuntimeSettings()
        self._has_names = tls is not None and tls.verify_mode == ssl.CERT_REQUIRED
        self.metrics = metrics or Metrics()
        self.metrics.stats = self._stats
        self._tls = tls
        self._listening: socket.socket | None = None
        self._acceptor: Acceptor | None = None
        self._retry = Retry(random, self._settings.reopen_ms, self._settings.reopen_ms_max)
        self._writer = ThreadPoolExecutor(1, "group commit")
        self._saver = ThreadPoolExecutor(1, "saved index")
        self._life: PeerLife | None = None
        self._connections: dict[FrameConnection, None] = {}  # in the order in which they came
        self._by_name: dict[tuple[str, str], FrameConnection] = {}
        """By the broker inside the peer that it is for (empty: the peer itself), and by name."""
        self._locals = LocalPeers()
        self._inbox: list[tuple[FrameConnection, Any]] = []  # what came in this turn of the event loop
        self._inbox_bytes = 0
        self._is_held = False
        self._stop = asyncio.Event()

    # --- from start to end --------------------------------------------------------------------------------------------

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Open the peer and listen; returns the address. Raises TreecastError if either fails."""
        await self.open()
        try:
            listening = self._listening = bind(host, port)
        except TransportError:
            await self.abandon()
            raise
        policy = AcceptPolicy(
            connections_max=self._settings.connections_max,
            handshake_ms=self._settings.handshake_ms,
            context=lambda: self._tls,
            refuse=self._refuse,
        )
        self._acceptor = Acceptor(self._make_connection, self._connections, policy, self._log)
        self._acceptor.accept(listening)
        return address_of(listening)

    async def open(self) -> None:
        """Open the peer, for local clients only: `start` listens as well."""
        self._life = await self._open()

    async def abandon(self) -> None:
        """Close what `open` has opened. Instead of `run`, when something else cannot start."""
        life, self._life = self._life, None
        if life is not None:
            await self._close_life(life, is_last=False)

    def register(self, local: LocalPeer, broker: str = "") -> None:
        """Let a client in this process talk to the peer, or to a broker inside it, under a name that no connection can
        have from now on."""
        self._locals.register(local, broker)

    def forget(self, broker: str) -> None:
        """The clients in this process of a broker that is not served here any more."""
        self._locals.remove(broker)

    def keep_only(self, brokers: Collection[str]) -> None:
        """These brokers are served inside the peer. Connections to others are closed: they are served elsewhere."""
        self._locals.look()
        for (broker, _), connection in list(self._by_name.items()):
            if broker and broker not in brokers:
                self._close(connection, "moved", f"broker {broker} is not served here any more")
        if self._links is not None:
            self._links.keep_only(brokers)

    def tell(self, local: LocalPeer, message: Any, size: int = 0) -> None:
        """Hand the peer a message of a local client, of about so many bytes. It is lost if there is no peer now."""
        life = self._life
        if life is None or life.is_over:
            return
        life.waiting_bytes += size
        self.metrics.count_received(message)
        self._tell(life, local.name, (message,), self._locals.broker_of(local))
        self._hold(life)

    async def run(self) -> None:
        """Serve until `stop`. Call `start` before."""
        life = self._life
        while life is not None:
            await self._live(life)
            life = None if self._stop.is_set() else await self._reopen()
        if self._acceptor is not None and self._listening is not None:
            await self._acceptor.close()
            self._listening.close()
        if self._links is not None:
            await self._links.close()
        await self._wait_for_connections()
        self._writer.shutdown()
        self._saver.shutdown()

    def stop(self) -> None:
        """Finish what has arrived, save the index, and end. From the thread of the event loop."""
        self._hand_over()
        self._stop.set()
        for connection in self._connections:
            connection.pause()
        if self._life is not None:
            self._life.wake.set()

    def is_ready(self) -> bool:
        return self._life is not None and not self._stop.is_set()

    async def _open(self) -> PeerLife:
        peer, store = await asyncio.get_running_loop().run_in_executor(self._writer, self._open_peer)
        return PeerLife(peer, store)

    async def _reopen(self) -> PeerLife | None:
        """Open the store again and again, until it works or we have to stop."""
        while not self._stop.is_set():
            self._retry.start(now_ms())
            while not self._retry.is_due(now_ms()):
                if await self._stops_within(0.05):
                    return None
            try:
                life = await self._open()
            except Exception as error:
                self._log.error("cannot open the store", **_fields(error))
                continue
            self._log.info("the store is open again")
            self._life = life
            return life
        return None

    async def _stops_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return False
        return True

    async def _live(self, life: PeerLife) -> None:
        """Serve with one peer, until it fails or we have to stop."""
        self.metrics.ready.set(1)
        self.metrics.waiting.set_function(lambda: len(life.outbox))
        self._locals.open(life.peer)
        ticker = asyncio.create_task(self._tick(life))
        is_last = False
        try:
            await self._commit(life)
            is_last = True
        except Exception as error:
            life.error = error
            self.metrics.failures.inc()
            self._log.error(
                "the peer failed and is made anew", exc_info=not isinstance(error, TreecastError), **_fields(error)
            )
        finally:
            self._life = None
            life.is_over = True
            self._locals.close()
            for mark in list(life.marks):
                mark.set_exception(RuntimeError("the peer has ended"))
            self.metrics.ready.set(0)
            ticker.cancel()
            for connection in list(self._connections):
                connection.close(STOPS if is_last else "the broker starts anew")
            self._is_held = False
            await self._close_life(life, is_last)

    async def _close_life(self, life: PeerLife, is_last: bool) -> None:
        loop = asyncio.get_running_loop()
        try:
            if life.saving is not None:
                await asyncio.wait([life.saving])
            version = getattr(life.peer, "index_version", 0)
            if is_last and version > life.save_version:
                await self._save(life, version)
            await loop.run_in_executor(self._writer, life.store.close)
        except Exception as error:
            self._log.error("cannot close the store", **_fields(error))

    async def _wait_for_connections(self) -> None:
        """Until those that are being closed have read their last messages, or had their time."""
        deadline = steady_ms() + self._settings.close_ms + 500
        while self._connections and steady_ms() < deadline:
            await asyncio.sleep(0.01)

    # --- group commit -------------------------------------------------------------------------------------------------

    async def _commit(self, life: PeerLife) -> None:
        """Write group after group, and let go what waits for each. Returns when we stop; raises if the peer failed."""
        stop_ms = 0
        while True:
            await life.wake.wait()
            life.wake.clear()
            if life.error is not None:
                raise life.error
            self._release(life)
            if life.outbox.has_changes():
                if self._is_lazy(life):
                    self._ease(life)
                    continue
                await self._write(life)
                self._release(life)  # what waited for it, in the same turn
                if life.outbox.has_changes():
                    life.wake.set()
            else:
                life.waiting_bytes = 0
            if len(life.outbox):
                life.wake.set()
            self._ease(life)
            if self._stop.is_set():
                stop_ms = stop_ms or steady_ms() + self._settings.stop_ms
                if not life.wake.is_set() or steady_ms() > stop_ms:
                    return
            if life.wake.is_set():
                await asyncio.sleep(0)  # others have their turn, even when there is always something to do

    def _is_lazy(self, life: PeerLife) -> bool:
        """Nobody waits for the changes that there are, and they have not waited long. PERF: bench/broker_stalled.py."""
        now = steady_ms()
        if self._stop.is_set() or self._is_full(life, 0.5) or life.outbox.is_waited_for(life.peer.name):
            life.lazy_until_ms = 0
        elif not life.lazy_until_ms and self._settings.lazy_ms:
            life.lazy_until_ms = now + self._settings.lazy_ms
            asyncio.get_running_loop().call_later(self._settings.lazy_ms / 1000, life.wake.set)
            return True
        elif now < life.lazy_until_ms:
            return True
        life.lazy_until_ms = 0
        return False

    async def _write(self, life: PeerLife) -> None:
        changes = life.outbox.take_changes()
        life.writing_bytes, life.waiting_bytes = life.waiting_bytes, 0
        self.metrics.group_changes.observe(len(changes))
        life.is_writing = True
        try:
            seconds = await asyncio.get_running_loop().run_in_executor(self._writer, _timed_write, life.store, changes)
        finally:
            life.is_writing = False
        self.metrics.group_seconds.observe(seconds)
        life.writing_bytes = 0
        life.outbox.stored()
        self._retry.reset()

    def _release(self, life: PeerLife) -> None:
        """Do what waits for nothing any more. What the peer says to itself may make more of it, for the next time; it
        comes after what others wait for."""
        outgoing: dict[tuple[str, str], list[Packet]] = {}
        to_itself: list[Any] = []
        events: list[Deliver] = []
        own = life.peer.name
        for effect in life.outbox.take_ready():
            match effect:
                case Send() if effect.to == own:
                    to_itself.append(effect.message)
                case Send():
                    packet = packet_of(effect.message, root=effect.sender or own)
                    outgoing.setdefault((effect.sender, effect.to), []).append(packet)
                case SaveIndex():
                    self._begin_save(life, effect.version)
                case Deliver(Future() as mark):
                    mark.set_result(None)
                case Deliver():
                    events.append(effect)
                case Store():
                    raise AssertionError("its changes are in a group")
                case _:
                    assert_never(effect)
        for (sender, name), packets in outgoing.items():
            self._send(sender, name, packets)
        # After the messages: an event may end the links of a broker that was asked to send before it (`keep_only`), and
        # a message that is sent later would open its link again.
        for deliver in events:
            self._locals.announce(deliver.event, deliver.sender)
        for message in to_itself:
            self._tell(life, own, (message,))

    def _release_urgent(self, life: PeerLife) -> None:
        """While a group is written: what does not wait for the disk."""
        life.is_hurrying = False
        if not life.is_over:
            self._release(life)

    def _send(self, sender: str, name: str, packets: list[Packet]) -> None:
        if (local := self._locals.get(sender, name)) is not None:
            for packet in packets:
                self.metrics.count_sent(packet.message)
            local.received([packet.message for packet in packets])
            return
        if self._links is not None and self._links.send(name, packets, sender):
            for packet in packets:
                self.metrics.count_sent(packet.message)
            return
        connection = self._by_name.get((sender, name))
        if connection is None or not connection.can_send:
            self.metrics.dropped.inc(len(packets))
            return
        self.metrics.sent_bytes.inc(connection.send(packets))
        for packet in packets:
            self.metrics.count_sent(packet.message)
        while connection.refused:
            self._log.error("a message cannot be sent", to=name, error=str(connection.refused.pop()))

    def _tell(self, life: PeerLife, sender: str, messages: Sequence[Any], broker: str = "") -> None:
        """Hand messages to the peer, or to a broker inside it. An error is one of its storage, or a bug: either way
        this peer is over."""
        if life.error is not None:
            return
        try:
            if broker:
                for message in messages:
                    life.add(life.peer.receive_for(broker, sender, message, now_ms()))  # type: ignore[attr-defined]
            else:
                life.add(receive_all(life.peer, sender, messages, now_ms()))
        except Exception as error:
            life.error = error
        if life.is_writing and life.outbox.has_urgent() and not life.is_hurrying:
            life.is_hurrying = True
            asyncio.get_running_loop().call_soon(self._release_urgent, life)
        life.wake.set()

    # --- saved indexes ------------------------------------------------------------------------------------------------

    def _begin_save(self, life: PeerLife, version: int) -> None:
        """In a thread of its own, so that groups need not wait. One at a time; the last wish counts."""
        life.save_version = version
        if life.saving is None:
            life.saving = asyncio.create_task(self._save_all(life))

    async def _save_all(self, life: PeerLife) -> None:
        saved = 0
        while saved < life.save_version and not self._stop.is_set():
            saved = life.save_version
            await self._save(life, saved)
        life.saving = None

    async def _save(self, life: PeerLife, version: int) -> None:
        index = getattr(life.peer, "index", None)
        if index is None:
            return
        loop = asyncio.get_running_loop()

        def wait() -> None:
            """In the thread that saves: until all changes that the index may contain are durable."""
            mark: Future[None] = Future()
            loop.call_soon_threadsafe(self._mark, life, mark)
            mark.result()

        try:
            await loop.run_in_executor(self._saver, life.store.save_index, index, version, wait)
        except Exception as error:
            self._log.warning("the index was not saved", **_fields(error))
            return
        self._log.info("the index is saved", version=version)
        if self._life is life:
            self._tell(life, life.peer.name, (IndexSaved(version),))

    def _mark(self, life: PeerLife, mark: Future[None]) -> None:
        """Let a future wait for the changes that the peer has asked for so far."""
        if life.is_over:
            if not life.outbox.has_changes() and life.error is None:
                mark.set_result(None)
            else:
                mark.set_exception(RuntimeError("the peer has ended"))
            return
        life.marks.add(mark)
        mark.add_done_callback(life.marks.discard)
        life.outbox.add([Deliver(mark)])
        life.wake.set()

    # --- time ---------------------------------------------------------------------------------------------------------

    async def _tick(self, life: PeerLife) -> None:
        checked_ms = 0
        while True:
            await asyncio.sleep(self._settings.tick_ms / 1000)
            if steady_ms() - checked_ms >= CHECK_MS:
                checked_ms = steady_ms()
                self._check_connections(checked_ms)
            if self._is_full(life) or life.error is not None:
                continue  # there is enough to do; a peer that waits for its disk needs no reminders
            try:
                life.add(life.peer.tick(now_ms()))
            except Exception as error:
                life.error = error
            life.wake.set()

    def _check_connections(self, now: int) -> None:
        """Close those that say nothing, do not say who they are, or do not read."""
        settings = self._settings
        partial_bytes = 0
        for connection in list(self._connections):
            partial_bytes += connection.partial_bytes
            if connection.stalled_since_ms is not None and now - connection.stalled_since_ms > settings.stalled_ms:
                self._close(connection, "stalled", "it does not read")
            elif not connection.name and now - connection.opened_ms > settings.handshake_ms:
                self._close(connection, "handshake", "it did not say who it is")
            elif self._is_held:
                connection.heard_ms = now  # it cannot be heard
            elif now - connection.heard_ms > settings.idle_ms:
                self._close(connection, "idle", "nothing was heard from it")
            elif partial_bytes > settings.partial_bytes_max:
                self._close(connection, "partial", "there are too many incomplete frames")

    # --- back-pressure ------------------------------------------------------------------------------------------------

    def _is_full(self, life: PeerLife, share: float = 1.0) -> bool:
        settings = self._settings
        waiting = life.waiting_bytes + life.writing_bytes
        return waiting > settings.waiting_bytes_max * share or len(life.outbox) > settings.waiting_effects_max * share

    def _hold(self, life: PeerLife) -> None:
        """Too much waits: read nothing."""
        if not self._is_held and self._is_full(life):
            self._is_held = True
            self.metrics.holds.inc()
            for connection in self._connections:
                connection.pause()

    def _ease(self, life: PeerLife) -> None:
        if self._is_held and not self._is_full(life, 0.5) and not self._stop.is_set():
            self._is_held = False
            for connection in self._connections:
                connection.resume()

    # --- connections --------------------------------------------------------------------------------------------------

    def _make_connection(self) -> FrameConnection:
        connection = FrameConnection(self, self._settings, self._settings.hello_bytes_max)
        connection.expect_hello()
        return connection

    def _refuse(self, accepted: socket.socket) -> None:
        """There are too many connections. With TLS this one cannot be told, without a handshake."""
        self.metrics.connections_closed.labels("too many").inc()
        if self._tls is None:
            accepted.send(encode([packet_of(Detach("", TOO_MANY))])[0])

    def opened(self, connection: FrameConnection) -> None:
        self._connections[connection] = None
        self.metrics.connections.set(len(self._connections))
        if self._life is None or self._stop.is_set():
            connection.close("the broker is not ready")
        elif self._is_held:
            connection.pause()

    def closed(self, connection: FrameConnection, error: Exception | None) -> None:
        self._connections.pop(connection, None)
        if self._by_name.get((connection.broker, connection.name)) is connection:
            del self._by_name[connection.broker, connection.name]
        self.metrics.connections.set(len(self._connections))
        if connection.name:
            self._log.info("connection closed", name=connection.name, error=str(error) if error else None)

    def received(self, connection: FrameConnection, packets: list[Packet], size: int) -> None:
        life = self._life
        if life is None or self._stop.is_set():
            return
        life.waiting_bytes += size
        self.metrics.received_bytes.inc(size)
        for packet in packets:
            message = packet.message
            if not connection.name or isinstance(message, Hello) or is_own(message):
                self._hand_over()  # what came before it
                if not self._admit(connection, message, life):
                    return
            self.metrics.count_received(message)
            if not self._inbox:
                asyncio.get_running_loop().call_soon(self._hand_over)
            self._inbox.append((connection, message))
            if not self._settings.gathered_bytes_max:
                self._hand_over()
        self._inbox_bytes += size
        if self._inbox_bytes >= self._settings.gathered_bytes_max:
            self._hand_over()
        self._hold(life)

    def _hand_over(self) -> None:
        """What connections have brought in one turn of the event loop, to the peer: what came together is handled
        together. PERF: bench/network_cpu.py."""
        inbox, self._inbox, self._inbox_bytes = self._inbox, [], 0
        life = self._life
        if life is None:
            return
        for connection, some in groupby(inbox, itemgetter(0)):
            self._tell(life, connection.name, [message for _, message in some], connection.broker)

    def _admit(self, connection: FrameConnection, message: Any, life: PeerLife) -> bool:
        """Learn who the other side is, or close it."""
        certified = certificate_names(connection.info("peercert")) if self._has_names else None
        refused = refusal(message, connection.name, life.peer, self._locals.names(), certified)
        if refused is not None:
            self._close(connection, "refused", refused)
            return False
        if connection.name:
            return True
        name = message.client
        connection.broker = addressee(message, life.peer) or ""
        before = self._by_name.get((connection.broker, name))
        if before is not None:
            # A client that comes back before its old connection is known to be dead.
            hint = "if two peers have this name, give each a name of its own"
            self._close(before, "replaced", f"a newer connection has the name {name!r}\n  hint: {hint}")
        connection.name = name
        connection.accept_frames(self._settings.frame_bytes_max)
        self._by_name[connection.broker, name] = connection
        if self._links is not None:
            self._links.hear_from(name)
        self._log.info("connection opened", name=name, address=connection.peer_address)
        return True

    def _close(self, connection: FrameConnection, kind: str, reason: TreecastError | str) -> None:
        self.metrics.connections_closed.labels(kind).inc()
        self._log.warning("closing a connection", name=connection.name, reason=str(reason))
        if kind == "stalled":
            connection.abort()
        else:
            connection.close(reason)

    def _stats(self) -> dict[str, int]:
        stats = getattr(self._life.peer, "stats", None) if self._life else None
        return stats() if stats is not None else {}


def _timed_write(store: Storage, changes: Sequence[Change]) -> float:
    begin = time.perf_counter()
    store.write(changes)
    return time.perf_counter() - begin


def _fields(error: Exception) -> dict[str, Any]:
    """For the log."""
    return {"code": error.code, "error": str(error)} if isinstance(error, TreecastError) else {"error": repr(error)}
