"""Routing in a broker network: a million subscriptions at eight brokers, mapped, summarised, collected and used.

Documents are news of 5 KB about one area; items carry codes that belong to the area. Each broker serves eight areas, so
most documents concern one broker of eight. Subscriptions ask for codes, for topics of an area, for codes and a price,
for persons. The parent of the eight brokers has a table with what they tell it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from bench.measure import Report, Seconds, clock, finish, lxml_time, median, options_of, run
from treecast import Index, Subscription
from treecast.overlay.onyx.routing import RoutingSettings, RoutingTable, Summary
from treecast.overlay.onyx.routing.routing_query import Conjunction
from treecast.overlay.onyx.routing.sample import Sample
from treecast.overlay.onyx.routing.subscription_mapper import SubscriptionMapper

BROKERS, AREAS_EACH, CODES_EACH, TOPICS, PERSONS = 8, 8, 2_000, 200, 5_000
SUBSCRIPTIONS = 1_000_000
BATCH = 64


@dataclass(frozen=True)
class Load:
    """How much is measured."""

    subscriptions: int = SUBSCRIPTIONS
    documents: int = 512
    updates: int = 300
    passes: int = 3
    budgets: tuple[int, ...] = (10_000,)
    bars: bool = True

    @classmethod
    def of(cls, quick: bool) -> Load:
        return (
            cls(20_000, documents=128, updates=40, passes=1, budgets=(10_000, 1_000, 100), bars=False)
            if quick
            else cls()
        )


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


def draw_subscriptions(count: int, broker: int, seed: int = 1) -> list[Subscription]:
    random = Random(f"routing {broker} {seed}")
    return [Subscription(f"{broker}-{number}", draw_query(random, broker)) for number in range(count)]


def routed(table: RoutingTable, documents: Sequence[bytes]) -> list[tuple[str, ...]]:
    return [row for first in range(0, len(documents), BATCH) for row in table.route(documents[first : first + BATCH])]


def each(seconds: Seconds, count: int) -> float:
    return seconds.cpu / count * 1e6


def timed(act: Callable[[], object]) -> Seconds:
    return clock(act)


def measure(report: Report, load: Load) -> None:
    documents = [draw_document(Random(f"document {number}")) for number in range(load.documents)]
    size = sum(map(len, documents)) / len(documents)
    report.note(
        f"{load.subscriptions:,} subscriptions at {BROKERS} brokers; {load.documents} documents of {size:,.0f} B"
    )
    share = load.subscriptions // BROKERS
    population = [draw_subscriptions(share, broker) for broker in range(BROKERS)]
    mapper = SubscriptionMapper()
    mapped: list[list[Conjunction]] = []
    spent = timed(lambda: mapped.extend(mapper.map_many(rows) for rows in population))
    report.figure("map", each(spent, load.subscriptions), "µs each", 30 if load.bars else None)
    report.figure("shapes", mapper.shapes, "")
    report.figure("different conjunctions", sum(len(set(rows)) for rows in mapped), "")
    wanted = wanted_by(population, documents)
    for budget in load.budgets:
        measure_budget(report, load, budget, mapped, mapper, documents, wanted)
    measure_exact(report, load, population, documents, wanted)


def wanted_by(population: list[list[Subscription]], documents: list[bytes]) -> list[set[str]]:
    """By document, the brokers with a subscription that matches."""
    wanted: list[set[str]] = [set() for _ in documents]
    for broker, rows in enumerate(population):
        index = Index()
        index.add_many(rows)
        for place, document in enumerate(documents):
            if index.match(document):
                wanted[place].add(f"b{broker}")
    return wanted


def measure_budget(
    report: Report,
    load: Load,
    budget: int,
    mapped: list[list[Conjunction]],
    mapper: SubscriptionMapper,
    documents: list[bytes],
    wanted: list[set[str]],
) -> None:
    name = f"budget {budget:,}"
    settings = RoutingSettings(entries_max=budget)
    sample = Sample(settings.sample_max)
    sample.learn([draw_document(Random(f"sample {number}")) for number in range(settings.sample_max)])
    hosts = [Summary(settings, sample=sample) for _ in mapped]
    built = [timed(lambda host=host, rows=rows: host.update(rows)) for host, rows in zip(hosts, mapped, strict=True)]
    count = sum(len(rows) for rows in mapped)
    report.figure(f"{name}: summarise", sum(row.cpu for row in built) / count * 1e6, "µs each")
    report.figure(f"{name}: one broker's summary", median(built).cpu, "s")
    report.figure(f"{name}: what a broker tells its parent", sum(map(len, hosts)) / BROKERS, "conjunctions")
    report.figure(f"{name}: that is", sum(len(host.query().encode()) for host in hosts) / BROKERS / 1024, "KB")
    table = RoutingTable(settings)
    spent = timed(lambda: [table.update(f"b{number}", host.query()) for number, host in enumerate(hosts)])
    report.figure(f"{name}: the parent's table", len(table), "conjunctions")
    report.figure(f"{name}: collected in", spent.cpu, "s")
    measure_routes(report, load, name, table, documents, wanted)
    measure_updates(report, load, name, hosts, table, mapper)


def measure_routes(
    report: Report, load: Load, name: str, table: RoutingTable, documents: list[bytes], wanted: list[set[str]]
) -> None:
    routes = routed(table, documents)
    assert all(needed <= set(row) for needed, row in zip(wanted, routes, strict=True)), "a document was lost"
    forwarded, needed = sum(map(len, routes)), sum(map(len, wanted))
    report.figure(f"{name}: copies of a document", forwarded / len(documents), f"of {BROKERS}")
    report.figure(f"{name}: precision", 100 * needed / max(1, forwarded), "%")
    ours = median([timed(lambda: routed(table, documents)) for _ in range(load.passes)])
    lxml = lxml_time(documents, load.passes)
    report.ratio(f"{name}: route", ours, lxml, len(documents), forwarded / len(documents), 0.5 if load.bars else None)


def measure_updates(
    report: Report, load: Load, name: str, hosts: list[Summary], table: RoutingTable, mapper: SubscriptionMapper
) -> None:
    """A subscription comes, then goes: through its host's summary and the parent's table to the grandparent."""
    above = RoutingTable(table.settings)
    above.update("child", table.aggregate())
    times: list[float] = []
    for broker, host in enumerate(hosts):
        for one in draw_subscriptions(load.updates // BROKERS, broker, seed=2):
            query = mapper.map(one)
            for more, less in ((query.conjunctions, ()), ((), query.conjunctions)):

                def act(host: Summary = host, more: object = more, less: object = less, broker: int = broker) -> None:
                    delta = host.update(more, less)  # type: ignore[arg-type]
                    change = table.update(f"b{broker}", delta.added, delta.removed) if delta else delta
                    if change:
                        above.update("child", change.added, change.removed)

                times.append(timed(act).cpu * 1e3)
    times.sort()
    report.figure(f"{name}: one change, three tables, median", times[len(times) // 2], "ms")
    report.figure(f"{name}: one change, three tables, worst", times[-1], "ms", 1000 if load.bars else None)


def measure_exact(
    report: Report, load: Load, population: list[list[Subscription]], documents: list[bytes], wanted: list[set[str]]
) -> None:
    """Tree patterns beside the paths, against paths alone: of a tenth, without a budget."""
    for exact in (False, True):
        settings = RoutingSettings(exact=exact, entries_max=1 << 30)
        mapper = SubscriptionMapper(settings)
        table = RoutingTable(settings)
        few = [rows[: len(rows) // 10] for rows in population]
        for broker, rows in enumerate(few):
            table.update_many(f"b{broker}", mapper.map_many(rows), ())
        name = "exact patterns" if exact else "paths alone"
        measure_routes(report, load, name, table, documents, wanted_by(few, documents))


def main(arguments: list[str]) -> int:
    options, report = options_of("onyx_routing", __doc__.partition("\n")[0], arguments)
    measure(report, Load.of(options.quick))
    return finish(options, report)


if __name__ == "__main__":
    run(main)
