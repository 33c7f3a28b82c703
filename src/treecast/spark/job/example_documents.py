"""The documents that a report lets people look into, read again on the driver: what matched, where, what was delivered.

    details = example_details(account.examples.values(), pipeline, index, storage)

A document that the driver cannot read (it lies on another machine, or far inside a large file) has no text.
"""

from __future__ import annotations

from collections.abc import Iterable

from treecast.errors import TreecastError
from treecast.index import Index
from treecast.inputs import document_files
from treecast.inputs.document_files import MEMBER, ReadSettings
from treecast.inputs.listing import EVERY_FILE
from treecast.inputs.locations import Storage
from treecast.report import DocumentDetail, detail_of
from treecast.report.figures import SlowDocument
from treecast.spark.job.pipeline import Pipeline

READ_BYTES_MAX = 64 << 20
"""Of one archive or file of records: what lies behind is not read again."""


def example_details(
    examples: Iterable[SlowDocument], pipeline: Pipeline, index: Index, storage: Storage
) -> tuple[DocumentDetail, ...]:
    """What the report shows of each, by name."""
    by_file: dict[str, dict[str, SlowDocument]] = {}
    for example in examples:
        file, name = _places(example.name, has_records=bool(pipeline.source.record))
        by_file.setdefault(file, {})[name] = example
    details = []
    for file, examples_by_name in by_file.items():
        documents = _read(file, set(examples_by_name), read_settings(pipeline, storage))
        for name, example in examples_by_name.items():
            data = documents.get(name)
            if data is None:
                details.append(DocumentDetail(example.name, example.size_bytes, example.nanoseconds, example.matches))
                continue
            details.append(
                detail_of(
                    example.name,
                    data,
                    index,
                    rendered=pipeline.sinks.render,
                    entities=pipeline.source.entities,
                    nanoseconds=example.nanoseconds,
                )
            )
    return tuple(sorted(details, key=lambda detail: detail.name))


def _places(name: str, *, has_records: bool) -> tuple[str, str]:
    """The file to open, and the name by which its reader calls the document; the first record goes by its file."""
    if not has_records:
        return name.partition(MEMBER)[0], name
    file, sign, number = name.rpartition("#")
    if not (sign and file and number.isdigit()):
        file, name = name, f"{name}#0"
    return file.partition(MEMBER)[0], name


def read_settings(pipeline: Pipeline, storage: Storage | None = None) -> ReadSettings:
    """How the job reads documents; without Spark's own settings of file systems, those that the pipeline gives it."""
    if storage is None:
        prefix = "spark.hadoop."
        given = {name.removeprefix(prefix): text for name, text in pipeline.spark.items() if name.startswith(prefix)}
        storage = Storage.of(given)
    source = pipeline.source
    rule = None
    if source.record:
        from treecast.inputs.records import Rule

        rule = Rule(list(source.record), source.entities, pipeline.limits.document_bytes_max)
    return ReadSettings(source.pattern or EVERY_FILE, rule, pipeline.limits.document_bytes_max, storage=storage)


def _read(file: str, names: set[str], settings: ReadSettings) -> dict[str, bytes]:
    """The documents of these names, as far as they come early enough."""
    documents: dict[str, bytes] = {}
    bytes_left = READ_BYTES_MAX
    try:
        for name, data in document_files.documents([file], settings, lambda name, error: None):
            if name in names:
                documents[name] = data
            bytes_left -= len(data)
            if bytes_left < 0 or len(documents) == len(names):
                break
    except TreecastError:  # it is not here
        pass
    return documents
