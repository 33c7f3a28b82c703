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
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from treecast.overlay.messages import Deliveries, Publish, Request, item_count

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Tally(Collector):
    """A counter that one thread counts with, without a lock. PERF: bench/network_cpu.py; each frame counts a dozen."""

    def __init__(self, name: str, text: str, *, registry: CollectorRegistry) -> None:
        self._family = name, text
        self.value = 0
        registry.register(self)

    def inc(self, count: int = 1) -> None:
        self.value += count

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(*self._family, value=self.value)


class _Received(Collector):
    """Messages that arrived, by what they ask for."""

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily("treecast_messages_received", "Messages that arrived", labels=["kind"])
        for kind, count in self.kinds.items():
            family.add_metric([kind], count)
        yield family


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
        self._received = _Received()
        registry.register(self._received)
        self.received_bytes = Tally("treecast_received_bytes", "Bytes that arrived", registry=registry)
        self.sent = Tally("treecast_messages_sent", "Messages that were sent", registry=registry)
        self.sent_bytes = Tally("treecast_sent_bytes", "Bytes that were sent", registry=registry)
        self.dropped = Counter(
            "treecast_messages_dropped", "Messages for clients that are away or do not read", registry=registry
        )
        self.documents = Tally("treecast_documents", "Documents that arrived", registry=registry)
        self.deliveries = Tally("treecast_deliveries", "Deliveries that were sent", registry=registry)
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

    def count_received(self, message: Any) -> None:
        """Count a message, by what it asks for."""
        what = message.command if isinstance(message, Request) else message
        kinds, kind = self._received.kinds, type(what).__name__
        kinds[kind] = kinds.get(kind, 0) + 1
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
