"""One directory and every form of subscriptions through every entry point: the same answers and the same codes.

Spark's part is tests/spark/test_inputs_spark.py.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from support.input_files import (
    ODD_NAME,
    ROWS,
    subscription_objects,
    tar_of,
    write_documents,
    write_subscriptions,
    zip_of,
)

from treecast import Index, PipelineError, QueryError, TreecastError
from treecast.cli import main, pipeline_file
from treecast.cli import run as run_verb
from treecast.inputs.document_files import ReadSettings, documents, progress_of, read_document
from treecast.inputs.inflate import inflating
from treecast.inputs.listing import is_archive
from treecast.inputs.records import Rule
from treecast.inputs.subscriptions import index_of, read_subscriptions
from treecast.names import text_of
from treecast.spark.batch import plan

Answers = dict[str, list[str] | str]


def known() -> Index:
    index = Index()
    index.add_many(ROWS)
    return index


def test_one_directory_in_python_and_on_the_command_line(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    expected = write_documents(tmp_path / "docs")
    monkeypatch.chdir(tmp_path)
    answers: Answers = {}
    index = known()

    def refuse(name: str, error: TreecastError) -> None:
        answers[name.removeprefix("docs/")] = error.code

    for name, document in documents(["docs"], ReadSettings(), refuse):
        try:
            answers[name.removeprefix("docs/")] = index.match(document)
        except TreecastError as error:
            refuse(name, error)
    assert answers == expected
    files = [name for name in answers if "!" not in name]
    # Files before directories, each sorted; what is bad is reported when it is met.
    plain = [name for name in files if "/" not in name]
    assert plain == sorted(plain) and files[len(plain) :] == sorted(files[len(plain) :], key=lambda n: n.count("/"))

    index.save("s.tcx")
    assert main(["match", "--format", "json", "-s", "s.tcx", "docs", "docs/a.xml", "./docs/s*/b.xml"]) == 1
    out, err = capfdbinary.readouterr()
    shown = {text_of(name): answer for name, answer in expected.items()}
    found: Answers = {}
    for line in out.decode().splitlines():
        document, subscription = re.findall(r'": "(.*?)"[,}]', line)
        found[document.replace("\\\\", "\\").removeprefix("docs/")] = [subscription]
    for name, code in re.findall(r"^treecast: docs/(.*?): (TC\d+)", err.decode(), re.MULTILINE):
        found[name] = code
    assert found == shown
    assert len(out.splitlines()) == sum(isinstance(answer, list) for answer in expected.values()), "each file once"


def test_pattern_and_records_on_the_command_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/a.zip").write_bytes(zip_of({"x.xml": b"<r><a>1</a><b/><a>&uuml;</a></r>", "y.txt": b"<r><a/></r>"}))
    Path("in/b.txt").write_bytes(b"<r><a/></r>")
    Path("in/c.xml").write_bytes(b"<r><a/><a")
    command = ["match", "-q", "//a", "--record", "a", "--record", "b", "--entities", "html", "--pattern", "*.xml", "in"]
    assert main(command) == 1
    out, err = capfd.readouterr()
    assert out.splitlines() == [
        "in/a.zip!/x.xml#0\t//a",
        "in/a.zip!/x.xml#2\t//a",
        "in/c.xml#0\t//a",
    ]
    assert "treecast: in/c.xml: TC209" in err and "4 documents, 3 matches, 1 error" in err
    with pytest.raises(SystemExit) as stop:
        main(["match", "-q", "//a", "--record", "a b", "in"])
    assert stop.value.code == 2


def test_a_member_is_explained_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zip_of({"x/y.xml": b"<a/>", "[z].xml": b"<b/>"}))
    settings = ReadSettings()
    assert read_document(f"{path}!/x/y.xml", settings) == b"<a/>"
    assert read_document(f"{path}!/[z].xml", settings) == b"<b/>"
    with pytest.raises(PipelineError, match="TC710 the archive has no member of this name"):
        read_document(f"{path}!/q.xml", settings)
    with pytest.raises(PipelineError, match=r"(?s)TC710 the file holds several documents.*a.zip!/x/y.xml"):
        read_document(str(path), settings)
    with pytest.raises(PipelineError, match="TC712"):
        read_document(str(tmp_path / "none.xml"), settings)


def test_pipes_and_odd_paths(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "a.xml").write_bytes(b"<a/>")
    refused: list[str] = []

    def read(*paths: str) -> list[bytes]:
        found = documents(paths, ReadSettings(), lambda name, error: refused.append(f"{name}: {error.code}"))
        return [document for _, document in found]

    assert read(str(tmp_path), f"{tmp_path}/p*") == [b"<a/>"], "a pipe that is not named is left alone"
    writer = subprocess.Popen([sys.executable, "-c", f"open({str(pipe)!r}, 'wb').write(b'<p/>')"])
    assert read(str(pipe)) == [b"<p/>"]
    assert writer.wait() == 0
    assert read(f"file://{tmp_path}/a.xml", "ftp://host/a.xml", "", "a\0b", str(tmp_path / "none")) == [b"<a/>"]
    assert [line.rpartition(" ")[2] for line in refused] == ["TC710"] * 5


def test_archives_are_not_held_in_memory(tmp_path: Path) -> None:
    large = b"<r>" + b"<a>%s</a>" % (b"text " * 200) * 20_000 + b"</r>"
    (tmp_path / "z.zip").write_bytes(zip_of({"x.xml": large}))
    (tmp_path / "t.tar").write_bytes(tar_of({f"{n}.xml": large[: 1 << 20] for n in range(20)}))
    from treecast.inputs.records import Rule

    tracemalloc.start()
    count = sum(1 for _ in documents([str(tmp_path / "z.zip")], ReadSettings(rule=Rule("a")), print))
    refused: list[str] = []
    settings = ReadSettings(document_bytes_max=1000)
    assert list(documents([str(tmp_path)], settings, lambda name, error: refused.append(error.code))) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 20_000 and refused == ["TC301"] * 21
    assert peak < 24 << 20, "the files are 20 MB each, unpacked"


def test_zstd_is_read_in_pieces_and_bounded() -> None:
    frame = pa.Codec("zstd").compress(b"x" * 100_000, asbytes=True)
    stream = inflating(io.BytesIO(frame + frame), "zst")
    parts = []
    while part := stream.read(7_000):
        assert len(part) <= 7_000
        parts.append(part)
    assert b"".join(parts) == b"x" * 200_000
    for broken in (b"", frame[:-3], b"nonsense"):
        with pytest.raises(PipelineError, match="TC714 the compressed data is corrupt"):
            stream = inflating(io.BytesIO(broken), "zst")
            while stream.read(7_000):
                pass
    with pytest.raises(PipelineError, match="TC715 the compressed data needs more than 128 MiB"):
        inflating(io.BytesIO(b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00" * 9), "zst").read(10)

    class Failing:
        def read(self, size: int, /) -> bytes:
            raise PipelineError("the file cannot be read", code="TC712")

    with pytest.raises(PipelineError, match="TC712"):
        inflating(Failing(), "zst").read(10)


def run_index(path: Path, directory: Path) -> Index:
    """The index that `treecast run` makes of a file of subscriptions."""
    (directory / "job.toml").write_text(f'[source]\npath = "docs"\n[subscriptions]\npath = "{path}"\n')
    return run_verb.build_index(pipeline_file.read(str(directory / "job.toml")), print)


def spark_index(source: Any) -> Index:
    """The index that `match` and `render` make of subscriptions on Spark."""
    made = plan.index_of(source)
    return made if isinstance(made, Index) else Index.load(made)


def rows_of(index: Index) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = index.subscriptions().to_pylist(maps_as_pydicts="strict")
    return rows


def test_every_format_through_every_entry_point(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    expected = rows_of(known())
    (tmp_path / "a.xml").write_bytes(b"<news/>")
    for name, path in write_subscriptions(tmp_path).items():
        added = Index()
        added.add_many(read_subscriptions(path))
        assert rows_of(added) == rows_of(index_of([path])) == rows_of(spark_index(path)) == expected, name
        if name != "many":  # directories are read by Spark in `treecast run`
            assert rows_of(run_index(path, tmp_path)) == expected, name
        assert main(["match", "--quiet", "-s", str(path), str(tmp_path / "a.xml")]) == 0
        assert capfd.readouterr().out.endswith("a.xml\tnews\n"), name
    for name, source in subscription_objects().items():
        added = Index()
        added.add_many(read_subscriptions(source))
        assert rows_of(added) == rows_of(spark_index(source)) == expected, name
        if name != "index":
            added = Index()
            added.add_many(source)
            assert rows_of(added) == expected, name


def test_several_sources_are_one_set(tmp_path: Path) -> None:
    paths = write_subscriptions(tmp_path)
    more = [("more", "/y:more")]
    index = index_of([paths["s.tcx"], more], namespaces={"y": "urn:y"})
    assert len(index) == 5 and index["more"].namespaces == {"y": "urn:y"}
    with pytest.raises(QueryError, match="TC140 nothing was added: 4 subscriptions were refused"):
        index_of([paths["s.csv"], paths["s.jsonl"]])


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("none.csv", None, "TC190"),
        ("none.tcx", None, "TC190"),
        ("s.dat", "id,query\n", "TC194"),
        ("s.csv", "name,path\n", "TC191"),
        ("s.json", '[{"id": "a"}]', "TC191"),
        ("s.json", '[{"id": "a", "query": "/a"},', "TC191"),
        ("s.parquet", "PAR1", "TC191"),
        ("s.tcx", "something else", "TC501"),
        ("s.csv", "id,query\nq,/a[\n", "TC101"),
    ],
)
def test_what_cannot_be_read_has_one_code(
    name: str, content: str | None, code: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    reads: list[Callable[[], Index]] = [
        lambda: index_of([path]),
        lambda: spark_index(path),
        lambda: run_index(path, tmp_path),
    ]
    for read in reads:
        with pytest.raises(TreecastError) as caught:
            read()
        assert caught.value.code == code
    try:
        assert main(["match", "-s", str(path), "a.xml"]) == 1
    except SystemExit as stop:
        assert (stop.code, code) == (2, "TC194"), "a format that cannot be inferred is wrong usage"
    assert f"{code} " in capfd.readouterr().err


def test_objects_that_hold_no_subscriptions() -> None:
    for source in (7, None, object()):
        with pytest.raises(QueryError, match="TC194 cannot infer the format of an object"):
            read_subscriptions(source)
    with pytest.raises(QueryError, match=r"(?s)TC194 a path is given.*read_subscriptions"):
        Index().add_many("s.csv")
    for wrong in (pa.table({"id": ["a"], "path": ["/a"]}), pa.table({"id": ["a"], "ID": ["b"], "query": ["/a"]})):
        with pytest.raises(QueryError, match="TC144"):
            Index().add_many(wrong)
    with pytest.raises(QueryError, match="TC144"):
        read_subscriptions([(object(), "/a")])


def test_reading_starts_quickly() -> None:
    """What takes long to import is imported when it is needed."""
    code = (
        "import sys, treecast.cli.match, treecast.cli.explain; slow = {'pyarrow', 'pandas', 'pyspark', 'polars'};"
        "sys.exit(str(slow & set(sys.modules)) if slow & set(sys.modules) else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_of_members_that_zip_writes(tmp_path: Path) -> None:
    """Directories in archives are none of its documents."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("d/", b"")
        archive.writestr("d/a.xml", b"<a/>")
    (tmp_path / ODD_NAME).write_bytes(b"<b/>")
    names = [name for name, _ in documents([str(tmp_path)], ReadSettings(), print)]
    assert names == [f"{tmp_path}/a.zip!/d/a.xml", f"{tmp_path}/{ODD_NAME}"]


@pytest.mark.parametrize("name", ["list.xml", "list.xml.gz", "list.zip", "list.tar.gz"])
def test_progress_over_a_file_is_the_share_that_has_been_read(tmp_path: Path, name: str) -> None:
    """Also of records and of members of archives, whose number is not known before."""
    random = Random(1)
    texts = [f"<a>{random.randbytes(3000).hex()}</a>" for _ in range(5000)]
    place = tmp_path / name
    if name == "list.zip":
        with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
            for number, text in enumerate(texts):
                archive.writestr(f"{number}.xml", text)
    elif name == "list.tar.gz":
        with tarfile.open(place, "w:gz", compresslevel=1) as tar:
            for number, text in enumerate(texts):
                info = tarfile.TarInfo(f"{number}.xml")
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
    else:
        whole = f"<list>{''.join(texts)}</list>".encode()
        place.write_bytes(gzip.compress(whole, 1) if name.endswith(".gz") else whole)
    (tmp_path / "small.xml").write_text("<a/>")
    settings = ReadSettings(rule=None if is_archive(name) else Rule(["a"]))
    paths = [str(place), str(tmp_path / "small.xml")]
    progress = progress_of(paths, settings)
    assert (progress.total_bytes, progress.share) == (place.stat().st_size + 4, 0)
    count, farthest = 0, 0.0
    for _ in documents(paths, settings, lambda name, error: pytest.fail(str(error)), progress):
        share = progress.share
        assert share is not None
        farthest = max(farthest, share)
        assert abs(farthest - count / 5001) < 0.15
        count += 1
    assert (count, progress.share) == (5001, 1)


def test_the_size_of_standard_input_is_known_where_it_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.xml").write_text("<a/>")
    with (tmp_path / "a.xml").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        progress = progress_of(["-"], ReadSettings())
        assert progress.share == 0
        assert len(list(documents(["-"], ReadSettings(), lambda name, error: None, progress))) == 1
        assert progress.share == 1
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"<a/>")))
    assert progress_of(["-"], ReadSettings()).share is None
