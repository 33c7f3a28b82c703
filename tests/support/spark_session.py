"""One Spark session for all tests of tests/spark, with a Connect server in the same JVM.

A test that wants Spark takes the fixture `spark`; one that wants Connect takes `connect_address` and runs its client in
a process of its own. Every test in tests/spark is marked `spark`. The switches of the JVM trade peak speed for a quick
start: right for tests, wrong for measurements.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DIRECTORY = Path(__file__).resolve().parents[1] / "spark"


def settings_in(directory: Path) -> dict[str, str]:
    """What every session of the tests sets, with what it writes in its own directory."""
    return {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }


def is_spark(path: Path) -> bool:
    """Whether a file has tests with Spark."""
    return path.is_relative_to(DIRECTORY)


def mark(items: list[pytest.Item]) -> None:
    """Mark every test of tests/spark."""
    for item in items:
        if is_spark(item.path):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def connect_port() -> int:
    """A port that was free a moment ago, for the Connect server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="session")
def connect_address(spark: SparkSession, connect_port: int) -> str:
    """Where a Spark Connect client finds the session's server."""
    return f"sc://127.0.0.1:{connect_port}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, connect_port: int) -> Iterator[SparkSession]:
    """The session: two cores, a failed task is tried three times."""
    from treecast.spark.session import start

    directory = tmp_path_factory.mktemp("spark")
    session = start(
        "local[2,3]",
        name="treecast tests",
        log=directory / "spark.log",
        settings={
            **settings_in(directory),
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(connect_port),
        },
    )
    yield session
    session.stop()
