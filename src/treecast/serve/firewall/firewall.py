"""The firewall of a service: the rules in force, the back ends they name, and health checks while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from treecast.serve.connection import steady_ms
from treecast.serve.firewall.backend import Backend
from treecast.serve.firewall.dispatcher import Dispatcher
from treecast.serve.firewall.forms import BackendStatus, FirewallAnswer, RuleStatus
from treecast.serve.firewall.forwarding import Forwarder
from treecast.serve.firewall.rules import Rules
from treecast.serve.firewall.rules_file import RulesError, read_rules
from treecast.serve.firewall.settings import FirewallSettings

OUTCOMES = ("dispatched", "failed", "invalid", "unknown_source", "unwanted", "refused")


def load_rules(path: str, settings: FirewallSettings, before: Rules | None = None) -> Rules:
    """Raises RulesError, with all mistakes of the file, then with all of its queries."""
    form = read_rules(path, settings)
    return Rules(form, settings, Path(path).name, before.backends if before is not None else None)


class Firewall(Collector):
    """Made before the service starts, so that wrong rules end it: raises RulesError."""

    def __init__(
        self,
        path: str,
        log: structlog.typing.FilteringBoundLogger,
        settings: FirewallSettings | None = None,
    ) -> None:
        self.settings = settings = settings or FirewallSettings()
        self.rules = load_rules(path, settings)
        self._path = path
        self._log = log
        self._forwarder = Forwarder(settings)
        self.dispatcher = Dispatcher(self._forwarder, settings)
        self.counts = dict.fromkeys(OUTCOMES, 0)
        self._checks: dict[Backend, asyncio.Task[None]] = {}

    async def start(self) -> None:
        await self._forwarder.open()
        self._start_checks()

    async def close(self) -> None:
        for task in self._checks.values():
            task.cancel()
        await self._forwarder.close()

    def reload(self) -> None:
        """Read the rules again. If they are wrong, those in force stay: raises RulesError.

        Documents that are under way go on by the rules with which they began.
        """
        self.rules = load_rules(self._path, self.settings, self.rules)
        self._start_checks()
        self._log.info("the rules of the firewall were read again", rules=len(self.rules.rules))

    def look(self) -> None:
        """`reload`, for a signal."""
        try:
            self.reload()
        except RulesError as error:
            self._log.error("the rules of the firewall are as before", error=str(error))

    # --- health checks ------------------------------------------------------------------------------------------------

    def _start_checks(self) -> None:
        """For each back end that has one; those that are gone are not looked at any more."""
        current = {backend for backend in self.rules.backends.values() if backend.check_url is not None}
        for backend in self._checks.keys() - current:
            self._checks.pop(backend).cancel()
        for backend in current - self._checks.keys():
            self._checks[backend] = asyncio.create_task(self._check(backend))

    async def _check(self, backend: Backend) -> None:
        assert backend.check_url is not None
        while True:
            is_well = await self._forwarder.check(backend.check_url, self.rules.context)
            before = backend.health.state
            backend.health.note_check(is_well, steady_ms())
            if backend.health.state != before:
                self._log.warning("a back end has changed", backend=backend.name, state=backend.health.state)
            await asyncio.sleep(self.settings.check_ms / 1000)

    # --- looking at it ------------------------------------------------------------------------------------------------

    def status(self) -> FirewallAnswer:
        form = self.rules.form
        return FirewallAnswer(
            [
                RuleStatus(
                    *(rule.name, rule.form.query, rule.form.policy, rule.form.priority, rule.form.then),
                    *(rule.form.backends, rule.documents, rule.failed),
                )
                for rule in self.rules.rules
            ],
            [
                BackendStatus(
                    *(one.name, str(one.url), one.health.state, one.outstanding, one.waiting),
                    *(one.sent, one.failed, one.last_error),
                )
                for one in self.rules.backends.values()
            ],
            [one.path for one in form.path],
            form.unwanted,
            form.store,
            dict(self.counts),
        )

    def collect(self) -> Iterator[Metric]:
        """For Prometheus."""
        documents = CounterMetricFamily(
            "treecast_firewall_documents", "Documents by what became of them", labels=["outcome"]
        )
        for outcome, count in self.counts.items():
            documents.add_metric([outcome], count)
        requests = CounterMetricFamily("treecast_backend_requests", "Requests to a back end", labels=["backend"])
        failures = CounterMetricFamily("treecast_backend_failures", "Those that failed", labels=["backend"])
        seconds = CounterMetricFamily("treecast_backend_seconds", "What the others took", labels=["backend"])
        usable = GaugeMetricFamily("treecast_backend_up", "1 if it gets documents", labels=["backend"])
        outstanding = GaugeMetricFamily("treecast_backend_outstanding", "Requests without answer", labels=["backend"])
        for backend in self.rules.backends.values():
            for family, value in (
                (requests, backend.sent),
                (failures, backend.failed),
                (seconds, backend.answer_ms_total / 1000),
                (usable, int(backend.health.state == "up")),
                (outstanding, backend.outstanding),
            ):
                family.add_metric([backend.name], value)
        yield from (documents, requests, failures, seconds, usable, outstanding)
