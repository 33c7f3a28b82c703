"""`treecast check --schematron`: which documents break which rules, and where."""

from __future__ import annotations

import argparse
import json

from treecast.cli.console import Console
from treecast.cli.match import read_settings
from treecast.errors import PipelineError, TreecastError
from treecast.inputs import document_files
from treecast.inputs.archives import ReadProgress
from treecast.inputs.schematron import Checker, Failure, read_rules
from treecast.names import printable, printable_lines


def run(options: argparse.Namespace) -> int:
    """Check the documents `options.files`; the exit status is 1 if one breaks a rule or cannot be read."""
    console = Console(options.words, progress=not options.quiet)
    console.status("reading rules …")
    read = read_rules(options.schematron, phase=options.phase)
    checker = Checker(read, limits=options.limits, entities=options.entities)
    settings = read_settings(options, checker.index.limits)
    refused = 0

    def report(name: str, error: TreecastError | PipelineError | str) -> None:
        nonlocal refused
        refused += 1
        console.say(f"treecast: {printable(name)}: {error}")

    documents = failures = broken = 0
    progress = document_files.progress_of(options.files, settings) if console.shows_progress else ReadProgress(None)
    for batch in document_files.batches(options.files, settings, report, progress):
        matches, errors = checker.index.match_many(batch.documents, on_error="report")
        for row in errors.to_pylist():
            rule = f"rule {row['subscription']}: " if row["subscription"] is not None else ""
            report(batch.names[row["document"]], rule + row["message"])
        rules: dict[int, list[str]] = {}
        for row in matches.to_pylist():
            rules.setdefault(row["document"], []).append(row["subscription"])
        for number, ids in rules.items():
            broken += 1
            for failure in checker.failures_of(batch.documents[number], ids):
                failures += 1
                _show(batch.names[number], failure, options.format, console)
        documents += len(batch.documents)
        console.update(documents, None, refused, progress.share)
    console.clear()
    if not options.quiet:
        console.say(f"{documents:,} documents, {len(checker.rules):,} rules: {broken:,} break {failures:,}")
    return 1 if broken or refused else 0


def _show(name: str, failure: Failure, form: str, console: Console) -> None:
    assertion, place = failure.assertion, failure.place
    if form == "json":
        row = {
            "document": name,
            "rule": assertion.id,
            "line": place.line,
            "path": place.path,
            "message": failure.message,
            "kind": "report" if assertion.is_report else "assert",
            "role": assertion.role,
            "flag": assertion.flag,
        }
        print(json.dumps({key: value for key, value in row.items() if value != ""}))
    else:
        console.clear()
        print(printable_lines(f"{name}:{place.line}: {assertion.id}: {failure.message} ({place.path})"))
