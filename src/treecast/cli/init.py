"""`treecast init`: a pipeline.toml for what lies in a directory, with comments, ready to be changed and run.

It looks for documents (XML files, compressed ones, archives) and for files of subscriptions, and into some of the
documents: for entities that have to be declared, for namespaces that queries will need, and for large files that are
lists of records. It proposes queries for the root elements, and matches them, to say how many of these documents each
matches. What it is unsure of, it writes as a comment.
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
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

from treecast import durable
from treecast.cli.console import Console
from treecast.cli.wording import plural
from treecast.document import Document, Limits, read
from treecast.errors import DocumentError, PipelineError, TreecastError
from treecast.index import Index
from treecast.inputs import subscriptions
from treecast.inputs.archives import Entry, entries
from treecast.inputs.inflate import Readable
from treecast.inputs.listing import COMPRESSIONS, HIDDEN, is_archive, look
from treecast.inputs.subscription_files import FORMAT_OF_SUFFIX
from treecast.names import printable

FILE = "pipeline.toml"
ENTRIES_MAX = 10_000
"""Files that are looked at."""
SAMPLES_MAX = 100
"""Files that are looked into; of an archive, its first document."""
SAMPLE_BYTES_MAX = 4 << 20
"""Of a larger document, only the beginning is looked at."""
SAMPLES_BYTES_MAX = 64 << 20
NAMESPACES_MAX = 30
ROOTS_MAX = 3
"""Names of root elements for which queries are proposed."""
ID_CHARS_MAX = 100
RECORDS_MIN = 100
"""A root with so many children of one name is taken for a list of records."""
SUBSCRIPTION_BYTES_MAX = 64 << 20

DESCRIPTION = """\
Writes DIR/pipeline.toml, with comments, for the documents and subscriptions
that lie in DIR (default: here). It looks into up to a hundred documents, and
changes nothing that is there."""

EPILOG = """\
example:
  treecast init
  treecast init data/ && treecast run data/pipeline.toml --dry-run
  treecast init data/ -o -"""

_CHILD = re.compile(rb"<([A-Za-z_][\w.:-]*)")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_START_TAG = re.compile(rb"<([A-Za-z_][\w.:-]*)(?:\s+[^\s=<>\"']+\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'))*\s*>")
_DECLARATION = re.compile(rb"\sxmlns:([A-Za-z_][\w-]*)\s*=\s*[\"']([^\"'<]+)[\"']")
_XML = "http://www.w3.org/XML/1998/namespace"


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "init",
        help=help,
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
    samples: list[Document] = field(default_factory=list)
    """Documents that were looked into; of a large one, its root element alone."""
    has_entities: bool = False
    record: str = ""
    """The name of the elements that a large file is a list of."""

    @cached_property
    def roots(self) -> dict[str, Counter[str]]:
        """The namespaces of each root element's local name, by the documents that have it; the most frequent first."""
        roots: dict[str, Counter[str]] = {}
        for document in self.samples:
            uri, local = document.names[0]
            roots.setdefault(local, Counter())[uri] += 1
        return dict(sorted(roots.items(), key=lambda pair: -pair[1].total()))

    @cached_property
    def namespaces(self) -> Counter[str]:
        """How many documents have elements in each namespace."""
        return Counter(uri for document in self.samples for uri in {uri for uri, _ in document.names} - {"", _XML})

    @cached_property
    def prefixes(self) -> dict[str, str]:
        """The most frequent namespaces, by the prefixes that most documents declare for them, or else d, d2 …"""
        declared: dict[str, Counter[str]] = {}
        for document in self.samples:
            for prefix, uri in set(_DECLARATION.findall(document.data)):
                declared.setdefault(uri.decode("utf-8", "replace"), Counter())[prefix.decode()] += 1
        prefixes: dict[str, str] = {}
        for uri in sorted(self.namespaces, key=lambda uri: (-self.namespaces[uri], uri))[:NAMESPACES_MAX]:
            common = declared.get(uri, Counter()).most_common(1)
            usual = common[0][0] if common and 2 * common[0][1] >= self.namespaces[uri] else "d"
            names = chain([usual], (f"{usual}{number}" for number in count(2)))
            prefixes[next(name for name in names if name not in prefixes)] = uri
        return prefixes

    @cached_property
    def proposals(self) -> list[Proposal]:
        """Queries for root elements, with what they match."""
        prefix_of = {uri: f"{prefix}:" for prefix, uri in self.prefixes.items()} | {"": ""}
        queries: dict[str, str] = {}
        for name, uris in islice(self.roots.items(), ROOTS_MAX):
            id = name[:ID_CHARS_MAX]
            if len(uris) > 1:
                queries[id] = f"/*[local-name()='{name}']"
            for uri, _ in uris.most_common(2):
                if uri in prefix_of:
                    one_id = f"{id}-{prefix_of[uri].rstrip(':') or 'none'}" if len(uris) > 1 else id
                    queries[one_id] = f"/{prefix_of[uri]}{name}"
        index = Index(namespaces=self.prefixes)
        index.add_many(list(queries.items()))
        matched = Counter(id for document in self.samples for id in index.match(document))
        return [Proposal(id, query, matched[id]) for id, query in queries.items()]


@dataclass(frozen=True)
class Proposal:
    """A subscription to begin with."""

    id: str
    query: str
    matched: int
    """How many of the documents that were looked into it matches."""


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
        console = Console(options.words)
        for line in advice(findings, str(target)):
            console.say(line)
    return 0


def look_at(directory: Path) -> Findings:
    """What is there, by the names of files and by a look into some of them."""
    findings = Findings()
    places: dict[str, int] = {}
    paths: list[Path] = []
    for path in islice(_files(directory), ENTRIES_MAX):
        inside = path.relative_to(directory)
        if _is_document(path.name):
            place = inside.parts[0] if len(inside.parts) > 1 else _group(inside)
            places[place] = places.get(place, 0) + 1
            paths.append(path)
        elif path.suffix.lower() in (*FORMAT_OF_SUFFIX, f".{subscriptions.SAVED}") and _holds_subscriptions(path):
            findings.subscriptions.append(str(inside))
    findings.documents = sorted(places)
    findings.document_count = sum(places.values())
    for path in paths[:: -(-len(paths) // SAMPLES_MAX) or 1]:  # from all over the directory
        if sum(document.size_bytes for document in findings.samples) < SAMPLES_BYTES_MAX:
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
    """The first document of a file: its names and entities, and whether it is a list."""
    file = look(str(path))
    if file is None:
        return
    try:
        for member in entries(file, pattern="*.xml"):
            if isinstance(member, Entry):
                _look_at_document(_beginning(member.stream), findings)
                return
    except PipelineError:  # the job will say so
        return


def _beginning(stream: Readable) -> bytes:
    """As much as is looked at, and one byte more of what is longer."""
    data = b""
    while len(data) <= SAMPLE_BYTES_MAX and (piece := stream.read(SAMPLE_BYTES_MAX + 1 - len(data))):
        data += piece
    return data


def _look_at_document(data: bytes, findings: Findings) -> None:
    without_comments = _COMMENT.sub(b"", data)
    _find_record(without_comments, findings)
    if len(data) > SAMPLE_BYTES_MAX:
        data = _root_alone(without_comments)
    try:
        findings.samples.append(read(data))
    except DocumentError as error:
        if error.code != "TC206":
            return
        findings.has_entities = True
        with suppress(DocumentError):
            findings.samples.append(read(data, entities="html"))


def _root_alone(data: bytes) -> bytes:
    """The root element without content; empty where its start tag is not found."""
    tag = _START_TAG.search(data)
    return b"" if tag is None else tag[0] + b"</" + tag[1] + b">"


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
    yield from _namespace_lines(findings)
    if not findings.subscriptions:
        yield f"# Queries to begin with, and how many of the {len(findings.samples)} documents looked into they match:"
        yield from (f"#   {each.query}  {each.matched}" for each in findings.proposals)
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


def _namespace_lines(findings: Findings) -> Iterator[str]:
    looked_into = len(findings.samples)
    match list(findings.prefixes.items()):
        case []:
            yield '# namespaces = {x = "urn:x"}  # for all queries that do not bind the prefix themselves'
        case [(prefix, uri)]:
            whose = "Documents" if findings.namespaces[uri] == looked_into else "Some documents"
            yield f"# {whose} are in this namespace; queries that do not bind the prefix may then say //{prefix}:name."
            yield f"namespaces = {{{prefix} = {_text(uri)}}}"
        case several:
            yield f"# Documents are in {len(findings.namespaces)} namespaces; queries that do not bind a prefix may say"
            yield f"# //{several[0][0]}:name for a name in one of them, //*[local-name()='name'] for one in any."
            for prefix, uri in several:
                yield f"namespaces.{prefix} = {_text(uri)}  # in {findings.namespaces[uri]} of {looked_into} documents"
            if len(findings.namespaces) > len(several):
                yield f"# {len(findings.namespaces) - len(several)} more namespaces are in fewer documents."


def _text(value: str) -> str:
    """A string of TOML, which are those of JSON."""
    return json.dumps(value, ensure_ascii=False)


def advice(findings: Findings, target: str) -> Iterator[str]:
    """What was found, and what to do next."""
    number = f"{findings.document_count:,}{'+' if findings.document_count >= ENTRIES_MAX else ''}"
    roots = ", ".join(f"<{printable(name)}>" for name in islice(findings.roots, ROOTS_MAX))
    namespaces = f", {len(findings.namespaces)} namespaces" if len(findings.namespaces) > 1 else ""
    yield f"{printable(target)}: {number} file{'' if number == '1' else 's'} of documents" + (
        f": {roots}{namespaces}" if roots else ""
    )
    if not findings.subscriptions:
        yield "no subscriptions were found: write subscriptions.csv, for example\n  id,query"
        yield from (f"  {printable(each.id)},{printable(each.query)}" for each in findings.proposals)
        looked_into = plural(len(findings.samples), "document")
        for each in findings.proposals:
            yield f"{printable(each.id)} matches {each.matched:,} of the {looked_into} looked into"
    yield f"next: treecast run {printable(target)} --dry-run"
