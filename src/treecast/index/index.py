"""Subscriptions in, matches out.

An Index is live: subscriptions come and go while documents are matched, from any number of threads. A match sees the
subscriptions as they were when it began.

    >>> import treecast
    >>> index = treecast.Index()
    >>> index.add("sport", "//article/sport")
    >>> index.add_many([("all", "/news"), ("pictures", "//img/@src")])
    >>> index.match(b"<news><article><sport/></article></news>")
    ['sport', 'all']

Use `match` for one document and few matches; `match_many` for throughput: it crosses into native code once, and answers
with arrays instead of lists.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from treecast import _native, engines
from treecast.document import Bytes, EntityTexts, Limits, arrow_views, native_entities
from treecast.errors import DocumentError, QueryError, SnapshotError
from treecast.index.explain import Explanation, explain
from treecast.index.subscription_forms import (
    FIELDS,
    LISTED_MAX,
    add_reporting,
    addresses,
    all_refused,
    from_arrow,
    from_items,
    pair_of,
    refused_in,
)
from treecast.model import Deliver, Delivery, DeliveryLimits, Stats, Subscription
from treecast.rejections import Undecided, error_table, warn_of

if TYPE_CHECKING:
    import pyarrow as pa

    Subscriptions: TypeAlias = pa.Table | pa.RecordBatch | Iterable[tuple[str, str] | Subscription | Mapping[str, Any]]

CACHE_BYTES_MAX = 256 << 20
BATCH_DOCUMENTS_MAX = 4096
BATCH_BYTES_MAX = 32 << 20
BATCH_MATCHES_MAX = 4_000_000
BATCH_PAYLOAD_BYTES_MAX = 64 << 20
PART_ID_BYTES_MAX = (1 << 31) - 1  # the strings of one Arrow array


@dataclass(frozen=True)
class Part:
    """The matches of the first documents of a batch."""

    matches: pa.ListArray
    """One list of ids per document that was done; empty for a rejected one."""
    rejected: list[tuple[int, DocumentError]]
    """The number of each rejected document and why, in their order."""
    undecided: Undecided
    """What is not known of these documents, by document."""
    nanoseconds: pa.Array | None
    """What each document took, if that was asked for."""


@dataclass(frozen=True)
class RenderedPart:
    """The deliveries of the first documents of a batch."""

    deliveries: pa.ListArray
    """One list per document that was done, of structs of subscription, payload, code and message; a refused delivery
    has a code and a message instead of a payload. Payloads are dictionary-encoded: equal ones of a document are in the
    dictionary once, those of a document in one run, in the order in which its deliveries first have them."""
    rejected: list[tuple[int, DocumentError]]
    """The number of each rejected document and why, in their order."""
    nanoseconds: pa.Array
    """What each document took."""


class Index:
    """A live set of subscriptions.

    `namespaces` binds prefixes for all queries; a subscription may bind more, or bind them otherwise. `limits` and
    `entities` say which documents are accepted. `cache_bytes_max` bounds the lazily built machine, over all threads;
    0 does without it. `delivery_limits` bound what `render` gives.

    `seed` makes what `save` writes the same in every process, for the same subscriptions added in the same order.
    Without one, the hash tables that are saved have seeds that nobody can foresee, so that no stranger can write
    subscriptions that collide in them: keep a seed from those who write subscriptions. A loaded index has the seed of
    the one that was saved.
    """

    def __init__(
        self,
        *,
        engine: str = "auto",
        namespaces: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        entities: EntityTexts = None,
        cache_bytes_max: int = CACHE_BYTES_MAX,
        delivery_limits: DeliveryLimits | None = None,
        seed: int | None = None,
    ) -> None:
        self.engine = engines.check(engine)
        if cache_bytes_max < 0:
            raise ValueError(f"cache_bytes_max must be 0 or more, not {cache_bytes_max}")
        self._namespaces = dict(namespaces or {})
        self._limits = limits or Limits()
        self._entities: EntityTexts = entities if isinstance(entities, str) or entities is None else dict(entities)
        self._seed = _check_seed(seed)
        self._native = _native.Index(self._limits.native(), native_entities(entities), cache_bytes_max, engine, seed)
        self._default_settings = self._settings(None, False, "document")
        self.revision = 0
        """Another number after each change: while it stays, so do the subscriptions."""
        self._delivery_limits = delivery_limits or DeliveryLimits()

    # -- subscriptions

    def add(
        self,
        id: str,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        ordered: bool = False,
        deliver: Deliver = "document",
    ) -> None:
        """Add one subscription. Raises QueryError, and changes nothing, if the id exists or the query is refused."""
        if namespaces is None and not ordered and deliver == "document":
            self._native.add(id, query, self._default_settings)
        else:
            self._native.add(id, query, self._settings(namespaces, ordered, deliver))
        self.revision += 1

    @overload
    def add_many(self, subscriptions: Subscriptions, *, on_refused: Literal["raise"] = "raise") -> None: ...

    @overload
    def add_many(self, subscriptions: Subscriptions, *, on_refused: Literal["report"]) -> pa.Table: ...

    def add_many(
        self, subscriptions: Subscriptions, *, on_refused: Literal["raise", "report"] = "raise"
    ) -> pa.Table | None:
        """Add all of them, or none: one refused query or id refuses the whole; the QueryError lists up to twenty.

        Takes (id, query) pairs, `Subscription`s, mappings with those keys, or an Arrow table with the columns `id` and
        `query` and, if wanted, `namespaces`, `ordered` and `deliver`. With `on_refused="report"` the good ones are
        added, and the answer is a table of the others: row, id, query, code, message, position.
        """
        if on_refused not in ("raise", "report"):
            raise ValueError(f'on_refused must be "raise" or "report", not {on_refused!r}')
        given = subscriptions if hasattr(subscriptions, "schema") else from_items(subscriptions)
        if on_refused == "report":
            return add_reporting(given, self._add_all, self._settings)
        try:
            refused = self._add_all(given, LISTED_MAX)
        except QueryError:  # rows that cannot be read: an index of its own finds out what else is wrong
            found = Index(engine=self.engine, namespaces=self._namespaces).add_many(given, on_refused="report")
            raise refused_in(found) from None
        if refused is not None:
            raise all_refused(*refused)
        return None

    def _add_all(self, given: Any, listed_max: int) -> tuple[int, list[tuple[int, str, QueryError]]] | None:
        """None when all were added; otherwise none was: how many are refused, and the first of them."""
        answer: Any
        if hasattr(given, "schema"):
            columns = from_arrow(given)
            settings = [self._settings(*each) for each in columns.settings] or [self._default_settings]
            numbers = columns.numbers()
            answer = self._native.add_arrow(
                len(columns.ids),
                *addresses(columns.ids),
                *addresses(columns.queries),
                0 if numbers is None else numbers.buffers()[1].address + 4 * numbers.offset,
                settings,
                listed_max,
            )
        else:
            pairs = [pair_of(item) for item in given]
            answer = self._native.add_pairs(pairs, [self._settings_of(item) for item in given], listed_max)
        self.revision += 1
        return answer  # type: ignore[no-any-return]

    def replace(
        self,
        id: str,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        ordered: bool = False,
        deliver: Deliver = "document",
    ) -> None:
        """Give an existing id another query, at once and in its old place in the order."""
        self._native.replace(id, query, self._settings(namespaces, ordered, deliver))
        self.revision += 1

    def remove(self, id: str) -> None:
        """Take a subscription out. Raises an error that is also a KeyError if there is none."""
        self._native.remove(id)
        self.revision += 1

    def __len__(self) -> int:
        return self._native.size()

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self._native.contains(id)

    def __getitem__(self, id: str) -> Subscription:
        """The subscription as it was added."""
        name, query, namespaces, ordered, elements = self._native.find(id)
        return Subscription(name, query, namespaces, ordered, "elements" if elements else "document")

    def subscriptions(self) -> pa.Table:
        """All of them, in the order of addition, with the columns that add_many takes; namespaces are complete."""
        import pyarrow as pa

        ids, queries, numbers, settings = self._native.subscriptions()
        kinds = pa.map_(pa.string(), pa.string()), pa.bool_(), pa.string()
        codes = pa.array(numbers, pa.uint32())
        rows = [
            (list(bound.items()), ordered, "elements" if whole else "document") for bound, ordered, whole in settings
        ]
        columns = zip(*rows, strict=True) if rows else ([], [], [])
        taken = [pa.array(column, kind).take(codes) for column, kind in zip(columns, kinds, strict=True)]
        return pa.table([pa.array(ids, pa.string()), pa.array(queries, pa.string()), *taken], names=list(FIELDS))

    def part(self, subscriptions: Subscriptions, *, engine: str | None = None) -> Index:
        """An index of these subscriptions that takes the same documents: for those who divide one into several.

        Namespaces come with the subscriptions, as `subscriptions()` gives them.
        """
        index = Index(
            engine=engine or self.engine,
            limits=self._limits,
            entities=self._entities,
            delivery_limits=self._delivery_limits,
        )
        index.add_many(subscriptions)
        return index

    def __repr__(self) -> str:
        return f"<Index of {len(self)} subscriptions>"

    # -- documents

    def match(self, document: Bytes) -> list[str]:
        """The ids of all subscriptions that the document satisfies, in the order they were added.

        A subscription that takes more work than `Limits.work_per_item_max` allows is undecided: the answer is that of
        the others, with an UndecidedWarning.
        """
        if document is None:
            raise TypeError("a document is bytes, not None")
        found: Any = self._native.match(document)
        if type(found) is list:
            return found
        ids, undecided = found
        warn_of(undecided)
        return ids  # type: ignore[no-any-return]

    @overload
    def match_many(
        self, documents: Sequence[Bytes], *, threads: int = 1, on_error: Literal["raise"] = "raise"
    ) -> pa.Table: ...

    @overload
    def match_many(
        self, documents: Sequence[Bytes], *, threads: int = 1, on_error: Literal["report"]
    ) -> tuple[pa.Table, pa.Table]: ...

    def match_many(
        self, documents: Sequence[Bytes], *, threads: int = 1, on_error: Literal["raise", "report"] = "raise"
    ) -> pa.Table | tuple[pa.Table, pa.Table]:
        """Match a batch: a table of `document` (its number in the batch) and `subscription`, by document.

        The subscription column is dictionary-encoded; its dictionary is the index's own list of ids, shared, so it may
        hold ids that do not occur. With `on_error="report"` bad documents do not stop the rest: the answer is
        (matches, errors), the errors with the columns document, code, message, offset and subscription. Otherwise the
        first bad document raises its DocumentError, with its number as `error.document`.

        A subscription that takes too much work on a document (TC340) is a row of the errors, with its id as
        `subscription`, which is null for errors of a whole document; without a report it is an UndecidedWarning.
        """
        import pyarrow as pa

        report = _check_on_error(on_error)
        matches = self._native.match_many(_as_sequence(documents), _check_threads(threads), report, 0, 0)
        table = pa.RecordBatchReader.from_stream(matches).read_all()
        if report:
            return table, error_table(matches, 0)
        warn_of(matches.undecided)
        return table

    def match_batches(
        self,
        documents: Iterable[Bytes],
        *,
        threads: int = 1,
        on_error: Literal["raise", "report"] = "raise",
        matches_max: int = BATCH_MATCHES_MAX,
    ) -> Iterator[Any]:
        """As match_many, in pieces, for documents or results that do not fit into memory.

        Takes any iterable and reads it as far as needed. Every table has at most about `matches_max` rows; document
        numbers go on from table to table.
        """
        import pyarrow as pa

        report = _check_on_error(on_error)
        threads = _check_threads(threads)
        source, first = iter(documents), 0
        waiting: list[Bytes] = []
        while True:
            waiting += _take(source, BATCH_DOCUMENTS_MAX - len(waiting))
            if not waiting:
                return
            matches = self._native.match_many(waiting, threads, report, matches_max, first)
            table = pa.RecordBatchReader.from_stream(matches).read_all()
            if not report:
                warn_of(matches.undecided)
            yield (table, error_table(matches, first)) if report else table
            first += matches.documents
            del waiting[: matches.documents]

    def match_part(
        self, documents: Sequence[Bytes], *, report: bool, matches_max: int = BATCH_MATCHES_MAX, timed: bool = False
    ) -> Part:
        """As many of the documents as give about `matches_max` matches, at least one: for those who feed batches on.

        The answer has one list of ids per document that was done, as one Arrow array; see `Part`. Without `report` a
        bad document raises, and so does a subscription that is undecided.
        """
        import pyarrow as pa

        matches = self._native.match_many(documents, 1, report, matches_max, 0, timed, PART_ID_BYTES_MAX)
        undecided: Undecided = matches.undecided
        if undecided and not report:
            raise undecided[0][2]
        column = pa.RecordBatchReader.from_stream(matches).read_all().column("subscription")
        ids = pa.concat_arrays([chunk.dictionary_decode() for chunk in column.chunks] or [pa.array([], pa.string())])
        ends = pa.Array.from_buffers(pa.int64(), matches.documents + 1, [None, pa.py_buffer(matches.ends)])
        taken = None
        if timed:
            taken = pa.Array.from_buffers(pa.int64(), matches.documents, [None, pa.py_buffer(matches.nanoseconds)])
        return Part(pa.ListArray.from_arrays(ends.cast(pa.int32()), ids), matches.rejected, undecided, taken)

    # -- deliveries

    @property
    def delivery_limits(self) -> DeliveryLimits:
        """What bounds `render`."""
        return self._delivery_limits

    def render(self, document: Bytes) -> list[Delivery]:
        """What each subscriber gets of the document, in the order they were added: one delivery for each id of `match`.

        Without a transformation that is the document as given, or with deliver="elements" what the query selects. A
        payload that would go over a limit is a delivery that was refused, and says why; so is a subscription that
        takes too much work to decide (TC340).
        """
        if document is None:
            raise TypeError("a document is bytes, not None")
        found = _native.render_one(self._native, document, self._render_limits(), True)
        return [Delivery(*delivery) for delivery in found]

    def render_part(
        self,
        documents: Sequence[Bytes],
        *,
        report: bool,
        bytes_max: int = BATCH_PAYLOAD_BYTES_MAX,
        share: bool = True,
    ) -> RenderedPart:
        """As many of the documents as give about `bytes_max` bytes, at least one: for those who feed batches on.

        The bytes of a payload count once for each delivery. With `share=False` nothing is built in common for several
        subscribers; the answer is the same.
        """
        import pyarrow as pa

        batch = _native.render_part(self._native, documents, report, bytes_max, self._render_limits(), share)
        count = batch.deliveries

        def column(kind: pa.DataType, length: int, *places: tuple[int, int]) -> pa.Array:
            buffers = [pa.foreign_buffer(*place, base=batch) if place[1] else pa.py_buffer(b"") for place in places]
            return pa.Array.from_buffers(kind, length, [None, *buffers])

        payloads = column(pa.large_binary(), batch.different, batch.payload_ends, batch.bytes)
        which = column(pa.int64(), count, batch.payloads)
        codes: Any = pa.nulls(count, pa.string())
        messages: Any = codes
        refused = dict(batch.refused())
        if refused:
            errors = [refused.get(number) for number in range(count)]
            which = pa.array([None if number < 0 else number for number in which.to_pylist()], pa.int64())
            codes = pa.array([error and error.code for error in errors], pa.string())
            messages = pa.array([error and str(error) for error in errors], pa.string())
        ids = column(pa.string(), count, batch.id_ends, batch.ids)
        columns = [ids, pa.DictionaryArray.from_arrays(which, payloads), codes, messages]
        rows = pa.StructArray.from_arrays(columns, ["subscription", "payload", "code", "message"])
        ends = column(pa.int32(), batch.documents + 1, batch.ends)
        took = column(pa.int64(), batch.documents, batch.nanoseconds)
        return RenderedPart(pa.ListArray.from_arrays(ends, rows), batch.rejected, took)

    def _render_limits(self) -> _native.RenderLimits:
        limits = self._delivery_limits
        return _native.RenderLimits(limits.payload_bytes_max, limits.document_payload_bytes_max, limits.bindings_max)

    def explain(self, document: Bytes, id: str) -> Explanation:
        """Why a subscription matches the document, or how near it came. Raises a KeyError if there is no such id.

        A DocumentLimitError (TC340) says that finding out takes more work than `Limits.work_per_item_max` allows.
        """
        found = self[id]
        return explain(
            document,
            found.query,
            namespaces=found.namespaces,
            ordered=found.ordered,
            limits=self._limits,
            entities=self._entities,
        )

    # -- saved

    def save(self, path: str | Path) -> None:
        """Write everything but the caches to a file: beside its place first, synced, then renamed.

        The file is the index's own arrays. `load` maps it, so it is ready at once, and processes that load the same
        file share its memory.
        """
        about = _About(self.engine, self._namespaces, self._limits, self._entities, self._delivery_limits, self._seed)
        try:
            self._native.save(_file_name(path), json.dumps(asdict(about)).encode())
        except OSError as error:  # it names the file beside
            error.filename = str(path)
            raise

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        verify: bool = True,
        limits: Limits | None = None,
        entities: EntityTexts = None,
        cache_bytes_max: int = CACHE_BYTES_MAX,
        delivery_limits: DeliveryLimits | None = None,
    ) -> Index:
        """An index that `save` wrote, with the settings it had, unless others are given here.

        Raises SnapshotError for a file that is damaged, cut off or something else. `verify=False` checks the header
        and the table of sections only; it saves reading the whole file, and a damaged one may then crash the process.
        A file of another format version is rebuilt from its queries, with a warning. The loaded index can be changed;
        the file stays as it is. It must not be overwritten or cut in place while it is loaded: a process that reads
        what is gone dies with SIGBUS. `save` renames and is safe.
        """
        saved = _read_about(_native.Index.saved_about(_file_name(path)))
        index = cls(
            engine=saved.engine,
            namespaces=saved.namespaces,
            limits=limits or saved.limits,
            entities=saved.entities if entities is None else entities,
            cache_bytes_max=cache_bytes_max,
            delivery_limits=delivery_limits or saved.delivery_limits,
            seed=saved.seed,
        )
        if not index._native.load(_file_name(path), verify):
            warnings.warn(
                f"{path} was saved in another format version and was rebuilt from its queries; save it again",
                stacklevel=2,
            )
        return index

    # -- about the index

    def stats(self) -> Stats:
        """How much it holds."""
        return Stats(*self._native.stats())

    def drop_caches(self) -> None:
        """Forget what was learnt from documents, and give back memory kept for results.

        The next documents are as slow as the first.
        """
        self._native.drop_caches()

    def _settings(self, namespaces: Mapping[str, str] | None, ordered: bool, deliver: str) -> _native.Settings:
        if deliver not in ("document", "elements"):
            raise ValueError(f'deliver must be "document" or "elements", not {deliver!r}')
        bindings = {**self._namespaces, **(namespaces or {})}
        return _native.Settings(bindings, bool(ordered), deliver == "elements")

    def _settings_of(self, item: tuple[str, str] | Subscription) -> _native.Settings:
        if isinstance(item, Subscription):
            return self._settings(item.namespaces, item.ordered, item.deliver)
        return self._default_settings


@dataclass(frozen=True)
class _About:
    """What a saved index says of itself, besides its subscriptions."""

    engine: str
    namespaces: dict[str, str]
    limits: Limits
    entities: Any
    delivery_limits: DeliveryLimits
    seed: int | None = None


def _file_name(path: str | Path) -> bytes:
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError(f"a file name has no null character: {path!r}")
    return name


def _read_about(text: bytes) -> _About:
    try:
        about = json.loads(text)
        limits = Limits(**about.pop("limits"))
        delivery_limits = DeliveryLimits(**about.pop("delivery_limits", {}))  # files of 0.1 have none
        _check_seed(about.get("seed"))
        return _About(engines.check(about.pop("engine")), limits=limits, delivery_limits=delivery_limits, **about)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = "TC503 this saved index is damaged: its settings cannot be read"
        raise SnapshotError(message, code="TC503", hint="save it again, or restore it from a copy") from error


def _check_seed(seed: int | None) -> int | None:
    if seed is not None and not 0 <= seed < 1 << 64:
        raise ValueError(f"seed must be from 0 to 2**64 - 1, not {seed}")
    return seed


def _check_on_error(on_error: str) -> bool:
    if on_error not in ("raise", "report"):
        raise ValueError(f'on_error must be "raise" or "report", not {on_error!r}')
    return on_error == "report"


def _check_threads(threads: int) -> int:
    if not 1 <= threads <= 1024:
        raise ValueError(f"threads must be from 1 to 1024, not {threads}")
    return threads


def _as_sequence(documents: Sequence[Bytes]) -> Sequence[Bytes]:
    if isinstance(documents, (bytes, bytearray, memoryview, str)):
        raise TypeError("match_many takes a sequence of documents; for a single one use match()")
    if hasattr(documents, "to_pylist"):
        return arrow_views(documents)
    return documents if isinstance(documents, (list, tuple)) else list(documents)


def _take(source: Iterator[Bytes], count: int) -> list[Bytes]:
    """Up to `count` documents, and no more bytes than a batch may hold beyond the first."""
    taken: list[Bytes] = []
    size = 0
    for document in islice(source, count):
        taken.append(document)
        size += len(document)
        if size >= BATCH_BYTES_MAX:
            break
    return taken
