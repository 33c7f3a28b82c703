"""A Spark session that suits treecast and keeps quiet.

`start` makes one, or takes the one that runs already: for the command line, tests and measurements. Use your own
wherever you have one; treecast needs no setting of this file, and `SETTINGS` says which ones pay and why.

    from treecast.spark.session import start
    spark = start("local[2]", log="spark.log")
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from treecast.errors import PipelineError
from treecast.extras import install_command
from treecast.spark.internals import ending_jvm_on_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_VERSION_MIN = 17
SPARK_VERSION_MIN = (4, 1)

SETTINGS: Mapping[str, str] = {
    # Batches of a few megabytes cost far less than Spark's default of 10,000 rows, however large these are.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "4m",
    # A native crash then shows where it happened instead of "worker exited unexpectedly".
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    # One sentence per failure: the Python frames between Spark and treecast do not help users.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
    # What tasks have done so far comes with the heartbeats: every ten seconds is too rare for a progress line.
    "spark.executor.heartbeatInterval": "2s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "2g",
}

LOG_BYTES_MAX = 16 << 20
"""A larger log is renamed to `….1`, and so on: three of these are kept."""

COMPLAINT_BYTES_MAX = 64 << 10

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = {log_bytes_max}
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""
_NO_LOG = "rootLogger.level = off\n"


def start(
    master: str = "local[2]",
    *,
    name: str = "treecast",
    log: str | Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session on `master`; what Spark has to say is appended to the file `log`, or goes nowhere.

    `settings` come on top of `SETTINGS`. Raises PipelineError, in one sentence, when pyspark or Java is missing or
    Spark does not start.
    """
    check()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # no look-up of the host's name, and no warning about it
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    with tempfile.TemporaryDirectory(prefix="treecast-") as directory:
        log_path = Path(os.devnull if log is None else log).absolute()
        logging = _NO_LOG if log is None else _LOG4J.format(log=log_path, log_bytes_max=LOG_BYTES_MAX)
        properties = Path(directory, "log4j2.properties")
        properties.write_text(logging, encoding="utf-8")
        java_options = f"-Dlog4j2.configurationFile={properties.as_uri()}"
        more_options = (settings or {}).get("spark.driver.extraJavaOptions", "")
        builder = builder.config("spark.driver.extraJavaOptions", f"{java_options} {more_options}".strip())
        # The JVM inherits the output, and with it the Python workers.
        with _output_to(log_path), ending_jvm_on_failure():
            log_began = 0 if log is None or not log_path.exists() else log_path.stat().st_size
            try:
                return builder.getOrCreate()
            except (PySparkException, RuntimeError, OSError) as error:
                reason = _complaint_of_java(log_path, log_began) if log is not None else None
                reason = reason or str(error).strip().splitlines()[0]
                message = f"Spark did not start on {master}: {reason.rstrip('.')}"
                raise PipelineError(message, code="TC702", hint="" if log is None else f"see {log}") from error


def _complaint_of_java(log: Path, began: int) -> str | None:
    """Why Java refused to run, which it says in the log alone; None if it says nothing there."""
    with log.open("rb") as file:
        file.seek(began)
        lines = file.read(COMPLAINT_BYTES_MAX).decode("utf-8", "replace").splitlines()
    for line, next_line in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("Error occurred during initialization of VM"):
            return next_line or line
        if line.startswith(("Error", "Invalid", "Unrecognized", "Exception in")):
            return line
    return None


def check() -> None:
    """Raise PipelineError, in one sentence with what to do, unless Spark can be started here."""
    if importlib.util.find_spec("pyspark") is None:
        raise PipelineError("Spark is not installed", code="TC701", hint=install_command("spark"))
    if spark_version() < SPARK_VERSION_MIN:
        import pyspark

        least = ".".join(map(str, SPARK_VERSION_MIN))
        message = f"this is Spark {pyspark.__version__}, and treecast needs {least} or newer"
        raise PipelineError(message, code="TC701", hint=f"pip install 'pyspark>={least}'")
    version = java_version()
    home = os.environ.get("JAVA_HOME")
    if version is None and home:
        hint = f"let it name a Java {JAVA_VERSION_MIN} or newer, or unset it"
        raise PipelineError(f"Spark needs Java, and JAVA_HOME, {home}, has none that runs", code="TC701", hint=hint)
    if version is None:
        raise PipelineError(
            "Spark needs Java, and none was found",
            code="TC701",
            hint=f"install Java {JAVA_VERSION_MIN} or newer (Debian: default-jre-headless), or set JAVA_HOME",
        )
    if version < JAVA_VERSION_MIN:
        raise PipelineError(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer, and this is Java {version}",
            code="TC701",
            hint="install a newer one, or set JAVA_HOME",
        )


def spark_version() -> tuple[int, int]:
    """The version of the PySpark that is installed here, such as (4, 2)."""
    import pyspark

    major, minor, *_ = pyspark.__version__.split(".")
    return int(major), int(minor)


def java_version() -> int | None:
    """The major version of the Java that Spark would use, or None."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        return None
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    parts = output.split('"')
    if len(parts) < 2:
        return None
    major = parts[1].removeprefix("1.").split(".")[0].split("-")[0]
    return int(major) if major.isdigit() else None


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Let processes started meanwhile write to the end of a file what they would print."""
    sys.stdout.flush()
    sys.stderr.flush()
    descriptors = [os.dup(1), os.dup(2)]
    sink = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(descriptors[0], 1)
        os.dup2(descriptors[1], 2)
        for descriptor in (sink, *descriptors):
            os.close(descriptor)
