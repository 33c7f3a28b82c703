"""Populations of subscriptions at the brokers of a network, with the documents that they are about.

    areas    news about an area; items carry codes of the area; each broker serves eight areas
    codes    one item with one code of a million; whoever wants it may be at any broker
    tickers  one item with a code of a few letters, the same for all brokers
    values   paths of a news DTD with two tests of attributes
    nested   paths of a news DTD with a nested path and a test
    paths    paths of a news DTD
    mixed    of the first four 40, 30, 20 and 10 %; a quarter of the documents of each

>>> population = POPULATIONS["codes"]
>>> population.queries(2, 0, 1)
['/news/item[@code="x805018"]', '/news/item[@code="x203978"]']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

BROKERS, AREAS_EACH, CODES_EACH, TOPICS, PERSONS = 8, 8, 2_000, 200, 5_000
_CODES = 1_000_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Population:
    """`queries(count, broker, seed)` and `documents(count, seed)`."""

    queries: Callable[[int, int, int], list[str]]
    documents: Callable[[int, int], list[bytes]]


def draw_document(random: Random) -> bytes:
    area = random.randrange(BROKERS * AREAS_EACH)
    items = "".join(
        f'<item code="c{area}-{random.randrange(CODES_EACH)}" topic="t{random.randrange(TOPICS)}">'
        f"<headline>Shares of this company rose or fell today</headline><price>{random.randrange(100)}</price>"
        f'<p>Some words about what happened, <person name="n{random.randrange(PERSONS)}"/> said.</p></item>'
        for _ in range(20)
    )
    return f'<news><head><pubdata area="a{area}"/></head><body>{items}</body></news>'.encode()


def draw_query(random: Random, broker: int) -> str:
    area = broker * AREAS_EACH + random.randrange(AREAS_EACH)
    code = f"c{area}-{random.randrange(CODES_EACH)}"
    form = random.random()
    if form < 0.4:
        return f'/news/body/item[@code="{code}"]'
    if form < 0.6:
        return f'//item[@code="{code}"][price > {random.randrange(2, 100)}]'
    if form < 0.8:
        topic, person = random.randrange(TOPICS), random.randrange(PERSONS)
        return f'/news[head/pubdata/@area="a{area}"]/body/item[@topic="t{topic}"]//person[@name="n{person}"]'
    return f'/news[head/pubdata/@area="a{area}"]//person[@name="n{random.randrange(PERSONS)}"]'


def _ticker(random: Random) -> str:
    return "".join(random.choice(_LETTERS) for _ in range(random.choice((3, 3, 4))))


def _queries_of(draw: Callable[[Random, int], str]) -> Callable[[int, int, int], list[str]]:
    def queries(count: int, broker: int, seed: int) -> list[str]:
        random = Random(f"routing {broker} {seed}")
        return [draw(random, broker) for _ in range(count)]

    return queries


def _documents_of(draw: Callable[[Random], bytes]) -> Callable[[int, int], list[bytes]]:
    def documents(count: int, seed: int) -> list[bytes]:
        random = Random(f"routing documents {seed}")
        return [draw(random) for _ in range(count)]

    return documents


def _of_schema(settings: QuerySettings, size: int = 5_000) -> Population:
    def queries(count: int, broker: int, seed: int) -> list[str]:
        return list(generate_queries(Schema.news(), count, settings, seed=broker * 1_000 + seed))

    def documents(count: int, seed: int) -> list[bytes]:
        return list(generate_documents(Schema.news(), count, DocumentSettings(bytes_target=size), seed=seed))

    return Population(queries, documents)


def _one_item(code: str) -> bytes:
    return f'<news><item code="{code}"><headline>Shares of this company</headline></item></news>'.encode()


_NARROW = QuerySettings(depth_min=4, depth_max=8, wildcard=0, descendant=0.1, predicates=2, distinct=False)
_NESTED = QuerySettings(depth_min=4, depth_max=8, wildcard=0.05, descendant=0.1, predicates=1, nested=1, distinct=False)
_PATHS = QuerySettings(depth_min=4, depth_max=8, wildcard=0, descendant=0.1, distinct=False)

POPULATIONS: dict[str, Population] = {
    "areas": Population(_queries_of(draw_query), _documents_of(draw_document)),
    "codes": Population(
        _queries_of(lambda random, _: f'/news/item[@code="x{random.randrange(_CODES)}"]'),
        _documents_of(lambda random: _one_item(f"x{random.randrange(_CODES)}")),
    ),
    "tickers": Population(
        _queries_of(lambda random, _: f'/news/item[@code="{_ticker(random)}"]'),
        _documents_of(lambda random: _one_item(_ticker(random))),
    ),
    "values": _of_schema(_NARROW),
    "nested": _of_schema(_NESTED),
    "paths": _of_schema(_PATHS),
}
_MIX = {"areas": 4, "codes": 3, "tickers": 2, "values": 1}  # tenths of the subscriptions


def _mixed_queries(count: int, broker: int, seed: int) -> list[str]:
    rows = [POPULATIONS[name].queries(count * tenths // 10, broker, seed) for name, tenths in _MIX.items()]
    return [query for row in rows for query in row]


def _mixed_documents(count: int, seed: int) -> list[bytes]:
    rows = [POPULATIONS[name].documents(count // len(_MIX), seed) for name in _MIX]
    return [document for places in zip(*rows, strict=True) for document in places]


POPULATIONS["mixed"] = Population(_mixed_queries, _mixed_documents)
