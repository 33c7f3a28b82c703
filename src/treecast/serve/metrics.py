"""What a broker counts, for Prometheus. Each has a registry of its own.

>>> metrics = Metrics()
>>> metrics.documents.inc(3)
>>> [line for line in metrics.text().decode().splitlines() if line.startswith("treecast_documents_total")]
['treecast_documents_total 3.0']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from treecast.overlay.messages import Deliveries, Publish, Request, item_count

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """`stats` gives the peer's own counts, when somebody asks for the metrics."""

    def __init__(self, stats: Callable[[], Mapping[str, int]] | None = None) -> None:
        self.registry = registry = CollectorRegistry()
        self.stats = stats
        self.ready = Gauge("treecast_ready", "1 if requests are served", registry=registry)
        self.connections = Gauge("treecast_connections", "Open connections", registry=registry)
        self.connections_closed = Counter(
            "treecast_connections_closed", "Connections that were closed by this side", ["reason"], registry=registry
        )
        self.received = Counter("treecast_messages_received", "Messages that arrived", ["kind"], registry=registry)
        self.received_bytes = Counter("treecast_received_bytes", "Bytes that arrived", registry=registry)
        self.sent = Counter("treecast_messages_sent", "Messages that were sent", registry=registry)
        self.sent_bytes = Counter("treecast_sent_bytes", "Bytes that were sent", registry=registry)
        self.dropped = Counter(
            "treecast_messages_dropped", "Messages for clients that are away or do not read", registry=registry
        )
        self.documents = Counter("treecast_documents", "Documents that arrived", registry=registry)
        self.deliveries = Counter("treecast_deliveries", "Deliveries that were sent", registry=registry)
        sizes = (1, 10, 100, 1_000, 10_000, 100_000)
        self.group_changes = Histogram(
            "treecast_group_changes", "Changes that were stored at once", buckets=sizes, registry=registry
        )
        times = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
        self.group_seconds = Histogram(
            "treecast_group_seconds", "Time to store a group durably", buckets=times, registry=registry
        )
        self.waiting = Gauge("treecast_effects_waiting", "Messages that wait for the disk", registry=registry)
        self.holds = Counter("treecast_holds", "How often reading stopped, as too much waited", registry=registry)
        self.failures = Counter("treecast_failures", "How often the peer had to be made anew", registry=registry)
        registry.register(_PeerStats(self))
        self._kinds: dict[str, Any] = {}  # the counters of `received`, by kind

    def count_received(self, message: Any) -> None:
        """Count a message, by what it asks for."""
        what = message.command if isinstance(message, Request) else message
        kind = type(what).__name__
        counter = self._kinds.get(kind)
        if counter is None:
            counter = self._kinds[kind] = self.received.labels(kind)
        counter.inc()
        if isinstance(what, Publish):
            self.documents.inc(len(what.documents))

    def count_sent(self, message: Any) -> None:
        self.sent.inc()
        if isinstance(message, Deliveries):
            self.deliveries.inc(item_count(message))

    def text(self) -> bytes:
        """In the format that Prometheus reads."""
        return generate_latest(self.registry)


class _PeerStats(Collector):
    """The counts of the peer itself, as they are now."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, value in (self._metrics.stats() if self._metrics.stats else {}).items():
            yield GaugeMetricFamily(f"treecast_peer_{name}", "A count of the peer", value=value)
