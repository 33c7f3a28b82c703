"""What `treecast up --demo` adds: a source that keeps publishing small news, and some subscriptions.

News are drawn by seed, so two demonstrations begin alike:

    >>> document(Random(1), 7).startswith(b'<news number="7">')
    True

One document in a while is not well-formed, so that there are refusals to look at. Everything goes through a client of
the broker in the same process, so it needs no token.
"""

from __future__ import annotations

import asyncio
from random import Random
from xml.sax.saxutils import escape

import msgspec
import structlog

from treecast.errors import TreecastError
from treecast.overlay.messages import Document, Publish, RegisterSource, Subscribe
from treecast.serve.doors.local import LocalClient
from treecast.serve.runtime import Runtime

SOURCE = "demo"
SUBSCRIPTIONS = (
    Subscribe("demo/sport", '//item[@topic="sport"]', deliver="elements"),
    Subscribe("demo/urgent", "//item[@urgency=1]"),
    Subscribe("demo/markets", '//item[@topic="markets"][price > 100]/title', deliver="elements"),
)
TOPICS = {
    "sport": (
        "{place} beat {other} {small}:{smaller}",
        "{place} sign a keeper from {other}",
        "Rain stops play in {place}",
    ),
    "markets": ("Shares of {place} Steel rise", "{place} Bank & Sons reports", "Grain from {other} is dearer"),
    "politics": ("{place} votes on the harbour bridge", "Talks between {place} and {other} go on"),
    "weather": ("Storm off {place}", "First snow in {other}", "A dry week for {place} & {other}"),
}
PLACES = ("Vell", "Quernford", "Marsk", "Halloran", "Tidewell", "Orrery", "Cobbler's Yard", "Port Anselm")


class DemoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much is published."""

    every_ms: int = 200
    broken_every: int = 60
    """One document of so many is not well-formed."""
    seed: int = 1


def document(random: Random, number: int) -> bytes:
    """A few items of news."""
    items = []
    for _ in range(random.randint(1, 3)):
        topic = random.choice(list(TOPICS))
        place, other = random.sample(PLACES, 2)
        small = random.randint(1, 5)
        title = random.choice(TOPICS[topic]).format(
            place=place, other=other, small=small, smaller=random.randint(0, small - 1)
        )
        price = f"<price>{random.randint(20, 180)}</price>" if topic == "markets" else ""
        items.append(
            f'  <item topic="{topic}" urgency="{random.randint(1, 5)}">'
            f"<title>{escape(title)}</title><place>{escape(place)}</place>{price}</item>\n"
        )
    return f'<news number="{number}">\n{"".join(items)}</news>\n'.encode()


class Demo:
    """Make it before the runtime is opened; then `run` it, and `stop` it before the runtime stops."""

    def __init__(
        self,
        runtime: Runtime,
        random: Random,
        log: structlog.typing.FilteringBoundLogger,
        answer_ms: int,
        settings: DemoSettings | None = None,
    ) -> None:
        """`random` is for the client; news have a seed of their own."""
        self._client = LocalClient(runtime, random, answer_ms, SOURCE)
        self._log = log
        self._settings = settings or DemoSettings()
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = asyncio.create_task(self._run())

    def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
        self._client.stop()

    async def _run(self) -> None:
        random = Random(self._settings.seed)
        number = 0
        is_prepared = False
        while True:
            try:
                if not is_prepared:
                    await self._prepare()
                    is_prepared = True
                number += 1
                await self._publish(random, number)
            except TreecastError as error:  # the broker is not ready, or its disk is full: later, perhaps
                self._log.warning("the demonstration is interrupted", error=str(error))
            await asyncio.sleep(self._settings.every_ms / 1000)

    async def _prepare(self) -> None:
        """What is there already stays as it is."""
        tail = self._client.expect_broker().tail
        if SOURCE not in tail.sources():
            await self._client.request(RegisterSource(SOURCE, description="news that treecast up --demo makes up"))
        for subscription in SUBSCRIPTIONS:
            if tail.subscription(subscription.id) is None:
                await self._client.request(subscription)

    async def _publish(self, random: Random, number: int) -> None:
        body = document(random, number)
        is_broken = number % self._settings.broken_every == 0
        if is_broken:
            body = body.removesuffix(b"</news>\n")
        try:
            await self._client.request(Publish(SOURCE, [Document(body)]))
        except TreecastError as error:
            if not (is_broken and error.code.startswith("TC2")):
                raise
