"""The pages of the HTTP door: one table, from which requests are routed and the OpenAPI description is made.

A path may contain `{id}`, which takes everything up to the end or to what follows it: ids may contain slashes. An
action is written behind the id, `{id}:pull`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from treecast.serve.doors import forms
from treecast.serve.doors.problems import DoorError
from treecast.serve.firewall import forms as firewall_forms
from treecast.serve.hooks import forms as hooks
from treecast.serve.selective import forms as selective
from treecast.serve.websub.forms import HubForm

ID = "{id}"
NAMED = {
    f"/v1/subscriptions/{ID}": "subscription",
    f"/v1/topics/{ID}": "subscription",
    f"/v1/sources/{ID}": "source",
    f"/v1/hooks/{ID}": "hook",
    f"/v1/selective/{ID}": "selective",
}


class Route(msgspec.Struct, frozen=True):
    """One operation. `answers` has the type of the body by status; None is no body, or one that is no JSON."""

    method: str
    path: str
    name: str
    """Of the function that answers it, and of the operation."""
    summary: str
    answers: dict[int, Any]
    form: Any = None
    is_optional: bool = False
    """The body may be left out."""
    parameters: tuple[str, ...] = ()
    """In the query: see `PARAMETERS`."""
    required: tuple[str, ...] = ()
    """Those of them that have to be there."""
    headers: tuple[str, ...] = ()
    content: str = "application/json"
    """The type of the request's body, if there is a form; or of the answer, if that is no JSON."""
    other_contents: tuple[str, ...] = ()
    """Other types that it may have; what is in them, the guide says."""
    scopes: tuple[str, ...] = ()
    """Kinds of scopes, of which a token needs one (`serve/access/scopes.py`), or `PUBLIC`: every route says which."""
    settles: bool = False
    """Answering it settles deliveries: a GET that does so is a change too."""

    @property
    def names(self) -> str:
        """What the id in the path is the id of, if it decides who may ask."""
        return next((kind for start, kind in NAMED.items() if self.path.startswith(start)), "")


PARAMETERS = {
    "after": ("string", "The last one that is known: the answer begins after it."),
    "before": ("integer", "The number of the last one that is known: the answer goes on with the one before it."),
    "from_document": ("integer", "The first document to answer with."),
    "until_document": ("integer", "The last document to answer with."),
    "count": ("integer", "How many, at most."),
    "search": ("string", "Only those whose id or query contains this, in upper or lower case."),
    "group": ("string", "A group of members."),
    "member": ("string", "A member of the group."),
    "since": ("string", "The version of the view that is known; else 0, for everything."),
    "Range": ("string", "One range of bytes, as in HTTP: `bytes=0-999`."),
    "source": ("string", "The source that the documents belong to; else that of the header, else `default`."),
    "mode": (
        "string",
        "`add`, the default, refuses ids that exist; `replace` changes them. Others stay as they are either way.",
    ),
    "dry_run": ("string", "`true` only says what would happen."),
    "format": ("string", "`csv`, the default, `jsonl`, `parquet` or `tcx`."),
    "subscription": ("array", "The subscriptions to receive from: repeat it for each."),
    "last_event_id": ("string", "Where to go on, for those who cannot send the header `Last-Event-ID`."),
    "ticket": ("string", "Of `POST /v1/tickets`, for those who cannot send the header `Authorization`."),
    "Treecast-Document-Id": ("string", "The publisher's own id: a second document with it is dropped."),
    "Treecast-Correlation-Id": ("string", "Comes back with the answer, and goes to back ends; else a new one."),
    "SOAPAction": ("string", "Passed on to back ends."),
    "Treecast-Source": ("string", "The source that the documents belong to."),
    "Last-Event-ID": ("string", "The id of the last event that came: what follows it is sent."),
}
PAGE = ("after", "count")
RECENT = ("before", "count")
PUBLIC = ("public",)
"""Anybody may ask: it says nothing about what the broker has."""
PUBLISH = ("publish",)
SUBSCRIBE = ("subscribe",)
READ = ("read",)
ADMIN = ("admin",)
READ_SOURCES = ("publish", "read")
READ_SUBSCRIPTIONS = ("subscribe", "read")
CONNECT = ("publish", "subscribe")
_SOURCE = {"parameters": ("source",), "headers": ("Treecast-Source",)}
_FILES = ("application/x-ndjson", "application/vnd.apache.parquet", "application/vnd.treecast.index")
_SUBSCRIPTION = f"/v1/subscriptions/{ID}"
_HOOK = f"/v1/hooks/{ID}"
_SELECTIVE = f"/v1/selective/{ID}"
_MEMBER = ("group", "member")

ROUTES = (
    Route("GET", "/healthz", "health", "Whether the process lives", {200: None}, content="text/plain", scopes=PUBLIC),
    Route(
        *("GET", "/readyz", "readiness", "Whether requests are served"),
        {200: None, 503: None},
        content="text/plain",
        scopes=PUBLIC,
    ),
    Route("GET", "/metrics", "metrics", "Counts for Prometheus", {200: None}, content="text/plain", scopes=READ),
    Route("GET", "/openapi.json", "openapi", "This description", {200: dict[str, Any]}, scopes=PUBLIC),
    Route("GET", "/", "console", "The console, for people", {200: None}, content="text/html", scopes=PUBLIC),
    Route(
        *("GET", f"/console/{ID}", "console_file", "A file of the console"), {200: None}, content="*/*", scopes=PUBLIC
    ),
    Route("GET", "/v1/status", "status", "Rates, lag, queues and sizes", {200: forms.StatusAnswer}, scopes=READ),
    Route(
        *("GET", "/v1/documents", "list_documents", "The last documents"),
        {200: forms.DocumentsAnswer},
        parameters=RECENT,
        scopes=READ,
    ),
    Route(
        *("GET", f"/v1/documents/{ID}", "get_document", "The bytes of a document"),
        {200: None, 206: None},
        headers=("Range",),
        content="application/xml",
        scopes=READ,
    ),
    Route(
        *("GET", f"/v1/documents/{ID}/matches", "list_matches", "Who got a document, and why"),
        {200: forms.MatchesAnswer},
        parameters=PAGE,
        scopes=READ,
    ),
    Route(
        *("GET", "/v1/refusals", "list_refusals", "Documents that were refused"),
        {200: forms.RefusalsAnswer},
        parameters=RECENT,
        scopes=READ,
    ),
    Route(
        *("POST", "/v1/documents", "publish", "Publish a document"),
        {201: forms.DocumentAnswer, 200: forms.DocumentAnswer},
        bytes,
        parameters=("source",),
        headers=("Treecast-Document-Id", "Treecast-Source"),
        content="application/xml",
        other_contents=("application/octet-stream",),
        scopes=PUBLISH,
    ),
    Route(
        *(
            "POST",
            "/v1/documents:batch",
            "publish_batch",
            "Publish documents, one in each line or part",
        ),
        {200: forms.BatchAnswer},
        forms.BatchLine,
        is_optional=True,
        content="application/x-ndjson",
        other_contents=("multipart/mixed",),
        scopes=PUBLISH,
        **_SOURCE,  # type: ignore[arg-type]
    ),
    Route(
        *("GET", "/v1/documents:read", "read_documents", "Documents in their order, one in each line"),
        {200: None},
        parameters=("from_document", "until_document", "count"),
        content="application/x-ndjson",
        scopes=READ,
    ),
    Route(
        *("POST", "/v1/dispatch", "dispatch", "Send a document on to back ends, by the rules of the firewall"),
        dict.fromkeys((200, 201, 202, 207), firewall_forms.DispatchAnswer),
        bytes,
        parameters=("source",),
        headers=("Treecast-Document-Id", "Treecast-Source", "Treecast-Correlation-Id", "SOAPAction"),
        content="application/xml",
        scopes=PUBLISH,
    ),
    Route(
        *("GET", "/v1/firewall", "get_firewall", "Rules, back ends and their health"),
        {200: firewall_forms.FirewallAnswer},
        scopes=READ,
    ),
    Route(
        *("POST", "/v1/firewall:reload", "reload_firewall", "Read the rules again"),
        {200: firewall_forms.FirewallAnswer},
        scopes=ADMIN,
    ),
    Route(
        *("GET", "/v1/sources", "list_sources", "Sources of documents"),
        {200: forms.SourcesAnswer},
        parameters=PAGE,
        scopes=READ_SOURCES,
    ),
    Route(
        *("PUT", f"/v1/sources/{ID}", "put_source", "Add or change a source"),
        {201: forms.SourceAnswer, 200: forms.SourceAnswer},
        forms.SourceForm,
        is_optional=True,
        scopes=PUBLISH,
    ),
    Route("GET", f"/v1/sources/{ID}", "get_source", "A source", {200: forms.SourceAnswer}, scopes=READ_SOURCES),
    Route("DELETE", f"/v1/sources/{ID}", "delete_source", "Remove a source", {204: None}, scopes=PUBLISH),
    Route(
        *("GET", "/v1/subscriptions", "list_subscriptions", "Subscriptions"),
        {200: forms.SubscriptionsAnswer},
        parameters=(*PAGE, "search"),
        scopes=READ_SUBSCRIPTIONS,
    ),
    Route(
        *("PUT", _SUBSCRIPTION, "put_subscription", "Add or change a subscription"),
        {201: forms.SubscriptionAnswer, 200: forms.SubscriptionAnswer},
        forms.SubscriptionForm,
        scopes=SUBSCRIBE,
    ),
    Route(
        *("GET", _SUBSCRIPTION, "get_subscription", "A subscription"),
        {200: forms.SubscriptionAnswer},
        scopes=READ_SUBSCRIPTIONS,
    ),
    Route(
        *("DELETE", _SUBSCRIPTION, "delete_subscription", "Remove a subscription, and what it waits for"),
        {204: None},
        scopes=SUBSCRIBE,
    ),
    Route(
        *("POST", "/v1/subscriptions:import", "import_subscriptions", "Add many subscriptions, or change them"),
        {200: forms.ImportAnswer},
        bytes,
        parameters=("mode", "dry_run"),
        content="text/csv",
        other_contents=_FILES,
        scopes=SUBSCRIBE,
    ),
    Route(
        *("GET", "/v1/subscriptions:export", "export_subscriptions", "All subscriptions, as a file"),
        {200: None},
        parameters=("format",),
        content="text/csv",
        other_contents=_FILES,
        scopes=READ_SUBSCRIPTIONS,
    ),
    Route(
        *("POST", "/v1/subscriptions:try", "try_subscription", "Try a query on recent documents"),
        {200: forms.TryAnswer},
        forms.TryForm,
        scopes=SUBSCRIBE,
    ),
    Route(
        *("POST", f"{_SUBSCRIPTION}:pull", "pull", "Take deliveries"),
        {200: forms.PullAnswer},
        forms.PullForm,
        is_optional=True,
        scopes=SUBSCRIBE,
    ),
    Route(
        *("POST", f"{_SUBSCRIPTION}:ack", "acknowledge", "Deliveries are dealt with"),
        {200: forms.SettleAnswer},
        forms.SettleForm,
        scopes=SUBSCRIBE,
    ),
    Route(
        *("POST", f"{_SUBSCRIPTION}:fail", "fail", "Deliveries are to be tried again"),
        {200: forms.SettleAnswer},
        forms.SettleForm,
        scopes=SUBSCRIBE,
    ),
    Route(
        *("POST", f"{_SUBSCRIPTION}:pause", "pause", "Deliver nothing for now"),
        {200: forms.SubscriptionAnswer},
        scopes=SUBSCRIBE,
    ),
    Route(
        "POST", f"{_SUBSCRIPTION}:resume", "resume", "Deliver again", {200: forms.SubscriptionAnswer}, scopes=SUBSCRIBE
    ),
    Route(
        *("POST", f"{_SUBSCRIPTION}:replay", "replay", "Deliver again what is kept"),
        {200: forms.ReplayAnswer},
        forms.ReplayForm,
        is_optional=True,
        scopes=SUBSCRIBE,
    ),
    Route(
        *("GET", "/v1/events", "events", "Deliveries as server-sent events"),
        {200: None},
        parameters=("subscription", "last_event_id", "ticket"),
        required=("subscription",),
        headers=("Last-Event-ID",),
        content="text/event-stream",
        scopes=SUBSCRIBE,
        settles=True,
    ),
    Route(
        *("GET", "/v1/socket", "socket", "Deliveries over a WebSocket: the guide says what is said on it"),
        {101: None},
        parameters=("subscription", "ticket"),
        scopes=CONNECT,
    ),
    Route(
        *("POST", "/v1/tickets", "create_ticket", "A ticket, for one stream or socket of a web page"),
        {201: forms.TicketAnswer},
        scopes=CONNECT,
    ),
    Route(
        *("GET", "/v1/letters", "letters", "Dead letters"),
        {200: forms.LettersAnswer},
        parameters=PAGE,
        scopes=READ_SUBSCRIPTIONS,
    ),
    Route(
        *("POST", "/v1/letters:redeliver", "redeliver", "Deliver dead letters again"),
        {204: None},
        forms.RedeliverForm,
        scopes=SUBSCRIBE,
    ),
    Route(
        *("GET", "/v1/hooks", "list_hooks", "Web hooks"),
        {200: hooks.HooksAnswer},
        parameters=PAGE,
        scopes=READ_SUBSCRIPTIONS,
    ),
    Route(
        *("PUT", _HOOK, "put_hook", "Add or change a web hook, and enable it"),
        {201: hooks.HookAnswer, 200: hooks.HookAnswer},
        hooks.HookForm,
        scopes=SUBSCRIBE,
    ),
    Route("GET", _HOOK, "get_hook", "A web hook", {200: hooks.HookAnswer}, scopes=READ_SUBSCRIPTIONS),
    Route("DELETE", _HOOK, "delete_hook", "Remove a web hook; its subscriptions stay", {204: None}, scopes=SUBSCRIBE),
    Route(
        *("POST", f"{_HOOK}:rotate", "rotate_hook", "Sign with a new secret"),
        {200: hooks.HookAnswer},
        hooks.RotateForm,
        scopes=SUBSCRIBE,
    ),
    Route(
        *("POST", f"{_HOOK}:resume", "resume_hook", "Enable a web hook again"),
        {200: hooks.HookAnswer},
        scopes=SUBSCRIBE,
    ),
    Route(
        *("POST", f"{_HOOK}:redeliver", "redeliver_hook", "Send its dead letters again"),
        {200: hooks.HookRedeliverAnswer},
        hooks.HookRedeliverForm,
        scopes=SUBSCRIBE,
    ),
    Route(
        *("GET", f"{_HOOK}/attempts", "list_attempts", "Its last attempts"),
        {200: hooks.AttemptsAnswer},
        scopes=READ_SUBSCRIPTIONS,
    ),
    Route(
        *("GET", "/v1/selective", "list_selective", "Documents of which each group sees other subtrees"),
        {200: selective.SelectiveListAnswer},
        scopes=READ_SOURCES,
    ),
    Route(
        *("PUT", _SELECTIVE, "put_selective", "Publish a version of such a document"),
        {201: selective.SelectiveAnswer, 200: selective.SelectiveAnswer},
        bytes,
        content="application/xml",
        other_contents=("application/octet-stream",),
        scopes=PUBLISH,
    ),
    Route(
        *("GET", _SELECTIVE, "get_selective", "Groups, members, versions and sizes"),
        {200: selective.SelectiveAnswer},
        scopes=READ_SOURCES,
    ),
    Route(
        *("POST", f"{_SELECTIVE}:grant", "grant_selective", "Say what a group may see, and who is a member"),
        {200: selective.SelectiveAnswer},
        selective.GrantForm,
        scopes=PUBLISH,
    ),
    Route(
        *("POST", f"{_SELECTIVE}:revoke", "revoke_selective", "Take members out of a group"),
        {200: selective.SelectiveAnswer},
        selective.RevokeForm,
        scopes=PUBLISH,
    ),
    Route(
        *("GET", f"{_SELECTIVE}/shapes", "shapes_selective", "Elements, and which groups see them"),
        {200: selective.ShapesAnswer},
        scopes=READ_SOURCES,
    ),
    Route(
        *("POST", f"{_SELECTIVE}:subscribe", "subscribe_selective", "The keys of a member, and subtrees of its view"),
        {200: selective.MemberAnswer},
        selective.SubtreesForm,
        scopes=SUBSCRIBE,
    ),
    Route(
        *("GET", f"{_SELECTIVE}/view", "view_selective", "What a member sees, a delivery for each fragment"),
        {200: selective.ViewAnswer},
        parameters=_MEMBER,
        required=_MEMBER,
        scopes=SUBSCRIBE,
    ),
    Route(
        *("GET", f"{_SELECTIVE}/updates", "updates_selective", "What has changed in it, as a sealed package"),
        {200: selective.ViewAnswer},
        parameters=(*_MEMBER, "since"),
        required=_MEMBER,
        scopes=SUBSCRIBE,
    ),
    Route(
        *("GET", f"/v1/topics/{ID}", "topic", "The last payload of a WebSub topic, and its hub"),
        {200: None, 204: None},
        content="application/xml",
        scopes=SUBSCRIBE,
    ),
    Route(
        *("POST", "/v1/hub", "hub", "Subscribe to a WebSub topic, or unsubscribe"),
        {202: None},
        HubForm,
        content="application/x-www-form-urlencoded",
        scopes=SUBSCRIBE,
    ),
)


class Router:
    """Finds the route of a request."""

    def __init__(self, routes: tuple[Route, ...] = ROUTES) -> None:
        self._exact = {(route.method, route.path): route for route in routes if ID not in route.path}
        # Those with the longest ends first: an action before the page of an id that looks like it.
        patterns = [(*route.path.partition(ID)[::2], route) for route in routes if ID in route.path]
        self._patterns = sorted(patterns, key=lambda pattern: -len(pattern[1]))

    def find(self, method: str, path: str) -> tuple[Route, str]:
        """The route, and the id in the path. Raises DoorError: TC430 no such page, TC431 no such method."""
        route_method = "GET" if method == "HEAD" else method
        route = self._exact.get((route_method, path))
        if route is not None:
            return route, ""
        allowed_methods = [one for one, exact in self._exact if exact == path]
        nearest = ""
        for before, after, other in self._patterns:
            if path.startswith(before) and path.endswith(after) and len(path) > len(before) + len(after):
                if f"{ID}/" in nearest and other.path != nearest:
                    continue  # a page below an id is no id: only actions may be part of one
                if other.method == route_method:
                    return other, path[len(before) : len(path) - len(after)]
                nearest = nearest or other.path
                if other.path == nearest:  # not those of an id that looks like an action
                    allowed_methods.append(other.method)
        if allowed_methods:
            methods = ", ".join(sorted({*allowed_methods, *(["HEAD"] if "GET" in allowed_methods else [])}))
            raise DoorError(f"this page has no {method[:20]}", code="TC431", hint=f"it has {methods}", allow=methods)
        raise DoorError(
            f"there is no page {path[:200]!r}", code="TC430", hint="/openapi.json lists those that there are"
        )
