"""What an experiment is: what a paper found, which cells measure it, how the rows are judged and drawn."""

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
    """One sentence of a paper, held against the rows."""

    claim: str
    """What the paper found, with its numbers where it gives any."""
    seen: str
    """What the rows say, in figures."""
    rule: str
    """When it counts as agreeing and when as differing: stated before the run."""
    answer: Answer
    why: str = ""
    figure: float | None = None
    """What the rule looks at, where that is one number: of several runs, the spread is shown."""


@dataclass(frozen=True)
class Sizes:
    """How large a run is. An experiment varies `queries` or `values` (of the parameter that its points name)."""

    queries: tuple[int, ...]
    documents: int
    values: tuple[float, ...] = ()
    passes: int = 5
    """At most so many passes over the documents, of which the fastest counts."""
    cell_seconds: float = 2.0
    """No further pass begins after so much CPU time."""
    runs: int = 1
    """Everything is measured so many times over; the rows are medians (`treecast.experiments.runs`)."""

    def __post_init__(self) -> None:
        if not self.queries or min(self.queries) < 1 or min(self.documents, self.passes, self.runs) < 1:
            raise ValueError("queries, documents, passes and runs are positive numbers")


@dataclass(frozen=True)
class Experiment:
    """A figure, a table or a stated finding of a paper, and how to see it again."""

    name: str
    paper: str
    section: str
    title: str
    found: str
    """What the paper found, in words and numbers."""
    parameters: str
    """What was varied and what was kept, here."""
    columns: tuple[str, ...]
    """The columns of the rows, in order; the CSV has these."""
    full: Sizes
    quick: Sizes
    points: Callable[[Sizes], Sequence[Point]]
    measure: Callable[[Session, Point], list[Row]]
    verdict: Callable[[Sequence[Row]], list[Finding]]
    panels: Callable[[Sequence[Row]], list[Panel]]


def overall(findings: Sequence[Finding]) -> Answer:
    """One answer for all: differs if one does, agree if all do."""
    answers = {finding.answer for finding in findings}
    if "differs" in answers:
        return "differs"
    if "moved between runs" in answers:
        return "moved between runs"
    return "inconclusive" if "inconclusive" in answers or not answers else "agree"
