"""A cluster of real executor processes: a driver, a master and two workers, each executor with its own files.

Spark's own local-cluster mode starts them from the installed package, on loopback. The driver runs as a program of its
own, for a process has one Spark.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from test_cases import CASES

import treecast

DRIVER = """
import json, os, sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from treecast import Index
from treecast.spark import match, split
from treecast.spark.session import start

directory = Path(sys.argv[1])
spark = start(
    "local-cluster[2,1,900]",
    log=directory / "spark.log",
    settings={
        "spark.driver.memory": "1g",
        "spark.executor.memory": "600m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.local.dir": str(directory / "local"),
        "spark.executorEnv.TMPDIR": str(directory / "host"),
        "spark.worker.cleanup.enabled": "false",
    },
)
documents = spark.read.parquet(str(directory / "documents.parquet")).repartition(16)
index = Index.load(directory / "index.tcx")
good, bad = split(match(documents, index, on_error="report"))
answer = {"good": [[row.key, row.subscription] for row in good.collect()], "bad": [row.key for row in bad.collect()]}


def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import time
    from pyspark import SparkFiles
    from treecast.spark.batch import worker

    for _ in batches:
        time.sleep(0.3)
        root = os.path.realpath(SparkFiles.getRootDirectory())
        yield pa.RecordBatch.from_pydict({"pid": [os.getpid()], "root": [root], "loads": [worker.loads]})


rows = spark.range(0, 16, 1, 16).mapInArrow(ask, "pid long, root string, loads long").collect()
answer["workers"] = sorted({(row.pid, row.root, row.loads) for row in rows})
answer["driver"] = os.getpid()
Path(directory / "answer.json").write_text(json.dumps(answer), encoding="utf-8")
spark.stop()
"""


def test_two_executors_match_what_one_process_does(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    index = treecast.Index()
    documents = {}
    for number, case in enumerate(CASES):
        documents[f"{number}"] = case.document
        for s in case.subscriptions:
            index.add(f"{number} {s.id}", s.query, namespaces=s.namespaces, ordered=case.ordered)
    expected = sorted([key, id] for key, document in documents.items() for id in index.match(document))
    documents["broken"] = b"<a><b></a>"
    columns = {"key": list(documents), "document": pa.array(documents.values(), pa.binary())}
    pq.write_table(pa.table(columns), tmp_path / "documents.parquet")
    index.save(tmp_path / "index.tcx")
    (tmp_path / "host").mkdir()

    process = subprocess.run([sys.executable, "-c", DRIVER, str(tmp_path)], capture_output=True, text=True, timeout=400)
    assert process.returncode == 0, process.stderr[-3000:]
    answer = json.loads((tmp_path / "answer.json").read_text("utf-8"))
    assert sorted(answer["good"]) == expected
    assert answer["bad"] == ["broken"]
    workers = answer["workers"]
    assert len({root for _, root, _ in workers}) == 2, "both executors answered, each with its own files"
    assert all(loads <= 1 for _, _, loads in workers), "an index is loaded once per process"
    assert sum(loads for _, _, loads in workers) >= 2
    shared = list((tmp_path / "host").glob("treecast-*/*.tcx"))
    assert len(shared) == 1, "and both map the one file of the host"
