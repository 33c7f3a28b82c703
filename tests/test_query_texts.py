"""The texts of queries, which an index keeps as numbers of words: they come back as they were, and take few bytes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_saved import HEADER, checksum

from treecast import Index, QueryError

TEXTS = [
    "/news",
    "//news//item/@id",
    "/a/b/text()",
    "/*//*/@*",
    "/a [b]",
    "/a/b[c/d]/e",
    '/a[@b="/c/d"]//e',
    "/a/b | //c",
    "//été/naïve",
    "/a/self::b",
    "  /a/b",
    "/a/b/",
    "<out>{for $x in /a/b return $x}</out>",
    "/" + "/".join(["x" * 80, "y"]),
    "/" + "/".join("abc" for _ in range(200)),
]


def kept(text: str) -> str | None:
    """What comes back; None where it is no query."""
    index = Index()
    index.add_many([("before", "/news/item"), ("beside", "//item[@id]")])
    try:
        index.add("it", text)
    except QueryError:
        assert len(index) == 2
        index.add("after", "/news//other")
        assert index["after"].query == "/news//other"
        return None
    index.add("after", "/news/item/other")
    assert [index[id].query for id in ("before", "beside", "after")] == [
        "/news/item",
        "//item[@id]",
        "/news/item/other",
    ]
    assert index.subscriptions()["query"].to_pylist()[2] == index["it"].query
    return index["it"].query


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_comes_back_as_it_was(text: str) -> None:
    assert kept(text) in (text, None)


@given(
    st.lists(st.sampled_from(["/", "//", "/a", "//b", "p:", "@", "*", "[", "]", '"', "é", " ", "|", "text()"])).map(
        "".join
    )
)
@example("/a/b")
def test_any_text_comes_back_as_it_was(text: str) -> None:
    assert kept(text) in (text, None)


def test_settings_stay_with_their_texts() -> None:
    index = Index()
    for place in range(300):
        index.add(
            f"s{place}",
            f"/p:a/b{place}",
            namespaces={"p": f"urn:{place % 70}"},
            deliver="elements" if place % 3 else "document",
        )
    for place in range(300):
        found = index[f"s{place}"]
        assert (found.query, found.namespaces["p"]) == (f"/p:a/b{place}", f"urn:{place % 70}")
        assert found.deliver == ("elements" if place % 3 else "document")


def test_texts_take_few_bytes() -> None:
    """Steps of 50 bytes: each is stored once, however many queries have it."""
    names = [f"{'name' * 12}{number}" for number in range(30)]
    queries = [f"/{a}/{b}//{c}" for a in names for b in names for c in names[:8]]
    index = Index()
    index.add_many([(f"s{place}", query) for place, query in enumerate(queries)])
    assert len(queries[0]) > 150
    assert index.stats().bytes / len(queries) < 120


def test_more_words_than_there_may_be() -> None:
    """What has no number is kept as it is."""
    count = 66_000
    index = Index()
    index.add_many([(f"s{place}", f"/n{place}/x") for place in range(count)])
    assert [index[f"s{place}"].query for place in (0, 65_535, count - 1)] == ["/n0/x", "/n65535/x", f"/n{count - 1}/x"]
    assert index.match(b"<n65999><x/></n65999>") == ["s65999"]


def first_format(path: Path, ids: list[str], texts: list[str], about: bytes) -> None:
    """A file as the fifth version wrote it, as far as it is read again: what was asked for."""

    def ends(values: list[str], kind: str) -> bytes:
        places = [0]
        for value in values:
            places.append(places[-1] + len(value.encode()))
        return struct.pack(f"<{len(places)}{kind}", *places)

    count = len(ids)
    numbers = struct.pack(f"<{count}I", *[0] * count)
    settings = bytes([0, 0, 0])  # unordered, the document, no prefixes
    sections = [b"", about, settings, ends(ids, "i"), "".join(ids).encode(), ends(texts, "Q"), "".join(texts).encode()]
    sections += [numbers, numbers, b""]  # settings by slot, deaths, order
    offset = data_begin = -(-(HEADER.size + 16 * len(sections)) // 64) * 64
    table, body, total = b"", b"", data_begin
    for section in sections:
        table += struct.pack("<QQ", offset, len(section))
        body += section.ljust(-(-len(section) // 64) * 64, b"\0")
        offset = data_begin + len(body)
        total = checksum(section, total)
    size = data_begin + len(body)
    header = HEADER.pack(b"TREECAST", 5, 0x01020304, size, len(sections), total, 0)
    header = header[:-8] + struct.pack("<Q", checksum(table, checksum(header)))
    path.write_bytes((header + table).ljust(data_begin, b"\0") + body)


def test_a_file_of_the_fifth_format_is_rebuilt(tmp_path: Path) -> None:
    current = tmp_path / "current.tcx"
    Index().save(current)
    offset, size = struct.unpack_from("<QQ", current.read_bytes(), HEADER.size + 16)
    about = current.read_bytes()[offset : offset + size]
    old = tmp_path / "old.tcx"
    first_format(old, ["one", "two"], ["/a/b", '//c[@d="1"]'], about)
    with pytest.warns(UserWarning, match="another format version"):
        index = Index.load(old)
    assert index.match(b'<a><b/><c d="1"/></a>') == ["one", "two"]
    assert index["two"].query == '//c[@d="1"]'
