"""What every supported version of Spark has to do, in a process of its own: a batch, a stream that goes on, a job.

python tests/support/spark_version_job.py DIRECTORY    # prints one line of JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from treecast.cli import main
from treecast.spark import documents, match
from treecast.spark.session import start


def job(home: Path) -> dict[str, object]:
    inbox = home / "inbox"
    inbox.mkdir()
    (inbox / "1.xml").write_text("<a><b/></a>")
    spark = start("local[2]", log=home / "spark.log")
    subscriptions = spark.createDataFrame([("any", "/a"), ("b", "//b")], "id string, query string")
    sharded = match(documents(spark, str(inbox)), subscriptions, placement="filter-sharing", shards=2)
    answers: dict[str, object] = {
        "version": spark.version,
        "batch": sorted(row.subscription for row in sharded.collect()),
    }

    def stream_all() -> int:
        frame = documents(spark, str(inbox), stream=True, log=home / "log")
        query = (
            match(frame, subscriptions)
            .writeStream.option("checkpointLocation", str(home / "checkpoint"))
            .trigger(availableNow=True)
            .start(path=str(home / "out"), format="parquet")
        )
        query.awaitTermination()
        return spark.read.parquet(str(home / "out")).count()

    counts = [stream_all()]
    (inbox / "2.xml").write_text("<a/>")
    counts += [stream_all(), stream_all()]
    answers["stream"] = counts
    spark.stop()
    answers["run"] = main(["run", "--quiet", "--output", str(home / "results")])
    return answers


if __name__ == "__main__":
    print(json.dumps(job(Path(sys.argv[1]))))
