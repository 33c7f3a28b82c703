"""The HTTP door of a whole network: it passes each request on to the door of the broker that it is for.

Documents go to the root of their source, subscriptions and all that is done with them to their host; lists are put
together. An event stream goes on when its host dies and comes back: the door opens it again where it was.

Pages that are about the data of one broker are refused with TC490: documents by number, letters, hooks, files of
subscriptions, WebSockets, tickets.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from operator import itemgetter
from typing import Any

import aiohttp
import msgspec
import structlog
from yarl import URL

from treecast.errors import TreecastError
from treecast.overlay.onyx.control_messages import Thing
from treecast.serve.access.gate import Gate
from treecast.serve.connection import steady_ms
from treecast.serve.doors.calls import Call, Reply
from treecast.serve.doors.console_pages import ConsolePages
from treecast.serve.doors.document_pages import DEFAULT_SOURCE
from treecast.serve.doors.door import Door, Page
from treecast.serve.doors.openapi import describe
from treecast.serve.doors.problems import DoorError
from treecast.serve.doors.routes import ROUTES, Route, Router
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.metrics import Metrics
from treecast.serve.network import picture
from treecast.serve.network.host_doors import BROKER_HEADER, ELSEWHERE_HEADER
from treecast.serve.network.picture import NetworkPages
from treecast.serve.network.places import Places
from treecast.serve.network.supervisor import Supervised

PASSED_ON = (b"authorization", b"content-type", b"accept", b"treecast-source", b"treecast-document-id")
PASSED_BACK = ("retry-after", "cache-control", "www-authenticate")
NOT_OFFERED = ("create_ticket",)
"""Pages that every door has, and this one does not: a ticket of this process would mean nothing to a broker."""
HEARTBEATS_MISSED_MAX = 3
"""A stream that is silent for so long has lost its host, and is opened again."""
EVENT_END = b"\n\n"
EVENT_ID = re.compile(rb"^id: ?(.*)$", re.MULTILINE)
HTTP_OK, HTTP_CREATED, HTTP_ERROR, HTTP_NOT_FOUND, HTTP_BUSY = 200, 201, 400, 404, 503
HTTP_MISDIRECTED = 421
MAY_HAVE_MOVED = (HTTP_NOT_FOUND, HTTP_MISDIRECTED)


class FrontDoorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and times of the door of a network."""

    back_ms: int = 15_000
    """A request waits so long for a broker that is being started again; then it is refused with TC436."""
    retry_ms: int = 50
    """Between two attempts to reach it."""
    move_ms: int = 3_000
    """A subscription that is not where it should be is looked for so long: it may be moving."""
    look_ms: int = 200
    """With replicas: between two looks at who serves it."""
    grace_ms: int = 2_000
    """A broker's own door answers within `answer_ms`; what this door hears so much later counts as no answer."""
    stream_back_ms: int = 600_000
    """An event stream waits so long for its host; then it ends."""
    answer_bytes_max: int = 64 << 20
    event_bytes_max: int = 64 << 20
    """Of one event of a stream. A stream with a larger one ends."""
    places_max: int = 100_000
    """Sources and subscriptions whose brokers are remembered."""


class FrontDoor(Door):
    """An ASGI application. `open` once the brokers serve."""

    def __init__(
        self,
        brokers: dict[str, Supervised],
        places: Places,
        log: structlog.typing.FilteringBoundLogger,
        version: str,
        settings: DoorSettings,
        gate: Gate,
        front: FrontDoorSettings | None = None,
        *,
        has_replicas: bool = False,
        is_by_content: bool = False,
    ) -> None:
        """`has_replicas`: a broker may be served by the process of another one. `is_by_content`: the registry has to
        know the queries of subscriptions, because they decide about hosts."""
        self._has_replicas = has_replicas
        self._is_by_content = is_by_content
        self._hosts: dict[str, str] = {}  # brokers that another one's process serves, as far as is known
        self._brokers = brokers
        self._places = places
        self._front = front or FrontDoorSettings()
        self._streams: dict[int, None] = {}
        self._stream_count = 0
        self._http: aiohttp.ClientSession | None = None
        # The longest that a broker's door may take: a pull waits for deliveries, all else for the broker.
        answer_s = (max(settings.answer_ms, settings.pull_wait_ms_max) + self._front.grace_ms) / 1000
        self._answer_timeout = aiohttp.ClientTimeout(total=answer_s)
        silence_s = max(settings.heartbeat_ms * HEARTBEATS_MISSED_MAX / 1000, answer_s)
        self._stream_timeout = aiohttp.ClientTimeout(total=None, sock_connect=answer_s, sock_read=silence_s)
        metrics = Metrics(self._stats)
        metrics.ready.set_function(lambda: float(self._is_serving()))
        super().__init__(log, settings, gate, metrics, self._is_serving, {"streams": self._streams})
        self._picture = NetworkPages(brokers, places)
        self._pages, routes = self._make_pages()
        self._router = Router(routes)
        offered = tuple(route for route in routes if self._page(route) is not None)
        self._description = msgspec.json.encode(describe(version, offered))

    def _make_pages(self) -> tuple[tuple[object, ...], tuple[Route, ...]]:
        return (ConsolePages("network"), self._picture), (*ROUTES, *picture.ROUTES)

    async def open(self) -> None:
        connector = aiohttp.TCPConnector(limit=self.settings.connections_max)
        self._http = aiohttp.ClientSession(connector=connector, auto_decompress=False)

    async def close(self) -> None:
        await self._picture.close()
        if self._http is not None:
            await self._http.close()

    def _is_serving(self) -> bool:
        return all(broker.is_up.is_set() for broker in self._brokers.values())

    def _stats(self) -> dict[str, int]:
        brokers = self._brokers.values()
        return {
            "brokers": len(brokers),
            "brokers_up": sum(broker.is_up.is_set() for broker in brokers),
            "restarts": sum(broker.restarts for broker in brokers),
        }

    def _page(self, route: Route) -> Page | None:
        return None if route.name in NOT_OFFERED else super()._page(route)

    def _not_offered(self, route: Route) -> Exception:
        hint = "ask the broker itself, or run one broker: treecast up without --brokers"
        return DoorError(f"a network does not offer {route.method} {route.path}", code="TC490", hint=hint)

    # --- documents and sources ----------------------------------------------------------------------------------------

    async def publish(self, call: Call) -> Reply:
        source = call.text_parameter("source") or call.header(b"treecast-source") or DEFAULT_SOURCE
        reply = await self._pass_on(call, await self._broker_of("source", source))
        if reply.status == HTTP_BUSY:
            self._places.forget("source", source)  # it may have moved
        return reply

    publish_batch = publish

    async def put_source(self, call: Call) -> Reply:
        """First at the registry, then at the root, which looks at the schema."""
        body = await self._body(call)
        form = _fields(body)
        root = await self._places.find("source", call.parameter)
        is_new = not root
        root = await self._places.register_source(
            call.parameter, _text(form.get("schema")), _text(form.get("description"))
        )
        reply = await self._pass_on(call, root, body)
        if reply.status < HTTP_ERROR:
            # The root may have heard of it from the registry already.
            return Reply(HTTP_CREATED if is_new else HTTP_OK, reply.body, reply.content_type)
        if is_new:
            await self._places.remove_source(call.parameter)
        return reply

    async def get_source(self, call: Call) -> Reply:
        return await self._pass_on(call, await self._broker_of("source", call.parameter))

    async def delete_source(self, call: Call) -> Reply:
        reply = await self._pass_on(call, await self._broker_of("source", call.parameter))
        if reply.status < HTTP_ERROR:
            await self._places.remove_source(call.parameter)
        return reply

    async def list_sources(self, call: Call) -> Reply:
        return await self._lists(call, "sources")

    # --- subscriptions ------------------------------------------------------------------------------------------------

    async def put_subscription(self, call: Call) -> Reply:
        """If the host refuses a new one, it has no place."""
        body = await self._body(call)
        host = await self._places.find("subscription", call.parameter)
        is_new = not host
        if is_new:
            host = await self._place(call.parameter, body)
        reply = await (self._pass_on(call, host, body) if is_new else self._to_host(call, body))
        if is_new and HTTP_ERROR <= reply.status < HTTP_BUSY:
            await self._places.remove_subscription(call.parameter)
        if not is_new and reply.status < HTTP_ERROR and self._is_by_content:
            with suppress(TreecastError):  # without the registry it is changed all the same, and stays where it is
                await self._place(call.parameter, body)
        return reply

    async def _place(self, id: str, body: bytes) -> str:
        """The host of a subscription, which the registry chooses. One that has changed may have to move, later."""
        form = _fields(body)
        spaces = form.get("namespaces")
        namespaces = {key: _text(value) for key, value in spaces.items()} if isinstance(spaces, dict) else {}
        return await self._places.place_subscription(id, _text(form.get("query")), namespaces)

    async def delete_subscription(self, call: Call) -> Reply:
        host = await self._places.find("subscription", call.parameter)
        reply = await self._to_host(call)
        if host and (reply.status < HTTP_ERROR or reply.status == HTTP_NOT_FOUND):
            await self._places.remove_subscription(call.parameter)
        return reply

    async def get_subscription(self, call: Call) -> Reply:
        return await self._to_host(call)

    async def _to_host(self, call: Call, body: bytes | None = None) -> Reply:
        """A subscription that its host does not have may just be on its way to another one."""
        if body is None:
            body = await self._body(call) if call.has_body() else b""
        end_ms = steady_ms() + self._front.move_ms
        while True:
            host = await self._broker_of("subscription", call.parameter)
            reply = await self._pass_on(call, host, body)
            if reply.status not in MAY_HAVE_MOVED or steady_ms() >= end_ms:
                return reply
            self._places.forget("subscription", call.parameter)
            if not await self._places.find("subscription", call.parameter):
                return reply
            await asyncio.sleep(self._front.retry_ms / 1000)

    pull = acknowledge = fail = pause = resume = replay = get_subscription

    async def list_subscriptions(self, call: Call) -> Reply:
        return await self._lists(call, "subscriptions")

    # --- others -------------------------------------------------------------------------------------------------------

    async def status(self, call: Call) -> Reply:
        """That of one broker."""
        return await self._pass_on(call, self._any())

    try_subscription = status

    async def events(self, call: Call) -> Reply | None:
        hosts = {await self._broker_of("subscription", id) for id in call.query("subscription")} or {self._any()}
        if len(hosts) > 1:
            hint = "open a stream for each of them"
            raise DoorError("these subscriptions are with different brokers", code="TC490", hint=hint)
        (host,) = hosts
        last = call.header(b"last-event-id") or call.text_parameter("last_event_id")
        response = await self._ask(call, host, b"", self._front.back_ms, self._stream_timeout, last)
        if response.status != HTTP_OK:
            return await self._reply(response)
        self._stream_count += 1
        number = self._stream_count
        self._streams[number] = None
        try:
            await call.stream(self._relay(call, host, response, last), response.content_type)
        finally:
            del self._streams[number]
        return None

    async def _relay(self, call: Call, host: str, response: aiohttp.ClientResponse, last: str) -> AsyncIterator[bytes]:
        """Whole events only: what was cut off comes again."""
        while True:
            rest = b""
            try:
                async for piece in response.content.iter_any():
                    whole, end, rest = (rest + piece).rpartition(EVENT_END)
                    if end:
                        ids = EVENT_ID.findall(whole)
                        last = ids[-1].decode() if ids else last
                        yield whole + end
                    if len(rest) > self._front.event_bytes_max:
                        return
            except aiohttp.ClientError:
                pass  # the host has died, or says nothing any more
            finally:
                response.close()
            if self.is_stopping:
                return
            again = await self._open_again(call, host, last)
            if again is None:
                return
            host, response = again

    async def _open_again(self, call: Call, host: str, last: str) -> tuple[str, aiohttp.ClientResponse] | None:
        """The stream at its host, which may be another one now; None if it cannot go on."""
        ids, end_ms = call.query("subscription"), steady_ms() + self._front.move_ms
        while True:
            for id in ids:
                self._places.forget("subscription", id)
            hosts = {await self._broker_of("subscription", id) for id in ids} or {host}
            if len(hosts) > 1:
                return None  # they have parted
            if host not in hosts:
                last = ""  # it is of another broker: begin with what is not delivered
            (host,) = hosts
            response = await self._ask(call, host, b"", self._front.stream_back_ms, self._stream_timeout, last)
            if response.status == HTTP_OK:
                return host, response
            response.close()
            if response.status not in MAY_HAVE_MOVED or steady_ms() >= end_ms:
                return None
            await asyncio.sleep(self._front.retry_ms / 1000)

    # --- passing on ---------------------------------------------------------------------------------------------------

    def _any(self) -> str:
        return next(
            (name for name, broker in self._brokers.items() if broker.is_up.is_set()), next(iter(self._brokers))
        )

    async def _broker_of(self, thing: Thing, name: str) -> str:
        """What nobody has, any broker says that it does not have."""
        broker = await self._places.find(thing, name)
        return broker if broker in self._brokers else self._any()

    async def _body(self, call: Call) -> bytes:
        settings = self.settings
        return await call.body(max(settings.document_bytes_max, settings.batch_bytes_max, settings.request_bytes_max))

    async def _pass_on(self, call: Call, broker: str, body: bytes | None = None) -> Reply:
        if body is None:
            body = await self._body(call) if call.has_body() else b""
        return await self._reply(await self._ask(call, broker, body, self._front.back_ms, self._answer_timeout))

    async def _ask(
        self, call: Call, broker: str, body: bytes, wait_ms: int, timeout: aiohttp.ClientTimeout, last: str = ""
    ) -> aiohttp.ClientResponse:
        """Ask the door of a broker, and wait for the broker if it is being started again. Raises DoorError TC436.

        What may have arrived is asked again only if that changes nothing.
        """
        assert self._http is not None
        scope = call.scope
        headers = {key.decode(): value.decode("latin-1") for key, value in scope["headers"] if key in PASSED_ON}
        if last:
            headers["last-event-id"] = last
        query = scope["query_string"].decode("latin-1")
        path = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        end_ms = steady_ms() + wait_ms
        while True:
            try:
                supervised = await self._process_of(broker, headers, end_ms)
                url = URL(f"http://{supervised.addresses.http}{path}", encoded=True)
                response = await self._http.request(
                    scope["method"], url, data=body, headers=headers, allow_redirects=False, timeout=timeout
                )
                if ELSEWHERE_HEADER not in response.headers:
                    return response
                response.close()
            except aiohttp.ClientConnectorError:
                pass  # it was not sent
            except (aiohttp.ClientError, TimeoutError) as error:
                if scope["method"] == "POST" or steady_ms() >= end_ms:
                    raise _away(broker, "it may still be done; ask again, with the same id") from error
            if steady_ms() >= end_ms or self.is_stopping:
                raise _away(broker)
            await asyncio.sleep(self._front.retry_ms / 1000)
            if self._has_replicas:
                await self._look_for(broker)

    async def _process_of(self, broker: str, headers: dict[str, str], end_ms: int) -> Supervised:
        """The process that serves a broker, when it is up; `headers` say which broker is meant. Raises TimeoutError."""
        while True:
            supervised = self._brokers[self._hosts.get(broker, broker)]
            if self._has_replicas:
                headers[BROKER_HEADER] = broker
            if supervised.is_up.is_set():
                return supervised
            wait_ms = min(end_ms - steady_ms(), self._front.look_ms if self._has_replicas else end_ms)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(wait_ms, 0) / 1000):
                    await supervised.is_up.wait()
            if steady_ms() >= end_ms:
                raise TimeoutError
            if self._has_replicas:
                await self._look_for(broker)

    async def _look_for(self, broker: str) -> None:
        """Ask the registry who serves a broker now."""
        with suppress(DoorError):
            row = (await self._places.brokers()).get(broker, {})
            host = str(row.get("host") or broker)
            if host in self._brokers:
                self._hosts[broker] = host

    async def _reply(self, response: aiohttp.ClientResponse) -> Reply:
        """All of an answer. Raises DoorError TC436 if it is cut off, or too large."""
        parts: list[bytes] = []
        size = 0
        try:
            async for piece in response.content.iter_any():
                parts.append(piece)
                size += len(piece)
                if size > self._front.answer_bytes_max:
                    raise DoorError("the answer of a broker is too large", code="TC436", hint="ask for less")
        except (aiohttp.ClientError, TimeoutError):
            raise DoorError("a broker did not end its answer", code="TC436", hint="try again soon") from None
        finally:
            response.close()
        headers = tuple((name, response.headers[name]) for name in PASSED_BACK if name in response.headers)
        return Reply(response.status, b"".join(parts), response.headers.get("content-type", ""), headers)

    async def _lists(self, call: Call, what: str) -> Reply:
        """The rows of all brokers, in order of their ids, as many as were asked for."""
        count = call.number_parameter("count", 100, self.settings.page_rows_max)
        replies = await asyncio.gather(*(self._pass_on(call, name, b"") for name in self._brokers))
        rows: list[dict[str, Any]] = []
        is_more = False
        for reply in replies:
            if reply.status != HTTP_OK:
                return reply
            answer = msgspec.json.decode(reply.body)
            rows += answer[what]
            is_more |= bool(answer.get("next"))
        rows.sort(key=itemgetter("id"))
        answer = {what: rows[:count]}
        if is_more or len(rows) > count:
            answer["next"] = rows[:count][-1]["id"]
        return Reply(HTTP_OK, msgspec.json.encode(answer))


def _away(broker: str, hint: str = "try again soon") -> TreecastError:
    return DoorError(f"{broker} does not answer", code="TC436", hint=hint)


def _fields(body: bytes) -> dict[str, Any]:
    """Of a form, as far as it is one; the broker says what is wrong with it."""
    try:
        form = msgspec.json.decode(body or b"{}")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    return form if isinstance(form, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
