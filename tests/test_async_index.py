"""AsyncIndex: the loop stays free, and no more calls run or wait than it allows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from treecast import DocumentError, Index, LimitError
from treecast.async_index import AsyncIndex

pytestmark = pytest.mark.house


def run(main: Callable[[AsyncIndex], Awaitable[Any]], **settings: Any) -> Any:
    async def inner() -> Any:
        index = Index()
        index.add_many([("a", "/a"), ("b", "//b")])
        async with AsyncIndex(index, **settings) as calls:
            return await main(calls)

    return asyncio.run(inner())


def test_the_methods_are_those_of_an_index(tmp_path: Path) -> None:
    async def main(calls: AsyncIndex) -> None:
        await calls.add("c", "//c", deliver="elements")
        assert await calls.add_many([("d", "//d")]) is None
        assert await calls.remove_many(["d"]) == 1
        assert await calls.match(b"<a><c/></a>") == ["a", "c"]
        assert [one.payload for one in await calls.render(b"<a><c/></a>")] == [b"<a><c/></a>", b"<c/>"]
        assert (await calls.match_many([b"<a/>", b"<b/>"], threads=1))["subscription"].to_pylist() == ["a", "b"]
        deliveries, errors = await calls.render_many([b"<a/>", b"<a>"], on_error="report")
        assert (deliveries.num_rows, errors["code"].to_pylist()) == (1, ["TC209"])
        tables = [table async for table in calls.match_batches((b"<a/>" for _ in range(3)), matches_max=1)]
        assert [table["document"].to_pylist() for table in tables] == [[0], [1], [2]]
        assert [table.num_rows async for table in calls.render_batches([b"<a/>"])] == [1]
        assert (await calls.explain(b"<a/>", "a")).matched
        with pytest.raises(DocumentError):
            await calls.match(b"<a>")
        await calls.compact()
        await calls.save(tmp_path / "saved.tcx")
        async with await AsyncIndex.load(tmp_path / "saved.tcx") as loaded:
            assert list(loaded.index) == ["a", "b", "c"]
        assert repr(calls) == "<AsyncIndex of <Index of 3 subscriptions>, up to 4 calls at once>"

    run(main)


def test_the_loop_goes_on_while_a_call_runs() -> None:
    """A call that waits for something which only the loop can do: it would never end in the loop itself."""

    async def main(calls: AsyncIndex) -> bool:
        happened = threading.Event()
        asyncio.get_running_loop().call_soon(happened.set)
        return await calls.call(happened.wait, 60)

    assert run(main)


def test_no_more_calls_run_or_wait_than_it_allows() -> None:
    async def main(calls: AsyncIndex) -> None:
        release = threading.Event()
        most, running, lock = 0, 0, threading.Lock()

        def work() -> None:
            nonlocal most, running
            with lock:
                running += 1
                most = max(most, running)
            release.wait(60)
            with lock:
                running -= 1

        tasks = [asyncio.create_task(calls.call(work)) for _ in range(5)]
        await asyncio.sleep(0)
        with pytest.raises(LimitError, match="TC343 no room for another call: calls_max is 2, waiting_max 3") as caught:
            await calls.match(b"<a/>")
        assert caught.value.code == "TC343"
        release.set()
        await asyncio.gather(*tasks)
        assert most <= 2
        assert await calls.match(b"<a/>") == ["a"]  # there is room again

    run(main, calls_max=2, waiting_max=3)


def test_a_call_that_is_cancelled_while_it_waits_never_runs() -> None:
    async def main(calls: AsyncIndex) -> None:
        release, ran = threading.Event(), threading.Event()
        first = asyncio.create_task(calls.call(release.wait, 60))
        second = asyncio.create_task(calls.call(ran.set))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        release.set()
        await first
        assert not ran.is_set()

    run(main, calls_max=1, waiting_max=1)


def test_only_an_index_is_taken() -> None:
    with pytest.raises(TypeError, match="an AsyncIndex is made of an Index, not of None"):
        AsyncIndex(None)  # type: ignore[arg-type]
