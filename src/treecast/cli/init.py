"""`treecast init`: a pipeline.toml for what lies in a directory, with comments, ready to be changed and run.

It looks for documents (XML files, compressed ones, archives) and for files of subscriptions, and into the first few
documents: for entities that have to be declared, for namespaces that queries will need, and for large files that are
lists of records. What it is unsure of, it writes as a comment.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from treecast import durable
from treecast.cli.console import Console
from treecast.document import Limits, read
from treecast.errors import DocumentError, PipelineError, TreecastError
from treecast.inputs import document_files, subscriptions
from treecast.inputs.document_files import ReadSettings
from treecast.inputs.listing import COMPRESSIONS, HIDDEN, is_archive
from treecast.inputs.subscription_files import FORMAT_OF_SUFFIX
from treecast.names import printable

FILE = "pipeline.toml"
ENTRIES_MAX = 10_000
"""Files that are looked at."""
SAMPLES_MAX = 10
SAMPLE_BYTES_MAX = 4 << 20
RECORDS_MIN = 100
"""A root with so many children of one name is taken for a list of records."""
SUBSCRIPTION_BYTES_MAX = 64 << 20

DESCRIPTION = """\
Writes DIR/pipeline.toml, with comments, for the documents and subscriptions
that lie in DIR (default: here). It looks into the first few documents, and
changes nothing that is there."""

EPILOG = """\
example:
  treecast init
  treecast init data/ && treecast run data/pipeline.toml --dry-run
  treecast init data/ -o -"""

_CHILD = re.compile(rb"<([A-Za-z_][\w.:-]*)")


def add_to(verbs: argparse._SubParsersAction[Any]) -> None:
    parser = verbs.add_parser(
        "init",
        help="write a commented pipeline.toml for a directory",
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast init [options] [DIR]",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=26),
    )
    option = parser.add_argument
    option("directory", metavar="DIR", nargs="?", default=".", help=argparse.SUPPRESS)
    option("-o", "--output", metavar="FILE", help=f"default: DIR/{FILE}; - is standard output")
    option("--force", action="store_true", help="replace the file if it is there")
    option("--quiet", action="store_true", help="do not say what was found")
    parser.set_defaults(run=run)


@dataclass
class Findings:
    """What lies in a directory; paths are relative to it."""

    documents: list[str] = field(default_factory=list)
    """Directories, files and archives with documents."""
    document_count: int = 0
    subscriptions: list[str] = field(default_factory=list)
    roots: Counter[str] = field(default_factory=Counter)
    namespaces: Counter[str] = field(default_factory=Counter)
    has_entities: bool = False
    record: str = ""
    """The name of the elements that a large file is a list of."""


def run(options: argparse.Namespace) -> int:
    directory = Path(options.directory)
    if not directory.is_dir():
        raise PipelineError(
            f"{directory} is not a directory", code="TC710", hint="name the directory of your documents"
        )
    target = Path(options.output) if options.output else directory / FILE
    if options.output != "-" and target.exists() and not options.force:
        raise OSError(errno.EEXIST, "it is there already; --force replaces it", str(target))
    findings = look_at(directory)
    if not findings.documents:
        message = f"there is no document in {directory}"
        raise PipelineError(message, code="TC710", hint="name a directory with XML files, or with archives of them")
    relative = os.path.relpath(directory, target.parent) if options.output not in (None, "-") else "."
    text = "\n".join(toml(findings, directory.resolve().name, relative)) + "\n"
    if options.output == "-":
        sys.stdout.write(text)
        return 0
    durable.write(target, text.encode())
    if not options.quiet:
        console = Console()
        for line in advice(findings, str(target)):
            console.say(line)
    return 0


def look_at(directory: Path) -> Findings:
    """What is there, by the names of files and by a look into some of them."""
    findings = Findings()
    places: dict[str, int] = {}
    samples: list[Path] = []
    for path in islice(_files(directory), ENTRIES_MAX):
        inside = path.relative_to(directory)
        if _is_document(path.name):
            place = inside.parts[0] if len(inside.parts) > 1 else _group(inside)
            places[place] = places.get(place, 0) + 1
            if len(samples) < SAMPLES_MAX:
                samples.append(path)
        elif path.suffix.lower() in (*FORMAT_OF_SUFFIX, f".{subscriptions.SAVED}") and _holds_subscriptions(path):
            findings.subscriptions.append(str(inside))
    findings.documents = sorted(places)
    findings.document_count = sum(places.values())
    for path in samples:
        _look_into(path, findings)
    return findings


def _files(directory: Path) -> Iterator[Path]:
    """Files below the directory, in order, without hidden ones and without results of earlier runs."""
    for place, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if not name.startswith(HIDDEN))
        if "run.json" in files and Path(place) != directory:
            names.clear()
            continue
        yield from (Path(place, name) for name in sorted(files) if not name.startswith(HIDDEN))


def _is_document(name: str) -> bool:
    stem = name.lower()
    for suffix in COMPRESSIONS:
        stem = stem.removesuffix(suffix)
    return stem.endswith(".xml") or is_archive(name)


def _group(inside: Path) -> str:
    """A file at the top goes by a pattern, so that those that come later are read too; an archive by its name."""
    return (
        str(inside)
        if is_archive(inside.name)
        else f"*{''.join(inside.suffixes[-2:]) if inside.suffix != '.xml' else '.xml'}"
    )


def _holds_subscriptions(path: Path) -> bool:
    """Whether a file has what subscriptions need; JSON and CSV files hold all sorts of things."""
    if path.stat().st_size > SUBSCRIPTION_BYTES_MAX:
        return path.suffix.lower() == f".{subscriptions.SAVED}"
    try:
        table = subscriptions.read_subscriptions(path)
    except TreecastError:
        return False
    if path.suffix.lower() == ".txt":  # every line of a text is a query, until one looks at it
        queries = table.column("query").slice(0, 20).to_pylist()
        return bool(queries) and all(str(query).startswith(("/", "for ", "from ")) for query in queries)
    return bool(table.num_rows)


def _look_into(path: Path, findings: Findings) -> None:
    """The first document of a file: its root, namespace and entities, and whether it is a list."""
    settings = ReadSettings(document_bytes_max=SAMPLE_BYTES_MAX)
    refusals: list[TreecastError] = []
    documents = document_files.documents([str(path)], settings, lambda name, error: refusals.append(error))
    for _, data in islice(documents, 1):
        _look_at_document(data, findings)
        return
    if any(error.code == "TC301" for error in refusals) and not is_archive(path.name):
        with path.open("rb") as file:
            _find_record(file.read(1 << 20), findings)


def _look_at_document(data: bytes, findings: Findings) -> None:
    try:
        read(data, limits=Limits())
    except DocumentError as error:
        findings.has_entities |= error.code == "TC206"
    names = _CHILD.findall(data)
    if not names:
        return
    findings.roots[names[0].decode("utf-8", "replace")] += 1
    declared = re.search(rb"<%s[^>]*\sxmlns=[\"']([^\"']+)" % re.escape(names[0]), data)
    if declared:
        findings.namespaces[declared[1].decode("utf-8", "replace")] += 1
    _find_record(data, findings)


def _find_record(data: bytes, findings: Findings) -> None:
    """A root whose first child's name comes very often is taken for a list."""
    names = _CHILD.findall(data)
    if len(names) > RECORDS_MIN and Counter(names[1:])[names[1]] >= RECORDS_MIN:
        findings.record = findings.record or names[1].decode("utf-8", "replace")


def toml(findings: Findings, name: str, base: str) -> Iterator[str]:
    """The lines of the file; `base` is the directory, seen from the file."""

    def place(path: str) -> str:
        return _text(os.path.normpath(os.path.join(base, path)))  # noqa: PTH118

    def listed(paths: list[str]) -> str:
        return place(paths[0]) if len(paths) == 1 else f"[{', '.join(map(place, paths))}]"

    yield "# For treecast run; docs/guide/run.md has all settings. Paths start at the directory of this file."
    yield f"name = {_text(name)}  # the title of the report"
    yield ""
    yield "[source]"
    yield f"path = {listed(findings.documents)}  # files, directories, patterns, archives"
    yield '# pattern = "*.xml"  # which files of directories and archives'
    if findings.record:
        yield f"# A file here is a list of <{findings.record}>; to match each of them by itself, uncomment this line."
        yield f"# record = {_text(findings.record)}"
    else:
        yield '# record = "item"  # split files into these elements; "*" for every child of the root'
    if findings.has_entities:
        yield 'entities = "html"  # a document uses an entity such as &uuml; that it does not declare'
    else:
        yield '# entities = "html"  # for documents with entities such as &nbsp; that they do not declare'
    yield "# stream = true  # go on with files that arrive later"
    yield ""
    yield "[subscriptions]"
    if findings.subscriptions:
        yield f"path = {listed(findings.subscriptions)}  # CSV, JSON, Parquet, one query a line, a saved index"
    else:
        yield f"path = {place('subscriptions.csv')}  # it is not there yet: columns id and query"
    namespaces = [uri for uri, _ in findings.namespaces.most_common(1)]
    if namespaces:
        whose = "Documents" if findings.namespaces[namespaces[0]] == findings.roots.total() else "Some documents"
        yield f"# {whose} are in this namespace; queries that bind no prefix themselves may then say //d:name."
        yield f"namespaces = {{d = {_text(namespaces[0])}}}"
    else:
        yield '# namespaces = {x = "urn:x"}  # for all queries that do not bind the prefix themselves'
    yield ""
    yield "[sinks]"
    yield f"output = {place('results')}  # matches, report and log"
    yield "# render = true  # also what each subscriber gets"
    yield "# by_subscription = true  # the matches again, a directory for each subscription"
    yield ""
    yield "[limits]"
    yield f'# document_bytes_max = "{Limits().document_bytes_max >> 20}M"'
    yield ""
    yield "[spark]"
    yield '# "spark.driver.memory" = "2g"  # any setting of Spark'


def _text(value: str) -> str:
    """A string of TOML, which are those of JSON."""
    return json.dumps(value, ensure_ascii=False)


def advice(findings: Findings, target: str) -> Iterator[str]:
    """What was found, and what to do next."""
    count = f"{findings.document_count:,}{'+' if findings.document_count >= ENTRIES_MAX else ''}"
    roots = ", ".join(f"<{printable(name)}>" for name, _ in findings.roots.most_common(3))
    yield f"{printable(target)}: {count} file{'' if count == '1' else 's'} of documents" + (
        f": {roots}" if roots else ""
    )
    if not findings.subscriptions:
        root = next(iter(findings.roots), "item")
        yield f"no subscriptions were found: write subscriptions.csv, for example\n  id,query\n  all,/{printable(root)}"
    yield f"next: treecast run {printable(target)} --dry-run"
