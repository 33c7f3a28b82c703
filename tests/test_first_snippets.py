"""What a newcomer types first, each with what it gives; and the types that a type checker sees in it."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

import treecast

ROOT = Path(__file__).resolve().parent.parent
NEWS = b'<news><item lang="en"><title>Rates</title></item><item lang="de"><title>Zins</title></item></news>'


def index_of_news() -> treecast.Index:
    return treecast.Index({"all": "/news", "german": '//item[@lang = "de"]', "sport": "//sport"})


def from_a_file(tmp_path: Path) -> object:
    path = tmp_path / "news.xml"
    path.write_bytes(NEWS)
    with path.open("rb") as file:
        return index_of_news().match(path), index_of_news().match(file)


def assigned(tmp_path: Path) -> object:
    index = treecast.Index()
    index["title"] = "//title"
    index["title"] = treecast.parse("//item/title")
    return index["title"].query, len(index), "title" in index


def deleted(tmp_path: Path) -> object:
    index = index_of_news()
    del index["all"]
    try:
        del index["all"]
    except KeyError as error:
        return list(index), type(error).__name__
    return None


def updated(tmp_path: Path) -> object:
    index = index_of_news()
    index.update({"sport": "//football", "weather": "//weather"})
    return {id: subscription.query for id, subscription in index.items()}


def refused(tmp_path: Path) -> object:
    try:
        treecast.Index({"wrong": "/news["})
    except treecast.QueryError as error:
        return error.code, error.position
    return None


def reported(tmp_path: Path) -> object:
    matches, errors = index_of_news().match_many([NEWS, "<news>"], on_error="report")
    return matches["subscription"].to_pylist(), errors["document"].to_pylist()


def read_from_csv(tmp_path: Path) -> object:
    path = tmp_path / "subscriptions.csv"
    path.write_text("id,query\ntitles,//title\nimages,//img\n")
    return treecast.Index(treecast.read_subscriptions(path)).match(NEWS)


def pickled(tmp_path: Path) -> object:
    return index_of_news().match(pickle.loads(pickle.dumps(treecast.read(NEWS))))


def with_nsmap(tmp_path: Path) -> object:
    root = etree.fromstring('<feed xmlns="http://www.w3.org/2005/Atom"><entry/></feed>')
    return treecast.Index({"entries": "/feed/entry"}, namespaces=root.nsmap).match(root)


SNIPPETS: dict[str, tuple[Callable[[Path], Any], Any]] = {
    "parse and match": (lambda _: treecast.parse("/news/item").match("<news><item/></news>"), True),
    "Index of a dict": (lambda _: index_of_news().match(NEWS), ["all", "german"]),
    "Index of a list": (lambda _: treecast.Index([("q1", "//title"), ("q2", "//img")]).match(NEWS), ["q1"]),
    "assign": (assigned, ("//item/title", 1, True)),
    "delete": (deleted, (["german", "sport"], "UnknownIdError")),
    "update and items": (
        updated,
        {"all": "/news", "german": '//item[@lang = "de"]', "sport": "//football", "weather": "//weather"},
    ),
    "a file": (from_a_file, (["all", "german"], ["all", "german"])),
    "a string": (lambda _: index_of_news().match(NEWS.decode()), ["all", "german"]),
    "lxml": (lambda _: index_of_news().match(etree.fromstring(NEWS)), ["all", "german"]),
    "lxml's nsmap": (with_nsmap, ["entries"]),
    "many documents": (
        lambda _: index_of_news().match_many([NEWS, io.BytesIO(b"<sport/>")]).to_pydict(),
        {"document": [0, 0, 1], "subscription": ["all", "german", "sport"]},
    ),
    "bad documents": (reported, (["all", "german"], [1])),
    "a bad query": (refused, ("TC101", 6)),
    "read_subscriptions": (read_from_csv, ["titles"]),
    "records": (
        lambda _: [record.document for record in treecast.records(io.BytesIO(b"<l><a/><b/></l>"))],
        [b"<a/>", b"<b/>"],
    ),
    "a pickle": (pickled, ["all", "german"]),
    "render": (
        lambda _: repr(treecast.Index({"q": "//title"}).render(b"<a><title/></a>")),
        "[Delivery(subscription='q', payload=b'<a><title/></a>')]",
    ),
    "covers": (lambda _: treecast.parse("//a").covers(treecast.parse("/b/a")), True),
}


@pytest.mark.parametrize(("snippet", "expected"), SNIPPETS.values(), ids=SNIPPETS.keys())
def test_first_snippets(snippet: Callable[[Path], Any], expected: Any, tmp_path: Path) -> None:
    assert snippet(tmp_path) == expected


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_a_notebook_shows_the_first_subscriptions_escaped() -> None:
    index = treecast.Index({f"q{number}": "/a" for number in range(12)})
    index["q0"] = '/a[b < 3 or c = "<script>"]'
    html = index._repr_html_()
    assert "12 subscriptions, engine auto" in html and "… 2 more" in html
    assert "q9<" in html and "q10<" not in html
    assert "/a[b &lt; 3 or c = &quot;&lt;script&gt;&quot;]" in html and "<script>" not in html
    assert "1 subscription, engine yfilter" in treecast.Index({"q": "/a"}, engine="yfilter")._repr_html_()


def test_the_repr_of_a_delivery_is_short() -> None:
    long = repr(treecast.Delivery("q", b"<a>" + b"x" * 1_000_000 + b"</a>"))
    assert len(long) < 300 and "1,000,007 bytes: b'<a>xx" in long


# --- types -----------------------------------------------------------------------------------------------------------

TYPED = """
import treecast
from lxml import etree
from pathlib import Path
from typing import reveal_type

index = treecast.Index({"q": "/a"})
index = treecast.Index({"q": treecast.parse("/a")}, namespaces=etree.fromstring("<a/>").nsmap)
index["r"] = treecast.parse("/b")
index.update({"s": "/c"})
queries = {"t": "/d"}
index.update(queries)
index.match("<a/>"), index.match(Path("a.xml")), index.match(open("a.xml")), index.match(open("a.xml", "rb"))
index.match(etree.fromstring("<a/>")), index.match(treecast.read(b"<a/>"))
TYPES
treecast.Indexes
"""
REVEALED = {
    'index["q"]': "treecast.model.Subscription",
    'index.get("q")': "treecast.model.Subscription | None",
    "index.items()": "list[tuple[str, treecast.model.Subscription]]",
    'index.match(b"")': "list[str]",
    'index.match_many([b""])': "Any",  # a table of Arrow, which has no types of its own
    'index.match_many([b""], on_error="report")': "tuple[Any, Any]",
    'index.match_batches([b""])': "typing.Iterator[Any]",
    'index.match_batches([b""], on_error="report")': "typing.Iterator[tuple[Any, Any]]",
    'index.render_many([b""], on_error="report")': "tuple[Any, Any]",
    'index.render(b"")': "list[treecast.model.Delivery]",
    'treecast.parse("/a").match("<a/>")': "bool",
    'treecast.transcode(b"")': "bytes",
    "treecast.AsyncIndex(index)": "treecast.async_index.AsyncIndex",
}


@pytest.mark.house
def test_a_type_checker_sees_the_types(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(TYPED.replace("TYPES", "\n".join(f"reveal_type({expression})" for expression in REVEALED)))
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(program)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in run.stdout.splitlines() if "program.py" in line]
    revealed = [line.partition('Revealed type is "')[2].rstrip('"') for line in lines if "Revealed" in line]
    assert [text.replace("builtins.", "") for text in revealed] == list(REVEALED.values()), run.stdout + run.stderr
    (error,) = [line for line in lines if "error:" in line]
    assert 'Module has no attribute "Indexes"' in error
