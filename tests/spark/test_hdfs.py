"""Files of HDFS, a cluster in one process on loopback: read here and by Spark's workers."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from support.object_store import JARS

from treecast.inputs.document_files import ReadSettings, read_document
from treecast.inputs.listing import list_files
from treecast.inputs.locations import filesystem
from treecast.spark import documents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = Path(__file__).parent.parent / "support" / "MiniHdfs.java"


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory, leave_out: Callable[[str], None]) -> Iterator[str]:
    """The URL of a cluster."""
    (cluster_jar,) = [*JARS.glob("hadoop-client-minicluster-*.jar"), None][:1]
    if cluster_jar is None or find_spec("hdfs_native") is None:
        leave_out("HDFS: its cluster is not in build/maven (tools/setup.sh maybe-maven), or hdfs-native is missing")
        pytest.skip("HDFS is not installed")
    home = tmp_path_factory.mktemp("hdfs")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    path = f"{cluster_jar}:{Path(pyspark.__file__).parent / 'jars'}/*"
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", path, str(SOURCE), str(home), port]
    with (home / "log").open("wb") as log:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
        with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
            try:
                assert b"ready" in process.stdout.readline(), (home / "log").read_text()[-2000:]
                yield f"hdfs://127.0.0.1:{port}"
            finally:
                process.kill()


def put(url: str, name: str, data: bytes) -> str:
    path = f"{url}/{name}"
    system, place = filesystem(path)
    system.create_dir(place.rpartition("/")[0], recursive=True)
    with system.open_output_stream(place) as file:
        file.write(data)
    return path


def test_files_of_hdfs(spark: SparkSession, hdfs: str) -> None:
    data = b"<list>" + b"".join(b"<item n='%d'>%s</item>" % (n, b"x" * (n % 900)) for n in range(9_000)) + b"</list>"
    large = put(hdfs, "in/list.xml", data)
    small = put(hdfs, "in/sub/a b%20.xml", b"<list><item/></list>")
    put(hdfs, "in/_temporary/x.xml", b"<a/>")
    listed = list(list_files([f"{hdfs}/in"]))
    assert [(file.path, file.bytes) for file in listed] == [(large, len(data)), (small, 20)]
    assert all(file.mtime_ns > 0 for file in listed)
    assert [file.path for file in list_files([f"{hdfs}/in/*/*.xml"])] == [small]
    assert read_document(large, ReadSettings()) == data
    frame = documents(spark, f"{hdfs}/in", record="item", partition_bytes=500_000)
    rows = sorted(frame.collect(), key=lambda row: (row.file, row.ordinal))
    assert b"".join(row.document for row in rows if row.file == large) == data[len("<list>") : -len("</list>")]
    assert [row.document for row in rows if row.file == small] == [b"<item/>"]
