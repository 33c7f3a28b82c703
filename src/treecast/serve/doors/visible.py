"""What a token may see of a broker, and the subscriptions that it may have.

For a token with a prefix, other subscriptions do not exist: they are not listed, not counted, and not compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from treecast.overlay.broker.rows import SubscriptionRow
from treecast.overlay.broker.tail import Tail
from treecast.serve.access.access import Access
from treecast.serve.access.gate import Gate
from treecast.serve.access.refusals import AccessRefusedError, not_allowed
from treecast.serve.connection import steady_ms
from treecast.serve.doors.calls import Call
from treecast.serve.doors.problems import DoorError
from treecast.serve.doors.routes import Route
from treecast.serve.hooks.hook_error import no_hook
from treecast.serve.selective.refusals import no_document, subscription_id


def unknown_subscription(id: str) -> DoorError:
    """The answer for an id that nobody has, and for one that the token may not see."""
    return DoorError(f"no subscription has the id {id!r}", code="TC412")


def unknown_source(id: str) -> DoorError:
    return DoorError(f"no source is called {id!r}", code="TC410")


def unknown_letter(number: int) -> DoorError:
    return DoorError(f"there is no dead letter {number}", code="TC416")


def let_in(gate: Gate, call: Call, route: Route) -> None:
    """Find out who asks, and whether they may, as far as method and path say. Raises AccessRefusedError, DoorError."""
    # A page of another site may settle deliveries with a ticket: its own server has given it one.
    gate.check_site(call.scope["headers"], is_change=route.method != "GET" or (route.settles and gate.is_open))
    ticket = call.text_parameter("ticket") if "ticket" in route.parameters else ""
    if ticket and not call.has_authorization():
        call.access = gate.admit_ticket(ticket)
    else:
        call.access = gate.admit(call.authorization())
    check_route(call.access, route, call.parameter)


def check_route(access: Access, route: Route, id: str) -> None:
    """Whether a request may be made, as far as its method and path say."""
    access.check_page(route.scopes)
    if route.names == "subscription":
        if route.method == "PUT":  # whether it exists makes no difference
            if not access.allows_subscription(id):
                raise not_allowed()
        else:
            check_subscription(access, id, is_looking=route.method == "GET")
    elif route.names == "hook":
        check_hook(access, id, route.method)
    elif route.names == "selective":
        check_selective(access, id, route)
    elif route.names == "source":
        if route.method == "GET":
            if not access.sees_source(id):
                raise unknown_source(id)
        else:
            access.check_source(id)


def check_subscription(access: Access, id: str, *, is_looking: bool = False) -> None:
    """To receive from it or to change it; or only to look at it."""
    if not access.sees_subscription(id):
        raise unknown_subscription(id)
    if not is_looking and not access.allows_subscription(id):
        raise not_allowed()


def check_hook(access: Access, id: str, method: str) -> None:
    """Hooks are named as subscriptions are: a token with a prefix has those whose ids begin with it."""
    if method != "PUT" and not access.sees_subscription(id):
        raise no_hook(id)
    if method != "GET" and not access.allows_subscription(id):
        raise not_allowed()


def check_selective(access: Access, id: str, route: Route) -> None:
    """Publishers of a document need its name as a source; members a prefix that is part of it, or of which it is: which
    one of its members they are, the page finds out."""
    if "subscribe" in route.scopes:
        begin = subscription_id(id)
        prefixes = ("",) if access.is_admin else access.scopes.prefixes
        if not any(one.startswith(begin) or begin.startswith(one) for one in prefixes):
            raise not_allowed()
    elif route.method != "GET":
        access.check_source(id)
    elif not access.sees_source(id):
        raise no_document(id)


def visible_subscriptions(tail: Tail, access: Access, after: str, count: int) -> list[tuple[str, SubscriptionRow]]:
    """By their ids, from the next one on."""
    rows: list[tuple[str, SubscriptionRow]] = []
    for prefix in access.visible_prefixes:
        if len(rows) < count:
            rows += tail.subscriptions(after, count - len(rows), prefix)
    return rows


@contextmanager
def adding_subscriptions(access: Access, tail: Tail, count: int, count_ms: int) -> Iterator[None]:
    """Around a request that adds so many: they count at once, and if it fails they do not.

    Raises AccessRefusedError TC605 if the token may not have so many.
    """
    limit = access.limits.subscriptions_max
    if not limit or not count:
        yield
        return
    now = steady_ms()
    # Few rows are read: no more than the limit, and then not for a while.
    if access.subscriptions is None or now - access.counted_ms > count_ms:
        access.subscriptions = sum(tail.count_subscriptions(prefix, limit) for prefix in access.scopes.prefixes)
        access.counted_ms = now
    if access.subscriptions + count > limit:
        hint = "remove one first"
        raise AccessRefusedError(f"the token may have {limit} subscriptions", code="TC605", hint=hint)
    access.subscriptions += count
    try:
        yield
    except BaseException:
        access.subscriptions -= count
        raise
