"""The list of experiments. Each is a module of this package that defines EXPERIMENT; its name has hyphens.

A figure that is a part of an experiment has its own name, too (`treecast.experiments.figures`).
"""

from __future__ import annotations

import difflib
import importlib

from treecast.experiments.experiment import Experiment
from treecast.experiments.figures import FIGURES, figure_of

NAMES = (
    "yfilter-rivals",
    "yfilter-wildcards",
    "yfilter-descendants",
    "yfilter-dtds",
    "yfilter-maintenance",
    "yfilter-predicates",
    "yfilter-cost-split",
    "xtrie-filters",
    "xtrie-length",
    "xtrie-variants",
    "xtrie-routers",
    "onyx-sharing",
    "onyx-early",
    "onyx-priorities",
    "onyx-formats",
    "onyx-pep",
    "onyx-routing",
    "onyx-patterns",
    "onyx-schema",
    "onyx-recovery",
    "dht-states",
    "dht-traffic",
    "dht-load",
    "dht-variations",
    "dht-workloads",
    "dht-lookups",
    "dht-indexing",
    "dht-comparison",
    "selective-trees",
    "selective-levels",
    "selective-merging",
)


def names() -> list[str]:
    """The names of all experiments, by paper and in its order."""
    return list(NAMES)


def find(name: str) -> Experiment:
    """The experiment of this name, or of the figure of this name. Raises KeyError if there is none."""
    if name in FIGURES:
        return figure_of(find(FIGURES[name].experiment), name)
    if name not in NAMES:
        raise KeyError(name)
    module = importlib.import_module(f"treecast.experiments.{name.replace('-', '_')}")
    experiment: Experiment = module.EXPERIMENT
    assert experiment.name == name
    return experiment


def is_known(name: str) -> bool:
    """Whether `find` finds it."""
    return name in NAMES or name in FIGURES


def nearest(name: str) -> str | None:
    """A suggestion: a name that is spelt alike, or the first that contains a part of it."""
    alike = difflib.get_close_matches(name.lower(), (*NAMES, *FIGURES), n=1, cutoff=0.5)
    if alike:
        return alike[0]
    parts = [part for part in name.lower().replace("_", "-").split("-") if len(part) > 2]
    return next((candidate for candidate in NAMES for part in parts if part in candidate), None)
