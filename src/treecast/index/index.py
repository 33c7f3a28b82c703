"""Subscriptions in, matches and deliveries out.

An Index is live: subscriptions come and go while documents are matched, from any number of threads. A match sees the
subscriptions as they were when it began.

    >>> import treecast
    >>> index = treecast.Index()
    >>> index.add("sport", "//article/sport")
    >>> index.add_many([("all", "/news"), ("pictures", "//img/@src")])
    >>> index.match(b"<news><article><sport/></article></news>")
    ['sport', 'all']

It is a mapping of ids as well: what `index[id]` gives is a `Subscription`, because the text of a query means little
without its namespaces and settings. What is assigned may be a text, a parsed query or a Subscription.

    >>> index = treecast.Index({"sport": "//article/sport"})
    >>> index["all"] = "/news"
    >>> index["all"].query
    '/news'
    >>> del index["sport"]
    >>> list(index)
    ['all']

Use `match` for one document and few matches; `match_many` for throughput: it crosses into native code once, and answers
with arrays instead of lists. `render` and `render_many` also give payloads, in the same forms. All of them take bytes,
text (which is UTF-8 then), the `Path` of a file or an open one, and elements of lxml; and a `Document`, which has been
read already.

This file holds the class and how its subscriptions change. `matching.py` and `rendering.py` turn native answers into
Arrow tables, `saving.py` has the settings of a saved index.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from treecast import _native, engines
from treecast.arguments import check_ids, check_instance, check_integer, check_namespaces, check_text
from treecast.document import (
    AnyDocument,
    Document,
    EntityTexts,
    Limits,
    native_document,
    native_entities,
)
from treecast.errors import QueryError, UnknownIdError
from treecast.index import matching, rendering, routing
from treecast.index.document_batches import check_threads, is_report
from treecast.index.document_forms import natives
from treecast.index.explain import Explanation, explain
from treecast.index.matching import BATCH_MATCHES_MAX, Part
from treecast.index.rendering import BATCH_PAYLOAD_BYTES_MAX, FormCodec, RenderedPart
from treecast.index.routing import Question, Unread
from treecast.index.saving import SavedSettings, file_name, from_saved_bytes, read_settings, to_saved_bytes
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
    table_of,
)
from treecast.model import Deliver, Delivery, DeliveryLimits, Stats, Subscription
from treecast.names import printable
from treecast.query import AnyNamespaces, AnyQuery, text_and_namespaces
from treecast.rejections import Undecided, warn_of

if TYPE_CHECKING:
    import pyarrow as pa

    Items: TypeAlias = Iterable[tuple[str, AnyQuery | Subscription] | Subscription | Mapping[str, Any]]
    QueriesById: TypeAlias = Mapping[str, AnyQuery | Subscription]
    Subscriptions: TypeAlias = pa.Table | pa.RecordBatch | Items | QueriesById
    Documents: TypeAlias = Iterable[AnyDocument] | pa.Array | pa.ChunkedArray | pa.Table | pa.RecordBatch

OnError = Literal["raise", "report"]
CACHE_BYTES_MAX = 256 << 20
SHOWN_MAX = 10
"""Subscriptions that a notebook shows of an index."""
SHOWN_CHARS_MAX = 200
"""Characters that it shows of an id or a query."""


class Index:
    """A live set of subscriptions, and a mapping of their ids.

    It begins with `subscriptions`, in any form that `add_many` takes. `namespaces` binds prefixes for all queries; a
    subscription may bind more, or bind them otherwise. `limits` and `entities` say which documents are accepted.
    `cache_bytes_max` bounds the lazily built machine, over all threads; 0 does without it. `delivery_limits` bound what
    `render` gives.

    `seed` is for simulations, where every process has to do exactly the same. Without one, the hash tables of a live
    index have seeds from the system, so that no one can write subscriptions that collide in them: keep a seed secret
    from the authors of subscriptions. It is not saved, and what `save` writes does not depend on it: the same calls in
    the same order give the same bytes in every process.
    """

    def __init__(
        self,
        subscriptions: Subscriptions | None = None,
        *,
        engine: str = "auto",
        namespaces: AnyNamespaces | None = None,
        limits: Limits | None = None,
        entities: EntityTexts = None,
        cache_bytes_max: int = CACHE_BYTES_MAX,
        delivery_limits: DeliveryLimits | None = None,
        seed: int | None = None,
    ) -> None:
        self.engine = engines.check(engine)
        check_integer("cache_bytes_max", cache_bytes_max, 0)
        check_instance("limits", limits, Limits, "treecast.Limits(…)")
        check_instance("delivery_limits", delivery_limits, DeliveryLimits, "treecast.DeliveryLimits(…)")
        self._namespaces = check_namespaces(namespaces)
        self._limits = limits or Limits()
        if seed is not None:
            check_integer("seed", seed, 0, (1 << 64) - 1)
        self._native = _native.Index(self._limits.native(), native_entities(entities), cache_bytes_max, engine, seed)
        self._entities: EntityTexts = entities if isinstance(entities, str) or entities is None else dict(entities)
        self._default_settings = self._settings(None, False, "document")
        self.revision = 0
        """Changes with each change of the subscriptions."""
        self._delivery_limits = delivery_limits or DeliveryLimits()
        self._cache_bytes_max = cache_bytes_max
        if subscriptions is not None:
            self.add_many(subscriptions)

    # -- subscriptions

    def add(
        self,
        id: str,
        query: AnyQuery,
        *,
        namespaces: AnyNamespaces | None = None,
        ordered: bool = False,
        deliver: Deliver = "document",
    ) -> None:
        """Add one subscription. Raises QueryError, and changes nothing, if the id exists or the query is refused.

        A parsed query keeps the namespaces that it was parsed with: those of the index do not apply to it.
        """
        check_text("an id", id)
        query, namespaces = text_and_namespaces(query, namespaces)
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

        Takes a mapping of ids to queries, (id, query) pairs, `Subscription`s, mappings with those keys, or a table with
        the columns `id` and `query` and, if wanted, `namespaces`, `ordered` and `deliver`: of Arrow, pandas, polars or
        Spark. A query is a text or has been parsed; in a pair it may be a Subscription, whose own id then gives way.
        With `on_refused="report"` the good ones are added, and the answer is a table of the others: row, id, query,
        code, message, position.
        """
        if on_refused not in ("raise", "report"):
            raise ValueError(f'on_refused must be "raise" or "report", got {on_refused!r}')
        table = None if type(subscriptions) is list else table_of(subscriptions)
        rows = from_items(subscriptions) if table is None else table
        if on_refused == "report":
            return add_reporting(rows, self._add_all, self._settings)
        try:
            refused = self._add_all(rows, LISTED_MAX)
        except QueryError:  # rows that cannot be read: a separate index finds out what else is wrong
            report = Index(engine=self.engine, namespaces=self._namespaces).add_many(rows, on_refused="report")
            raise refused_in(report) from None
        if refused is not None:
            raise all_refused(*refused)
        return None

    def _add_all(self, rows: Any, listed_max: int) -> tuple[int, list[tuple[int, str, QueryError]]] | None:
        """None when all were added; otherwise none was: how many are refused, and the first of them."""
        answer: Any
        if hasattr(rows, "schema"):
            columns = from_arrow(rows)
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
            pairs = [pair_of(item) for item in rows]
            answer = self._native.add_pairs(pairs, [self._settings_of(item) for item in rows], listed_max)
        self.revision += 1
        return answer  # type: ignore[no-any-return]

    def replace(
        self,
        id: str,
        query: AnyQuery,
        *,
        namespaces: AnyNamespaces | None = None,
        ordered: bool = False,
        deliver: Deliver = "document",
    ) -> None:
        """Give an existing id another query, at once and in its old place in the order."""
        check_text("an id", id)
        query, namespaces = text_and_namespaces(query, namespaces)
        self._native.replace(id, query, self._settings(namespaces, ordered, deliver))
        self.revision += 1

    def remove(self, id: str) -> None:
        """Take a subscription out. Raises an error that is also a KeyError if there is none."""
        check_text("an id", id)
        self._native.remove(id)
        self.revision += 1

    def remove_many(self, ids: Iterable[str]) -> int:
        """Take all of these out, or none if one of them is unknown: then as `remove`. Returns how many they were."""
        count = self._native.remove_many(check_ids(ids))
        self.revision += 1
        return count

    def update(self, subscriptions: Items | QueriesById) -> None:
        """Add all of them, and replace those whose ids exist, in one change: all, or none if one is refused.

        Takes what `add_many` takes, but no tables. Unlike with `index[id] = query`, a replaced one goes to the end of
        the order.
        """
        rows = from_items(subscriptions)
        if len(self.missing(pair_of(row)[0] for row in rows)) == len(rows):
            self.add_many(rows)
        else:
            self.catch_up((), rows)

    def clear(self) -> None:
        """Take all subscriptions out."""
        self.remove_many(self)

    def catch_up(self, gone: Iterable[str], added: Items) -> None:
        """Bring a loaded index up to date, in one change: what it missed since it was saved.

        Ids in `gone` are removed, and so are those in `added`, wherever they exist; then all of `added` are added, at
        the end of the order. It takes time for what has changed only: unlike `add_many` it merges nothing with what is
        there, so an index that is kept for long should rather be changed by the other methods. All or nothing.
        """
        rows = from_items(added)
        pairs, settings = [pair_of(item) for item in rows], [self._settings_of(item) for item in rows]
        answer: Any = self._native.catch_up(check_ids(gone), pairs, settings, LISTED_MAX)
        self.revision += 1
        if answer is not None:
            raise all_refused(*answer)

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Those of these ids that no subscription has. One call for many is much faster than `in` for each."""
        texts = check_ids(ids)
        return [texts[place] for place in self._native.unknown(texts)]

    def __len__(self) -> int:
        return self._native.size()

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self._native.contains(id)

    def __iter__(self) -> Iterator[str]:
        """The ids, in the order of addition, as they are now: changes during the iteration do not show."""
        return iter(self._native.subscriptions()[0])

    def __getitem__(self, id: str) -> Subscription:
        """The subscription as it was added."""
        check_text("an id", id)
        name, query, namespaces, ordered, elements = self._native.find(id)
        return Subscription(name, query, namespaces, ordered, "elements" if elements else "document")

    def __setitem__(self, id: str, query: AnyQuery | Subscription) -> None:
        """Add a subscription, or replace the one of this id in its place. Of a Subscription, its own id gives way."""
        check_text("an id", id)
        if isinstance(query, Subscription):
            namespaces, ordered, deliver = query.namespaces, query.ordered, query.deliver
            self._set(id, query.query, namespaces=namespaces, ordered=ordered, deliver=deliver)
        else:
            self._set(id, query)

    def _set(self, id: str, query: AnyQuery, **settings: Any) -> None:
        while True:
            try:
                return self.replace(id, query, **settings)
            except UnknownIdError:
                pass
            try:
                return self.add(id, query, **settings)
            except QueryError as error:  # of an id that another thread has added since
                if error.code != "TC141":
                    raise

    def __delitem__(self, id: str) -> None:
        """As `remove`."""
        self.remove(id)

    def get(self, id: str) -> Subscription | None:
        """The subscription of this id, or None."""
        try:
            return self[id]
        except UnknownIdError:
            return None

    def keys(self) -> list[str]:
        """The ids, in the order of addition."""
        return list(self)

    def items(self) -> list[tuple[str, Subscription]]:
        """(id, Subscription) of all of them, in the order of addition. For many, `subscriptions()` is a table."""
        ids, queries, numbers, settings = self._native.subscriptions()
        items = []
        for id, query, number in zip(ids, queries, numbers, strict=True):
            namespaces, ordered, elements = settings[number]
            items.append((id, Subscription(id, query, namespaces, ordered, "elements" if elements else "document")))
        return items

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
        settings_columns = [pa.array(column, kind).take(codes) for column, kind in zip(columns, kinds, strict=True)]
        texts = [pa.array(ids, pa.string()), pa.array(queries, pa.string())]
        return pa.table([*texts, *settings_columns], names=list(FIELDS))

    def part(self, subscriptions: Subscriptions, *, engine: str | None = None) -> Index:
        """An index of these subscriptions that accepts the same documents: for dividing one index into several.

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
        return f"<Index of {len(self):,} subscription{'' if len(self) == 1 else 's'}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: how many there are, and the first of them."""
        about = f"{len(self):,} subscription{'' if len(self) == 1 else 's'}, engine {self.engine}"
        rows = []
        for id in islice(self, SHOWN_MAX):
            subscription = self.get(id)
            if subscription is not None:  # another thread may have removed it
                rows.append((id, subscription.query))
        cells = "".join(f"<tr><td>{_shown(id)}</td><td><code>{_shown(query)}</code></td></tr>" for id, query in rows)
        more = f"<p>… {len(self) - SHOWN_MAX:,} more</p>" if len(self) > SHOWN_MAX else ""
        return f"<table><caption>{about}</caption><tr><th>id</th><th>query</th></tr>{cells}</table>{more}"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickles and copies are made from the saved form; caches and a `seed` stay behind."""
        return from_saved_bytes, (type(self), to_saved_bytes(self.save), self._cache_bytes_max)

    # -- documents

    def match(self, document: AnyDocument) -> list[str]:
        """The ids of all subscriptions that the document satisfies, in the order they were added.

        A subscription that takes more work than `Limits.work_per_item_max` allows is undecided: the answer is that of
        the others, with an UndecidedWarning.
        """
        ids, undecided = self.match_one(document)
        if undecided:
            warn_of(undecided)
        return ids

    def match_one(self, document: AnyDocument) -> tuple[list[str], Undecided]:
        """As `match`, with what is undecided instead of a warning: for callers that pass it on."""
        answer: Any = self._native.match(native_document(document, self._limits.document_bytes_max))
        return (answer, []) if type(answer) is list else answer

    @overload
    def match_many(
        self, documents: Documents, *, threads: int | None = None, on_error: Literal["raise"] = "raise"
    ) -> pa.Table: ...

    @overload
    def match_many(
        self, documents: Documents, *, threads: int | None = None, on_error: Literal["report"]
    ) -> tuple[pa.Table, pa.Table]: ...

    def match_many(
        self, documents: Documents, *, threads: int | None = None, on_error: OnError = "raise"
    ) -> pa.Table | tuple[pa.Table, pa.Table]:
        """Match a batch: a table of `document` (its number in the batch) and `subscription`, by document.

        The subscription column is dictionary-encoded; its dictionary is the index's own list of ids, shared, so it may
        hold ids that do not occur. With `on_error="report"` bad documents do not stop the rest: the answer is
        (matches, errors), the errors with the columns document, code, message, offset and subscription. Otherwise the
        first bad document raises its DocumentError, with its number as `error.document`.

        Documents are a list of what `match` takes, or the column `document` of a table: of Arrow, pandas, polars or
        DuckDB. As many threads share the work as help, at most sixteen; `threads` is another number of them.

        A subscription that takes too much work on a document (TC340) is a row of the errors, with its id as
        `subscription`, which is null for errors of a whole document; without a report it is an UndecidedWarning.
        """
        return matching.match_many(
            self._native,
            documents,
            threads=check_threads(threads),
            report=is_report(on_error),
            file_bytes_max=self._limits.document_bytes_max,
        )

    @overload
    def match_batches(
        self,
        documents: Documents,
        *,
        threads: int | None = None,
        on_error: Literal["raise"] = "raise",
        matches_max: int = BATCH_MATCHES_MAX,
    ) -> Iterator[pa.Table]: ...

    @overload
    def match_batches(
        self,
        documents: Documents,
        *,
        threads: int | None = None,
        on_error: Literal["report"],
        matches_max: int = BATCH_MATCHES_MAX,
    ) -> Iterator[tuple[pa.Table, pa.Table]]: ...

    def match_batches(
        self,
        documents: Documents,
        *,
        threads: int | None = None,
        on_error: OnError = "raise",
        matches_max: int = BATCH_MATCHES_MAX,
    ) -> Iterator[Any]:
        """As match_many, in pieces, for documents or results that do not fit into memory.

        Takes any iterable and reads it as far as needed. Every table has at most about `matches_max` rows; document
        numbers go on from table to table.
        """
        return matching.match_batches(
            self._native,
            documents,
            threads=check_threads(threads),
            report=is_report(on_error),
            matches_max=check_integer("matches_max", matches_max, 1),
            file_bytes_max=self._limits.document_bytes_max,
        )

    def match_part(
        self,
        documents: Sequence[AnyDocument],
        *,
        report: bool,
        matches_max: int = BATCH_MATCHES_MAX,
        timed: bool = False,
    ) -> Part:
        """As many of the documents as give about `matches_max` matches, at least one: for callers that pass batches on.

        The answer has one list of ids per document that was done, as one Arrow array; see `Part`. Without `report` a
        bad document raises, and so does a subscription that is undecided.
        """
        return matching.match_part(self._native, documents, report=report, matches_max=matches_max, timed=timed)

    def route(self, documents: Sequence[AnyDocument], question: Question) -> tuple[list[int], Unread]:
        """For routing: the targets of each document, as bits, and those that cannot be read, by place."""
        return _native.route(self._native, natives(documents), question.targets, question.enough, question.found)

    def route_forms(
        self, codec: FormCodec, bodies: Sequence[bytes], question: Question
    ) -> tuple[list[int], list[Document | None], Unread]:
        """The same for documents as they came on a link: see `routing.route_forms`."""
        return routing.route_forms(self._native, self._limits.native(), codec, bodies, question)

    def route_parcels(
        self, codec: FormCodec, parcels: _native.Parcels, question: Question, own: Index | None = None
    ) -> tuple[list[int], Unread]:
        """The same for a message between brokers: see `routing.route_parcels`."""
        rendered = None if own is None else (own._native, BATCH_PAYLOAD_BYTES_MAX, own._render_limits())
        return routing.route_parcels(self._native, self._limits.native(), codec, parcels, question, rendered)

    @property
    def limits(self) -> Limits:
        """Which documents it accepts."""
        return self._limits

    @property
    def entities(self) -> EntityTexts:
        """The texts of entities that it was made with."""
        return self._entities

    # -- deliveries

    @property
    def delivery_limits(self) -> DeliveryLimits:
        """What bounds `render`."""
        return self._delivery_limits

    def render(self, document: AnyDocument) -> list[Delivery]:
        """What each subscriber gets of the document, in the order they were added: one delivery for each id of `match`.

        Without a transformation that is the document as given, or with deliver="elements" what the query selects. A
        payload that would go over a limit is a delivery that was refused, and says why; so is a subscription that
        takes too much work to decide (TC340).
        """
        native = native_document(document, self._limits.document_bytes_max)
        deliveries = _native.render_one(self._native, native, self._render_limits(), True)
        return [Delivery(*delivery) for delivery in deliveries]

    @overload
    def render_many(
        self, documents: Documents, *, threads: int | None = None, on_error: Literal["raise"] = "raise"
    ) -> pa.Table: ...

    @overload
    def render_many(
        self, documents: Documents, *, threads: int | None = None, on_error: Literal["report"]
    ) -> tuple[pa.Table, pa.Table]: ...

    def render_many(
        self, documents: Documents, *, threads: int | None = None, on_error: OnError = "raise"
    ) -> pa.Table | tuple[pa.Table, pa.Table]:
        """Render a batch: a table of `document` (its number), `subscription`, `payload`, `code` and `message`.

        It takes what `match_many` takes. There is a row for each delivery that `render` would give, in that order. A
        delivery that was refused, or a subscription that is undecided (TC340), has a code and a message, no payload.

        Subscriptions are dictionary-encoded as in `match_many`. So are payloads: equal ones of a document are held
        once. `table["payload"].cast(pa.large_binary())` gives a plain column, with a copy for each row.

        With `on_error="report"` bad documents do not stop the rest: the answer is (deliveries, errors), the errors
        as `match_many` has them. Otherwise the first bad document raises its DocumentError, with its number as
        `error.document`.
        """
        return rendering.render_many(
            self._native,
            documents,
            threads=check_threads(threads),
            report=is_report(on_error),
            file_bytes_max=self._limits.document_bytes_max,
            limits=self._render_limits(),
        )

    @overload
    def render_batches(
        self,
        documents: Documents,
        *,
        threads: int | None = None,
        on_error: Literal["raise"] = "raise",
        payload_bytes_max: int = BATCH_PAYLOAD_BYTES_MAX,
    ) -> Iterator[pa.Table]: ...

    @overload
    def render_batches(
        self,
        documents: Documents,
        *,
        threads: int | None = None,
        on_error: Literal["report"],
        payload_bytes_max: int = BATCH_PAYLOAD_BYTES_MAX,
    ) -> Iterator[tuple[pa.Table, pa.Table]]: ...

    def render_batches(
        self,
        documents: Documents,
        *,
        threads: int | None = None,
        on_error: OnError = "raise",
        payload_bytes_max: int = BATCH_PAYLOAD_BYTES_MAX,
    ) -> Iterator[Any]:
        """As render_many, in pieces, for documents or results that do not fit into memory.

        Takes any iterable and reads it as far as needed. A table ends after the document whose payloads bring it to
        `payload_bytes_max`, equal payloads of a document counted once; document numbers go on from table to table.
        """
        return rendering.render_batches(
            self._native,
            documents,
            threads=check_threads(threads),
            report=is_report(on_error),
            payload_bytes_max=check_integer("payload_bytes_max", payload_bytes_max, 1),
            file_bytes_max=self._limits.document_bytes_max,
            limits=self._render_limits(),
        )

    def render_part(
        self,
        documents: Sequence[AnyDocument],
        *,
        report: bool,
        bytes_max: int = BATCH_PAYLOAD_BYTES_MAX,
        share: bool = True,
    ) -> RenderedPart:
        """As many of the documents as give about `bytes_max` bytes, at least one. The bytes of a payload count once for
        each delivery. `share=False`: nothing is built in common for several subscribers; the answer is the same."""
        return rendering.render_part(
            self._native, documents, report=report, bytes_max=bytes_max, share=share, limits=self._render_limits()
        )

    def render_columns(
        self, documents: Sequence[AnyDocument], *, report: bool, texts: _native.Texts = _native.Texts.none
    ) -> _native.DeliveryBatch:
        """The same as native columns, for callers that hand them to native code again; with `texts` of documents."""
        limits = self._render_limits()
        return rendering.render_columns(self._native, documents, report=report, limits=limits, texts=texts)

    def render_published(self, texts: Sequence[bytes], table: Index, links: rendering.Links) -> rendering.Publication:
        """The same for documents that go on from here: see `rendering.render_published`."""
        limits = self._limits.native(), self._render_limits()
        return rendering.render_published(self._native, texts, *limits, table._native, links)

    def render_parcels(self, codec: FormCodec, parcels: _native.Parcels, first: int) -> _native.DeliveryBatch:
        """The same for documents as they came on a link: see `rendering.render_parcels`."""
        limits = self._limits.native(), self._render_limits()
        return rendering.render_parcels(self._native, codec, parcels, first, *limits)

    def _render_limits(self) -> _native.RenderLimits:
        return rendering.native_limits(self._delivery_limits)

    def explain(self, document: AnyDocument, id: str) -> Explanation:
        """Why a subscription matches the document, or how near it came. Raises a KeyError for an unknown id.

        Where finding out takes more work than `Limits.work_per_item_max` allows, `matched` is None.
        """
        subscription = self[id]
        return explain(
            document,
            subscription.query,
            namespaces=subscription.namespaces,
            ordered=subscription.ordered,
            limits=self._limits,
            entities=self._entities,
        )

    # -- saved

    def save(self, path: str | Path) -> None:
        """Write everything but the caches to a file: first under a temporary name, synced, then renamed.

        The file is the index's own arrays. `load` maps it, so it is ready at once, and processes that load the same
        file share its memory. The same calls in the same order give the same bytes in every process. Calls that match
        or save count, because they may merge machines (see `compact`); but a loaded index to which nothing was added
        gives the bytes that it was loaded from, whatever it matched.
        """
        settings = SavedSettings(self.engine, self._namespaces, self._limits, self._entities, self._delivery_limits)
        try:
            self._native.save(file_name(path), settings.to_bytes())
        except OSError as error:  # it names the temporary file
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
        seed: int | None = None,
    ) -> Index:
        """An index that `save` wrote, with the settings it had, unless others are given here; `seed` as for `Index`.

        Raises SnapshotError for a file that is damaged, cut off or something else. `verify=False` checks the header
        and the table of sections only; it saves reading the whole file, and a damaged one may then crash the process.
        A file of another format version is rebuilt from its queries, with a warning. The loaded index can be changed;
        the file stays as it is. It must not be overwritten or cut in place while it is loaded: a process that reads
        what is gone dies with SIGBUS. `save` renames and is safe.
        """
        saved = read_settings(_native.Index.saved_about(file_name(path)))
        index = cls(
            engine=saved.engine,
            namespaces=saved.namespaces,
            limits=limits or saved.limits,
            entities=saved.entities if entities is None else entities,
            cache_bytes_max=cache_bytes_max,
            delivery_limits=delivery_limits or saved.delivery_limits,
            seed=seed,
        )
        if not index._native.load(file_name(path), verify):
            warnings.warn(
                f"{path} was saved in another format version and was rebuilt from its queries; save it again",
                stacklevel=2,
            )
        return index

    # -- about the index

    def stats(self) -> Stats:
        """How much it holds."""
        return Stats(*self._native.stats())

    def compact(self) -> None:
        """Make the index as small and as fast as if all its subscriptions had just been added at once.

        Subscriptions that were added one by one are kept in several machines, each of which walks over every document.
        Calls that match or save merge them now and then, and a document may have to wait for that: a service that has
        idle time may prefer to do it then. It takes up to 10 µs a pattern (a subscription with `or` may have several),
        and twice the memory meanwhile; no time if there is nothing to do. Other threads may match, but wait if they
        change the index. The subscriptions stay as they are.
        """
        self._native.compact()

    def drop_caches(self) -> None:
        """Forget what was learnt from documents, and give back memory kept for results.

        The next documents are as slow as the first.
        """
        self._native.drop_caches()

    def _settings(self, namespaces: AnyNamespaces | None, ordered: bool, deliver: str) -> _native.Settings:
        if deliver not in ("document", "elements"):
            raise ValueError(f'deliver must be "document" or "elements", got {deliver!r}')
        bindings = {**self._namespaces, **check_namespaces(namespaces)} if namespaces else self._namespaces
        if bindings.get("") == "" and "" not in self._namespaces:  # that is what holds anyway
            bindings = {prefix: uri for prefix, uri in bindings.items() if prefix}
        return _native.Settings(bindings, bool(ordered), deliver == "elements")

    def _settings_of(self, item: tuple[str, str] | Subscription) -> _native.Settings:
        if isinstance(item, Subscription):
            return self._settings(item.namespaces, item.ordered, item.deliver)
        return self._default_settings


def _shown(text: str) -> str:
    """A text of strangers, for HTML."""
    return escape(printable(text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"))
