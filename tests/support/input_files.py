"""One directory of documents, and one set of subscriptions in every form: for tests of all that read them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from treecast import Index, Subscription

NEWS, MAIL, ORDERED = b"<news/>", b'<x:a xmlns:x="urn:x"/>', b"<a><b/><c/></a>"
ODD_NAME = os.fsdecode(b"caf\xe9.xml")


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)  # type: ignore[no-any-return]


def tar_of(members: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return data.getvalue()


def zip_of(members: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


def write_documents(directory: Path) -> dict[str, list[str] | str]:
    """Fill a directory; for the name of each document the ids that match it, or the code of its error."""
    tar = tar_of({"m/n.xml": MAIL, "p.xml.gz": gzip.compress(NEWS)})
    content = {
        "a.xml": NEWS,
        ODD_NAME: MAIL,
        ".hidden.xml": NEWS,
        "_draft.xml": NEWS,
        ".git/x.xml": NEWS,
        "sub/b.xml": ORDERED,
        "sub/disguised.xml": gzip.compress(NEWS),
        "sub/deep/c.xml.gz": gzip.compress(NEWS),
        "sub/deep/c.xml.bz2": bz2.compress(NEWS),
        "sub/deep/c.xml.xz": lzma.compress(NEWS),
        "sub/deep/c.xml.zst": zstd(NEWS),
        "bad.xml": b"<a><b></a>",
        "note.txt": b"no XML",
        "half.xml.gz": gzip.compress(NEWS)[:-4],
        "half.xml.zst": zstd(NEWS * 100)[:-4],
        "broken.zip": b"PK nothing",
        "z.zip": zip_of({"x/y.xml": NEWS, "bad.xml": b"<", "q.xml.zst": zstd(MAIL)}),
        "t.tar": tar,
        "t.tar.gz": gzip.compress(tar),
        "t.tar.bz2": bz2.compress(tar),
        "t.tar.xz": lzma.compress(tar),
        "t.tar.zst": zstd(tar),
    }
    for name, data in content.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (directory / "gone.xml").symlink_to("nowhere.xml")
    (directory / "sub/circle").symlink_to(directory)
    expected: dict[str, list[str] | str] = {
        "a.xml": ["news"],
        ODD_NAME: ["mail"],
        "sub/b.xml": ["ordered"],
        "sub/disguised.xml": ["news"],
        **{f"sub/deep/c.xml.{kind}": ["news"] for kind in ("gz", "bz2", "xz", "zst")},
        "bad.xml": "TC202",
        "note.txt": "TC201",
        "half.xml.gz": "TC714",
        "half.xml.zst": "TC714",
        "broken.zip": "TC714",
        "gone.xml": "TC712",
        "z.zip!/x/y.xml": ["news"],
        "z.zip!/bad.xml": "TC209",
        "z.zip!/q.xml.zst": ["mail"],
    }
    for suffix in ("", ".gz", ".bz2", ".xz", ".zst"):
        expected |= {f"t.tar{suffix}!/m/n.xml": ["mail"], f"t.tar{suffix}!/p.xml.gz": ["news"]}
    return expected


ROWS: list[dict[str, Any]] = [
    {"id": "7", "query": "/seven"},
    {"id": "news", "query": "/news"},
    {"id": "mail", "query": "/x:a", "namespaces": {"x": "urn:x"}},
    {"id": "ordered", "query": "/*[b][c]", "ordered": True, "deliver": "elements"},
]


def table() -> pa.Table:
    maps = pa.map_(pa.string(), pa.string())
    schema = pa.schema([*((name, pa.string()) for name in ("id", "query", "deliver")), ("ordered", pa.bool_())])
    rows = pa.Table.from_pylist(ROWS, schema=schema)
    bindings = [list(row.get("namespaces", {}).items()) for row in ROWS]
    return rows.append_column("namespaces", pa.array(bindings, maps)).append_column("owner", pa.array(["me"] * 4))


class ArrowStream:
    """A table of another library, as polars lends it: nothing but the stream, views of strings, and no maps."""

    def __init__(self) -> None:
        pairs = [[{"key": key, "value": uri} for key, uri in row.get("namespaces", {}).items()] for row in ROWS]
        views = pa.schema([("id", pa.string_view()), ("query", pa.string_view())])
        columns = pa.Table.from_pylist(ROWS, schema=views)
        for name in ("ordered", "deliver"):
            columns = columns.append_column(name, pa.array([row.get(name) for row in ROWS]))
        self._table = columns.append_column("namespaces", pa.array(pairs))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def write_subscriptions(directory: Path) -> dict[str, Path]:
    """The subscriptions in every format that a file can have."""
    lines = [json.dumps(row) for row in ROWS]
    (directory / "s.csv").write_text(
        "id,Query,namespaces,ordered,deliver,owner\n7,/seven,,,,me\nnews,/news,,,,me\n"
        'mail,/x:a,x=urn:x,,,me\nordered,"/*[b][c]",,true,elements,me\n'
    )
    (directory / "array.json").write_text("\ufeff\n" + json.dumps([{**ROWS[0], "id": 7}, *ROWS[1:]], indent=2))
    (directory / "lines.json").write_text("\n".join(lines))
    (directory / "s.jsonl").write_text("\n".join(lines))
    pq.write_table(table(), directory / "s.parquet")
    (directory / "many").mkdir()
    pq.write_table(table().slice(0, 2), directory / "many/part-0.parquet")
    pq.write_table(table().slice(2), directory / "many/part-1.parquet")
    (directory / "many/_SUCCESS").write_text("")
    index = Index()
    index.add_many(ROWS)
    index.save(directory / "s.tcx")
    index.save(directory / "saved")
    names = ("s.csv", "array.json", "lines.json", "s.jsonl", "s.parquet", "many", "s.tcx", "saved")
    return {name: directory / name for name in names}


def subscription_objects() -> dict[str, Any]:
    """The same as Python objects."""
    import pandas as pd

    index = Index()
    index.add_many(ROWS)
    return {
        "table": table(),
        "batch": table().combine_chunks().to_batches()[0],
        "pandas": pd.DataFrame(ROWS, index=["a", "b", "c", "d"]).rename(columns={"query": "Query"}),
        "stream": ArrowStream(),
        "dicts": ROWS,
        "subscriptions": [Subscription(**row) for row in ROWS],
        "index": index,
    }
