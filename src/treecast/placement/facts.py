"""What many queries say of the documents that they can match: the facts by which placements divide them.

Read natively, a batch at a time (`native/query/query_facts.hpp`): a million queries take seconds. Every fact is a
consequence of the query, so acting on it loses no match.

    >>> table = survey([("q", '/news[lang = "en"]//article/@id')])
    >>> facts = table[0]
    >>> facts.root, sorted(facts.required), facts.skeletons
    ('news', ['article', 'lang', 'news'], ('/news//article',))
    >>> [pair.filter for pair in facts.pairs]
    ['/news/lang[. = "en"]']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from treecast import _native
from treecast.errors import QueryError
from treecast.index.subscription_forms import Columns, addresses, from_arrow, from_items
from treecast.model import Subscription

if TYPE_CHECKING:
    import pyarrow as pa

    Subscriptions: TypeAlias = pa.Table | pa.RecordBatch | Iterable[tuple[str, str] | Subscription | Mapping[str, Any]]


class Pair(NamedTuple):
    """A target and the literal that it has to equal."""

    pattern: str
    """The absolute path of an element, and after a null character what of it is compared: `.`, `@name`, `text()`."""
    literal: str
    """`s` and a string, or `n` and a number as written."""

    @property
    def filter(self) -> str:
        """A query that covers every query with this pair."""
        path, _, target = self.pattern.partition("\0")
        text = self.literal[1:]
        literal = text if self.literal[0] == "n" else f"'{text}'" if '"' in text else f'"{text}"'
        return f"{path}[{target} = {literal}]"


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one query."""

    root: str | None
    """The local name of the root element of every matching document, if there is just one."""
    required: tuple[str, ...]
    """Local names of elements that every matching document has."""
    skeletons: tuple[str, ...]
    """A plain path for each branch of the query; a matching document matches one of them."""
    pairs: tuple[Pair, ...]
    """All hold in every matching document."""


class Survey:
    """The facts of many subscriptions, by row."""

    def __init__(self, ids: list[str], queries: list[str], raw: tuple[Any, ...]) -> None:
        self.ids, self.queries = ids, queries
        self.names: list[str] = raw[0]
        self.roots = _numbers(raw[1], "i")
        self._required_ends, self._required = _numbers(raw[2], "q"), _numbers(raw[3], "i")
        self.skeletons: list[str] = raw[4]
        self._skeleton_ends, self._skeleton = _numbers(raw[5], "q"), _numbers(raw[6], "i")
        self._nameless = {text for text in self.skeletons if not text.strip("/*")}
        self.patterns: list[str] = raw[7]
        self._values: list[str] = raw[8]
        self._pair_ends = _numbers(raw[9], "q")
        self._pair_pattern, self._pair_value = _numbers(raw[10], "i"), _numbers(raw[11], "i")

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> Facts:
        root = self.roots[row]
        return Facts(
            self.names[root] if root >= 0 else None, self.required(row), self.skeletons_of(row), self.pairs(row)
        )

    def __iter__(self) -> Iterator[Facts]:
        return (self[row] for row in range(len(self)))

    def root(self, row: int) -> str | None:
        """See Facts; one at a time, for loops over millions."""
        number = self.roots[row]
        return self.names[number] if number >= 0 else None

    def required(self, row: int) -> tuple[str, ...]:
        """See Facts."""
        begin, end = self._required_ends[row], self._required_ends[row + 1]
        return tuple([self.names[number] for number in self._required[begin:end]])

    def skeletons_of(self, row: int) -> tuple[str, ...]:
        """See Facts."""
        begin, end = self._skeleton_ends[row], self._skeleton_ends[row + 1]
        return tuple([self.skeletons[number] for number in self._skeleton[begin:end]])

    def covers_of(self, row: int) -> tuple[str, ...]:
        """Expressions of which a matching document matches one: the skeletons, or what says more than `/*`.

        Where the skeleton has no name in it, an element that must be there says more, or else a value.
        """
        skeletons = self.skeletons_of(row)
        if len(skeletons) > 1 or skeletons[0] not in self._nameless:
            return skeletons
        names = self.required(row)
        if names:
            return (f"//*[local-name() = '{names[0]}']",)
        pairs = self.pairs(row)
        return (pairs[0].filter,) if pairs else skeletons

    def pairs(self, row: int) -> tuple[Pair, ...]:
        """See Facts."""
        begin, end = self._pair_ends[row], self._pair_ends[row + 1]
        return tuple(
            [
                Pair(self.patterns[self._pair_pattern[at]], self._values[self._pair_value[at]])
                for at in range(begin, end)
            ]
        )

    def pairs_column(self) -> pa.Array:
        """The pairs of all rows as Arrow: lists of structs of pattern and literal, without a look at single rows."""
        import pyarrow as pa

        texts = [
            pa.array(vocabulary, pa.string()).take(pa.array(numbers, pa.int32()))
            for vocabulary, numbers in ((self.patterns, self._pair_pattern), (self._values, self._pair_value))
        ]
        pairs = pa.StructArray.from_arrays(texts, ["pattern", "literal"])
        return pa.ListArray.from_arrays(pa.array(self._pair_ends, pa.int64()).cast(pa.int32()), pairs)


def survey(subscriptions: Subscriptions, namespaces: Mapping[str, str] | None = None) -> Survey:
    """The facts of subscriptions in any form that Index.add_many takes; raises a QueryError for the first bad one."""
    source: Any = subscriptions
    columns = from_arrow(source) if hasattr(source, "schema") else _columns(from_items(source))
    import pyarrow as pa

    numbers = None if columns.codes is None else columns.codes.cast(pa.uint32())
    settings = columns.settings or [({}, False, "document")]
    bindings = [sorted({**(namespaces or {}), **own}.items()) for own, _, _ in settings]
    raw = _native.query_facts(
        len(columns.queries),
        *addresses(columns.queries),
        0 if numbers is None or not len(numbers) else numbers.buffers()[1].address + 4 * numbers.offset,
        bindings,
    )
    return Survey(columns.ids.to_pylist(), columns.queries.to_pylist(), raw)


def _columns(items: list[tuple[str, str] | Subscription]) -> Columns:
    import pyarrow as pa

    numbers: dict[tuple[tuple[str, str], ...], int] = {(): 0}
    ids: list[str] = []
    queries: list[str] = []
    codes: list[int] = []
    for item in items:
        id, query = (item.id, item.query) if isinstance(item, Subscription) else item
        for what, text in (("an id", id), ("a query", query)):
            if not isinstance(text, str):
                raise QueryError(f"{what} is a string, not {type(text).__name__}", code="TC144")
        ids.append(id)
        queries.append(query)
        own = tuple(sorted(item.namespaces.items())) if isinstance(item, Subscription) else ()
        codes.append(numbers.setdefault(own, len(numbers)))
    return Columns(
        pa.array(ids, pa.large_string()),
        pa.array(queries, pa.large_string()),
        pa.array(codes, pa.uint32()),
        [(dict(own), False, "document") for own in numbers],
    )


def _numbers(data: bytes, kind: Any) -> memoryview:
    return memoryview(data).cast("B").cast(kind)
