"""The format "treecast": what files, directories, archives and record files become, and what is said of bad ones."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType
from support.input_files import tar_of, zip_of

from treecast import Index, PipelineError
from treecast.inputs.inflate import inflating
from treecast.inputs.listing import ListedFile, list_files, look, pattern_base
from treecast.inputs.records import BATCH_BYTES, records
from treecast.spark import documents, match, split
from treecast.spark.sources.source import DocumentSource
from treecast.spark.sources.source_options import Options, to_strings
from treecast.spark.sources.source_tasks import FILES_MAX, Piece, Task, make, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[str, bytes | None, int, int | None, str | None]


def rows_of(frame: DataFrame) -> list[Row]:
    """file, document, offset, ordinal and code of the error, sorted."""
    rows: list[Row] = []
    for row in frame.collect():
        document = row.document if row.document is None else bytes(row.document)
        rows.append((row.file, document, row.offset, row.ordinal, row.error and row.error.code))
    return sorted(rows, key=lambda row: (row[0], row[2], row[4] or ""))


def run(path: Path | list[Path], **settings: Any) -> list[Row]:
    """The same without Spark: all tasks, one after the other."""
    paths = [path] if isinstance(path, Path) else path
    options = Options.parse(to_strings({"paths": paths, **settings}))
    rows: list[Row] = []
    for task in make(list_files(options.paths, options.pattern), options):
        for batch in read(task, options):
            batch.validate(full=True)
            for row in batch.to_pylist():
                error = row["error"] and row["error"]["code"]
                rows.append((row["file"], row["document"], row["offset"], row["ordinal"], error))
    return rows


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def record_file(count: int) -> bytes:
    """Records of all sizes with everything that a careless splitter trips over."""
    parts = [b"<?xml version='1.0' encoding='ISO-8859-1'?><!DOCTYPE r SYSTEM 'r.dtd'>\n<r xmlns:p='urn:p'>"]
    for i in range(count):
        parts.append(b"<!-- <item n='x'> --><item n='%d' q='>'>" % i)
        parts.append(b"<item/><![CDATA[</item><item>]]>J&uuml;rgen \xfc" * (i % 7))
        parts.append(b"</item>\n<other><?p <item>?></other>")
    return b"".join([*parts, b"</r>"])


def test_directories_globs_and_archives(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.xml", b"<a/>")
    write(tmp_path / "sub/deep/b.xml", b"<b/>")
    write(tmp_path / "sub/c.xml.gz", gzip.compress(b"<c/>"))
    write(tmp_path / "z.zip", zip_of({"x/y.xml": b"<y/>", "g.xml.gz": gzip.compress(b"<g/>"), "_dir/": b""}))
    write(tmp_path / "_SUCCESS", b"")
    write(tmp_path / ".hidden/h.xml", b"<h/>")
    write(tmp_path / "note.txt", b"no XML")
    tar = tar_of({"m/n.xml": b"<n/>", "o.txt": b"nothing"})
    data_by_suffix = {
        ".tar": tar,
        ".tar.gz": gzip.compress(tar),
        ".tar.bz2": bz2.compress(tar),
        ".txz": lzma.compress(tar),
    }
    for suffix, data in data_by_suffix.items():
        write(tmp_path / f"t{suffix}", data)
    expected = [
        (tmp_path / "a.xml", b"<a/>"),
        (tmp_path / "sub/c.xml.gz", b"<c/>"),
        (tmp_path / "sub/deep/b.xml", b"<b/>"),
        *((f"{tmp_path}/t{suffix}!/m/n.xml", b"<n/>") for suffix in (".tar", ".tar.bz2", ".tar.gz", ".txz")),
        (f"{tmp_path}/z.zip!/g.xml.gz", b"<g/>"),
        (f"{tmp_path}/z.zip!/x/y.xml", b"<y/>"),
    ]
    rows = rows_of(documents(spark, tmp_path, pattern="*.xml"))
    assert rows == [(str(name), document, 0, 0, None) for name, document in expected]
    assert sorted(run(tmp_path, pattern="*.xml")) == rows
    others = [f"{tmp_path}/note.txt", *(f"{tmp_path}/t{suffix}!/o.txt" for suffix in data_by_suffix)]
    assert sorted(row[0] for row in run(tmp_path)) == sorted([*others, *(row[0] for row in rows)])
    assert [row[1] for row in rows_of(documents(spark, [tmp_path / "a.xml", f"file://{tmp_path}/sub/**/*.xml"]))] == [
        b"<a/>",
        b"<b/>",
    ]
    spark.dataSource.register(DocumentSource)
    frame = spark.read.format("treecast").load(f"{tmp_path}/a.xml, {tmp_path}/sub/deep")
    assert [row[1] for row in rows_of(frame)] == [b"<a/>", b"<b/>"]


def test_every_record_arrives_once_whatever_the_split_size(spark: SparkSession, tmp_path: Path) -> None:
    data = record_file(3000)
    path = write(tmp_path / "records.xml", data)
    expected = [
        (str(path), one.document, one.offset, one.ordinal, None)
        for one in records(io.BytesIO(data), record="item", entities="html")
    ]
    assert len(expected) == 3000
    for partition_bytes in (700, 9_999, 1 << 20):
        assert run(path, record="item", entities="html", partition_bytes=partition_bytes) == expected
    for partition_bytes in (60_000, 170_000):
        frame = documents(spark, path, record="item", entities="html", partition_bytes=partition_bytes)
        assert rows_of(frame) == expected
        assert len(data) // partition_bytes + 1 >= frame.rdd.getNumPartitions() > 1
    index = Index()
    index.add("all", "//item[@q='>']")
    index.add("some", "/item[contains(text(), 'Jürgen ü')]")
    matches = match(documents(spark, path, record="item", entities="html", partition_bytes=50_000), index)
    count_by_id = {row.subscription: row["count"] for row in matches.groupBy("subscription").count().collect()}
    assert count_by_id == {"all": 3000, "some": sum(1 for i in range(3000) if i % 7)}


def test_records_from_packed_files(tmp_path: Path) -> None:
    data = b"<r><a>1</a><b/><a>2</a></r>"
    write(tmp_path / "g.xml.gz", gzip.compress(data))
    write(tmp_path / "t.tar.gz", gzip.compress(tar_of({"x.xml": data, "y.xml": data})))
    write(tmp_path / "z.zip", zip_of({"x.xml": data}))
    names = ["g.xml.gz", "t.tar.gz!/x.xml", "t.tar.gz!/y.xml", "z.zip!/x.xml"]
    expected = [
        (f"{tmp_path}/{name}", document, offset, ordinal, None)
        for name in names
        for document, offset, ordinal in ((b"<a>1</a>", 3, 0), (b"<a>2</a>", 15, 1))
    ]
    assert run(tmp_path, record="a") == expected
    assert [row[1] for row in run(tmp_path / "z.zip", record="*")] == [b"<a>1</a>", b"<b/>", b"<a>2</a>"]
    assert [row[1] for row in run(tmp_path / "z.zip", record=["b", "r"])] == [data]


def test_bad_files_are_rows_and_the_rest_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    good = b"<a><b/></a>"
    no_archive = gzip.compress(os.urandom(200_000).hex().encode())
    write(tmp_path / "1.xml", good)
    write(tmp_path / "2.zip", b"PK nothing")
    write(tmp_path / "3.xml.gz", gzip.compress(good)[:-5])
    write(tmp_path / "4.xml.gz", b"")
    write(tmp_path / "5.tar.gz", no_archive)
    write(tmp_path / "6.tar", tar_of({"a.xml": good, "b.xml": b"<c/>" * 5000})[:1700])
    damaged_zip = bytearray(zip_of({"a.xml": good * 50, "b.xml": good}))
    damaged_zip[45] ^= 0xFF
    write(tmp_path / "7.zip", bytes(damaged_zip))
    write(tmp_path / "8.xml", b"<a>" + b"x" * 3000 + b"</a>")
    write(tmp_path / "9.xml", good[:-2])
    frame = documents(spark, tmp_path, document_bytes_max=2000)
    codes = {Path(row[0]).name: row[4] for row in rows_of(frame)}
    expected = {"1.xml": None, "2.zip": "TC714", "3.xml.gz": "TC714", "4.xml.gz": "TC714", "5.tar.gz": "TC714"}
    expected |= {"a.xml": None, "b.xml": None, "8.xml": "TC301", "9.xml": None}
    rows = run(tmp_path, document_bytes_max=2000)
    members = {row[0].removeprefix(f"{tmp_path}/"): row[4] for row in rows if "!" in row[0]}
    assert members == {"6.tar!/a.xml": None, "6.tar!/b.xml": "TC714", "7.zip!/a.xml": "TC714", "7.zip!/b.xml": None}
    assert codes.keys() == expected.keys()
    assert {name: code for name, code in codes.items() if name not in ("a.xml", "b.xml")} == {
        name: code for name, code in expected.items() if name not in ("a.xml", "b.xml")
    }
    index = Index()
    index.add("q", "//b")
    good_rows, bad_rows = split(match(frame, index, on_error="report"))
    assert {row.file.partition("d/")[2] or Path(row.file).name for row in good_rows.collect()} >= {"1.xml"}
    errors = {Path(row.file).name: row.error for row in bad_rows.collect()}
    assert errors["9.xml"].code == "TC209" and errors["2.zip"].code == "TC714"
    assert "raise document_bytes_max" in errors["8.xml"].message


@pytest.mark.parametrize("kind", ["plain", "gz", "zip", "tar.gz"])
def test_broken_record_files_give_their_records_and_one_error(tmp_path: Path, kind: str) -> None:
    data = b"<r>" + b"".join(b"<a>%d</a>" % i for i in range(1000))
    content = {
        "plain": data,
        "gz": gzip.compress(data),
        "zip": zip_of({"x": data}),
        "tar.gz": gzip.compress(tar_of({"x": data})),
    }
    path = write(tmp_path / f"f.{kind}", content[kind])
    *good, bad = run(path, record="a")
    assert [row[1] for row in good] == [b"<a>%d</a>" % i for i in range(1000)]
    assert bad[1:] == (None, len(data), None, "TC209")


def test_a_cut_gzip_gives_the_records_before_and_says_what_is_wrong(tmp_path: Path) -> None:
    data = b"<r>" + b"".join(b"<a>%s</a>" % os.urandom(40).hex().encode() for _ in range(20_000)) + b"</r>"
    whole = gzip.compress(data)
    path = write(tmp_path / "f.xml.gz", whole[: len(whole) // 2])
    *good, bad = run(path, record="a")
    assert bad[1] is None and bad[3] is None and bad[4] == "TC714"
    assert 9_000 < len(good) < 11_000
    assert b"".join(row[1] or b"" for row in good) == data[3 : 3 + 87 * len(good)]
    flipped_bytes = bytearray(whole)
    flipped_bytes[len(whole) // 2] ^= 0xFF
    path.write_bytes(flipped_bytes)
    rows = run(path, record="a")
    assert rows[-1][4] in ("TC714", "TC201", "TC202") and len([row for row in rows if row[3] is None]) == 1


def test_what_unpacks_to_too_much_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treecast.inputs.inflate.RATIO_FREE_BYTES", 1 << 16)
    zeros = b"<a>" + b" " * 3_000_000 + b"</a>"
    write(tmp_path / "1.xml.gz", gzip.compress(zeros))
    write(tmp_path / "2.zip", zip_of({"a.xml": b"<a/>", "b.xml": zeros, "c.xml": b"<c/>"}))
    write(tmp_path / "3.tar.xz", lzma.compress(tar_of({"a.xml": zeros, "b.xml": b"<b/>"})))
    assert [(row[0].rpartition("/")[2], row[4]) for row in run(tmp_path)] == [
        *(("1.xml.gz", "TC715"), ("a.xml", None), ("b.xml", "TC715"), ("c.xml", None), ("a.xml", "TC715")),
    ]
    assert [row[4] for row in run(tmp_path, ratio_max=100_000)] == [None] * 6
    (*_, last) = run(tmp_path / "1.xml.gz", record="*")
    assert last[4] == "TC715"


def test_a_file_that_changes_or_goes_is_a_row(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, b"<r><a/></r>") for name in ("a.xml", "b.xml", "c.xml", "d.xml")]
    # Each part of a cut file is a row, and its offset says which part.
    for settings in ({}, {"record": "*"}, {"record": "*", "partition_bytes": "1"}):
        options = Options.parse({"path": str(tmp_path), **settings})
        tasks = make(list_files(options.paths), options)
        paths[1].unlink()
        paths[2].write_bytes(b"<r><a/><a/></r>")
        rows = [row for task in tasks for batch in read(task, options) for row in batch.to_pylist()]
        codes = [(Path(row["file"]).name, row["error"] and row["error"]["code"]) for row in rows]
        assert codes == [("a.xml", None), ("b.xml", "TC713"), ("c.xml", "TC713"), ("d.xml", None)]
        paths[1].write_bytes(b"<r><a/></r>")
        paths[2].write_bytes(b"<r><a/></r>")


@pytest.mark.parametrize("record", [None, "*"])
def test_a_file_that_cannot_be_opened_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: str | None
) -> None:
    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    write(tmp_path / "a.xml", b"<r>" + b"<a/>" * 9 + b"</r>")
    monkeypatch.setattr(Path, "open", refuse)
    assert [row[4] for row in run(tmp_path, record=record, partition_bytes=5)] == ["TC712"]


def test_small_files_are_packed_and_large_ones_cut(tmp_path: Path) -> None:
    options = Options.parse({"path": str(tmp_path), "record": "a", "partition_bytes": "1000"})
    small = [ListedFile(f"/s/{i:05}", 100, 0) for i in range(25)]
    assert [len(task.pieces) for task in make(small, options)] == [10, 10, 5]
    tiny = [ListedFile(f"/t/{i:05}", 0, 0) for i in range(FILES_MAX + 1)]
    assert [len(task.pieces) for task in make(tiny, options)] == [FILES_MAX, 1]
    large = write(tmp_path / "large.xml", b"<r>" + b"<a>123456789</a>" * 1000 + b"</r>")
    large_file = look(str(large))
    assert large_file is not None
    tasks = make([small[0], large_file, small[1]], options)
    assert sum(task.pieces[0].part is not None for task in tasks) == 16
    assert [piece.file for task in tasks for piece in task.pieces if piece.part is None] == small[:2]


def test_batches_are_of_a_size_that_pays(tmp_path: Path) -> None:
    for i in range(40):
        write(tmp_path / f"{i:02}.xml", b"<r>" + b"<a>%s</a>" % (b"x" * 300) * 1000 + b"</r>")
    for record in (None, "a"):
        options = Options.parse(to_strings({"path": str(tmp_path), "record": record}))
        (task,) = make(list_files(options.paths), options)
        sizes = [batch.nbytes for batch in read(task, options)]
        assert sum(sizes) > 12_000_000 and len(sizes) <= 4 and max(sizes) < 2 * BATCH_BYTES


def test_the_source_travels_by_name(tmp_path: Path) -> None:
    import pickle

    task = Task([Piece(ListedFile("/a", 1, 2))])
    copy = pickle.loads(pickle.dumps(task))
    assert copy.pieces == task.pieces
    code = "import sys, treecast.spark; sys.exit(any(name.startswith('pyspark') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"path": "/no/such/file"}, "TC710", "no file or directory /no/such/file"),
        ({"path": "ftp://host/a"}, "TC710", "schemes that are read"),
        ({}, "TC711", "no path"),
        ({"path": ""}, "TC711", "no path"),
        ({"path": "/", "recrod": "a"}, "TC711", "did you mean record"),
        ({"path": "/", "partition_bytes": "many"}, "TC711", "partition_bytes"),
        ({"path": "/", "partition_bytes": "0"}, "TC711", "from 1"),
        ({"path": "/", "document_bytes_max": str(1 << 31)}, "TC711", "rows hold"),
        ({"path": "/", "record": "a b"}, "TC711", "names of elements"),
        ({"path": "/", "record": "a", "entities": "latin"}, "TC711", "html"),
        ({"path": "/", "record": "a", "entities": "{'a'}"}, "TC711", "entities"),
        ({"path": "/", "entities": "html"}, "TC711", "no record"),
    ],
)
def test_wrong_options_are_told_in_one_sentence(options: dict[str, str], code: str, words: str) -> None:
    with pytest.raises(PipelineError, match=words) as error_info:
        DocumentSource(options)
    assert error_info.value.code == code


@pytest.mark.parametrize("name", ["log", "max_files_per_batch"])
def test_batches_refuse_the_options_of_streams(name: str, tmp_path: Path) -> None:
    source = DocumentSource({"path": str(tmp_path), name: "7"})
    with pytest.raises(PipelineError, match=f"TC711 the option {name} is for streams"):
        source.reader(StructType())


def test_what_is_missing_is_told_when_it_is_loaded(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="TC710 there is no file"):
        documents(spark, tmp_path / "absent")
    with pytest.raises(PipelineError, match="TC710 nothing fits"):
        documents(spark, tmp_path / "*.xml")
    with pytest.raises(PipelineError, match=r"TC711 .*for streams"):
        documents(spark, tmp_path, log=tmp_path)
    assert rows_of(documents(spark, tmp_path)) == []
    spark.dataSource.register(DocumentSource)
    for action in (
        lambda: spark.read.format("treecast").load(f"{tmp_path}/absent"),
        lambda: spark.read.format("treecast").load(f"{tmp_path}/absent*").count(),
    ):
        with pytest.raises(Exception, match="TC710") as error_info:
            action()
        assert "Traceback" not in str(error_info.value)


def test_paths(tmp_path: Path) -> None:
    write(tmp_path / "a,b.xml", b"<a/>")
    write(tmp_path / "[x].xml", b"<x/>")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert [row[1] for row in run(tmp_path)] == [b"<x/>", b"<a/>"]
    for name in ("a,b.xml", "[x].xml"):
        options = Options.parse({"path": str(tmp_path / name)})
        assert [file.path for file in list_files(options.paths)] == [str(tmp_path / name)]
    assert pattern_base(f"{tmp_path}/q/*/r?.xml") == f"{tmp_path}/q"
    assert pattern_base(f"{tmp_path}/[x].xml") == pattern_base(str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize(("kind", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_streams_are_inflated_in_pieces(kind: str, pack: Callable[[bytes], bytes], size: int) -> None:
    data = os.urandom(3000) + bytes(5000)
    stream = inflating(io.BytesIO(pack(data) + pack(b"more") + bytes(9)), kind)
    parts = []
    while part := stream.read(size):
        assert len(part) <= size
        parts.append(part)
    assert b"".join(parts) == data + b"more"
    assert stream.read(size) == b""


CONNECT = """
import sys
from pyspark.sql import SparkSession
from treecast import Index
from treecast.spark import documents, match

address, path = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
index = Index()
index.add("a", "/a[.='ü']")
matches = match(documents(spark, path, record="a", entities="html"), index, on_error="report")
print([(row.ordinal, row.subscription, row.error and row.error.code) for row in matches.sort("offset").collect()])
try:
    documents(spark, path + "-absent").collect()
except Exception as error:
    print("TC710" in str(error), "Traceback" in str(error))
spark.stop()
"""


def test_over_connect(spark: SparkSession, connect_address: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.xml", b"<r><a>&uuml;</a><b/><a/><a>&uuml;</a><a>")
    command = [sys.executable, "-c", CONNECT, connect_address, str(path)]
    process = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)
    assert process.stdout.splitlines() == ["[(0, 'a', None), (2, 'a', None), (None, None, 'TC209')]", "True False"]


def test_relative_paths_are_those_of_the_caller(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in/a.xml", b"<a/>")
    monkeypatch.chdir(tmp_path)
    assert [row[1] for row in rows_of(documents(spark, ["in", "i*/*.xml"]))] == [b"<a/>"]
    with pytest.raises(PipelineError, match="TC710 a path is empty"):
        documents(spark, "")
    with pytest.raises(PipelineError, match="TC711 no path"):
        documents(spark, [])


def test_entities_may_be_a_mapping(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "a.xml", b"<r><a>&x;</a></r>")
    assert [row[1] for row in rows_of(documents(spark, path, record="a", entities={"x": "<ü>"}))] == [
        "<a>&lt;ü&gt;</a>".encode()
    ]
