"""All web hooks of a service: they are kept as records of the broker, and run from its start to its end."""

from __future__ import annotations

import asyncio
from collections import Counter as Multiset

import msgspec
from prometheus_client import Counter

from treecast.errors import TreecastError
from treecast.overlay.client import Answered
from treecast.overlay.messages import RemoveRecord, SetRecord
from treecast.serve.connection import now_ms, steady_ms
from treecast.serve.doors.problems import DoorError
from treecast.serve.hooks.endpoint import Endpoint
from treecast.serve.hooks.hook_error import no_hook
from treecast.serve.hooks.rows import HOOKS, STATES, HookRow, SecretRow, StateRow, decode_hook, decode_state, encode
from treecast.serve.hooks.sending import Sending


class Hooks:
    """`start` once the broker runs, `close` before it stops. The client is theirs alone."""

    def __init__(self, sending: Sending) -> None:
        self._client, self._sender, self._settings, self._random, self._log, metrics = sending
        self._endpoints: dict[str, Endpoint] = {}
        self._hook_by_subscription: dict[str, str] = {}  # by subscription: its hook
        self._changing: Multiset[str] = Multiset()  # hooks whose new settings are being stored
        self._attempts = Counter(
            "treecast_hook_attempts", "Attempts of web hooks by their result", ["result"], registry=metrics.registry
        )
        self._stored_ms = self._joined_ms = 0
        self._client.on_tick.append(self._tick)

    def start(self) -> None:
        """Go on with what is kept."""
        broker = self._client.expect_broker()
        for id, data in broker.records(HOOKS):
            state = broker.record(STATES, id)
            self._add(id, decode_hook(data), decode_state(state) if state else StateRow())

    async def close(self) -> None:
        await asyncio.gather(*(endpoint.close() for endpoint in self._endpoints.values()))
        answers = self._store_states()
        if answers:
            await asyncio.wait(answers, timeout=self._settings.stop_ms / 1000)

    def _add(self, id: str, row: HookRow, state: StateRow) -> None:
        self._own(id, row.subscriptions)
        endpoint = self._endpoints[id] = Endpoint(
            id,
            row,
            state,
            self._client,
            self._sender,
            self._settings,
            self._random,
            self._on_disabled,
            lambda result: self._attempts.labels(result).inc(),
        )
        endpoint.open()

    # --- what their owners want ---------------------------------------------------------------------------------------

    def get(self, id: str) -> Endpoint:
        """Raises DoorError TC440."""
        endpoint = self._endpoints.get(id)
        if endpoint is None:
            raise no_hook(id)
        return endpoint

    def find(self, id: str) -> Endpoint | None:
        return self._endpoints.get(id)

    def owns(self, subscription: str) -> bool:
        """A hook receives this subscription, or will when it is enabled."""
        return subscription in self._hook_by_subscription

    def ids(self, after: str) -> list[str]:
        return sorted(id for id in self._endpoints if id > after)

    async def put(self, id: str, row: HookRow) -> None:
        """Add a hook or change it; it is enabled. Raises DoorError: TC413 too many, TC443."""
        if id not in self._endpoints and len(self._endpoints) >= self._settings.hooks_max:
            raise DoorError(f"there are {self._settings.hooks_max} hooks already", code="TC413")
        self._check_subscriptions(id, row.subscriptions)
        self._changing[id] += 1
        try:
            await self._client.request(SetRecord(HOOKS, id, encode(row)))
        finally:
            self._changing -= Multiset((id,))
        if (endpoint := self._endpoints.get(id)) is not None:
            self._own(id, row.subscriptions)
            endpoint.change(row)
        else:
            self._add(id, row, StateRow())

    def _check_subscriptions(self, id: str, subscriptions: list[str]) -> None:
        """Two receivers of a subscription divide its deliveries, which is not what owners of hooks expect."""
        for subscription in subscriptions:
            if self._hook_by_subscription.get(subscription, id) != id:
                hint = "add another subscription with the same query: each hook gets all of its own"
                raise DoorError(f"the subscription {subscription!r} belongs to another hook", code="TC443", hint=hint)

    def _own(self, id: str, subscriptions: list[str]) -> None:
        for subscription in [one for one, owner in self._hook_by_subscription.items() if owner == id]:
            del self._hook_by_subscription[subscription]
        self._hook_by_subscription |= dict.fromkeys(subscriptions, id)

    async def rotate(self, id: str, secret: bytes, overlap_ms: int) -> None:
        """Sign with a new secret, and with those that there are for a while."""
        now = now_ms()
        row = self.get(id).row
        until = now + overlap_ms
        old_secrets = [
            SecretRow(old.secret, min(old.until_ms or until, until))
            for old in row.secrets
            if overlap_ms and (not old.until_ms or old.until_ms > now) and old.secret != secret
        ]
        secrets = [SecretRow(secret), *old_secrets][: self._settings.secrets_max]
        row = msgspec.structs.replace(row, secrets=secrets)
        await self._client.request(SetRecord(HOOKS, id, encode(row)))
        self.get(id).row = row  # the next attempt signs with them: nothing else changes

    async def resume(self, id: str) -> None:
        await self.put(id, msgspec.structs.replace(self.get(id).row, disabled="", disabled_ms=0))

    async def remove(self, id: str) -> None:
        """Its subscriptions stay, and so does what they wait for."""
        endpoint = self.get(id)
        await self._client.request(RemoveRecord(HOOKS, id))
        self._endpoints.pop(id, None)
        self._own(id, [])
        endpoint.has_news = False
        await endpoint.close()
        await self._client.request(RemoveRecord(STATES, id))

    # --- time ---------------------------------------------------------------------------------------------------------

    def _on_disabled(self, endpoint: Endpoint) -> None:
        self._log.warning("a hook is disabled", hook=endpoint.id, reason=endpoint.row.disabled)
        if endpoint.id in self._changing:
            return  # it is about to be enabled: what is being stored must be the last word
        self._send(SetRecord(HOOKS, endpoint.id, encode(endpoint.row)))

    def _tick(self, _: int) -> None:
        now, settings = steady_ms(), self._settings
        if now - self._joined_ms >= settings.join_ms:
            self._joined_ms = now
            for endpoint in self._endpoints.values():
                endpoint.join()
        if now - self._stored_ms >= settings.store_ms:
            self._stored_ms = now
            self._store_states()

    def _store_states(self) -> list[asyncio.Future[Answered]]:
        answers = []
        for endpoint in self._endpoints.values():
            if endpoint.has_news:
                answer = self._send(SetRecord(STATES, endpoint.id, encode(endpoint.state())))
                if answer is None:
                    break
                endpoint.has_news = False
                answers.append(answer)
        return answers

    def _send(self, command: SetRecord) -> asyncio.Future[Answered] | None:
        try:
            return self._client.send(command)
        except TreecastError as error:  # too much waits
            self._log.warning("a record of a hook is not stored", code=error.code)
            return None
