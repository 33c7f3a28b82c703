"""What a registry stores, as typed rows. All tables but `LOCAL` are copied to the other registry.

Rows are arrays in MessagePack: fields go by position, new ones to the end with a default.
"""

from __future__ import annotations

from treecast.overlay.broker.rows import CLIENTS, META, Row
from treecast.overlay.onyx.control_messages import CatalogEntry
from treecast.overlay.onyx.view import Location, View

LOCAL = "local"
"""`local["pair"]`: what a registry knows of itself."""
BROKERS, SOURCES, CHANGES = "brokers", "sources", "changes"
SUBSCRIBERS, PLACED, ROLES = "subscribers", "placed", "roles"

TEXT_TABLES = (META, BROKERS, SOURCES, SUBSCRIBERS, PLACED, ROLES, CLIENTS)
NUMBER_TABLES = (CHANGES,)
TABLES: dict[str, str | int] = {**dict.fromkeys(TEXT_TABLES, ""), **dict.fromkeys(NUMBER_TABLES, 0)}
"""The tables that are copied, in this order, each with what is below its first key."""


class PairRow(Row, frozen=True):
    """`local["pair"]`."""

    term: int = 0
    """The highest term of which this registry knows who is in charge."""
    is_primary: bool = False
    is_paired: bool = False
    """In charge: nothing is acknowledged before the other registry has it."""
    is_established: bool = False
    """In charge: most brokers have a view of this term."""
    log_term: int = 0
    """The term in which the last group was written here,"""
    number: int = 0
    """and its number."""
    is_complete: bool = False
    """What is stored is a whole store, and not a part of one."""
    may_stand: bool = False
    """Not in charge: all that was ever acknowledged is here, unless brokers say otherwise."""


class Counters(Row, frozen=True):
    """`meta["counters"]`: the last numbers that were given away."""

    ids: int = 0
    catalog: int = 0


class ViewRow(Row, frozen=True):
    """`meta["view"]`. `previous` are the brokers of the view before, as long as the other registry may not know this
    one; None: it does."""

    view: View
    previous: list[str] | None = None


class RelearningRow(Row, frozen=True):
    """`meta["relearnt"]`, of a registry that had lost what it knew."""

    version: int = 0
    """That of the catalog that brokers had;"""
    floor: int = 0
    """its own versions are above this one,"""
    ids: int = 0
    """and numbers that it has given away since above this one."""
    hosts: list[str] = []  # noqa: RUF012 (a field of a struct)
    """Brokers that have said which subscriptions they host."""
    roots: list[str] = []  # noqa: RUF012
    """Those that had a tree,"""
    at_ms: int = 0
    """at that time."""


class BrokerRow(Row, frozen=True):
    """`brokers[name]`: one that was ever part of the network."""

    number: int


class SourceRow(Row, frozen=True):
    """`sources[name]`, and `changes[version]` with the name as its value."""

    entry: CatalogEntry
    version: int
    location: Location = (0.0, 0.0)
    bytes_per_second: int = 0
    former_root: str = ""
    """The broker that was its root before,"""
    left_ms: int = 0
    """until then."""
    broker_version: int = 0
    """That of the catalog of the broker that said this, to a registry that had lost what it knew; 0: none did."""


class SubscriberRow(Row, frozen=True):
    """`subscribers[name]`."""

    number: int
    location: Location
    host: str


class PlacedRow(Row, frozen=True):
    """`placed[subscription]`."""

    number: int
    host: str
    location: Location
    query: str
    """Kept if queries decide about hosts."""
    namespaces: dict[str, str]


class RoleRow(Row, frozen=True):
    """`roles[broker]`: what was decided last about a broker with replicas."""

    term: int
    primary: str
    backup: str = ""
    served: int = 0
    """The last term in which its primary was heard to serve; 0: nobody ever was."""
    past: list[tuple[int, str, str]] = []  # noqa: RUF012 (a field of a struct)
    """Terms, each with its primary and its backup, less those whose primary has not served in them, and never will."""
    floor: int = 0
    """Terms up to this one are not listed any more."""
    is_stale: bool = False
    """The primary begins from an old state, because nothing better is left."""
