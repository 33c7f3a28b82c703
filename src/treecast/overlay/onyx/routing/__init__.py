"""The query plane of the broker network: what lies behind a link, said in a routing query, and kept up to date.

    map_subscription(subscription)   its routing query: absolute linear paths that a matching document holds
    RoutingTable                     who wants which documents of a root; what that comes to for the parent
    Summary                          the few conjunctions that cover many: what a table tells its parent
    RoutingQuery, Delta              what travels

    >>> from treecast.model import Subscription
    >>> table = RoutingTable()
    >>> wanted = map_subscription(Subscription("s", '/nitf[head/pubdata/@edition.area="SF"]'))
    >>> print(table.update("broker 5", wanted).added)
    /nitf/head/pubdata[@edition.area="SF"]
    >>> table.route([b'<nitf><head><pubdata edition.area="SF"/></head></nitf>'])
    [('broker 5',)]

Everything here is plain computation: no messages, no I/O, no clock, and the same answers in every process. Routing may
let through too much, never too little. See docs/guide/routing.md.
"""

from treecast.overlay.onyx.routing.mapping import map_subscription
from treecast.overlay.onyx.routing.routing_query import Delta, RoutingQuery
from treecast.overlay.onyx.routing.settings import RoutingSettings
from treecast.overlay.onyx.routing.summary import Summary
from treecast.overlay.onyx.routing.table import LOCAL, RoutingTable

__all__ = ["LOCAL", "Delta", "RoutingQuery", "RoutingSettings", "RoutingTable", "Summary", "map_subscription"]
