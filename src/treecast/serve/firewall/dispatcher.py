"""Carries rules out: a document goes to all back ends of a rule, to one of them, or to the first that works.

A document that a back end may have received is sent to another one only if the rule says `retry_sent`: servers behind
may not notice that they do something twice. Where nothing was sent, another one is always tried.
"""

from __future__ import annotations

import asyncio
import ssl

import msgspec

from treecast.serve.connection import steady_ms
from treecast.serve.doors.problems import DoorError
from treecast.serve.firewall.backend import Backend, busy
from treecast.serve.firewall.forwarding import Forwarder, Outcome, Request
from treecast.serve.firewall.rules import Rule
from treecast.serve.firewall.settings import FirewallSettings


class RuleOutcome(msgspec.Struct, frozen=True):
    """What became of a document by one rule: an outcome for each back end that was tried, the last one last."""

    rule: Rule
    outcomes: list[Outcome]

    @property
    def is_success(self) -> bool:
        """By at least one, where there are several."""
        return any(not outcome.error for outcome in self.outcomes)


class Dispatcher:
    """Sends documents on, a bounded number at a time."""

    def __init__(self, forwarder: Forwarder, settings: FirewallSettings) -> None:
        self._forwarder = forwarder
        self._settings = settings
        self.under_way = self._bytes = 0

    async def dispatch(self, rules: list[Rule], request: Request, context: ssl.SSLContext) -> list[RuleOutcome]:
        """By each of these rules, at the same time. Raises DoorError TC451 if too much is under way."""
        settings, size = self._settings, len(request.body)
        if self.under_way >= settings.dispatches_max or self._bytes + size > settings.dispatches_bytes_max:
            raise busy()
        self.under_way += 1
        self._bytes += size
        try:
            return list(await asyncio.gather(*(self._carry_out(rule, request, context) for rule in rules)))
        finally:
            self.under_way -= 1
            self._bytes -= size

    async def _carry_out(self, rule: Rule, request: Request, context: ssl.SSLContext) -> RuleOutcome:
        rule.documents += 1
        if rule.form.policy == "all":
            outcomes = list(await asyncio.gather(*(self._to_each(one, request, context) for one in rule.backends)))
        else:
            outcomes = await self._to_one(rule, request, context)
        outcome = RuleOutcome(rule, outcomes)
        rule.failed += not outcome.is_success
        return outcome

    async def _to_each(self, backend: Backend, request: Request, context: ssl.SSLContext) -> Outcome:
        if not backend.health.is_usable(steady_ms()):
            return Outcome(backend.name, error="is down", is_sent=False)
        return await self._try(backend, request, context)

    async def _to_one(self, rule: Rule, request: Request, context: ssl.SSLContext) -> list[Outcome]:
        """To the best one that is usable; then to others, while that is safe."""
        outcomes: list[Outcome] = []
        tried_names: set[str] = set()
        while len(outcomes) < self._settings.attempts_max:
            backend = self._choose(rule, tried_names)
            if backend is None:
                break
            tried_names.add(backend.name)
            outcomes.append(await self._try(backend, request, context))
            last = outcomes[-1]
            if not last.error or (last.is_sent and not rule.form.retry_sent):
                break
        return outcomes

    def _choose(self, rule: Rule, tried_names: set[str]) -> Backend | None:
        now = steady_ms()
        usable = [one for one in rule.backends if one.name not in tried_names and one.health.is_usable(now)]
        if not usable:
            return None
        if rule.form.policy == "first":
            return usable[0]
        rule.turns += 1
        if rule.form.balance == "turn":
            return usable[rule.turns % len(usable)]
        # Equally loaded ones take turns.
        return min(enumerate(usable), key=lambda pair: (pair[1].load, (pair[0] - rule.turns) % len(usable)))[1]

    async def _try(self, backend: Backend, request: Request, context: ssl.SSLContext) -> Outcome:
        try:
            async with backend.slot():
                if not backend.health.is_usable(steady_ms()):  # it went down while this one waited
                    return Outcome(backend.name, error="is down", is_sent=False)
                begin = backend.begin()
                try:
                    outcome = await self._forwarder.send(backend, request, context)
                except asyncio.CancelledError:
                    backend.health.note_abandonment(steady_ms())
                    raise
                if outcome.error:
                    backend.fail(outcome.error)
                else:
                    backend.succeed(begin)
                return outcome
        except DoorError:
            return Outcome(backend.name, error="has too much to do", is_sent=False)
