"""The HTTP door of a worker: the routes of any door, answered by the pages of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Sized

import msgspec
import structlog

from treecast.serve.access.gate import Gate
from treecast.serve.doors.door import Door
from treecast.serve.doors.openapi import describe
from treecast.serve.doors.routes import ROUTES, Route
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.fleet.pages import FleetDocumentPages, FleetSubscriptionPages, not_offered
from treecast.serve.metrics import Metrics


class FleetDoor(Door):
    """An ASGI application."""

    def __init__(
        self,
        pages: tuple[FleetDocumentPages, FleetSubscriptionPages],
        is_ready: Callable[[], bool],
        streams: Sized,
        metrics: Metrics,
        log: structlog.typing.FilteringBoundLogger,
        version: str,
        settings: DoorSettings,
        gate: Gate,
    ) -> None:
        super().__init__(log, settings, gate, metrics, is_ready, {"streams": streams})
        self._pages = pages
        open_routes = tuple(route for route in ROUTES if self._page(route) is not None)
        self._description = msgspec.json.encode(describe(version, open_routes))

    def _not_offered(self, route: Route) -> Exception:
        return not_offered(f"{route.method} {route.path}")
