"""Clusters of routers: data-sharing, filter-sharing, hierarchical (XTrie, Performance Evaluation, Figure 7a-c).

As in the paper, throughput and latency are computed from the cost of one router (`router_model`), which is measured
with the filters that a router of such a cluster would hold. For comparison there are the model with the paper's own
costs, our hierarchical placement on these filters, and real runs on as many executors as there are cores, measured in
wall-clock time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from treecast.experiments import executors, router_model
from treecast.experiments.experiment import Experiment, Point, Row, Sizes
from treecast.experiments.inputs import draw_documents, namespaces_of
from treecast.experiments.router_model import Cost, Curve, Performance
from treecast.experiments.router_verdict import DATA, FILTER, HIERARCHICAL, OURS, PAPER, PLACED, XTRIE, verdict
from treecast.experiments.rules import pick
from treecast.experiments.session import Session, as_table
from treecast.experiments.ten_types import LEVELS, MESSAGE_BYTES, messages, schemas_of, tags_of
from treecast.index import Index
from treecast.measure import Inputs, clock
from treecast.placement import FilterSharing, Hierarchical, root_name
from treecast.placement import measure as report_on
from treecast.report import Panel, Series
from treecast.workload import QuerySettings, generate_queries

FAN_OUTS = (1, 2, 3, 4, 5)
CLUSTERS = (25, 30)  # between those that are measured: there the hierarchy begins
FILTERS_MIN = 5  # of a router
SHARDS = 3  # of a filter-sharing cluster that are measured; the others are alike
LEAVES_MIN = 2
ABSOLUTE = 1.5  # so many are drawn for each absolute one that is wanted
PLACED_ROUTERS = 100
EXECUTOR_FILTERS_MIN = 20_000  # with fewer, a real run would show Spark alone
EXECUTOR_MESSAGES = 500
TOLD_MIN = 0.1  # of a run, what remains without Spark's own part; less could be anything
RUNS = 5
SPEED = "messages a second"


@dataclass
class Costs:
    """Of one engine, by the number of filters, in µs a message."""

    part: dict[float, float] = field(default_factory=dict)
    leaf: dict[float, float] = field(default_factory=dict)
    """Where all filters are of the message's own type, as far as there are so many."""
    read: float = 0.0
    """With a filter that nothing matches."""

    def whole(self) -> Cost:
        return Curve(self.part.items())

    def leaves(self) -> Cost:
        most = max(self.part)
        return Curve({most: self.part[most], **self.leaf}.items())


def points(sizes: Sizes) -> list[Point]:
    all_points: list[Point] = []
    for queries in sizes.queries:
        router_counts = [int(count) for count in sizes.values if count == 1 or count * FILTERS_MIN <= queries]
        all_points += [{"queries": queries, "what": "one", "routers": count} for count in router_counts]
        all_points.append({"queries": queries, "what": "model", "routers": router_counts})
        if queries >= PLACED_ROUTERS * FILTERS_MIN:
            all_points.append({"queries": queries, "what": "placed"})
        if queries >= EXECUTOR_FILTERS_MIN:
            all_points.append({"queries": queries, "what": "executors"})
    return all_points


def measure(session: Session, point: Point) -> list[Row]:
    queries = point["queries"]
    if point["what"] == "one":
        _measure_one(session, queries, point["routers"])
        return []
    if point["what"] == "model":
        return _model(session, queries, point["routers"])
    if point["what"] == "placed":
        return _measure_placement(session, queries)
    return _measure_executors(session, queries)


def absolute(session: Session, count: int) -> list[str]:
    """Distinct single-path expressions that begin with a root tag, evenly over the types, shuffled."""

    def read() -> list[str]:
        settings = QuerySettings(depth_max=10, wildcard=0.1, descendant=0.1)
        most = int(max(session.sizes.queries) * ABSOLUTE) + 1
        queries = generate_queries(schemas_of(session), most, settings, seed=session.seed, note=session.note)
        absolute_paths = [text for text in queries if not text.startswith(("//", "/*"))]
        Random(session.seed).shuffle(absolute_paths)
        return absolute_paths

    filters = session.once("absolute", read)[:count]
    session.note(f"filters: {len(filters):,} absolute single-path expressions")
    return filters


def root_of(query: str) -> str:
    """The local name of the first step."""
    return query.split("/", 2)[1].partition(":")[2] or query.split("/", 2)[1]


def costs_of(session: Session, queries: int) -> dict[str, Costs]:
    return session.once(f"costs {queries}", lambda: {XTRIE: Costs(), OURS: Costs()}, measured=True)


def _measure_one(session: Session, queries: int, routers: int) -> None:
    """The cost of a router, by their number: in a filter-sharing cluster, and as a leaf."""
    filters, documents, namespaces = absolute(session, queries), messages(session), namespaces_of(schemas_of(session))
    costs, size = costs_of(session, queries), len(filters) / routers
    if routers == 1:
        session.note(f"messages: {len(documents)}, {tags_of(documents):.0f} tags each on average")
        for row in session.rows((XTRIE,), ["/_"], documents, namespaces=namespaces):
            costs[row["engine"]].read = row["us"]
    placement = FilterSharing(routers, namespaces=namespaces)
    placement.add_many(as_table(filters))
    filters_by_shard: dict[int, list[str]] = {}
    for number, text in enumerate(filters):
        filters_by_shard.setdefault(placement.holders(str(number))[0], []).append(text)
    shards = [filters_by_shard[shard] for shard in sorted(filters_by_shard)[:SHARDS]]
    rows = [row for shard in shards for row in session.rows((XTRIE,), shard, documents, namespaces=namespaces)]
    for engine, cost in costs.items():
        own_rows = pick(rows, engine=engine)
        cost.part[size] = sum(row["us"] for row in own_rows) / len(own_rows)
    if routers >= LEAVES_MIN:
        _measure_leaves(session, filters, documents, size)


def _measure_leaves(session: Session, filters: Sequence[str], documents: Sequence[bytes], size: float) -> None:
    """A leaf of each type, with the messages of that type."""
    namespaces, costs = namespaces_of(schemas_of(session)), costs_of(session, len(filters))
    by_root: dict[str, list[bytes]] = {}
    for document in documents:
        by_root.setdefault(root_name(document) or "", []).append(document)
    totals = dict.fromkeys(costs, 0.0)
    roots = session.once(f"roots {len(filters)}", lambda: [root_of(text) for text in filters])
    for root, own_documents in by_root.items():
        leaf = leaf_filters(filters, roots, root, max(1, round(size)))
        several = own_documents * -(
            -len(documents) // len(own_documents)
        )  # a call has its price, whatever the number of messages
        for row in session.rows((XTRIE,), leaf, several, namespaces=namespaces):
            totals[row["engine"]] += row["us"] * len(own_documents)
    for engine, total in totals.items():
        costs[engine].leaf[size] = total / len(documents)


def leaf_filters(filters: Sequence[str], roots: Sequence[str], root: str, size: int) -> list[str]:
    """The filters of a leaf for messages of one root: those of that root, and others only if there are too few."""
    own = [text for text, its in zip(filters, roots, strict=True) if its == root]
    others = [text for text, its in zip(filters, roots, strict=True) if its != root]
    return (own + others)[:size]


def _top_us(session: Session) -> float:
    """To read a root tag without parsing the rest."""
    documents = messages(session)
    rounds = max(1, 1_000 // len(documents))
    pass_seconds = [clock(lambda: [root_name(text) for _ in range(rounds) for text in documents]).cpu for _ in range(3)]
    return min(pass_seconds) / rounds / len(documents) * 1e6


def _top_of(session: Session) -> float:
    return session.once("top", lambda: _top_us(session), measured=True)


def _model(session: Session, queries: int, router_counts: Sequence[int]) -> list[Row]:
    top = _top_of(session)
    costs = costs_of(session, queries)
    curves: dict[str, tuple[Cost, Cost, float]] = {
        engine: (cost.whole(), cost.leaves(), cost.read) for engine, cost in costs.items()
    }
    curves[PAPER] = (router_model.paper_cost, router_model.paper_cost, router_model.paper_cost(0))
    filters = len(absolute(session, queries))
    rows: list[Row] = []
    for engine, (whole, leaf, read) in curves.items():
        for routers in sorted({*router_counts, *(count for count in CLUSTERS if count < max(router_counts))}):
            data_sharing = router_model.data_sharing(routers, filters, whole)
            filter_sharing = router_model.filter_sharing(routers, filters, whole)
            rows.append(table_row(filters, engine, DATA, 1, routers, data_sharing, read, top))
            rows.append(table_row(filters, engine, FILTER, routers, routers, filter_sharing, read, top))
            for fan_out in FAN_OUTS:
                tree = router_model.hierarchical(routers, filters, leaf, top_us=top, fan_out=fan_out)
                if tree is not None:
                    rows.append(table_row(filters, engine, HIERARCHICAL, fan_out, routers, tree, read, top))
    return rows


def table_row(
    filters: int,
    engine: str,
    strategy: str,
    fan_out: float,
    routers: int,
    performance: Performance,
    read: float,
    top: float,
    **more: Any,
) -> Row:
    """The performance of a cluster as columns of the table; `more` are columns that the model does not have."""
    return {
        "queries": filters,
        "engine": engine,
        "source": "model",
        "strategy": strategy,
        "fan_out": float(fan_out),
        "routers": routers,
        "leaves": performance.leaves,
        "us": performance.router_us,
        "expected_us": performance.router_us,
        "speed": performance.speed,
        "latency_us": performance.latency_us,
        "read_us": read,
        "top_us": top,
        "net_speed": 0.0,
        "needed": float(fan_out),
        "cores": 0,
        "load": 0.0,
        **more,
    }


def _measure_placement(session: Session, queries: int) -> list[Row]:
    """The fan-out and the hottest leaf of our own hierarchical placement, on messages that it has not seen."""
    filters, documents, namespaces = absolute(session, queries), messages(session), namespaces_of(schemas_of(session))
    leaves = PLACED_ROUTERS - router_model.ABOVE_MIN
    session.say(f"placing {len(filters):,} filters on {leaves} leaves")
    learning_documents = draw_documents(schemas_of(session), len(documents), MESSAGE_BYTES, LEVELS, session.seed + 1)
    placement, index = (
        Hierarchical(leaves, documents=learning_documents, namespaces=namespaces),
        Index(namespaces=namespaces),
    )
    for holder in (placement, index):
        holder.add_many(as_table(filters))
    report = report_on(placement, index, documents)
    session.note(f"our placement: {report.describe()}")
    top = _top_of(session)
    rows = []
    for engine, cost in costs_of(session, queries).items():
        each = cost.leaves()(len(filters) / leaves)
        speed = leaves / (report.fan_out * report.load_balance * each) * 1e6
        performance = Performance(speed, top + each, each, leaves)
        labels = (len(filters), engine, PLACED, report.fan_out, PLACED_ROUTERS)
        leaves_needed = report.fan_out * (1 - report.false_forwards)
        rows.append(table_row(*labels, performance, cost.read, top, needed=leaves_needed))
    return rows


def _measure_executors(session: Session, queries: int) -> list[Row]:
    """Real runs on executors. Spark's own part is what remains of a run with our engine."""
    from treecast.errors import PipelineError
    from treecast.spark.session import check

    filters, documents, namespaces = absolute(session, queries), messages(session), namespaces_of(schemas_of(session))
    session.say(f"{executors.count()} executors")
    machine = executors.machine_now()
    try:
        check()
        runs = executors.on_executors(Inputs(filters, documents, namespaces), (OURS, XTRIE), EXECUTOR_MESSAGES)
    except (PipelineError, RuntimeError) as error:
        session.note(f"left out: real runs on executors of Spark, which failed: {str(error).splitlines()[0]}")
        return []
    costs = costs_of(session, queries)
    rows = []
    for own_run, xtrie_run in zip(runs[::2], runs[1::2], strict=True):
        for run in (own_run, xtrie_run):
            if run.wrong:
                session.problems.append(
                    f"{run.engine}, {run.strategy} on {run.executors} executors finds other matches than one index in "
                    f"{run.wrong} of {len(documents)} messages"
                )
        rows.append(_executed_row(session, len(filters), costs, own_run, xtrie_run, machine))
    return rows


def _executed_row(
    session: Session,
    filters: int,
    costs: Mapping[str, Costs],
    own_run: executors.Run,
    xtrie_run: executors.Run,
    machine: executors.Machine,
) -> Row:
    """Wall-clock throughput, of the whole run and without Spark's own part; the cost of a message in CPU time."""
    own, theory = (_one_costs(costs[engine], own_run, filters) for engine in (OURS, XTRIE))
    spark_cpu = max(0.0, own_run.cpu_us - own * own_run.fan_out)
    spark_wall = max(0.0, own_run.wall_us - own * own_run.fan_out / own_run.executors)
    session.note(
        f"{own_run.strategy} on {own_run.executors} executors: of a message Spark itself takes about {spark_cpu:,.0f} "
        f"µs of CPU and {spark_wall:,.0f} µs of wall-clock time; fan-out {own_run.fan_out:.2f}"
    )
    each = max(xtrie_run.cpu_us - spark_cpu, 1e-3) / xtrie_run.fan_out
    net = xtrie_run.wall_us - spark_wall
    return table_row(
        *(filters, XTRIE, xtrie_run.strategy, xtrie_run.fan_out, xtrie_run.executors),
        Performance(1e6 / xtrie_run.wall_us, each, each, xtrie_run.executors),
        costs[XTRIE].read,
        _top_of(session),
        source="executors",
        expected_us=theory,
        net_speed=1e6 / net if net >= TOLD_MIN * xtrie_run.wall_us else 0.0,
        cores=machine.cores,
        load=machine.load,
    )


def _one_costs(cost: Costs, run: executors.Run, filters: int) -> float:
    """The modelled cost of a message for one executor that it reaches."""
    if run.strategy == DATA:
        return cost.whole()(filters)
    return (cost.leaves() if run.strategy == HIERARCHICAL else cost.whole())(filters / run.executors)


def panels(rows: Sequence[Row]) -> list[Panel]:
    """A panel for each part of the figure, then those that the paper lacks: other costs, and the real runs."""
    most = max(row["queries"] for row in rows)
    rows = pick(rows, queries=most)
    model_rows = pick(rows, engine=XTRIE, source="model")
    tree = {"strategy": HIERARCHICAL, "fan_out": 1.0}
    all_panels = [
        _panel("7a  Throughput", SPEED, [_series(model_rows, name, "speed", strategy=name) for name in (DATA, FILTER)]),
        _panel(
            "7b  Latency",
            "µs",
            [
                *(_series(model_rows, name, "latency_us", strategy=name) for name in (DATA, FILTER)),
                _series(model_rows, "hierarchical", "latency_us", **tree),
            ],
        ),
    ]
    for title, engine in (("XTrie", XTRIE), ("our engine", OURS), ("the paper's costs", PAPER)):
        model = pick(rows, engine=engine, source="model")
        series = [_series(model, name, "speed", strategy=name) for name in (DATA, FILTER)]
        series += [
            _series(model, f"hierarchical, f = {fan_out}", "speed", strategy=HIERARCHICAL, fan_out=float(fan_out))
            for fan_out in FAN_OUTS
        ]
        all_panels.append(_panel(f"7c  Throughput by fan-out, {title}", SPEED, series))
    real = pick(rows, source="executors")
    if real:
        names = [f"{row['strategy']}, {row['routers']}" for row in real]
        figures = [
            Series("wall clock", names, [row["speed"] for row in real]),
            Series("without Spark's own part", names, [row["net_speed"] for row in real]),
        ]
        all_panels.append(Panel("Real runs on executors", "strategy, executors", SPEED, figures, kind="bars"))
    return all_panels


def _series(rows: Sequence[Row], name: str, y: str, **labels: object) -> Series:
    points = sorted((row["routers"], row[y]) for row in pick(rows, **labels))
    return Series(name, [x for x, _ in points], [figure for _, figure in points])


def _panel(title: str, y: str, series: Sequence[Series]) -> Panel:
    return Panel(title, "routers", y, [one for one in series if one.x], log_x=True, log_y=True)


EXPERIMENT = Experiment(
    name="xtrie-routers",
    paper="XTrie",
    section="Figure 7a-c",
    title="Clusters of routers: sharing data, sharing filters, hierarchies",
    found="With 200,000 expressions the throughput of data-sharing scales linearly with the routers, that of "
    "filter-sharing increases more gradually to a maximum of 170 messages a second, the cost of parsing. The latency "
    "of data-sharing does not improve; that of filter-sharing decreases in proportion to the expressions of a router. "
    "The hierarchical strategy, with at least 20 routers for intermediate filtering, quickly achieves better "
    "throughput than the others; fan-out 1 scales best, and data-sharing is preferable for fan-outs above 5.",
    parameters="absolute single-path expressions over ten document types, 10 % * and //; messages of about 100 tags; "
    "µs/doc is what a message costs a router, measured; the rest is the model, but for the runs on executors, whose "
    "messages/s are in wall-clock time, Spark included",
    columns=(
        *("queries", "engine", "source", "strategy", "fan_out", "routers", "leaves", "us", "speed", "latency_us"),
        *("read_us", "top_us", "expected_us", "net_speed", "needed", "cores", "load"),
    ),
    full=Sizes(
        (200_000,), 100, values=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000), passes=5, cell_seconds=1.0, runs=RUNS
    ),
    quick=Sizes((4_000,), 20, values=(1, 2, 5, 10, 20, 50, 100, 200), passes=2, cell_seconds=0.2),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
