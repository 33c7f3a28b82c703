"""Functions of treecast on their way to the executors: by value, so that they can say that treecast is missing there.

A function of a module travels as a name; where the module is missing, Spark fails to find it, in a page of frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def carried(module: str, name: str, arguments: tuple[Any, ...]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function `treecast.spark.batch.<module>.<name>` of an iterator of batches; the arguments travel with it."""

    def treecast_function(batches: Iterator[Any]) -> Iterator[Any]:
        from importlib import import_module

        try:
            worker = import_module(f"treecast.spark.batch.{module}")
        except ImportError as error:
            import os
            import sys

            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise RuntimeError(
                f"TC707 treecast[spark] is not installed for {sys.executable} on this executor ({error}): "
                "install the wheel there, or ship an environment with it (docs/guide/clusters.md)"
            ) from None
        yield from getattr(worker, name)(batches, *arguments)

    # Without its type hints, which name things that only treecast's own Python would have to resolve.
    treecast_function.__annotations__ = {}
    return treecast_function


def mapped(frame: DataFrame, name: str, arguments: tuple[Any, ...], schema: str) -> DataFrame:
    """A DataFrame through a function of `population_worker`, which takes and gives record batches."""
    return frame.mapInArrow(carried("population_worker", name, arguments), schema)
