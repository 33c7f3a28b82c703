"""The description of a job: where documents and subscriptions come from, how they meet, and where results go.

Plain frozen values, checked when they are made; `treecast.spark.job` runs one, `treecast run` reads one from a file.
Nothing here needs Spark.

    >>> from treecast.spark.job.pipeline import Pipeline, Sinks, Source, Subscriptions
    >>> pipeline = Pipeline(Source(("docs",)), Subscriptions(("subscriptions.csv",)), Sinks("results"))
    >>> pipeline.master, pipeline.placement, pipeline.sinks.matches_path
    ('local[*,3]', 'data-sharing', 'results/matches')
    >>> Pipeline(Source(()), Subscriptions(("subscriptions.csv",)), Sinks("results"))
    Traceback (most recent call last):
    treecast.errors.PipelineError: TC732 source.path: there is no path
      hint: name a file, a directory or a pattern

Codes: TC732 an invalid setting, TC734 an unknown placement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from treecast.document import EntityTexts, Limits
from treecast.errors import PipelineError
from treecast.index import CACHE_BYTES_MAX
from treecast.model import DeliveryLimits
from treecast.spark.batch.place import NAMES, SHARDS_MAX
from treecast.spark.batch.row_limit import ROW_BYTES_MAX
from treecast.spark.batch.sinks import DIRECTORIES_MAX
from treecast.spark.stream.batches import is_elsewhere

AVAILABLE_NOW = "available-now"
MASTER = "local[*,3]"  # all cores; a failed task (its worker was killed, for example) is tried three times
_INTERVAL = re.compile(r"\d+ (second|minute|hour)s?")


def refuse(setting: str, problem: str, hint: str, *, code: str = "TC732") -> PipelineError:
    return PipelineError(f"{setting}: {problem}", code=code, hint=hint)


@dataclass(frozen=True)
class Source:
    """Documents: files, directories, globs or archives; with `record`, the elements of these names in them.

    `pattern` chooses by name from directories and archives. "*" as the record means every child of the root.
    """

    path: tuple[str, ...]
    pattern: str | None = None
    record: tuple[str, ...] = ()
    entities: EntityTexts = None
    stream: bool = False
    trigger: str = ""
    """Of a stream: "available-now" ends it when all is read, "10 seconds" is the time between batches."""

    def __post_init__(self) -> None:
        if not self.path or not all(self.path):
            raise refuse("source.path", "there is no path", "name a file, a directory or a pattern")
        if not all(self.record):
            raise refuse("source.record", "the name is empty", "name the element that is a record, such as article")
        if self.pattern == "":
            raise refuse("source.pattern", "it is empty", "write one such as *.xml, or leave it out")
        if isinstance(self.entities, str) and self.entities != "html":
            hint = 'write "html", or a table such as {uuml = "ü"}'
            raise refuse("source.entities", f"{self.entities!r} is not known", hint)
        if self.trigger and not self.stream:
            raise refuse("source.trigger", "only a stream has one", "set source.stream = true, or leave trigger out")
        if self.trigger not in ("", AVAILABLE_NOW) and not _INTERVAL.fullmatch(self.trigger):
            hint = f'write "{AVAILABLE_NOW}" or a time such as "10 seconds"'
            raise refuse("source.trigger", f"{self.trigger!r} is not a trigger", hint)


@dataclass(frozen=True)
class Subscriptions:
    """Files of subscriptions, or one saved index."""

    path: tuple[str, ...]
    format: str | None = None
    namespaces: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.path or not all(self.path):
            raise refuse("subscriptions.path", "there is no path", "name a file of subscriptions or a saved index")


@dataclass(frozen=True)
class Sinks:
    """Where results go: a directory of this machine for report, log and matches; the matches may be elsewhere."""

    output: str = "results"
    matches: str | None = None
    """Parquet outside the output directory; existing files are kept, unless `overwrite` is set."""
    overwrite: bool = False
    render: bool = False
    """What each subscriber gets, next to the matches."""
    by_subscription: bool = False
    directories_max: int = DIRECTORIES_MAX
    report: bool = True

    def __post_init__(self) -> None:
        if not self.output or is_elsewhere(self.output):
            hint = "name a directory of this machine; sinks.matches may lie elsewhere"
            raise refuse("sinks.output", f"{self.output!r} is not a directory of this machine", hint)
        if self.overwrite and self.matches is None:
            hint = "leave it out: what treecast wrote to the output directory is replaced anyway"
            raise refuse("sinks.overwrite", "it is about sinks.matches, which is not set", hint)
        if self.directories_max < 1:
            raise refuse("sinks.directories_max", f"{self.directories_max} is too few", "write 1 or more")

    @property
    def matches_path(self) -> str:
        return str(Path(self.output, "matches")) if self.matches is None else self.matches

    @property
    def by_subscription_path(self) -> str:
        return str(Path(self.output, "by-subscription"))


@dataclass(frozen=True)
class Pipeline:
    """A whole job. `spark` are settings for Spark, by their full names."""

    source: Source
    subscriptions: Subscriptions
    sinks: Sinks = Sinks()
    name: str = "treecast"
    master: str = MASTER
    placement: str = NAMES[0]
    shards: int | None = None
    """Of a placement that divides subscriptions; as many as shuffle partitions where it is not set."""
    limits: Limits = field(default_factory=Limits)
    delivery_limits: DeliveryLimits | None = None
    """Of payloads; those of a saved index, or treecast's own, where they are not set."""
    cache_bytes_max: int = CACHE_BYTES_MAX
    spark: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.placement not in NAMES:
            problem = f"{self.placement!r} is not a placement; choose one of {', '.join(NAMES)}"
            raise refuse("placement", problem, f'write placement = "{NAMES[0]}", or leave it out', code="TC734")
        if self.shards is not None and self.placement == NAMES[0]:
            raise refuse(
                "shards", f"{NAMES[0]} has none", "name a placement that divides subscriptions, or leave it out"
            )
        if self.shards is not None and not 1 <= self.shards <= SHARDS_MAX:
            hint = "write a number in this range, or leave it out"
            raise refuse("shards", f"must be 1-{SHARDS_MAX}, got {self.shards}", hint)
        if self.sinks.by_subscription and self.source.stream and self.source.trigger != AVAILABLE_NOW:
            hint = f'set source.trigger = "{AVAILABLE_NOW}", or call treecast.spark.stream_directories yourself'
            raise refuse("sinks.by_subscription", "it is written at the end, and this stream has none", hint)
        if self.delivery_limits is not None:
            self._check_delivery_limits(self.delivery_limits)
        if not self.master:
            raise refuse("master", "it is empty", f'write a master of Spark such as "{MASTER}", or leave it out')
        if "://" not in self.master and self.master != "yarn" and not self.master.startswith("local"):
            hint = f'write "{MASTER}", "spark://host:7077", "yarn" or "k8s://…", or leave it out'
            raise refuse("master", f"{self.master!r} is not a Spark master", hint)
        if self.master.startswith("sc://"):
            hint = "call treecast.spark.match in a program of your own, or name the cluster's master"
            raise refuse("master", "a job does not run through Spark Connect", hint)

    def _check_delivery_limits(self, limits: DeliveryLimits) -> None:
        if not self.sinks.render:
            names = ", ".join(asdict(limits))
            raise refuse("limits", f"{names} are about payloads", "set sinks.render = true, or leave them out")
        if limits.document_payload_bytes_max > ROW_BYTES_MAX:
            problem = f"{limits.document_payload_bytes_max:,} is more than a row of Spark holds"
            raise refuse("limits.document_payload_bytes_max", problem, f'write "{ROW_BYTES_MAX >> 30}G" or less')

    def describe(self) -> tuple[tuple[str, str], ...]:
        """(setting, value) for people: all that were set, and the defaults worth knowing."""
        source, sinks, limits = self.source, self.sinks, self.limits
        settings: list[tuple[str, object]] = [
            ("source.path", ", ".join(source.path)),
            ("source.pattern", source.pattern),
            ("source.record", ", ".join(source.record)),
            ("source.entities", source.entities if isinstance(source.entities, str) else _join_pairs(source.entities)),
            ("source.stream", (source.trigger or "as fast as it goes") if source.stream else None),
            ("subscriptions.path", ", ".join(self.subscriptions.path)),
            ("subscriptions.namespaces", _join_pairs(self.subscriptions.namespaces)),
            ("sinks.matches", sinks.matches_path),
            ("sinks.render", "true" if sinks.render else None),
            ("sinks.by_subscription", sinks.by_subscription_path if sinks.by_subscription else None),
            ("placement", self.placement),
            ("shards", self.shards),
            ("master", self.master),
        ]
        settings += [(f"limits.{name}", f"{value:,}") for name, value in vars(limits).items()]
        if self.delivery_limits is not None:
            settings += [(f"limits.{name}", f"{value:,}") for name, value in asdict(self.delivery_limits).items()]
        settings.append(("limits.cache_bytes_max", f"{self.cache_bytes_max:,}"))
        settings += list(self.spark.items())
        return tuple((name, str(value)) for name, value in settings if value)


def _join_pairs(mapping: Mapping[str, str] | None) -> str:
    return " ".join(f"{key}={value}" for key, value in (mapping or {}).items())
