"""What is measured (`Inputs`), for how long (`Effort`), and the result (`Cell`): values sent between processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from treecast.measure.seconds import ZERO, Seconds


@dataclass(frozen=True)
class Inputs:
    """One set of queries and the documents they are matched against."""

    queries: Sequence[str]
    documents: Sequence[bytes]
    namespaces: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.queries) < 1 or len(self.documents) < 1:
            raise ValueError("measuring takes at least one query and one document")

    @property
    def document_bytes(self) -> float:
        """The mean size."""
        return sum(map(len, self.documents)) / len(self.documents)


@dataclass(frozen=True)
class Effort:
    """How much is measured in one cell.

    `budget_seconds` (wall-clock time) is divided between the phases. An engine that is too slow for it is measured on
    fewer documents, a peer on a sample of the queries. `passes` is the maximum number of repetitions of a phase; their
    median counts. `unseen` is the share of the documents that are kept as the unseen ones. The answers for the first
    `compared` of them are compared. A cell that takes far longer than its budget is stopped (`stop_seconds`).
    """

    budget_seconds: float = 10.0
    passes: int = 5
    unseen: float = 0.5
    compared: int = 10

    def __post_init__(self) -> None:
        if not self.budget_seconds > 0 or self.passes < 1 or self.compared < 1 or not 0 < self.unseen <= 1:
            raise ValueError("budget_seconds, passes, compared and unseen are positive, and unseen is a share")

    def divide(self, documents: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
        """The documents to learn from, and the unseen ones. Peers see only those; the first are compared."""
        unseen = max(1, int(len(documents) * self.unseen))
        return list(documents[:-unseen]), list(documents[-unseen:])

    @property
    def stop_seconds(self) -> float:
        return 60 + 10 * self.budget_seconds


@dataclass(frozen=True)
class Cell:
    """The figures of one engine or peer on one set of queries. Times are per document, except `build`."""

    engine: str
    queries: int
    """The number of queries to match."""
    refused: int = 0
    """How many of them the engine does not support; it was measured with the others."""
    sampled: int = 0
    """How many it ran with; if fewer than it supports, the figures are scaled up to all of them."""
    documents: int = 0
    """The number of documents behind the figures for unseen and warm."""
    offered: int = 0
    """The number of documents available; if larger, the budget was too short for all of them."""
    document_bytes: float = 0.0
    matches: float = 0.0
    """Per document."""
    build: Seconds = ZERO
    """From query texts to the first document: all queries."""
    index_bytes: int = 0
    """The size that the index reports, including ids and texts."""
    cache_bytes: int = 0
    """The size of the cache at the end."""
    memory_bytes: int = 0
    """How much the process grew during the build."""
    first: Seconds = ZERO
    unseen: Seconds = ZERO
    warm: Seconds = ZERO
    parse: Seconds = ZERO
    """Reading alone."""
    match: Seconds = ZERO
    emit: Seconds = ZERO
    """From numbers of subscriptions to a table of ids. Parse, match and emit add up to warm."""
    lxml_parse: Seconds = ZERO
    """The time that lxml takes to parse the same documents in the same process; zero if it is not installed."""
    failure: str = ""
    """Why there are no figures, in one sentence; empty if there are."""
    broken: bool = False
    """The process crashed, as opposed to refusing or taking too long."""
    notes: tuple[str, ...] = ()

    @property
    def taken(self) -> int:
        return self.queries - self.refused

    @property
    def extrapolated(self) -> bool:
        return 0 < self.sampled < self.taken

    @property
    def bytes_per_query(self) -> float:
        return self.memory_bytes / self.taken if self.taken else 0.0

    def as_json(self) -> dict[str, Any]:
        """For another process: numbers, texts and lists."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: [value.wall, value.cpu] if isinstance(value, Seconds) else value for name, value in plain.items()}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Cell:
        times = {item.name for item in fields(cls) if isinstance(item.default, Seconds)}
        values: dict[str, Any] = {name: Seconds(*value) if name in times else value for name, value in plain.items()}
        values["notes"] = tuple(values.get("notes", ()))
        return cls(**values)
