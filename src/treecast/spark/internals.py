"""Everything of Spark that is not its public API, in one place: the next release of Spark may change any of it.

No other file of treecast touches `_jvm`, `_jsc`, `_jsparkSession`, py4j or modules that Spark keeps for itself, and
`tests/test_tidy.py` checks that. Each entry says why the public API is not enough. All of them need the driver's JVM,
except for those that say that they run in Python workers, and `is_connect`, which says whether there is one.

    files = FileSystem(spark, "hdfs://host/out")
    files.names("part-*")
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import TYPE_CHECKING, Any

from treecast.errors import PipelineError, TreecastError
from treecast.inputs.locations import KEYS, PREFIXES
from treecast.spark.failure import to_pipeline_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTIONS_SEEN_MAX = 8
JVM_END_SECONDS_MAX = 10


def jvm_errors() -> tuple[type[BaseException], ...]:
    """What calls into the JVM raise.

    Private: pyspark.errors has classes for what Spark itself refuses; a JVM that is gone, and calls that no public
    method wraps, raise py4j's own.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    return (Py4JError,)


# -- sessions


def is_connect(session: SparkSession) -> bool:
    """Whether the session uses Spark Connect, so that the driver's JVM is out of reach.

    Private: PySpark's own test, `is_remote`, is about how the process was started, not about this session.
    """
    return "connect" in type(session).__module__


def session_key(session: SparkSession) -> str:
    """An id that no other session has, classic or Connect; raises if the session was stopped.

    Private: only Connect sessions have a public id. Files are added to a session, not to an application.
    """
    if is_connect(session):
        return str(session.session_id)  # type: ignore[attr-defined]
    context = session.sparkContext
    if context._jsc is None:
        raise PipelineError("the Spark session was stopped", code="TC702", hint="make a new one")
    return f"{context.applicationId} {session._jsparkSession.sessionUUID()}"


def forget_added_file(session: SparkSession, name: str) -> None:
    """Undo `addArtifacts` for a file: new executors no longer fetch it, and the driver's copy goes.

    Private: Spark can add files and list them, but not remove them; a stream that ships an index for each version of
    its subscriptions would fill the disk.
    """
    from pyspark import SparkFiles

    if is_connect(session):
        return
    files: Any = session.sparkContext._jsc.sc().addedFiles().get("default")
    if files.isEmpty():
        return
    keys = files.get().keys().toList()
    for key in (keys.apply(place) for place in range(keys.size())):
        if key.rpartition("/")[2] == name:
            files.get().remove(key)
    Path(SparkFiles.getRootDirectory(), name).unlink(missing_ok=True)


@contextmanager
def ending_jvm_on_failure() -> Iterator[None]:
    """End the JVM that starts within, if its start fails or is interrupted.

    Private: PySpark tells nobody of the process until the JVM has called back. One that is left alone before that finds
    no file to write its port to, and never ends.
    """
    from pyspark import SparkContext, java_gateway

    started: list[Popen[bytes]] = []
    launch: Any = java_gateway.Popen  # type: ignore[attr-defined]

    def launch_noted(*arguments: Any, **settings: Any) -> Popen[bytes]:
        with _signals_deferred():  # an interruption must not come between the start and the note of it
            started.append(launch(*arguments, **settings))
        return started[-1]

    java_gateway.Popen = launch_noted  # type: ignore[assignment,attr-defined]
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:  # else Python knows the JVM, which ends with this process
            for process in started:
                _end(process)
        raise
    finally:
        java_gateway.Popen = launch  # type: ignore[attr-defined]


def _end(process: Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(JVM_END_SECONDS_MAX)
    except TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Let SIGINT and SIGTERM come after the block, not within it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are for the main thread
        return
    arrived: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: arrived.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for deferred, handler in handlers.items():
            signal.signal(deferred, handler)
        for number in arrived:
            signal.raise_signal(number)


def java_version(session: SparkSession) -> str:
    """The version of the Java that runs Spark.

    Private: Spark says its own version only.
    """
    jvm: Any = session._jvm
    return str(jvm.java.lang.System.getProperty("java.version"))


# -- files


def hadoop_settings(session: SparkSession) -> dict[str, str]:
    """The settings with which Spark reaches file systems, keys included.

    Private: nothing public has Hadoop's configuration, into which also files and environments of the cluster go. Over
    Connect there are those that the session was started with, under `spark.hadoop`.
    """
    if is_connect(session):
        prefix = "spark.hadoop."
        return {
            name.removeprefix(prefix): text for name, text in session.conf.getAll.items() if name.startswith(prefix)
        }
    configuration: Any = session._jsparkSession.sessionState().newHadoopConf()
    settings = {
        f"{prefix}{name}": str(text)
        for prefix in PREFIXES
        for name, text in configuration.getPropsWithPrefix(prefix).items()
    }
    if configuration.get("hadoop.security.credential.provider.path"):  # keys that lie in Hadoop's key stores
        for name in KEYS:
            if (key := configuration.getPassword(name)) is not None:
                settings[name] = "".join(key)
    return settings


@contextmanager
def _java_errors_in_one_sentence() -> Iterator[None]:
    """Let what Hadoop refuses be an error of ours, with its cause, in place of a stack of Java calls."""
    try:
        yield
    except jvm_errors() as error:
        raise to_pipeline_error(error) from None


class FileSystem:
    """A directory wherever Spark reaches: the disk, HDFS, an object store. Names are relative to it, "" is itself.

    Private: DataFrames can be written and read, but nothing public renames, lists or removes, and PySpark's own way to
    the classes of Hadoop is this one.
    """

    def __init__(self, session: SparkSession, root: str) -> None:
        self.root = root.rstrip("/")
        self._jvm: Any = session._jvm
        configuration = session._jsparkSession.sessionState().newHadoopConf()
        with _java_errors_in_one_sentence():
            self._system: Any = self._path("").getFileSystem(configuration)

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk of this machine, or mounted."""
        return bool(self._system.getScheme() == "file")

    def exists(self, name: str) -> bool:
        """Whether there is a file or a directory."""
        with _java_errors_in_one_sentence():
            return bool(self._system.exists(self._path(name)))

    def names(self, pattern: str) -> list[str]:
        """The names that a glob pattern fits."""
        with _java_errors_in_one_sentence():
            return [status.getPath().getName() for status in self._system.globStatus(self._path(pattern)) or []]

    def make_directory(self, name: str) -> None:
        """Make it, and those above it."""
        with _java_errors_in_one_sentence():
            self._system.mkdirs(self._path(name))

    def rename(self, name: str, new: str) -> bool:
        """Rename it; False if that fails."""
        with _java_errors_in_one_sentence():
            return bool(self._system.rename(self._path(name), self._path(new)))

    def remove(self, name: str) -> None:
        """Remove it with everything in it; do nothing if it does not exist."""
        with _java_errors_in_one_sentence():
            self._system.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{name}" if name else self.root)


# -- queries that run


class RunningQuery:
    """The progress of a query that observes its rows under a name.

    Private: an `Observation` has its sums only after the query has ended; Spark's REST interface needs a web server.
    All methods may raise what `jvm_errors` names: the query may end at any time.
    """

    def __init__(self, session: SparkSession, observation: str) -> None:
        self._observation = observation
        self._jvm: Any = session._jvm
        self._store: Any = session._jsparkSession.sharedState().statusStore()
        self._execution: int | None = None

    def observed_sums(self) -> dict[str, Any] | None:
        """What was observed in the tasks that have ended; None while there is nothing."""
        numbers = [self._execution] if self._execution is not None else self._latest_executions()
        for number in numbers:
            query = self._jvm.org.apache.spark.sql.execution.SQLExecution.getQueryExecution(number)
            metrics = None if query is None else query.observedMetrics().get(self._observation)
            if metrics is not None and metrics.isDefined():
                self._execution = number
                return dict(json.loads(metrics.get().json()))
        return None

    def output_rows(self, operators: tuple[str, ...]) -> dict[str, list[int]]:
        """How many rows have come out of the operators of these names, in the order of the plan, of all tasks."""
        rows: dict[str, list[int]] = {name: [] for name in operators}
        values = self._store.executionMetrics(self._execution)
        graph = self._store.planGraph(self._execution).allNodes()
        for operator in (graph.apply(place) for place in range(graph.size())):
            name = operator.name().split(" ")[0]
            metrics = operator.metrics()
            for metric in (metrics.apply(place) for place in range(metrics.size() if name in rows else 0)):
                value = values.get(metric.accumulatorId())
                if metric.name() == "number of output rows" and value.isDefined():
                    rows[name].append(int(value.get().replace(",", "")))
        return rows

    def _latest_executions(self) -> list[int]:
        executions = self._store.executionsList()
        newest_first = range(executions.size() - 1, -1, -1)
        return [executions.apply(place).executionId() for place in newest_first[:EXECUTIONS_SEEN_MAX]]


# -- in Python workers


def is_python_worker() -> bool:
    """Whether this process is one of Spark's Python workers, or of its planners for data sources.

    Private: `TaskContext.get()` is None in planners.
    """
    return "pyspark.worker_util" in sys.modules


@contextmanager
def one_sentence_errors() -> Iterator[None]:
    """Keep Python's frames out of what Spark says about an error of ours, in its workers: they end with the exception.

    Private: `simplifiedTraceback` is a setting of the session, which is the user's; this variable is what Spark's
    worker looks at.
    """
    try:
        yield
    except TreecastError:
        if is_python_worker():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
