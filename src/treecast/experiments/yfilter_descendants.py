"""YFilter as the share of `//` varies (YFilter, section 3.4, finding 2)."""

from __future__ import annotations

from treecast.experiments.experiment import Experiment
from treecast.experiments.varying import COLUMNS, DESCENDANTS, FULL, QUICK

EXPERIMENT = Experiment(
    name="yfilter-descendants",
    paper="YFilter",
    section="3.4 (2)",
    title="YFilter with more and more //",
    found="The NFA-based approach is robust and efficient under query workloads with varying proportions of // "
    "operators "
    "and * operators.",
    parameters="path queries, up to 8 steps, 20 % *; the probability of // varies",
    columns=COLUMNS,
    full=FULL,
    quick=QUICK,
    points=DESCENDANTS.points,
    measure=DESCENDANTS.measure,
    verdict=DESCENDANTS.verdict,
    panels=DESCENDANTS.panels,
)
