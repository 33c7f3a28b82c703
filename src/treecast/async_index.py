"""An Index for programs with an event loop: every call runs in a thread, and the loop goes on meanwhile.

    >>> import asyncio, treecast
    >>> from treecast.async_index import AsyncIndex
    >>> async def main() -> list[str]:
    ...     index = treecast.Index()
    ...     async with AsyncIndex(index) as calls:
    ...         await calls.add("sport", "//sport")
    ...         return await calls.match(b"<news><sport/></news>")
    >>> asyncio.run(main())
    ['sport']

The index is a plain one, which other threads may use at the same time. Native code releases the GIL, so `calls_max`
calls really run at once. A hop to a thread and back takes about 0.1 ms: where throughput counts, collect documents and
call `match_many`. A `match` of a small document in the loop itself would block it for less than that.

A call that was cancelled before it began does not run. One that has begun runs to its end, since native code cannot be
stopped halfway, and its answer is dropped; until then it counts as one of `calls_max`.

Codes: TC343 more calls wait than `waiting_max`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from treecast.arguments import check_integer, kind_of
from treecast.document import AnyDocument
from treecast.errors import LimitError
from treecast.index import Index
from treecast.index.explain import Explanation
from treecast.model import Deliver, Delivery
from treecast.query import AnyNamespaces, AnyQuery

if TYPE_CHECKING:
    import pyarrow as pa

    from treecast.index.index import Documents

CALLS_MAX = 4
WAITING_MAX = 1000

Answer = TypeVar("Answer")


class AsyncIndex:
    """The methods of an `Index` that may take long, as coroutines.

    At most `calls_max` calls run at once, each in a thread of its own pool; at most `waiting_max` more wait for one. A
    call beyond that raises a LimitError (TC343) at once: whoever feeds the loop has to slow down. Close it, or use it
    as a context manager: its threads end then, after the calls that run.
    """

    def __init__(self, index: Index, *, calls_max: int = CALLS_MAX, waiting_max: int = WAITING_MAX) -> None:
        if not isinstance(index, Index):
            raise TypeError(f"an AsyncIndex is made of an Index, not of {kind_of(index)}")
        self.index = index
        """The index itself; `len`, `in` and `stats` are quick enough to be called in the loop."""
        self.calls_max = check_integer("calls_max", calls_max, 1, 1024)
        self.waiting_max = check_integer("waiting_max", waiting_max, 0)
        self._pool = ThreadPoolExecutor(self.calls_max, "treecast")
        self._unfinished: set[Future[Any]] = set()

    @classmethod
    async def load(cls, path: str | Path, *, calls_max: int = CALLS_MAX, **settings: Any) -> Self:
        """`Index.load`, with its settings, in a thread."""
        index = await asyncio.to_thread(functools.partial(Index.load, path, **settings))
        return cls(index, calls_max=calls_max)

    async def call(self, function: Callable[..., Answer], *arguments: Any, **settings: Any) -> Answer:
        """Any function in one of the threads, within the same bounds: for what has no method here."""
        if len(self._unfinished) >= self.calls_max + self.waiting_max:
            hint = "wait for answers before you call again, or raise waiting_max"
            message = f"no room for another call: calls_max is {self.calls_max}, waiting_max {self.waiting_max}"
            raise LimitError(f"TC343 {message}\n  hint: {hint}", code="TC343", hint=hint)
        future = self._pool.submit(functools.partial(function, *arguments, **settings))
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return await asyncio.wrap_future(future)

    async def aclose(self) -> None:
        """Wait for the calls that run, drop those that wait, and end the threads."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<AsyncIndex of {self.index!r}, up to {self.calls_max} calls at once>"

    # -- documents

    async def match(self, document: AnyDocument) -> list[str]:
        """As `Index.match`."""
        return await self.call(self.index.match, document)

    @overload
    async def match_many(
        self, documents: Documents, *, threads: int | None = None, on_error: Literal["raise"] = "raise"
    ) -> pa.Table: ...

    @overload
    async def match_many(
        self, documents: Documents, *, threads: int | None = None, on_error: Literal["report"]
    ) -> tuple[pa.Table, pa.Table]: ...

    async def match_many(
        self, documents: Documents, *, threads: int | None = None, on_error: Literal["raise", "report"] = "raise"
    ) -> pa.Table | tuple[pa.Table, pa.Table]:
        """As `Index.match_many`."""
        return await self.call(self.index.match_many, documents, threads=threads, on_error=on_error)

    async def match_batches(self, documents: Iterable[AnyDocument], **settings: Any) -> AsyncIterator[Any]:
        """As `Index.match_batches`. The iterable is read in a thread too, so it may block."""
        async for table in self._each(self.index.match_batches(documents, **settings)):
            yield table

    async def render(self, document: AnyDocument) -> list[Delivery]:
        """As `Index.render`."""
        return await self.call(self.index.render, document)

    @overload
    async def render_many(
        self, documents: Documents, *, threads: int | None = None, on_error: Literal["raise"] = "raise"
    ) -> pa.Table: ...

    @overload
    async def render_many(
        self, documents: Documents, *, threads: int | None = None, on_error: Literal["report"]
    ) -> tuple[pa.Table, pa.Table]: ...

    async def render_many(
        self, documents: Documents, *, threads: int | None = None, on_error: Literal["raise", "report"] = "raise"
    ) -> pa.Table | tuple[pa.Table, pa.Table]:
        """As `Index.render_many`."""
        return await self.call(self.index.render_many, documents, threads=threads, on_error=on_error)

    async def render_batches(self, documents: Iterable[AnyDocument], **settings: Any) -> AsyncIterator[Any]:
        """As `Index.render_batches`."""
        async for table in self._each(self.index.render_batches(documents, **settings)):
            yield table

    async def explain(self, document: AnyDocument, id: str) -> Explanation:
        """As `Index.explain`."""
        return await self.call(self.index.explain, document, id)

    # -- subscriptions

    async def add(
        self,
        id: str,
        query: AnyQuery,
        *,
        namespaces: AnyNamespaces | None = None,
        ordered: bool = False,
        deliver: Deliver = "document",
    ) -> None:
        """As `Index.add`."""
        await self.call(self.index.add, id, query, namespaces=namespaces, ordered=ordered, deliver=deliver)

    async def add_many(
        self, subscriptions: Any, *, on_refused: Literal["raise", "report"] = "raise"
    ) -> pa.Table | None:
        """As `Index.add_many`."""
        return await self.call(self.index.add_many, subscriptions, on_refused=on_refused)

    async def remove_many(self, ids: Iterable[str]) -> int:
        """As `Index.remove_many`."""
        return await self.call(self.index.remove_many, ids)

    async def compact(self) -> None:
        """As `Index.compact`."""
        await self.call(self.index.compact)

    async def save(self, path: str | Path) -> None:
        """As `Index.save`."""
        await self.call(self.index.save, path)

    async def _each(self, tables: Iterator[Any]) -> AsyncIterator[Any]:
        end = object()
        while (table := await self.call(next, tables, end)) is not end:
            yield table
