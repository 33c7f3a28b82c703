"""What an experiment is: what a paper found, which cells measure it, how the rows become a verdict and a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from treecast.report import Panel

if TYPE_CHECKING:
    from treecast.experiments.session import Session

Answer = Literal["agree", "differs", "inconclusive", "moved between runs"]
ANSWERS: tuple[Answer, ...] = ("agree", "differs", "inconclusive", "moved between runs")
Row = dict[str, Any]
Point = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """One claim of a paper, compared with the rows."""

    claim: str
    """What the paper found, with its numbers where it gives any."""
    seen: str
    """What the rows say, in figures."""
    rule: str
    """When the answer is "agree" and when "differs"."""
    answer: Answer
    why: str = ""
    figure: float | None = None
    """The number that the rule tests, if it is one number; with several runs, the spread is shown."""


@dataclass(frozen=True)
class Sizes:
    """How large a run is. An experiment varies `queries` or `values` (of the parameter that its points name)."""

    queries: tuple[int, ...]
    documents: int
    values: tuple[float, ...] = ()
    passes: int = 5
    """The maximum number of passes over the documents; the fastest counts."""
    cell_seconds: float = 2.0
    """No further pass begins after this much CPU time."""
    runs: int = 1
    """How often everything is measured; the rows are medians (`treecast.experiments.runs`)."""

    def __post_init__(self) -> None:
        if not self.queries or min(self.queries) < 1 or min(self.documents, self.passes, self.runs) < 1:
            raise ValueError("queries, documents, passes and runs must be positive numbers")


@dataclass(frozen=True)
class Experiment:
    """A figure, a table or a stated finding of a paper, and how to reproduce it."""

    name: str
    paper: str
    section: str
    title: str
    found: str
    """What the paper found, in words and numbers."""
    parameters: str
    """What is varied here and what is fixed."""
    columns: tuple[str, ...]
    """The columns of the rows, in order; the CSV has these."""
    full: Sizes
    quick: Sizes
    points: Callable[[Sizes], Sequence[Point]]
    measure: Callable[[Session, Point], list[Row]]
    verdict: Callable[[Sequence[Row]], list[Finding]]
    panels: Callable[[Sequence[Row]], list[Panel]]


def overall(findings: Sequence[Finding]) -> Answer:
    """One answer for all: "differs" if one differs, "agree" if all agree."""
    answers = {finding.answer for finding in findings}
    if "differs" in answers:
        return "differs"
    if "moved between runs" in answers:
        return "moved between runs"
    return "inconclusive" if "inconclusive" in answers or not answers else "agree"
