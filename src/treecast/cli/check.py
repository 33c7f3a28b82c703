"""`treecast check`: what is wrong, or worth a look, in a set of subscriptions, before it goes anywhere."""

from __future__ import annotations

import argparse
import functools
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from treecast.cli import lint, rules
from treecast.cli.console import Console, notes
from treecast.cli.lint import KnownNames
from treecast.cli.match import (
    SUBSCRIPTIONS_FORMAT,
    add_limit_options,
    check_formats,
    namespaces_of,
    read_limits,
    read_settings,
)
from treecast.cli.wording import plural
from treecast.document import Document, read_many
from treecast.errors import PipelineError, TreecastError
from treecast.index import Index
from treecast.index.findings import Finding, contradictions
from treecast.inputs import document_files, subscriptions
from treecast.inputs.archives import ReadProgress
from treecast.names import printable, printable_lines

SHOWN_MAX = 50

DESCRIPTION = """\
Says which subscriptions are refused, say the same as another one, are covered
by another one, or can never match: under a schema, or in sample documents.
With --schematron, files are documents: says which rules they break, and where.
The exit status is 1 if one is refused, or breaks a rule, otherwise 0."""

EPILOG = """\
example:
  treecast check subscriptions.csv
  treecast check --dtd news.dtd --sample docs/ subscriptions.csv
  treecast check --format json subscriptions.csv > findings.jsonl
  treecast check --schematron rules.sch docs/"""


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "check",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast check [options] FILE …",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30),
    )
    option = parser.add_argument
    option("files", metavar="FILE", nargs="+", help=argparse.SUPPRESS)
    several = functools.partial(option, action="append", default=[])
    option("--subscriptions-format", metavar="F", choices=subscriptions.FORMATS, help=SUBSCRIPTIONS_FORMAT)
    several("--namespace", metavar="P=URI", help="bind a prefix; =URI for names without one")
    option("--dtd", metavar="DTD", help="report what no document of this DTD matches")
    option("--root", metavar="NAME", help="the root element of the DTD; default: inferred")
    several("--sample", metavar="DOCUMENT", help="report what matches none of these; repeatable")
    several("--record", metavar="NAME", help="split documents into these elements; *: every child")
    option("--schematron", metavar="RULES", help="check the documents FILE … by these rules")
    option("--phase", metavar="NAME", help="the phase of the rules; default: that of their file")
    option("--entities", metavar="html", choices=("html",), help="accept the entities of HTML, such as &nbsp;")
    option("--no-covering", action="store_true", help="do not look for covered subscriptions")
    option("--format", metavar="F", choices=("text", "json"), default="text", help="text, or json: all findings")
    option("--quiet", action="store_true", help="no progress or summary on stderr")
    add_limit_options(parser)
    parser.set_defaults(run=lambda options: run(parser, options))


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    read_limits(parser, options)
    if options.schematron:
        return rules.run(options)
    check_formats(parser, options.files, options.subscriptions_format)
    namespaces = namespaces_of(parser, options.namespace)
    console = Console(options.words, progress=not options.quiet)
    note = notes(console, quiet=options.quiet)

    console.status("reading subscriptions …")
    read = functools.partial(subscriptions.read_subscriptions, format=options.subscriptions_format, note=note)
    rows = subscriptions.join([read(path) for path in options.files])
    index = Index(namespaces=namespaces, limits=options.limits, entities=options.entities)
    counts: Counter[str] = Counter()
    for finding in _findings(index, rows, options, console):
        counts[finding.kind] += 1
        _show(finding, options.format, counts[finding.kind], console)
    console.clear()
    for kind, count in counts.items():
        if options.format == "text" and count > SHOWN_MAX:
            print(f"… {count - SHOWN_MAX:,} more are {kind}; --format json lists all")
    if not options.quiet:
        console.say(_summary(rows.num_rows, counts))
    return 1 if counts["refused"] else 0


def _findings(index: Index, rows: Any, options: argparse.Namespace, console: Console) -> Iterator[Finding]:
    yield from lint.refusals(index, rows)

    def progress(done: int, total: int) -> None:
        console.status(f"comparing subscriptions … {done:,} of {total:,}")

    if not options.no_covering:
        yield from lint.redundancies(index, progress)
    impossible_ids = set()
    for finding in contradictions(index, progress):
        if finding.kind == "impossible":
            impossible_ids.add(finding.subscription)
        yield finding
    if options.dtd:
        from treecast.workload import Schema

        schema = Schema.from_dtd(options.dtd, root=options.root)
        if not schema.missing:
            yield from lint.missing_names(index, KnownNames.of_schema(schema))
        yield from (one for one in lint.impossible(index, schema) if one.subscription not in impossible_ids)
    if options.sample:
        names = KnownNames("sample document")
        matched, documents = _match_samples(index, names, options, console)
        if documents:
            yield from lint.missing_names(index, names)
        yield from lint.unmatched(index, matched, documents)


def _match_samples(
    index: Index, names: KnownNames, options: argparse.Namespace, console: Console
) -> tuple[set[str], int]:
    """The subscriptions that the sample documents match, and how many documents there are. Bad ones are reported."""
    settings = read_settings(options, index.limits)

    def report(name: str, error: TreecastError | PipelineError) -> None:
        console.say(f"treecast: {printable(name)}: {error}")

    matched: set[str] = set()
    documents = 0
    read = document_files.progress_of(options.sample, settings) if console.shows_progress else ReadProgress(None)
    for batch in document_files.batches(options.sample, settings, report, read):
        accepted: list[tuple[str, Document]] = []
        answers = read_many(batch.documents, limits=index.limits, entities=options.entities)
        for name, document in zip(batch.names, answers, strict=True):
            if isinstance(document, Document):
                accepted.append((name, document))
                names.add(document)
            else:
                report(name, document)
        for matches, errors in index.match_batches([document for _, document in accepted], on_error="report"):
            matched.update(matches.column("subscription").unique().to_pylist())
            for row in errors.to_pylist():
                console.say(f"treecast: {printable(accepted[row['document']][0])}: {row['message']}")
        documents += len(batch.documents)
        console.update(documents, None, 0, read.share)
    return matched, documents


def _show(finding: Finding, form: str, number: int, console: Console) -> None:
    if form == "json":
        fields = {**vars(finding), "message": console.in_words(finding.message)}
        print(json.dumps({name: value for name, value in fields.items() if value is not None}))
    elif number <= SHOWN_MAX:
        console.clear()
        print(f"{printable(finding.subscription)}: {printable_lines(console.in_words(finding.message))}")


def _summary(total: int, counts: Counter[str]) -> str:
    findings = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    return f"{plural(total, 'subscription')}: {findings or 'nothing to report'}"
