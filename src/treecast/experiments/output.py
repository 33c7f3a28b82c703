"""The files of a run: NAME.csv with the rows, NAME.png with the curves, NAME.md with everything a reader needs. With
several runs the rows are medians, and NAME-runs.csv has the rows of each run.

The table and the verdict of NAME.md are what the command prints.
"""

from __future__ import annotations

import csv
import io
import os
import platform
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from treecast import durable
from treecast.experiments.experiment import Row
from treecast.experiments.perform import Outcome
from treecast.report import write_panels
from treecast.version import VERSION

WIDTH = 118
HEADINGS = {
    "us": "µs/doc",
    "add_us": "add µs",
    "remove_us": "remove µs",
    "parse_us": "parse µs",
    "match_us": "match µs",
    "emit_us": "collect µs",
    "lxml_parse_us": "lxml parse µs",
    "matches": "matches/doc",
    "structural": "without predicates",
    "build_s": "build s",
    "bytes": "MB",
    "length": "bytes/doc",
    "tags": "tags/doc",
    "new_states": "new states",
    "fan_out": "fan-out",
    "latency_us": "latency µs",
    "speed": "messages/s",
    "read_us": "read µs",
    "top_us": "root tag µs",
    "expected_us": "model µs",
    "net_speed": "without Spark",
    "needed": "leaves needed",
    "nfa_us": "NFA µs",
    "chosen_us": "chosen µs",
    "routed_us": "routed µs",
    "routed_after": "operators until routed",
    "built": "transformations",
}


def write(outcome: Outcome, directory: Path, command: str) -> list[Path]:
    """Write the three files, each completely or not at all."""
    directory.mkdir(parents=True, exist_ok=True)
    name = outcome.experiment.name
    table, page, picture = (directory / f"{name}.{suffix}" for suffix in ("csv", "md", "png"))
    each = [directory / f"{name}-runs.csv"] if len(outcome.runs) > 1 else []
    _write_text(table, csv_text(outcome.experiment.columns, outcome.rows))
    for path in each:
        numbered_rows = [{"run": run, **row} for run, rows in enumerate(outcome.runs, start=1) for row in rows]
        _write_text(path, csv_text(("run", *outcome.experiment.columns), numbered_rows))
    _write_text(page, page_text(outcome, command))
    experiment = outcome.experiment
    subtitle = f"{experiment.paper}, {experiment.section}: {answer_text(outcome)}"
    write_panels(experiment.title, subtitle, experiment.panels(outcome.rows), picture)
    return [table, *each, picture, page]


def _write_text(path: Path, text: str) -> None:
    durable.write(path, text.encode())


def csv_text(columns: Sequence[str], rows: Sequence[Row]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def answer_text(outcome: Outcome) -> str:
    """The answer and its reasons."""
    count = len(outcome.runs)
    return f"{outcome.answer} ({f'median of {count} runs' if count > 1 else 'one run'})"


def table_cells(outcome: Outcome) -> list[list[str]]:
    """Headings and rows, as they are shown."""
    columns = outcome.experiment.columns
    return [
        [HEADINGS.get(column, column) for column in columns],
        *([format_value(column, row[column]) for column in columns] for row in outcome.rows),
    ]


def format_value(column: str, value: Any) -> str:
    if column == "bytes":
        return f"{value / 1e6:,.1f}"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)


def table_text(outcome: Outcome) -> str:
    """For a terminal: numbers to the right, texts to the left."""
    cells = table_cells(outcome)
    texts = [
        isinstance(outcome.rows[0][column], str) if outcome.rows else True for column in outcome.experiment.columns
    ]
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
    lines = []
    for row in cells:
        parts = [cell.ljust(n) if text else cell.rjust(n) for cell, n, text in zip(row, widths, texts, strict=True)]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def verdict_text(outcome: Outcome) -> str:
    """What the paper found, what we see, agree or not, and why."""
    experiment = outcome.experiment
    lines = [*_wrap(f"The paper found: {experiment.found}"), ""]
    for problem in outcome.problems:
        lines += [*_wrap(f"WRONG ANSWERS: {problem}"), ""]
    for finding in outcome.findings:
        lines += _wrap(f"{finding.answer.upper()}: {finding.claim}")
        lines += _wrap(f"we see: {finding.seen}", "  ")
        lines += _wrap(f"rule: {finding.rule}", "  ")
        if finding.why:
            lines += _wrap(f"why: {finding.why}", "  ")
    lines += ["", f"Verdict: {answer_text(outcome)}"]
    return "\n".join(lines)


def _wrap(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False)


def page_text(outcome: Outcome, command: str) -> str:
    """The whole as Markdown."""
    experiment = outcome.experiment
    lines = [
        f"# {experiment.name}: {experiment.title}",
        "",
        f"    {command}",
        "",
        f"- {experiment.paper}, {experiment.section}. The paper found: {experiment.found}",
        f"- here: {experiment.parameters}",
        *[f"- {line}" for line in (*machine(), *outcome.notes)],
        f"- {_sizes(asdict(outcome.sizes))}; {outcome.seconds:.0f} s in all",
        "- times are CPU time, of the fastest pass; all answers that were compared are the same"
        if not outcome.problems
        else f"- WRONG ANSWERS: {'; '.join(outcome.problems)}",
        "",
        f"## Verdict: {answer_text(outcome)}",
        "",
    ]
    for finding in outcome.findings:
        lines.append(f"- **{finding.answer}**: {finding.claim}. We see: {finding.seen}. Rule: {finding.rule}.")
        if finding.why:
            lines[-1] += f" Why: {finding.why}."
    lines += ["", *_markdown(table_cells(outcome)), ""]
    return "\n".join(lines)


def _sizes(sizes: dict[str, Any]) -> str:
    set_sizes = {name: value for name, value in sizes.items() if value != ()}
    parts = []
    for name, value in set_sizes.items():
        numbers = value if isinstance(value, tuple) else (value,)
        parts.append(
            f"{name.replace('_', ' ')} "
            f"{' / '.join(f'{number:,g}' if number < 1e6 else str(number) for number in numbers)}"
        )
    return "sizes: " + ", ".join(parts)


def _markdown(cells: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---"] * len(cells[0])
    return ["| " + " | ".join(row) + " |" for row in (cells[0], rule, *cells[1:])]


def machine() -> list[str]:
    """What the figures were measured on, and with."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    versions = [f"{name} {metadata.version(name)}" for name in ("pyarrow", "matplotlib")]
    return [
        f"{model}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {platform.system()} {platform.release()}",
        f"Python {platform.python_version()}, treecast {VERSION}, {', '.join(versions)}",
    ]
