"""Functions of treecast on their way to the executors: by value, so that they can say that treecast is missing there.

A function of a module travels as a name; where the module is missing, Spark fails to find it, in a page of frames.

    function = worker_function("treecast.spark.batch.population_worker", "facts", ({},))
    frame.mapInArrow(function, FACTS_TYPE)

Arguments are plain values (tuples, strings, numbers) wherever that is easy: what is of treecast itself can be unpickled
only where treecast is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def worker_function(module: str, name: str, arguments: tuple[Any, ...]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function `name` of a module, of an iterator of batches; the arguments travel with it."""

    def treecast_function(batches: Iterator[Any]) -> Iterator[Any]:
        from importlib import import_module

        try:
            worker = import_module(module)
        except ImportError as error:
            import os
            import sys

            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise RuntimeError(
                f"TC707 treecast is not installed for {sys.executable} on this executor ({error}): "
                "install the wheel there, or ship an environment with it (docs/guide/clusters.md)"
            ) from None
        yield from getattr(worker, name)(batches, *arguments)

    # Without its type hints, which name things that only treecast's own Python would have to resolve.
    treecast_function.__annotations__ = {}
    return treecast_function


def map_population(frame: DataFrame, name: str, arguments: tuple[Any, ...], schema: str) -> DataFrame:
    """A DataFrame through a function of `population_worker`, which takes and gives record batches."""
    return frame.mapInArrow(worker_function("treecast.spark.batch.population_worker", name, arguments), schema)
