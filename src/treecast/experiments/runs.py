"""Several runs of one experiment: the median of their rows, and what their verdicts have in common.

A measured figure varies from run to run, and so may the verdict on it. The rows of a table are medians, and findings
are computed from them. But if the runs disagree, the answer is "moved between runs".

    >>> from treecast.experiments.experiment import Finding
    >>> def seen(figure, answer):
    ...     return Finding("a claim", f"{figure} times", "a rule", answer, figure=figure)
    >>> one, = combine([seen(2.0, "agree")], [[seen(2.0, "agree")], [seen(1.0, "differs")], [seen(3.0, "agree")]])
    >>> one.answer
    'moved between runs'
    >>> one.seen
    '2.0 times. In 3 runs from 1 to 3: 2 agree, 1 differs'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from treecast.experiments.experiment import Finding, Row


def median_rows(runs: Sequence[Sequence[Row]]) -> list[Row]:
    """The rows of one run with the medians of all. A run with missing rows is left out."""
    most = max((len(rows) for rows in runs), default=0)
    whole = [rows for rows in runs if len(rows) == most]
    return [{column: _middle([row[column] for row in same]) for column in same[0]} for same in zip(*whole, strict=True)]


def _middle(values: Sequence[Any]) -> Any:
    """The median of numbers. Labels are the same in all runs."""
    if all(value == values[0] for value in values):
        return values[0]
    if not all(isinstance(value, int | float) for value in values):
        raise AssertionError(f"the runs have different rows: {values}")
    middle = median(values)
    return round(middle) if all(isinstance(value, int) for value in values) else middle


def combine(findings: Sequence[Finding], by_run: Sequence[Sequence[Finding]]) -> list[Finding]:
    """The findings on the medians, with the answers of the single runs."""
    if len(by_run) < 2:
        return list(findings)
    findings_with_runs = []
    for place, finding in enumerate(findings):
        run_findings = [run[place] for run in by_run]
        answers = Counter(one.answer for one in run_findings)
        figures = [one.figure for one in run_findings if one.figure is not None]
        range_text = f" from {min(figures):.3g} to {max(figures):.3g}" if figures else ""
        answer_text = ", ".join(f"{count} {answer}" for answer, count in answers.most_common())
        findings_with_runs.append(
            replace(
                finding,
                seen=f"{finding.seen}. In {len(run_findings)} runs{range_text}: {answer_text}",
                answer=finding.answer if len(answers) == 1 else "moved between runs",
            )
        )
    return findings_with_runs
