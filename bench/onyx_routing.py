"""Routing in a broker network: how precise tables are within a budget, and a million subscriptions at eight brokers.

First one link: of all documents, the share that is forwarded, next to the share that somebody behind it wants, by
population (`bench/routing_populations.py`), number of subscriptions and budget; added at once, and in two hundred
parts. Then the eight brokers in a chain: each summarises its own subscriptions, and has a table with those and with
what the next one tells it. One more subscription at the far end goes through all of them. Last a root with the
population of `bench.network_kill`: what a document costs there, next to one index with all subscriptions.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bench import network
from bench.measure import Report, clock, finish, lxml_time, median, options_of, run
from bench.routing_populations import BROKERS, POPULATIONS
from treecast import Index, Subscription
from treecast.overlay.onyx.routing import LOCAL, Delta, RoutingSettings, RoutingTable, Summary
from treecast.overlay.onyx.routing.routing_query import Conjunction
from treecast.overlay.onyx.routing.sample import Sample
from treecast.overlay.onyx.routing.subscription_mapper import SubscriptionMapper

SUBSCRIPTIONS = 1_000_000
BATCH, PARTS = 64, 200


@dataclass(frozen=True)
class Load:
    """How much is measured."""

    subscriptions: int = SUBSCRIPTIONS
    root_subscriptions: int = 100_000
    documents: int = 400
    updates: int = 100
    passes: int = 3
    populations: tuple[str, ...] = ("areas", "codes", "tickers", "values", "nested")
    counts: tuple[int, ...] = (1_000, 10_000, 125_000)
    budgets: tuple[int, ...] = (1_000, 5_000, 20_000, 50_000)
    parts_max: int = 10_000
    counts_max: Mapping[str, int] = field(default_factory=lambda: {"values": 10_000, "nested": 1_000})
    bars: bool = True

    @classmethod
    def of(cls, quick: bool) -> Load:
        if not quick:
            return cls()
        return cls(8_000, 8_000, 80, 8, 1, ("areas", "codes"), (2_000,), (100, 1_000), bars=False)


def subscriptions_of(population: str, count: int, broker: int, seed: int = 1) -> list[Subscription]:
    queries = POPULATIONS[population].queries(count, broker, seed)
    return [Subscription(f"{broker}-{number}", query) for number, query in enumerate(queries)]


def sample_of(population: str, settings: RoutingSettings) -> Sample:
    sample = Sample(settings.sample_max)
    sample.learn(POPULATIONS[population].documents(settings.sample_max, 5))
    return sample


def share(table: RoutingTable, documents: Sequence[bytes]) -> float:
    return 100 * sum(map(bool, routed(table, documents))) / len(documents)


def routed(table: RoutingTable, documents: Sequence[bytes]) -> list[tuple[str, ...]]:
    return [row for first in range(0, len(documents), BATCH) for row in table.route(documents[first : first + BATCH])]


def link_of(summary: Summary) -> RoutingTable:
    """The table of a parent with this one child."""
    table = RoutingTable(RoutingSettings(entries_max=1 << 30))
    table.update("child", summary.query())
    return table


# --- one link ---------------------------------------------------------------------------------------------------------


def measure_links(report: Report, load: Load) -> None:
    for population in load.populations:
        documents = POPULATIONS[population].documents(load.documents, 77)
        for count in load.counts:
            if count <= load.counts_max.get(population, count):
                measure_link(report, load, population, count, documents)


def measure_link(report: Report, load: Load, population: str, count: int, documents: list[bytes]) -> None:
    rows = subscriptions_of(population, count, 0)
    index = Index()
    index.add_many(rows)
    wanted = [bool(index.match(document)) for document in documents]
    name = f"{population}, {count:,}"
    report.figure(f"{name}: documents wanted", 100 * sum(wanted) / len(documents), "%")
    mapped = SubscriptionMapper().map_many(rows)
    for budget in load.budgets:
        if budget >= 2 * count:
            continue
        settings = RoutingSettings(entries_max=budget)
        ways: dict[str, list[list[Conjunction]]] = {"at once": [mapped]}
        if count <= load.parts_max:
            step = len(mapped) // PARTS
            ways["in parts"] = [mapped[first : first + step] for first in range(0, len(mapped), step)]
        for way, parts in ways.items():
            summary = Summary(settings, sample=sample_of(population, settings))
            spent = clock(lambda summary=summary, parts=parts: [summary.update(part) for part in parts])  # type: ignore[misc]
            table = link_of(summary)
            routes = routed(table, documents)
            assert all(row or not one for one, row in zip(wanted, routes, strict=True)), "a document was lost"
            title = f"{name}, budget {budget:,}, {way}"
            report.figure(f"{title}: documents forwarded", share(table, documents), "%")
            left = f"{len(summary):,} conjunctions, {summary.values:,} values"
            report.figure(f"{title}: summarise", spent.cpu / count * 1e6, f"µs each, {left}")


# --- a million --------------------------------------------------------------------------------------------------------


def measure_chain(report: Report, load: Load) -> None:
    """The chain b0 - b1 - ... - b7, with documents published at b0: each tells the one before it."""
    population, settings = "mixed", RoutingSettings()
    each = load.subscriptions // BROKERS
    mapper = SubscriptionMapper()
    sample = sample_of(population, settings)
    documents = POPULATIONS[population].documents(load.documents, 77)
    report.note(f"{load.subscriptions:,} subscriptions at {BROKERS} brokers, {settings.entries_max:,} entries a link")
    hosts: list[Summary] = []
    wanted: list[list[bool]] = []
    times = {"map": 0.0, "summarise": 0.0, "tables": 0.0}
    for broker in range(BROKERS):
        rows = subscriptions_of(population, each, broker)
        index = Index()
        index.add_many(rows)
        wanted.append([bool(index.match(document)) for document in documents])
        mapped: list[Conjunction] = []
        times["map"] += clock(lambda mapped=mapped, rows=rows: mapped.extend(mapper.map_many(rows))).cpu  # type: ignore[misc]
        host = Summary(settings, sample=sample)
        times["summarise"] += clock(lambda host=host, mapped=mapped: host.update(mapped)).cpu  # type: ignore[misc]
        hosts.append(host)
        del rows, index
    tables = [RoutingTable(settings, sample=sample) for _ in hosts]

    def build() -> None:
        for broker in reversed(range(BROKERS)):
            tables[broker].update(LOCAL, hosts[broker].query())
            if broker + 1 < BROKERS:
                tables[broker].update("next", tables[broker + 1].aggregate())

    times["tables"] = clock(build).cpu
    bars = {"map": 30, "summarise": 30}
    for name, seconds in times.items():
        bar = bars.get(name) if load.bars else None
        report.figure(f"{name}", seconds / load.subscriptions * 1e6, "µs a subscription", bar)
    report.figure("all of it", sum(times.values()), "s", 300 if load.bars else None)
    report.figure("a broker's summary", sum(map(len, hosts)) / BROKERS, "conjunctions")
    report.figure("values in its sets", sum(host.values for host in hosts) / BROKERS, "")
    report.figure("that is", sum(len(host.query().encode()) for host in hosts) / BROKERS / 1024, "KB")
    report.figure("the largest table", max(map(len, tables)), "conjunctions")
    report.figure("values in its sets", max(table.values for table in tables), "")
    report.figure("the largest routing query", max(len(table.aggregate().encode()) for table in tables) / 1024, "KB")
    measure_routes(report, load, tables, documents, wanted)
    more = [(("/news", "/item", f'[@code="new {number}"]'),) for number in range(settings.entries_max // 2)]
    spent = clock(lambda: hosts[0].update(more))
    report.figure("a change that meets the budget", spent.cpu * 1e3, f"ms, {len(more):,} at once")
    hosts[0].update((), more)
    measure_updates(report, load, hosts, tables, mapper)


def measure_routes(
    report: Report, load: Load, tables: list[RoutingTable], documents: list[bytes], wanted: list[list[bool]]
) -> None:
    forwarded, needed = 0, 0
    going = [True] * len(documents)
    for broker in range(BROKERS - 1):
        routes = routed(tables[broker], documents)
        behind = [any(row[place] for row in wanted[broker + 1 :]) for place in range(len(documents))]
        going = [was and "next" in row for was, row in zip(going, routes, strict=True)]
        assert all(one or not want for one, want in zip(going, behind, strict=True)), "a document was lost"
        forwarded += sum(going)
        needed += sum(behind)
    links = len(documents) * (BROKERS - 1)
    report.figure("messages of all links, wanted", 100 * needed / links, "% of flooding")
    report.figure("messages of all links, sent", 100 * forwarded / links, "% of flooding")
    ours = median([clock(lambda: routed(tables[0], documents)) for _ in range(load.passes)])
    report.ratio("route at the first table", ours, lxml_time(documents, load.passes), len(documents), 2)


def measure_updates(
    report: Report, load: Load, hosts: list[Summary], tables: list[RoutingTable], mapper: SubscriptionMapper
) -> None:
    """A subscription comes at the last broker, then goes: through its summary and all eight tables."""
    gc.freeze()  # every clocked call collects garbage first, and there are millions of objects here
    times: list[float] = []
    reached: list[int] = []
    queries = POPULATIONS["mixed"].queries(load.updates, BROKERS - 1, 9)
    for number, query in enumerate(queries):
        conjunctions = mapper.map(Subscription(f"new {number}", query)).conjunctions
        for added, removed in ((conjunctions, ()), ((), conjunctions)):
            spent = clock(lambda a=added, r=removed: reached.append(_spread(hosts[-1], tables, a, r)))  # type: ignore[misc]
            times.append(spent.cpu * 1e3)
    times.sort()
    report.figure("one change, all tables, median", times[len(times) // 2], "ms")
    report.figure("one change, all tables, 99th of 100", times[len(times) * 99 // 100], "ms")
    report.figure("one change, all tables, worst", times[-1], "ms", 1000 if load.bars else None)
    report.figure("tables that a change reached, at most", max(reached), f"of {BROKERS}")


def _spread(
    host: Summary, tables: list[RoutingTable], added: Iterable[Conjunction], removed: Iterable[Conjunction]
) -> int:
    delta: Delta = host.update(added, removed)
    for count, broker in enumerate(reversed(range(BROKERS))):
        if not delta:
            return count
        delta = tables[broker].update(LOCAL if broker == BROKERS - 1 else "next", delta.added, delta.removed)
    return BROKERS


# --- a root -----------------------------------------------------------------------------------------------------------


def measure_root(report: Report, load: Load) -> None:
    """Seven brokers behind two links of a root: the first has three brokers behind it, the second two."""
    texts = list(network.queries(load.root_subscriptions, 1).values())
    documents = network.documents(10 * load.documents, load.root_subscriptions, 1)
    rows = [Subscription(str(number), query) for number, query in enumerate(texts)]
    index = Index()
    index.add_many(rows)
    mapper = SubscriptionMapper()
    wants = [mapper.map_many(rows[broker::BROKERS]) for broker in range(BROKERS)]
    hosts = [Summary() for _ in wants]
    for host, mapped in zip(hosts, wants, strict=True):
        host.update(mapped)
    sample = Sample(RoutingSettings().sample_max)
    inner = {name: RoutingTable(sample=sample) for name in ("left", "right")}
    root = RoutingTable(sample=sample, has_parent=False)

    def build() -> None:
        for table, behind in zip(inner.values(), ((1, 2, 3, 4), (5, 6, 7)), strict=True):
            for broker in behind:
                table.update(str(broker) if broker != behind[0] else LOCAL, hosts[broker].query())
        root.update(LOCAL, hosts[0].query())
        for name, table in inner.items():
            root.update(name, table.aggregate())

    name = f"a root, {load.root_subscriptions:,} at {BROKERS} brokers"
    report.figure(f"{name}: tables", clock(build).cpu / load.root_subscriptions * 1e6, "µs a subscription")
    report.figure(f"{name}: its table", len(root), f"conjunctions, {root.values:,} values")
    ours = [clock(lambda: routed(root, documents)) for _ in range(1 + load.passes)][1:]
    theirs = [clock(lambda: _matched(index, documents)) for _ in range(1 + load.passes)][1:]
    report.ratio(f"{name}: route", median(ours), lxml_time(documents, load.passes), len(documents), 0)
    report.figure(f"{name}: one index", median(theirs).cpu / len(documents) * 1e6, "µs/doc")
    report.figure(f"{name}: route to one index", median(ours).cpu / median(theirs).cpu, "x", 2 if load.bars else None)
    spent = clock(lambda: [table.refine() for table in inner.values()])
    report.figure(f"{name}: refine of both tables, once documents have come", spent.cpu * 1e3, "ms")


def _matched(index: Index, documents: Sequence[bytes]) -> None:
    for first in range(0, len(documents), BATCH):
        index.match_part(documents[first : first + BATCH], report=True)


def main(arguments: list[str]) -> int:
    options, report = options_of("onyx_routing", __doc__.partition("\n")[0], arguments)
    load = Load.of(options.quick)
    measure_links(report, load)
    measure_chain(report, load)
    measure_root(report, load)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
