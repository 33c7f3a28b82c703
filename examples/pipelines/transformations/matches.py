"""Documents of a directory, who wants them, and what could not be read: tables of a declarative pipeline.

Spark decides when and in which order they are made. A query function of a pipeline may only describe a DataFrame, so
the subscriptions are read outside, once, and become a column: `treecast.spark.matches`. Run it in the directory above
with `spark-pipelines run`.
"""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, explode

from treecast.spark import matches

spark = SparkSession.active()
root = Path.cwd()  # of the specification
wanted_by = matches("document", root / "subscriptions.csv", on_error="report", session=spark)


@dp.temporary_view
def inbox() -> DataFrame:
    """A row for each file."""
    files = spark.read.format("binaryFile").load(f"{root}/inbox")
    return files.select(col("path").alias("file"), col("content").alias("document"))


@dp.temporary_view
def answers() -> DataFrame:
    """A row for each match, and one for each file that cannot be read."""
    rows = spark.read.table("inbox").select("file", explode(wanted_by).alias("answer"))
    return rows.select("file", "answer.subscription", "answer.error")


@dp.materialized_view
def matched() -> DataFrame:
    """Who wants which file."""
    return spark.read.table("answers").filter("error IS NULL").select("file", "subscription")


@dp.materialized_view
def rejected() -> DataFrame:
    """What could not be read, and why."""
    return spark.read.table("answers").filter("error IS NOT NULL").select("file", "error.code", "error.message")
