"""The figures of one run, for the page, the picture and the terminal.

>>> figures = Figures(title="news", began="2026-11-15 12:00:00", documents=40, matches=90, errors=2, size_bytes=10**6,
...                   seconds=0.5, subscriptions=5, top=(("sport", 60), ("stocks", 30)), buckets={0: 1, 4: 1, 5: 1})
>>> figures.documents_per_second, figures.megabytes_per_second, figures.subscriptions_matched
(80.0, 2.0, 3)
>>> figures.distribution()
[('0', 2), ('1', 1), ('2–3', 0), ('4–7', 0), ('8–15', 0), ('16–31', 1), ('32–63', 1)]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from treecast.names import printable

BUCKETS_SHOWN_MAX = 14
MOMENTS_MIN = 4
"""A job that was done in fewer steps has no curve."""


@dataclass(frozen=True)
class Moment:
    """The progress at a number of seconds after the first document could be read."""

    seconds: float
    documents: int
    matches: int


@dataclass(frozen=True)
class SlowDocument:
    """A document and the time to match it."""

    name: str
    nanoseconds: int
    size_bytes: int
    matches: int


@dataclass(frozen=True)
class RefusedDocument:
    """A document that was rejected, or a delivery that was refused."""

    name: str
    code: str
    message: str


@dataclass(frozen=True)
class Piece:
    """A part of a document's text, and the numbers of the matches that it is marked for; or a gap."""

    text: str
    numbers: tuple[int, ...] = ()
    is_gap: bool = False


@dataclass(frozen=True)
class MatchDetail:
    """A subscription that a document matched: where, and what it gets."""

    subscription: str
    query: str
    place: str
    """Such as /a[1]/b[2], line 3; empty where it is not known."""
    payload: str = ""
    """Its beginning; empty where it is the document as a whole."""
    payload_bytes: int | None = None
    """None where nothing was rendered."""
    is_whole: bool = False


@dataclass(frozen=True)
class DocumentDetail:
    """A document that can be looked into. Without pieces it could not be read again for the report."""

    name: str
    size_bytes: int
    nanoseconds: int
    """0 where it is not known."""
    matches: int
    shown: tuple[MatchDetail, ...] = ()
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Figures:
    """Everything that a report shows. Only the counts are required; empty fields are left out of the report."""

    title: str
    began: str
    documents: int
    """All documents, including the rejected ones."""
    matches: int
    errors: int
    size_bytes: int
    seconds: float
    """From the plan of the job to its last result, without Spark's start."""
    subscriptions: int
    matching_seconds: float = 0.0
    """From the first document to the last, as the workers saw it; 0 where nobody measured it: then it is `seconds`."""
    startup: tuple[tuple[str, float], ...] = ()
    """(what, seconds) before the first document."""
    ending: tuple[tuple[str, float], ...] = ()
    """(what, seconds) after the last one."""
    busy_nanoseconds: int = 0
    """The time to read and match, over all documents and processors; the rest is Spark's."""
    top: tuple[tuple[str, int], ...] = ()
    """(subscription, matches), the most first."""
    unmatched: tuple[str, ...] = ()
    """Some of the subscriptions that matched nothing, in their order."""
    queries: Mapping[str, str] = field(default_factory=dict)
    """The texts of the subscriptions in `top` and `unmatched`, where they are known."""
    details: tuple[DocumentDetail, ...] = ()
    buckets: Mapping[int, int] = field(default_factory=dict)
    """n -> how many subscriptions have at least 2 to the n matches and fewer than twice as many."""
    moments: tuple[Moment, ...] = ()
    slowest: tuple[SlowDocument, ...] = ()
    refused: tuple[RefusedDocument, ...] = ()
    refused_codes: tuple[tuple[str, int], ...] = ()
    places: tuple[tuple[str, str], ...] = ()
    """(what, where): the results."""
    directory: str = ""
    """Where the report is: what lies below it is linked."""
    command: str = "treecast run"
    payload_bytes: int | None = None
    """Bytes of all payloads, counted once per subscriber; None if nothing was rendered."""
    refused_deliveries: int = 0
    settings: tuple[tuple[str, str], ...] = ()
    versions: tuple[tuple[str, str], ...] = ()

    @property
    def work(self) -> str:
        """What the job did with the documents."""
        return "reading and matching" if self.payload_bytes is None else "reading, matching and rendering"

    @property
    def throughput_seconds(self) -> float:
        """What rates are measured over: the time in which documents were matched, without start-up."""
        return self.matching_seconds if self.matching_seconds > 0 else self.seconds

    @property
    def startup_seconds(self) -> float:
        return sum(seconds for _, seconds in self.startup)

    @property
    def documents_per_second(self) -> float:
        return self._per_second(self.documents)

    @property
    def matches_per_second(self) -> float:
        return self._per_second(self.matches)

    @property
    def megabytes_per_second(self) -> float:
        return self._per_second(self.size_bytes / 1e6)

    def _per_second(self, count: float) -> float:
        return count / self.throughput_seconds if self.throughput_seconds > 0 else 0.0

    @property
    def unmatched_count(self) -> int:
        return max(0, self.subscriptions - self.subscriptions_matched)

    def timeline(self) -> list[tuple[str, float]]:
        """(what, seconds) of the whole run, in order; what took no time is left out."""
        phases = [*self.startup, (self.work, self.throughput_seconds), *self.ending]
        return [(what, seconds) for what, seconds in phases if seconds > 0]

    @property
    def subscriptions_matched(self) -> int:
        return sum(self.buckets.values())

    def distribution(self) -> list[tuple[str, int]]:
        """(range of matches, subscriptions in it), from none to the most; at most about a dozen ranges."""
        if not self.buckets:
            return []
        factor = 1 + max(self.buckets) // BUCKETS_SHOWN_MAX  # of powers of two that share a range
        rows = [("0", self.unmatched_count)]
        for first in range(0, max(self.buckets) + 1, factor):
            low, high = 1 << first, (1 << first + factor) - 1
            name = f"{low:,}" if low == high else f"{low:,}–{high:,}"
            rows.append((name, sum(self.buckets.get(n, 0) for n in range(first, first + factor))))
        return rows

    def rates(self, points_max: int = 60) -> Iterator[tuple[float, float, float]]:
        """(from, to, documents per second) for each interval. Short ones are joined: a batch that ends right after
        another one would look like a peak."""
        if not self.moments:
            return
        before, last = self.moments[0], self.moments[-1]
        shortest = (last.seconds - before.seconds) / points_max
        for after in self.moments[1:]:
            is_cut = after.seconds - before.seconds >= shortest <= last.seconds - after.seconds or after is last
            if is_cut and after.seconds > before.seconds:
                rate = (after.documents - before.documents) / (after.seconds - before.seconds)
                yield before.seconds, after.seconds, rate
                before = after


def shown(text: str, chars_max: int = 200) -> str:
    """`text` made safe to show: no control characters, no lone surrogates, limited length."""
    clean = printable(text[:chars_max])
    return clean + "…" if len(text) > chars_max else clean


def short_number(value: float) -> str:
    """Three significant digits: 0.25, 7.5, 380, 12,400, 1.25 M."""
    if value >= 1e9:
        return f"{value / 1e9:,.2f} G"
    if value >= 1e6:
        return f"{value / 1e6:,.2f} M"
    if value >= 100:
        return f"{value:,.0f}"
    if 0 < value < 0.1:
        return f"{value:.1g}" if value >= 0.0001 else "0"
    return (f"{value:.1f}" if value >= 10 else f"{value:.2f}").rstrip("0").rstrip(".")


def short_size(size_bytes: int) -> str:
    """512 B, 3.4 KB, 1.2 MB, 5 GB, by powers of ten."""
    size = float(size_bytes)
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def short_time(nanoseconds: int) -> str:
    """850 ns, 42 µs, 3.2 ms, 1.5 s."""
    time = float(nanoseconds)
    for unit in ("ns", "µs", "ms"):
        if time < 1000:
            return f"{time:.0f} {unit}" if time >= 100 or unit == "ns" else f"{time:.1f} {unit}"
        time /= 1000
    return f"{time:,.1f} s"


def ticks(most: float, wanted: int = 4) -> list[float]:
    """About `wanted` round values from 0 up to `most` or just below it, for an axis."""
    if most <= 0:
        return [0.0]
    step = 10.0**-12
    while most / step > wanted:
        step *= 10
    for part in (5, 2):  # of a step ten times too large
        if most / (step / part) <= wanted:
            step /= part
            break
    return [step * number for number in range(int(most / step + 1e-9) + 1)]
