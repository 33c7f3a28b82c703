"""Experiments: one file per figure, table or stated finding of a paper, each with a verdict computed from its rows.

An experiment states what the paper found, measures the same on the engines of this project, and compares. Its verdict
is a list of findings, each with a rule that is stated with it and one of three answers: agree, differs,
inconclusive. If two engines give different matches, the run has failed, whatever the times are.

    >>> from treecast import experiments
    >>> experiments.names()[:3]
    ['yfilter-rivals', 'yfilter-wildcards', 'yfilter-descendants']
    >>> experiments.find("xtrie-filters").section
    'Raw XTrie Performance'

`treecast experiment NAME` runs one; from Python it is `experiments.perform(experiment, experiment.quick)`.
"""

from treecast.experiments.catalogue import find, is_known, names, nearest
from treecast.experiments.experiment import Experiment, Finding, Row, Sizes
from treecast.experiments.perform import Outcome, perform

__all__ = ["Experiment", "Finding", "Outcome", "Row", "Sizes", "find", "is_known", "names", "nearest", "perform"]
