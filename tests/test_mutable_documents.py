"""Documents in memory that somebody else may change while native code reads them: a private copy is read."""

from __future__ import annotations

import array
import mmap
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from support.sanitized import fewer

import treecast
from treecast import _native
from treecast.document import arrow_views

DOCUMENT = b"<r>" + b'<a b="c">text &amp; more<d/></a>' * 300 + b"</r>"


def mapped(data: bytes) -> mmap.mmap:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return mmap.mmap(file.fileno(), len(data))


@pytest.mark.parametrize(
    "make",
    [
        bytearray,
        lambda data: memoryview(bytearray(data)),
        lambda data: memoryview(bytearray(data)).toreadonly(),
        lambda data: memoryview(memoryview(bytearray(data)).toreadonly())[:],
        lambda data: array.array("B", data),
        lambda data: pa.py_buffer(bytearray(data)),
        mapped,
    ],
    ids=["bytearray", "view", "read-only view", "view of a view", "array", "Arrow buffer", "map"],
)
def test_what_may_change_is_copied(make: Callable[[bytes], Any]) -> None:
    document = make(b"<a/>")
    held = _native.testing.Buffers([document])
    assert held.copied == 1
    base = document.obj if isinstance(document, memoryview) else document
    memoryview(base).cast("B")[1:2] = b"x"
    assert held.bytes(0) == b"<a/>"
    if isinstance(base, bytearray) and base is document:
        base.clear()  # nothing holds it: it may change its size
    index = treecast.Index()
    index.add("x", "/x")
    index.add("a", "/a")
    assert index.match(make(b"<x/>")) == ["x"]
    assert [delivery.payload for delivery in index.render(make(b"<a/>"))] == [b"<a/>"]


def test_what_never_changes_is_not_copied() -> None:
    views = arrow_views(pa.array([b"<a/>", b"<bb/>"]))
    held = _native.testing.Buffers([b"<a/>", memoryview(b"<xa/>")[1:], *views])
    assert held.copied == 0
    assert [held.bytes(number) for number in range(4)] == [b"<a/>", b"xa/>", b"<a/>", b"<bb/>"]


def test_nothing_is_held_when_a_document_is_refused() -> None:
    given = memoryview(b"<a/>")
    with pytest.raises(TypeError, match="not str"):
        _native.testing.Buffers([given, "<a/>"])
    given.release()  # raises while a buffer is held


@contextmanager
def changing(document: bytearray) -> Iterator[None]:
    """Meanwhile another thread writes markup over text and text over markup."""
    stop = threading.Event()

    def change() -> None:
        at = 0
        while not stop.is_set():
            for _ in range(200):
                at = (at + 7919) % len(document)
                document[at] = b'<>"& a/'[at % 7]
            document[:] = DOCUMENT

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_changes_from_another_thread_harm_nobody() -> None:
    """Each answer is that to some document, or an error; under the sanitizers nothing is read out of bounds."""
    document = bytearray(DOCUMENT)
    index = treecast.Index()
    index.add("a", "//a[@b = 'c'][d]")
    index.add("elements", "//a[d]", deliver="elements")
    index.add("built", "for $a in $msg//a order by $a/@b, $a return <o n='{$a/@b}'>{$a, $a/text()}</o>")
    index.add("steps", "drop //d; rename //a to b")
    with changing(document):
        for _ in range(fewer(60)):
            for run in (
                lambda: index.match(document),
                lambda: index.match_many([document, memoryview(document)], on_error="report"),
                lambda: index.render(document),
                lambda: index.render_part([document], report=True),
                lambda: index.render_many([document, memoryview(document)], threads=2),
                lambda: index.explain(document, "a"),
                lambda: treecast.read(document),
            ):
                try:
                    run()
                except treecast.DocumentError as error:
                    assert error.code.startswith(("TC2", "TC3"))
