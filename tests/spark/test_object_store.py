"""Files of an object store, S3 on loopback: read here and by Spark's workers, they equal the same files on a disk."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import object_store
from support.object_store import ObjectStore

from treecast import PipelineError
from treecast.cli import main
from treecast.inputs import document_files
from treecast.inputs.document_files import ReadSettings
from treecast.inputs.listing import list_files
from treecast.inputs.locations import Storage, local_name, open_file
from treecast.spark import documents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, leave_out: Callable[[str], None]) -> Iterator[ObjectStore]:
    if not object_store.JARS.is_dir():
        leave_out("object stores: s3proxy is not in build/maven (tools/setup.sh maybe-maven)")
        pytest.skip("s3proxy is not installed")
    with object_store.served(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def remote(spark: SparkSession, store: ObjectStore) -> Iterator[SparkSession]:
    for name, text in store.settings.items():
        spark.conf.set(name, text)
    yield spark
    for name in store.settings:
        spark.conf.unset(name)


def paths(pattern: str, store: ObjectStore) -> list[str]:
    return [file.path.removeprefix("s3a://bucket/") for file in list_files([pattern], storage=store.storage)]


def test_a_directory_means_what_it_means_here(store: ObjectStore) -> None:
    names = ["in/a b%20.xml", "in/z.xml", "in/b/c.xml", "in/b.d/é.xml", "in/_temporary/x.xml", "in/.x.xml"]
    for name in names:
        store.put(name, b"<a/>")
    visible = ["in/a b%20.xml", "in/z.xml", "in/b/c.xml", "in/b.d/é.xml"]
    here = [
        str(Path(file.path).relative_to(store.directory / "bucket"))
        for file in list_files([f"{store.directory}/bucket/in"])
    ]
    assert here == visible
    assert paths("s3a://bucket/in", store) == paths("s3a://bucket/in/", store) == visible
    assert paths("s3a://bucket/in/*.xml", store) == visible[:2]
    assert paths("s3a://bucket/**/[cz].xml", store) == ["in/z.xml", "in/b/c.xml"]
    assert paths("s3a://bucket/in/b*", store) == visible[2:]
    assert paths("s3a://bucket/in/a b%20.xml", store) == visible[:1]
    for nothing in ("s3a://bucket/out", "s3a://bucket/in/*.zip", "s3a://nobody/in"):
        with pytest.raises(PipelineError, match="TC710 there is no file"):
            paths(nothing, store)


def test_ranges_of_a_file(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 40
    path = store.put("ranges.bin", data)
    monkeypatch.setattr("treecast.inputs.locations.READ_AHEAD_BYTES", 1000)
    with open_file(path, store.storage) as file:
        for offset, size in [(0, 10), (5, 3), (900, 300), (8_000, 5_000), (3, 1), (10_239, 5), (20_000, 1)]:
            file.seek(offset)
            assert (file.read(size), file.tell()) == (
                data[offset : offset + size],
                max(offset, min(offset + size, len(data))),
            )
        assert (file.seek(-4, 2), file.read(), file.seek(0), file.read()) == (len(data) - 4, data[-4:], 0, data)


def test_archives_and_a_file_that_has_changed(store: ObjectStore, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("one.xml", "<one/>")
        archive.writestr("two.xml", "<two/>")
    path = store.put("x.zip", (tmp_path / "x.zip").read_bytes())
    settings = ReadSettings(storage=store.storage)
    found = dict(document_files.documents([path], settings, lambda name, error: pytest.fail(str(error))))
    assert found == {f"{path}!/one.xml": b"<one/>", f"{path}!/two.xml": b"<two/>"}
    (file,) = list_files([path], storage=store.storage)
    store.put("x.zip", b"other")
    (refusal,) = document_files.read_file(file, settings)
    assert isinstance(refusal, document_files.Refusal) and refusal.error.code == "TC713"


def test_keys_that_are_wrong_and_settings_that_cannot_be_followed(store: ObjectStore) -> None:
    path = store.put("secret.xml", b"<a/>")
    wrong = Storage.of({**store.settings, "fs.s3a.secret.key": "guessed-key"})
    assert "guessed-key" not in repr(wrong)
    with pytest.raises(PipelineError, match=r"TC712 s3a://bucket/secret\.xml cannot be .*ACCESS_DENIED") as caught:
        list(list_files([path], storage=wrong))
    assert "guessed-key" not in str(caught.value)
    for more in (
        {"fs.s3a.aws.credentials.provider": "org.mine.VaultProvider"},
        {"fs.s3a.encryption.algorithm": "SSE-C"},
        {"fs.s3a.bucket.bucket.aws.credentials.provider": "org.mine.VaultProvider"},
    ):
        with pytest.raises(PipelineError, match=r"TC711 the setting fs\.s3a\.[a-z.]+ cannot be followed outside Java"):
            list(list_files([path], storage=Storage.of({**store.settings, **more})))
    with pytest.raises(PipelineError, match=r"TC711 the setting fs\.azure\.account\.oauth"):
        azure = {
            "fs.azure.account.auth.type": "OAuth",
            "fs.azure.account.oauth.provider.type": "x.ClientCredsTokenProvider",
        }
        list(list_files(["abfss://c@account.dfs.core.windows.net/x"], storage=Storage.of(azure)))
    with pytest.raises(PipelineError, match=r"TC711 the setting fs\.gs\.auth\.service"):
        keyfile = {"fs.gs.auth.service.account.json.keyfile": "/key.json"}
        list(list_files(["gs://bucket/x"], storage=Storage.of(keyfile)))


def test_names_of_this_machine() -> None:
    assert local_name("dbfs:/mnt/x%20y.xml") == "/dbfs/mnt/x y.xml"
    assert local_name("file:///a%20b") == "/a b"
    with pytest.raises(PipelineError, match="TC710 ftp://host/x is on no file system that treecast reads"):
        local_name("ftp://host/x")


def test_records_split_in_parallel_are_those_of_one_reader(remote: SparkSession, store: ObjectStore) -> None:
    data = b"<list>" + b"".join(b"<item n='%d'>%s</item>" % (n, b"x" * (n % 90)) for n in range(9_000)) + b"</list>"
    path = store.put("large/list.xml", data)
    store.put("large/bad.xml", b"<list><item/>")
    frame = documents(remote, "s3a://bucket/large", record="item", partition_bytes=100_000)
    assert frame.rdd.getNumPartitions() > 5
    rows = sorted(
        (row.file, row.ordinal or 0, bytes(row.document or b""), row.error is None) for row in frame.collect()
    )
    settings = ReadSettings(rule=None, storage=store.storage)
    assert len(rows) == 9_000 + 2 and [row[3] for row in rows].count(False) == 1
    assert b"".join(row[2] for row in rows if row[0] == path) == data[len("<list>") : -len("</list>")]
    assert document_files.read_document(path, settings) == data


def test_keys_are_in_no_plan_and_no_error(
    remote: SparkSession, store: ObjectStore, capfd: pytest.CaptureFixture[str]
) -> None:
    store.put("one/a.xml", b"<a/>")
    frame = documents(remote, "s3a://bucket/one/*.xml")
    assert [bytes(row.document) for row in frame.collect()] == [b"<a/>"]
    frame.explain("formatted")
    frame.explain("extended")
    remote.conf.set("fs.s3a.secret.key", "guessed-key")
    with pytest.raises(Exception, match="TC712") as caught:
        documents(remote, "s3a://bucket/one/*.xml").collect()
    said = capfd.readouterr().out + str(caught.value)
    assert object_store.SECRET not in said and "guessed-key" not in said


def test_a_job_and_the_command_line(
    remote: SparkSession,
    store: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store.put("job/1.xml", b"<a><b/></a>")
    store.put("job/2.xml", b"<c/>")
    (tmp_path / "s.csv").write_text("id,query\nb,//b\n")
    (tmp_path / "job.toml").write_text('[source]\npath = "s3a://bucket/job"\n[subscriptions]\npath = "s.csv"\n')
    assert main(["run", str(tmp_path / "job.toml"), "--output", str(tmp_path / "out"), "--quiet"]) == 0
    rows = remote.read.parquet(str(tmp_path / "out" / "matches")).collect()
    assert [(row.file, row.subscription) for row in rows] == [("s3a://bucket/job/1.xml", "b")]
    assert "&lt;b" in (tmp_path / "out" / "report.html").read_text()  # documents are shown as well
    capsys.readouterr()
    for name, text in (("ACCESS_KEY_ID", object_store.KEY), ("SECRET_ACCESS_KEY", object_store.SECRET)):
        monkeypatch.setenv(f"AWS_{name}", text)
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
    assert main(["match", "-s", str(tmp_path / "s.csv"), "s3://bucket/job/*.xml", "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split("\t") == ["s3://bucket/job/1.xml", "b"]
