"""What the experiments on ONYX's operators share: queries behind links, documents, plans and their timed runs.

Queries are paths with a predicate and, every other one, a nested path. The broker beside them matches in two stages, as
a broker of a network does: its routing table says which links take a document, its index which of its own queries do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treecast.experiments.inputs import DOCUMENT_BYTES, news_schema, query_settings
from treecast.experiments.session import Session, as_table
from treecast.experiments.yfilter_predicates import NUMBERS, with_numbers
from treecast.index import Index
from treecast.model import Subscription
from treecast.overlay.onyx.routing.mapping import map_subscription
from treecast.overlay.onyx.routing.table import RoutingTable
from treecast.workload import DocumentSettings, generate_documents, generate_queries

LINKS = 8
TWO_STAGES = "two indexes"


def link_name(number: int) -> str:
    return f"link{number}"


def draw_queries(session: Session, count: int, selectivity: float) -> list[str]:
    """A smaller set is a prefix of a larger one."""
    most = LINKS * max(session.sizes.queries)

    def draw() -> list[str]:
        session.note("queries: paths of up to 6 steps with a predicate on attributes, half of them with a nested path")
        settings = query_settings(
            predicates=1.0, nested=0.5, nested_depth_max=2, selectivity=selectivity, values=NUMBERS, wildcard=0.1
        )
        return list(generate_queries(with_numbers(news_schema(session)), most, settings, seed=session.seed))

    return session.once(f"queries {selectivity}", draw)[:count]


def draw_documents(session: Session) -> list[bytes]:
    """Documents whose attributes are numbers, as the predicates ask for."""
    settings = DocumentSettings(bytes_target=DOCUMENT_BYTES, depth_max=8, attributes=0.5, values=NUMBERS)

    def draw() -> list[bytes]:
        count = session.sizes.documents
        session.note(f"documents: {count} drawn from the DTD, about {DOCUMENT_BYTES / 1000:.1f} KB each")
        return list(generate_documents(with_numbers(news_schema(session)), count, settings, seed=session.seed))

    return session.once("numbered documents", draw)


def routing_table(routes: Sequence[tuple[str, str]]) -> RoutingTable:
    """The routing table of a network broker, for (link, query)."""
    table = RoutingTable()
    conjunctions: dict[str, list[Any]] = {}
    for link, query in routes:
        conjunctions.setdefault(link, []).extend(map_subscription(Subscription("q", query)).conjunctions)
    for link, rows in conjunctions.items():
        table.update_many(link, rows, [])
    return table


def index_of(queries: Sequence[str]) -> Index:
    """The ids are the numbers of the queries."""
    index = Index()
    index.add_many(as_table(queries))
    return index


def check_links(
    session: Session,
    routes: Sequence[tuple[str, str]],
    documents: Sequence[bytes],
    links: Sequence[Sequence[str]],
    who: str,
) -> None:
    """A problem where a document is kept from a link that has a query for it."""
    index = index_of([query for _, query in routes])
    for number, document in enumerate(documents):
        links_wanted = {routes[int(id)][0] for id in index.match(document)}
        if not links_wanted <= set(links[number]):
            session.problems.append(
                f"{who} keeps document {number} from {sorted(links_wanted - set(links[number]))[0]}"
            )
            return
