"""Real runs of the three strategies on Spark executors, each a process with its own core.

Throughput is wall-clock throughput: messages over the time from the first to the last of them. CPU time is that of all
processes; it shows the cost of a message, but not how many are filtered at once. Spark's own part of both (reading,
shuffling, collecting the matches) does not depend on the engine. So each strategy runs with two engines that find the
same matches, and the difference between the runs is the difference between the engines. Other work on the machine
disturbs wall-clock time, so `machine_now` records the load before a run.

`on_executors` starts

    python -m treecast.experiments.executors DIRECTORY

because a process has only one Spark. The inputs and the figures are files in the directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeAlias

from treecast.errors import TreecastError
from treecast.experiments.session import as_table
from treecast.index import Index
from treecast.measure import Inputs, Seconds, tree_clock
from treecast.measure.process import read_inputs, write_inputs
from treecast.placement import DataSharing, FilterSharing, Hierarchical, Placement

# pyspark's, which only treecast.spark imports.
DataFrame: TypeAlias = Any
SparkSession: TypeAlias = Any

MEMORY_MB = 900
EXECUTORS_MAX = 8
PASSES = 3
STOP_SECONDS = 600
TASK_FILE, FIGURES_FILE, OUTPUT_FILE = "task.json", "figures.json", "output.txt"


class Run(NamedTuple):
    """One strategy with one engine, per message."""

    strategy: str
    executors: int
    engine: str
    cpu_us: float
    wall_us: float
    fan_out: float
    matches: float
    wrong: int
    """Documents with another number of matches than one index finds."""


class Machine(NamedTuple):
    """What a run finds."""

    cores: int
    load: float
    """The load average of the last minute. The calling process itself accounts for 1."""


def machine_now() -> Machine:
    return Machine(len(os.sched_getaffinity(0)), os.getloadavg()[0])


def count() -> int:
    """As many as the machine has cores, but at least two: with one there is nothing to compare."""
    return max(2, min(machine_now().cores, EXECUTORS_MAX))


def on_executors(inputs: Inputs, engines: Sequence[str], messages: int) -> list[Run]:
    """Run all strategies with all engines on a separate cluster. Raises a RuntimeError with the reason if it fails."""
    with tempfile.TemporaryDirectory(prefix="treecast-executors-") as name:
        directory = Path(name)
        write_inputs(inputs, directory)
        task = {"engines": list(engines), "messages": messages, "executors": count()}
        (directory / TASK_FILE).write_text(json.dumps(task), encoding="utf-8")
        with (directory / OUTPUT_FILE).open("wb") as output:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "treecast.experiments.executors", name],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # so that its children can be ended with it
            )
            try:
                status = child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                raise RuntimeError(f"stopped after {STOP_SECONDS} s") from None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        if status:
            lines = (directory / OUTPUT_FILE).read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RuntimeError(lines[-1][:300] if lines else f"its process ended with status {status}")
        return [Run(*run) for run in json.loads((directory / FIGURES_FILE).read_text(encoding="utf-8"))]


def serve(directory: Path) -> None:
    """What the other process does."""
    from treecast.spark.session import start

    task = json.loads((directory / TASK_FILE).read_text(encoding="utf-8"))
    settings = {
        "spark.executor.memory": f"{MEMORY_MB * 2 // 3}m",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(directory / "local"),
        "spark.executorEnv.TMPDIR": str(directory),
    }
    session = start(f"local-cluster[{task['executors']},1,{MEMORY_MB}]", name="treecast experiment", settings=settings)
    try:
        runs = list(
            measure(session, read_inputs(directory), task["engines"], task["messages"], task["executors"], directory)
        )
    finally:
        session.stop()
    (directory / FIGURES_FILE).write_text(json.dumps(runs), encoding="utf-8")


def placements(inputs: Inputs, executors: int) -> Iterator[Placement]:
    """Run one router, and then all of them with each strategy."""
    yield DataSharing(1, namespaces=inputs.namespaces)
    yield DataSharing(executors, namespaces=inputs.namespaces)
    yield FilterSharing(executors, namespaces=inputs.namespaces)
    yield Hierarchical(executors, documents=inputs.documents, namespaces=inputs.namespaces)


def measure(
    session: SparkSession,
    inputs: Inputs,
    engines: Sequence[str],
    messages: int,
    executors: int,
    directory: Path,
    passes: int = PASSES,
) -> Iterator[Run]:
    """Run all strategies with all engines on this session; the messages are the documents, repeated."""
    table = as_table(inputs.queries)
    indexes = [Index(engine=engine, namespaces=inputs.namespaces) for engine in engines]
    for index in indexes:
        index.add_many(table)
    match_counts = Counter(indexes[0].match_many(inputs.documents, threads=1).column("document").to_pylist())
    expected = [match_counts[number] for number in range(len(inputs.documents))]
    repeated_documents = (list(inputs.documents) * -(-messages // len(inputs.documents)))[:messages]
    for place, placement in enumerate(placements(inputs, executors)):
        placement.add_many(table)
        routes = placement.route(list(inputs.documents))
        fan_out = sum(len(route or ()) for route in routes) / len(routes)
        few = _frame(session, inputs.documents, placement.shards, directory / f"few-{place}")
        many = _frame(session, repeated_documents, placement.shards, directory / f"many-{place}")
        _typical(_match(many, indexes[0], placement), 1)  # the JVM compiles what it runs often
        for index in indexes:
            count_rows = _match(few, index, placement).groupBy("number").count().collect()  # loads what workers need
            here = {int(row["number"]): int(row["count"]) for row in count_rows}
            wrong = sum(here.get(number, 0) != expected_count for number, expected_count in enumerate(expected))
            seconds = _typical(_match(many, index, placement), passes) / messages
            yield Run(
                placement.name,
                placement.shards,
                index.engine,
                seconds.cpu * 1e6,
                seconds.wall * 1e6,
                fan_out,
                sum(here.values()) / len(expected),
                wrong,
            )


def _match(frame: DataFrame, index: Index, placement: Placement) -> DataFrame:
    from treecast.spark import match

    return match(frame, index, placement="data-sharing" if placement.name == "data-sharing" else placement)


def _typical(frame: DataFrame, passes: int) -> Seconds:
    """The median of the passes."""
    passes_seconds = [tree_clock(lambda: frame.write.format("noop").mode("overwrite").save()) for _ in range(passes)]
    return Seconds(median(one.wall for one in passes_seconds), median(one.cpu for one in passes_seconds))


def _frame(session: SparkSession, documents: Sequence[bytes], files: int, directory: Path) -> DataFrame:
    """Write documents and their numbers to files, one per task."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory.mkdir()
    for part in range(min(files, len(documents))):
        numbers = list(range(part, len(documents), files))
        table = pa.table({"number": numbers, "document": pa.array([documents[n] for n in numbers], pa.binary())})
        pq.write_table(table, directory / f"{part}.parquet", row_group_size=len(numbers))
    return session.read.parquet(str(directory))


if __name__ == "__main__":
    try:
        serve(Path(sys.argv[1]))
    except TreecastError as error:
        sys.exit(str(error).splitlines()[0])
