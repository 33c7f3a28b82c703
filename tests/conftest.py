"""Shared by all tests: the search depth of hypothesis, and third-party data.

Tests that want real documents take the fixture `data_directory` (None without TREECAST_DATA) and tell `leave_out` what
they then do without; the summary at the end lists it, so nothing is left out silently.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support import spark_session
from support.nats_server import nats_address
from support.sanitized import SANITIZED
from support.served_http import service
from support.spark_session import connect_address, connect_port, spark

__all__ = ["connect_address", "connect_port", "nats_address", "service", "spark"]  # fixtures

# No clock decides a test, hence no deadlines. CI repeats itself exactly; `make long` draws anew each time.
settings.register_profile("test", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("sanitized", settings.get_profile("test"), max_examples=10)
settings.register_profile("long", settings.get_profile("test"), derandomize=False, max_examples=5_000)

SPARK_HALF = "not long and spark"
SANITIZED_PART = "not long and not house and not spark"
"""As tools/test.sh and tools/sanitize.sh ask for them."""
HOUSE = "pytestmark = pytest.mark.house\n"

left_out: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what it runs in the background with interrupts ignored, and children inherit that: those that a
    # test interrupts would wait forever.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.markexpr == "long":
        settings.load_profile("long")
    elif SANITIZED:
        settings.load_profile("sanitized")
    else:
        settings.load_profile("test")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of which nothing would run are not imported: that alone takes long, most of all under the sanitizers."""
    if collection_path.suffix != ".py":
        return None
    wanted = config.option.markexpr
    if wanted == SPARK_HALF:
        return not spark_session.is_spark(collection_path) or None
    if wanted == SANITIZED_PART:
        return spark_session.is_spark(collection_path) or "\n" + HOUSE in collection_path.read_text("utf-8") or None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    spark_session.mark(items)


def pytest_collection_finish() -> None:
    # All tests live until the end. Otherwise each collection of garbage would look at them, and benchmarks collect it
    # before each figure.
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what in dict.fromkeys(left_out):
        terminalreporter.write_line(f"left out: {what}")


@pytest.fixture(scope="session")
def data_directory() -> Path | None:
    """The directory of real documents and queries that TREECAST_DATA names, if it does."""
    name = os.environ.get("TREECAST_DATA")
    return Path(name) if name else None


@pytest.fixture(scope="session")
def leave_out() -> Callable[[str], None]:
    """Call it with what a test does without, for want of data; the summary repeats it."""
    return left_out.append
