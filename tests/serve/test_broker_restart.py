"""A broker that starts from a store has what the one before it had: the small twin of bench/broker_restart.py."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from bench.broker import make_documents
from bench.broker_restart import Sizes, change, prepare, start_once
from treecast import Index
from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.broker.broker import at_once
from treecast.overlay.broker.rows import SUBSCRIPTIONS, SubscriptionRow, decode
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import Delete, DeleteBefore, Put, StorageError
from treecast.serve.broker_process import in_thread
from treecast.serve.store import Store

SIZES = Sizes(subscriptions=2_000, changes=300, documents=200)

pytestmark = pytest.mark.house


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """A store, and the counts of the broker that wrote it."""
    directory = tmp_path_factory.mktemp("restart") / "store"
    prepare(directory, SIZES)
    return directory, change(directory, SIZES, removals=1 / 3)


@pytest.mark.parametrize("with_index", [True, False])
def test_a_restart_restores_everything(prepared: tuple[Path, dict[str, int]], with_index: bool) -> None:
    directory, before = prepared
    with Store.open(directory) as store:
        saved = store.load_index()
        assert saved is not None and saved[1] == SIZES.subscriptions
        broker = Broker("broker", store, Random(1), None, *(saved if with_index else ()))
        after = broker.stats()
        kept = ("subscriptions", "sources", "documents", "waiting", "unfinished_documents", "parked", "letters")
        assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
        assert after["waiting"] > SIZES.documents and after["subscriptions"] == SIZES.subscriptions
        expected = Index()
        for id, data in store.scan(SUBSCRIPTIONS, "", 10_000):
            expected.add(id, decode(data, SubscriptionRow).query)
        for document in make_documents(20, SIZES.subscriptions, seed=3):
            assert sorted(broker.index.match(document)) == sorted(expected.match(document)) != []


def test_what_does_not_fit_into_memory_is_parked_at_a_restart(prepared: tuple[Path, dict[str, int]]) -> None:
    directory, before = prepared
    with Store.open(directory) as store:
        settings = BrokerSettings(waiting_memory_max=100)
        stats = Broker("broker", store, Random(1), settings).stats()
        assert stats["waiting"] <= 100 and stats["parked"] > before["waiting"] // 10


def test_a_process_that_starts_answers(prepared: tuple[Path, dict[str, int]]) -> None:
    start = start_once(prepared[0])
    assert 0 < start.listening < start.answered


def test_what_is_done_beside_is_done_when_the_broker_is_there(prepared: tuple[Path, dict[str, int]]) -> None:
    began: list[bool] = []

    def late(work: Callable[[], None]) -> Callable[[], None]:
        began.append(True)
        return work  # nothing is done before somebody waits

    with Store.open(prepared[0]) as store:
        brokers = []
        for beside in (at_once, late, in_thread):
            index, version = store.load_index() or (None, 0)
            brokers.append(Broker("broker", store, Random(1), None, index, version, beside))
        assert began and len({tuple(broker.stats().items()) for broker in brokers}) == 1
        tables = [sorted(broker.index.subscriptions()["id"].to_pylist()) for broker in brokers]
        assert tables[0] == tables[1] == tables[2]


def test_what_fails_beside_fails_the_start() -> None:
    def fail() -> None:
        raise MemoryError("planted")

    with pytest.raises(MemoryError, match="planted"):
        in_thread(fail)()


# --- reading many rows ------------------------------------------------------------------------------------------------


def test_many_rows_are_read_as_if_one_by_one(tmp_path: Path) -> None:
    keys = [f"k{number}" for number in range(2_500)]
    with Store.open(tmp_path) as store:
        store.write([Put("t", key, key.encode()) for key in keys] + [Put("n", number, b"") for number in range(-3, 5)])
        asked = [*keys[::2], "missing", *keys[:10], "ключ"]
        assert store.get_many("t", asked) == {key: key.encode() for key in keys[:10] + keys[::2]}
        many = [f"k{number}" for number in range(0, 9_000, 3)]  # more than there are, and not all between them
        assert store.get_many("t", many) == {key: key.encode() for key in keys[::3]}
        assert store.get_many("n", [-3, 4, 5]) == {-3: b"", 4: b""}
        assert not store.get_many("t", list[str]()) and not store.get_many("nothing", ["k1"])
        assert not store.get_many("n", ["k1"])  # whose keys are numbers


def test_changes_that_are_not_durable_count(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.write([Put("t", "a", b"1"), Put("t", "b", b"1"), Put("n", 1, b"1"), Put("n", 2, b"1")])
        shadow = Shadow(store)
        shadow.apply([Put("t", "a", b"2"), Delete("t", "b"), Put("t", "c", b"2"), DeleteBefore("n", 2)])
        assert shadow.get_many("t", ["a", "b", "c", "d"]) == {"a": b"2", "c": b"2"}
        assert shadow.get_many("n", [1, 2]) == {2: b"1"}


@pytest.mark.parametrize("stored", [b"1234", b"", "text", None, 7])
def test_a_damaged_row_is_noticed_among_many(tmp_path: Path, stored: object) -> None:
    with Store.open(tmp_path) as store:
        store.write([Put("t", "a", b"1"), Put("t", "b", b"1"), Put("n", 1, b"1")])
    for table, key in (("t", "b"), ("n", 1)):
        with sqlite3.connect(tmp_path / "tables.sqlite") as connection:
            connection.execute(f"UPDATE t_{table} SET value = ? WHERE key = ?", (stored, key))
        connection.close()
    with Store.open(tmp_path) as store:
        assert store.get_many("t", ["a"]) == {"a": b"1"}
        for read in (
            lambda: store.get_many("t", ["a", "b"]),
            lambda: store.scan("t", "", 10),
            lambda: store.get_many("n", [1]),
            lambda: store.scan("n", 0, 10),
        ):
            with pytest.raises(StorageError, match="TC422"):
                read()
