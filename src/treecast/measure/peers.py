"""The peers: what people would use instead, each measured as far as the budget allows.

lxml            compiled XPaths in a loop
saxonche        all queries in one stylesheet
spark-xpath     on Spark, one column xpath_boolean(…) a query
spark-lxml      on Spark, compiled lxml XPaths inside mapInArrow
spark-treecast  on Spark, treecast.spark.match: ours, next to the other two
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from treecast.errors import PipelineError
from treecast.extras import install_command
from treecast.measure.answers import Answers
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.lxml_cell import measure_lxml
from treecast.measure.saxon_cell import measure_saxon
from treecast.measure.spark_cell import measure_on_spark


@dataclass(frozen=True)
class Peer:
    """How it is measured, and which packages of which extra it needs."""

    measure: Callable[[Inputs, Effort], tuple[Cell, Answers]]
    packages: tuple[str, ...]
    extra: str = "bench"

    @property
    def on_spark(self) -> bool:
        return "pyspark" in self.packages


PEERS: Mapping[str, Peer] = {
    "lxml": Peer(measure_lxml, ("lxml",)),
    "saxonche": Peer(measure_saxon, ("saxonche",)),
    "spark-xpath": Peer(partial(measure_on_spark, "spark-xpath"), ("pyspark",), "spark"),
    "spark-lxml": Peer(partial(measure_on_spark, "spark-lxml"), ("pyspark", "lxml"), "spark,bench"),
    "spark-treecast": Peer(partial(measure_on_spark, "spark-treecast"), ("pyspark",), "spark"),
}


def check_peer(name: str) -> None:
    """Raise a ValueError if there is no such peer, and a PipelineError if it is not installed."""
    if name not in PEERS:
        raise ValueError(f"no peer is called {name!r}; there are: {', '.join(PEERS)}")
    peer = PEERS[name]
    missing = [package for package in peer.packages if importlib.util.find_spec(package) is None]
    if missing:
        hint = f"{install_command(peer.extra)}; or leave it out of --peers"
        raise PipelineError(f"the peer {name} needs {missing[0]}, which is not installed", code="TC782", hint=hint)
    if peer.on_spark:
        from treecast.spark.session import check

        check()
