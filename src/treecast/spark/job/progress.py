"""How far a job is: what was observed of it so far, in sums that only grow, and when.

    account = Account()
    account.see(progress_of(observation.get, seconds=1.5))
    account.progress.documents, account.moments

Sums come from Spark as a mapping (`treecast.spark.job.plan.metrics` names them); here they become values for the table,
the progress line and the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from treecast.report.figures import Moment, SlowDocument

if TYPE_CHECKING:
    from pyspark.sql import Row

SLOWEST_SHOWN, MOST_SHOWN, FIRST_SHOWN = 10, 10, 40
EXAMPLES_MAX = SLOWEST_SHOWN + MOST_SHOWN + FIRST_SHOWN
MOMENTS_MAX = 2_000


@dataclass(frozen=True)
class Progress:
    """How far a job is."""

    seconds: float = 0.0
    documents: int = 0
    matches: int = 0
    errors: int = 0
    size_bytes: int = 0
    nanoseconds: int = 0
    """Of reading and matching, over all processors."""
    matching_nanoseconds: int = 0
    """From the first document to the last, by the clocks of the workers; of a stream, the sum over its batches."""
    tasks_done: int = 0
    tasks: int = 0
    """0 while unknown, and for streams."""
    payload_bytes: int = 0
    refused_deliveries: int = 0
    stage: str = ""
    """What the job does after the documents are matched."""

    def plus(self, other: Progress) -> Progress:
        """What two batches come to; seconds and stage are not of batches."""
        sums = {name: value + vars(other)[name] for name, value in vars(self).items() if name not in _NOT_SUMMED}
        return replace(self, **sums)


_NOT_SUMMED = ("seconds", "stage")


@dataclass
class Account:
    """What was observed so far, and when."""

    progress: Progress = field(default_factory=Progress)
    moments: list[Moment] = field(default_factory=lambda: [Moment(0.0, 0, 0)])
    slowest: list[SlowDocument] = field(default_factory=list)
    examples: dict[str, SlowDocument] = field(default_factory=dict)
    """Documents for the report, by name: the slowest, those with most matches, and the first."""
    first_began: int = 0
    """When the first document was begun, in nanoseconds since 1970; 0 while that is unknown."""

    def take_examples(self, sums: Mapping[str, Any]) -> None:
        """Note the documents that were observed in a batch, and when it began."""
        for name in ("slowest", "most", "first_documents"):
            for document in slow_documents(sums.get(name), EXAMPLES_MAX):
                if document.name in self.examples or len(self.examples) < EXAMPLES_MAX:
                    self.examples.setdefault(document.name, document)
        self.first_began = self.first_began or int(sums.get("began") or 0)

    def see(self, progress: Progress) -> None:
        """Take over what is known now. Every second moment goes when there are too many."""
        if progress.documents > self.moments[-1].documents:
            self.moments.append(Moment(progress.seconds, progress.documents, progress.matches))
            if len(self.moments) > MOMENTS_MAX:
                del self.moments[1:-1:2]
        self.progress = progress

    def add_batches(self, sums_of_batches: list[dict[str, Any]], seconds: float) -> None:
        """Add the batches of a stream that ended since the last look, and take them off the list."""
        now = self.progress
        while sums_of_batches:
            sums = sums_of_batches.pop(0)
            now = now.plus(progress_of(sums, seconds))
            self.take_examples(sums)
            documents = [*self.slowest, *slow_documents(sums["slowest"])]
            self.slowest = sorted(documents, key=lambda document: -document.nanoseconds)[:SLOWEST_SHOWN]
        self.see(replace(now, seconds=seconds))


def progress_of(sums: Mapping[str, Any], seconds: float) -> Progress:
    """The sums that Spark observed, as a value."""
    return Progress(
        seconds=seconds,
        documents=int(sums["documents"] or 0),
        matches=int(sums["matches"] or 0),
        errors=int(sums["errors"] or 0),
        size_bytes=int(sums["bytes"] or 0),
        nanoseconds=int(sums["nanoseconds"] or 0),
        matching_nanoseconds=max(0, int(sums.get("ended") or 0) - int(sums.get("began") or 0)),
        payload_bytes=int(sums.get("payload_bytes") or 0),
        refused_deliveries=int(sums.get("refused_deliveries") or 0),
    )


def slow_documents(rows: list[Row] | None, documents_max: int = SLOWEST_SHOWN) -> list[SlowDocument]:
    """Each document once: where it goes to several shards, as it was where it took longest."""
    by_name: dict[str, SlowDocument] = {}
    for row in sorted(rows or [], key=lambda row: row["nanoseconds"] or 0):
        if row["nanoseconds"]:
            name = document_name(row["file"], row["ordinal"])
            by_name[name] = SlowDocument(name, row["nanoseconds"], row["bytes"] or 0, row["matches"])
    return sorted(by_name.values(), key=lambda document: -document.nanoseconds)[:documents_max]


def document_name(file: str | None, ordinal: int | None) -> str:
    """What a document is called in reports: its file, and its number there unless it is the first."""
    return f"{file or '?'}#{ordinal}" if ordinal else file or "?"
