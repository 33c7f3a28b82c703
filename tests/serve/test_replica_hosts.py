"""A broker and its backup in two processes: killed without its disk, taken over, and given back."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from support.replica_hosts import HostProcess, appoint, free_address
from support.served_broker import QUICK, take

from treecast.overlay.replica.messages import Role
from treecast.serve.client import Connection

pytestmark = pytest.mark.house


async def publish(address: str, client: str, first: int, last: int) -> list[bytes]:
    documents = [b"<a>%d</a>" % number for number in range(first, last)]
    async with Connection(address, client, settings=QUICK) as connection:
        await connection.register_source("s")
        await connection.publish("s", documents[:10])
        await connection.publish("s", documents[10:])
    return documents


async def receive(address: str, count: int) -> list[bytes]:
    async with Connection(address, "reader", settings=QUICK) as connection:
        return await take(connection, ["q"], count)


def test_a_primary_that_dies_without_its_disk_is_replaced_and_comes_back(tmp_path: Path) -> None:
    places = {"b1": free_address(), "b2": free_address()}
    with (
        HostProcess(tmp_path / "b2", "b2", places["b2"], {"b1": places["b1"]}) as second,
        HostProcess(tmp_path / "b1", "b1", places["b1"], {"b2": places["b2"]}) as first,
    ):
        asyncio.run(lose_and_return(tmp_path, first, second))


async def lose_and_return(path: Path, first: HostProcess, second: HostProcess) -> None:
    role = Role("b1", 1, "b1", "b2", is_new=True)
    await appoint(first, role, lambda standing: standing.state == "paired")
    await appoint(second, role, lambda standing: standing.complete_term == 1)
    async with Connection(first.address, "reader", settings=QUICK) as connection:
        await connection.subscribe("q", "/a")
    documents = await publish(first.address, "writer", 0, 30)
    first.kill()
    shutil.rmtree(path / "b1")

    # A replica that may be incomplete in the term before does not take over; one that is complete does.
    refused = Role("b1", 3, "b2", "", after=2)
    await appoint(second, refused, lambda standing: standing.state == "refused")
    await appoint(second, Role("b1", 4, "b2", "", after=1), lambda standing: standing.state == "alone")
    documents += await publish(second.address, "writer", 30, 50)

    with HostProcess(path / "b1", "b1", first.address, {"b2": second.address}) as returned:
        lost = Role("b1", 5, "b1", "b2", after=4)
        await appoint(returned, lost, lambda standing: standing.state == "lost")
        role = Role("b1", 6, "b2", "b1", after=1)
        await appoint(second, role, lambda standing: standing.state == "paired")
        await appoint(returned, role, lambda standing: standing.complete_term == 6)
        documents += await publish(second.address, "writer", 50, 70)
        second.kill()
        await appoint(returned, Role("b1", 7, "b1", "", after=6), lambda standing: standing.state == "alone")
        assert await receive(returned.address, 70) == documents
