"""Versions of a changing set of subscriptions: what each holds, which batch has which, and what a restart finds."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from treecast import Index, PipelineError
from treecast.catalog.changes import Changes, apply, nothing, rows_of
from treecast.catalog.index_settings import IndexSettings
from treecast.catalog.versions import Version, Versions

pytestmark = pytest.mark.house

DOCUMENT = b'<a><b/><c/><x:d xmlns:x="urn:x"/></a>'


class Table:
    """A supplier whose answer can be set; an exception is raised."""

    def __init__(self, **columns: Any) -> None:
        self.answer: Any = pa.table(columns) if columns else None

    def __call__(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def found(version: Version) -> list[str]:
    return sorted(Index.load(version.path).match(DOCUMENT))


def test_changes_become_versions(tmp_path: Path) -> None:
    table = Table(id=["a", "b"], query=["/a", "//b"])
    versions = Versions(tmp_path, table)
    first = versions.of_batch(0)
    assert (first.number, first.subscriptions, first.refused, found(first)) == (1, 2, 0, ["a", "b"])
    assert versions.of_batch(1) == first
    table.answer = pa.table({"id": ["b", "c", "d"], "query": ["/z", "//c", "//p:d"], "namespaces": ["", "", "p=urn:x"]})
    second = versions.of_batch(2)
    assert (second.number, found(second)) == (2, ["c", "d"])
    table.answer = None  # nothing has changed
    assert versions.of_batch(3) == second
    assert (versions.of_batch(0), found(first)) == (first, ["a", "b"])  # repeated: with what it had
    assert versions.batches() == {
        0: (1, first.content),
        1: (1, first.content),
        2: (2, second.content),
        3: (2, second.content),
    }
    versions.close()


def test_a_restart_goes_on_from_the_saved_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(id=["a", "bad"], query=["/a", "]"])
    versions = Versions(tmp_path, table)
    version, stream = versions.of_batch(0), versions.stream
    versions.close()
    (tmp_path / "half-made.new").write_text("")
    again = Versions(tmp_path, table)
    assert (again.of_batch(0), again.of_batch(1), again.stream) == (version, version, stream)
    assert not (tmp_path / "half-made.new").exists()
    added: list[int] = []
    monkeypatch.setattr(Index, "add_many", _counting(Index.add_many, added))
    table.answer = pa.table({"id": ["a", "bad", "b"], "query": ["/a", "]", "//b"]})
    third = again.of_batch(2)
    assert (third.number, third.subscriptions, third.refused, added) == (2, 2, 1, [1])  # only what is new was added
    again.close()


def _counting(original: Any, added: list[int]) -> Any:
    def add_many(self: Index, given: Any, **settings: Any) -> Any:
        added.append(given.num_rows)
        return original(self, given, **settings)

    return add_many


def test_refused_subscriptions_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = Table(
        id=["a", None, "a", "bad", "odd", "far", "", "void"],
        query=["/a", "/a", "//b", "a[", "/a", "/a", "/a", "/a"],
        deliver=[None, None, None, None, "by hand", None, None, None],
        namespaces=[None, None, None, None, None, "{nonsense", None, "x="],
    )
    versions = Versions(tmp_path, table)
    first = versions.of_batch(0)
    assert (first.subscriptions, first.refused, found(first)) == (1, 7, ["a"])
    assert "'bad' is refused" in caplog.text
    table.answer = pa.table({"id": ["a", "bad"], "query": ["/a[", "/a"]})  # one becomes bad, one good
    second = versions.of_batch(1)
    assert (second.subscriptions, second.refused, found(second)) == (1, 1, ["bad"])
    table.answer = pa.table({"id": [], "query": []})  # columns of no type
    third = versions.of_batch(2)
    assert (third.number, third.subscriptions, found(third)) == (3, 0, [])
    versions.close()


def test_a_supplier_that_fails_leaves_the_last_version_in_force(tmp_path: Path) -> None:
    table = Table()
    table.answer = OSError("away")
    versions = Versions(tmp_path, table)
    with pytest.raises(OSError, match="away"):
        versions.of_batch(0)
    table.answer = pa.table({"id": ["a"], "query": ["/a"]})
    first = versions.of_batch(0)
    for number, answer in enumerate((OSError("away"), pa.table({"no": ["id"]}), 7), 1):
        table.answer = answer
        assert versions.of_batch(number) == first
    assert versions.failures == 3
    table.answer = pa.table({"id": pa.array([], pa.string()), "query": pa.array([], pa.string())})
    assert versions.of_batch(4).subscriptions == 0
    versions.close()


def test_old_versions_go_but_not_that_of_the_last_batch(tmp_path: Path) -> None:
    table = Table(id=["a"], query=["/a"])
    versions = Versions(tmp_path, table, versions_max=2)
    for number in range(6):
        table.answer = pa.table({"id": ["a"], "query": [f"/a{number}"]})
        versions.of_batch(number)
    assert len(list(tmp_path.glob("*.tcx"))) == len(list(tmp_path.glob("*.arrow"))) == 2
    assert len(versions.batches()) == 6
    with pytest.raises(PipelineError, match="TC752 batch 1 used version 2"):
        versions.of_batch(1)
    versions.close()
    with pytest.raises(ValueError, match="versions_max"):
        Versions(tmp_path, table, versions_max=1)


def test_an_index_is_a_version_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index()
    index.add("a", "/a")
    versions = Versions(tmp_path, lambda: index)
    first = versions.of_batch(0)
    with monkeypatch.context() as patch:
        patch.delattr(Index, "save")  # one that has not changed is not saved to find that out
        assert versions.of_batch(1) == first
    changes: list[Callable[[], None]] = [
        lambda: index.add("b", "//b"),
        lambda: index.add_many([("c", "//c")]),
        lambda: index.replace("c", "//none"),
        lambda: index.remove("b"),
    ]
    for number, change in enumerate(changes, 2):
        change()
        assert versions.of_batch(number).number == number
    assert found(versions.of_batch(5)) == ["a"]
    versions.close()
    table = Table(id=["c"], query=["//c"])  # from now on a table
    again = Versions(tmp_path, table)
    assert found(again.of_batch(6)) == ["c"]
    again.close()


def test_other_settings_make_another_version(tmp_path: Path) -> None:
    table = Table(id=["d"], query=["//p:d"])
    versions = Versions(tmp_path, table, IndexSettings({"p": "urn:x"}))
    assert found(versions.of_batch(0)) == ["d"]
    versions.close()
    again = Versions(tmp_path, table, IndexSettings({"p": "urn:y"}))
    assert (found(again.of_batch(0)), found(again.of_batch(1))) == (["d"], [])
    again.close()


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="TC753"):
        Versions(tmp_path / "file" / "below", Table())


def test_random_changes_end_where_a_new_index_begins() -> None:
    """Whatever the way, the index holds what the last table says."""
    draw = random.Random(5)
    queries = ["/a", "//b", "/a[b]", "//c | //d", "]", "/a/c", "//*[@x]", "a b"]
    index, rows = Index(), nothing(rows=True)
    for _ in range(60):
        ids = [f"s{draw.randrange(12)}" for _ in range(draw.randrange(14))]
        table = pa.table(
            {
                "id": pa.array(ids, pa.string()),
                "query": pa.array([draw.choice(queries) for _ in ids], pa.string()),
                "deliver": pa.array([draw.choice(["document", "elements", None]) for _ in ids], pa.string()),
            }
        )
        wanted, left_out = rows_of(table)
        assert left_out == len(ids) - len(set(ids))
        rows, _ = apply(index, rows, wanted)
        anew, marked = Index(), apply(Index(), nothing(rows=True), wanted)[0]
        anew.add_many(wanted, on_refused="report")
        assert rows.column("refused").to_pylist() == marked.column("refused").to_pylist()
        assert len(index) == len(anew)
        kept = [id for id in set(ids) if id in anew]
        assert [index[id] for id in kept] == [anew[id] for id in kept]
        assert apply(index, rows, wanted)[1] == Changes()


def _flipped(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def test_damaged_records_are_reported_in_one_sentence(tmp_path: Path) -> None:
    """Wherever a byte of the SQLite file has changed, the versions are as before, or the error is ours."""
    table = Table(id=["a"], query=["/a"])
    versions = Versions(tmp_path, table)
    before = versions.of_batch(0)
    versions.close()
    records = tmp_path / "versions.sqlite"
    whole = records.read_bytes()
    codes = set()
    used = [at for at in range(len(whole)) if whole[at]]  # most of a page is empty
    for at in used[:: max(1, len(used) // 250)]:
        records.write_bytes(whole)
        _flipped(records, at)
        try:
            again = Versions(tmp_path, table)
            try:
                again.of_batch(0)
                again.of_batch(1)
                again.batches()
            finally:
                again.close()
        except PipelineError as error:
            codes.add(error.code)
            assert "another checkpoint directory" in error.hint or "can be written to" in error.hint
        (before.path).exists() or pytest.fail("the version was removed")
    assert "TC753" in codes <= {"TC752", "TC753"}


@pytest.mark.parametrize("suffix", [".tcx", ".arrow"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_version_is_built_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, suffix: str, damage: str
) -> None:
    table = Table(id=["a", "b"], query=["/a", "//b"])
    versions = Versions(tmp_path, table)
    first = versions.of_batch(0)
    versions.close()
    path = first.path.with_suffix(suffix)
    if damage == "flip":
        data = path.read_bytes()
        _flipped(path, data.index(b"ab") if suffix == ".arrow" else len(data) // 2)
    else:
        path.write_bytes(path.read_bytes()[: 100 if damage == "cut" else 0])
    again = Versions(tmp_path, table)
    second = again.of_batch(1)
    assert found(second) == ["a", "b"]
    assert "damaged" in caplog.text or "built from nothing" in caplog.text
    # A batch that used the damaged one gets what is the same to the byte, or nothing.
    assert found(again.of_batch(0)) == ["a", "b"]
    table.answer = pa.table({"id": ["a"], "query": ["/a"]})
    again.of_batch(2)
    if suffix == ".tcx":
        with pytest.raises(PipelineError, match=r"TC752 batch 0 used version 1 .* or damaged"):
            again.of_batch(0)
    again.close()


def test_a_damaged_version_of_an_index_is_saved_again(tmp_path: Path) -> None:
    index = Index()
    index.add("a", "/a")
    versions = Versions(tmp_path, lambda: index)
    first = versions.of_batch(0)
    versions.close()
    _flipped(first.path, 100)
    again = Versions(tmp_path, lambda: index)
    assert again.of_batch(1) == first and found(first) == ["a"]
    again.close()


def test_an_error_of_the_supplier_does_not_count_as_damage(tmp_path: Path) -> None:
    table = Table()
    table.answer = sqlite3.DatabaseError("theirs")
    versions = Versions(tmp_path, table)
    with pytest.raises(sqlite3.DatabaseError, match="theirs"):
        versions.of_batch(0)
    versions.close()
