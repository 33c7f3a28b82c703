"""What is measured (`Inputs`), how hard (`Effort`), and what comes out (`Cell`): values that pass between processes."""

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

    `budget_seconds` (wall) is divided between the phases; what is too slow for it is measured on fewer documents, or,
    if it is a peer, on a sample of the queries. `passes` is the most repetitions of a phase; their median counts.
    `unseen` is the share of the documents that are kept to be the unseen ones. The first `compared` of them are those
    whose answers are compared. A cell that takes far longer than its budget is stopped (`stop_seconds`).
    """

    budget_seconds: float = 10.0
    passes: int = 5
    unseen: float = 0.5
    compared: int = 10

    def __post_init__(self) -> None:
        if not self.budget_seconds > 0 or self.passes < 1 or self.compared < 1 or not 0 < self.unseen <= 1:
            raise ValueError("budget_seconds, passes, compared and unseen are positive, and unseen is a share")

    def divide(self, documents: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Those to learn from, and the unseen ones: all that peers see, and whose first ones' answers are compared."""
        unseen = max(1, int(len(documents) * self.unseen))
        return list(documents[:-unseen]), list(documents[-unseen:])

    @property
    def stop_seconds(self) -> float:
        return 60 + 10 * self.budget_seconds


@dataclass(frozen=True)
class Cell:
    """The figures of one engine or peer on one set of queries. Times are per document, but for `build`."""

    engine: str
    queries: int
    """How many were to be matched."""
    refused: int = 0
    """Of those, how many the engine does not take; it was measured with the others."""
    sampled: int = 0
    """How many it really ran with; if fewer than it takes, the figures are scaled up to all of them."""
    documents: int = 0
    """How many documents the figures for unseen and warm come from."""
    offered: int = 0
    """How many there would have been: if more, the budget was too short for them."""
    document_bytes: float = 0.0
    matches: float = 0.0
    """Per document."""
    build: Seconds = ZERO
    """From query texts to the first document: all queries."""
    index_bytes: int = 0
    """What the index says it holds, ids and texts included."""
    cache_bytes: int = 0
    """What it has learnt from documents, in the end."""
    memory_bytes: int = 0
    """By how much building made the process larger."""
    first: Seconds = ZERO
    unseen: Seconds = ZERO
    warm: Seconds = ZERO
    parse: Seconds = ZERO
    """Reading alone."""
    match: Seconds = ZERO
    emit: Seconds = ZERO
    """From numbers of subscriptions to a table of ids; with parse and match it makes up warm."""
    lxml_parse: Seconds = ZERO
    """What lxml takes to parse the same documents, in the same process; zero where lxml is not installed."""
    failure: str = ""
    """Why there are no figures, in one sentence; empty if there are."""
    broken: bool = False
    """It did not refuse or take too long: its process broke down."""
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
        kept: dict[str, Any] = {name: Seconds(*value) if name in times else value for name, value in plain.items()}
        kept["notes"] = tuple(kept.get("notes", ()))
        return cls(**kept)
