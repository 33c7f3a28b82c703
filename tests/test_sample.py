"""The embedded sample: what the demo finds in it is what lxml finds in it."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
from pathlib import Path

from lxml import etree

import treecast
from treecast import sample


def read_documents() -> dict[str, bytes]:
    documents = {}
    for path in sorted((sample.path() / "documents").rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            documents[path.name] = gzip.decompress(data) if path.suffix == ".gz" else data
    return documents


def read_subscriptions() -> list[tuple[str, str, dict[str, str]]]:
    with (sample.path() / "subscriptions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [(row["id"], row["query"], dict(pair.split("=", 1) for pair in row["namespaces"].split())) for row in rows]


def matches_by_lxml(data: bytes, subscriptions: list[tuple[str, str, dict[str, str]]]) -> list[str]:
    tree = etree.fromstring(data).getroottree()
    found = []
    for name, query, namespaces in subscriptions:
        bindings = {prefix or "default": uri for prefix, uri in namespaces.items()}
        # XPath 1.0 has no default namespace: give the names of these few queries, all plain paths, a prefix.
        text = query if "" not in namespaces else query.replace("/", "/default:").replace("/default:/", "//")
        if tree.xpath(text, namespaces=bindings):
            found.append(name)
    return found


def test_every_document_matches_what_lxml_says() -> None:
    subscriptions = read_subscriptions()
    index = treecast.Index()
    for name, query, namespaces in subscriptions:
        index.add(name, query, namespaces=namespaces)
    unmatched = {name for name, _, _ in subscriptions}
    for document, data in read_documents().items():
        found = index.match(data)
        assert found == matches_by_lxml(data, subscriptions), document
        unmatched.difference_update(found)
    # Most of them find something, some wait in vain: that is what a standing set looks like.
    assert 20 <= len(unmatched) <= len(subscriptions) // 5


def test_the_sample_is_varied() -> None:
    documents = read_documents()
    assert len(documents) >= 36
    assert all(300 <= len(data) <= 6_000 for data in documents.values())
    encodings = {etree.fromstring(data).getroottree().docinfo.encoding.upper() for data in documents.values()}
    assert encodings >= {"UTF-8", "UTF-16", "ISO-8859-1", "WINDOWS-1252"}
    assert any(b"<![CDATA[" in data for data in documents.values())
    assert len({name for name, _, _ in read_subscriptions()}) >= 300


def test_python_m_prints_its_path() -> None:
    done = subprocess.run([sys.executable, "-m", "treecast.sample"], capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == sample.path()
