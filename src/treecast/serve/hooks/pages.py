"""The pages of web hooks: where deliveries are sent, what became of them, and how to send them again."""

from __future__ import annotations

import re

from treecast.overlay.messages import Redeliver
from treecast.serve.access.access import Access
from treecast.serve.connection import now_ms
from treecast.serve.doors.calls import Call, Reply, json_reply
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.problems import DoorError
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.visible import check_subscription, unknown_subscription
from treecast.serve.hooks.forms import (
    AttemptsAnswer,
    HookForm,
    HookRedeliverAnswer,
    HookRedeliverForm,
    HooksAnswer,
    RotateForm,
    attempt_answer,
    hook_answer,
)
from treecast.serve.hooks.hooks import Hooks
from treecast.serve.hooks.rows import HookRow, SecretRow
from treecast.serve.hooks.sender import Sender, check_url
from treecast.serve.hooks.signing import format_secret, make_secret, parse_secret

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class HookPages:
    """Hooks, for their owners."""

    def __init__(self, client: LocalClient, hooks: Hooks, sender: Sender, settings: DoorSettings) -> None:
        self._client = client
        self._hooks = hooks
        self._sender = sender
        self._door = settings
        self._settings = settings.hooks

    async def put_hook(self, call: Call) -> Reply:
        id = call.parameter
        if not _ID.fullmatch(id):
            hint = "up to 100 letters, digits, dots, hyphens and underscores"
            raise DoorError(f"{id[:200]!r} cannot be the id of a hook", code="TC414", hint=hint)
        form = await call.form(HookForm)
        self._check(call.access, form)
        url = check_url(form.url, self._settings.url_chars_max)
        await self._sender.check_host(url)
        before = self._hooks.find(id)
        new_secret = b""
        if form.secret:
            secrets = [SecretRow(parse_secret(form.secret))]
        elif before is not None:
            secrets = before.row.secrets
        else:
            new_secret = make_secret()
            secrets = [SecretRow(new_secret)]
        row = HookRow(
            str(url),
            list(dict.fromkeys(form.subscriptions)),
            secrets,
            form.format,
            form.ordered,
            form.concurrency,
            form.rate_max,
            form.attempts_max,
            before.row.created_ms if before else now_ms(),
        )
        await self._hooks.put(id, row)
        answer = hook_answer(self._hooks.get(id), now_ms(), format_secret(new_secret) if new_secret else "")
        return json_reply(200 if before else 201, answer)

    def _check(self, access: Access, form: HookForm) -> None:
        settings = self._settings
        for name, value, most in (
            ("subscriptions", len(form.subscriptions), settings.subscriptions_per_hook_max),
            ("concurrency", form.concurrency, settings.concurrency_max),
            ("rate_max", form.rate_max, settings.rate_max),
            ("attempts_max", form.attempts_max, settings.attempts_max),
        ):
            if value > most:
                raise DoorError(f"the body cannot be used: {name} is at most {most}", code="TC434")
        broker = self._client.expect_broker()
        for id in form.subscriptions:
            check_subscription(access, id)
            if broker.tail.subscription(id) is None:
                raise unknown_subscription(id)

    async def get_hook(self, call: Call) -> Reply:
        return json_reply(200, hook_answer(self._hooks.get(call.parameter), now_ms()))

    async def delete_hook(self, call: Call) -> Reply:
        await self._hooks.remove(call.parameter)
        return Reply(204)

    async def list_hooks(self, call: Call) -> Reply:
        count = call.number_parameter("count", 100, self._door.page_rows_max)
        ids = [id for id in self._hooks.ids(call.text_parameter("after")) if call.access.sees_subscription(id)]
        more = ids[count - 1] if len(ids) > count else ""
        now = now_ms()
        return json_reply(200, HooksAnswer([hook_answer(self._hooks.get(id), now) for id in ids[:count]], more))

    async def rotate_hook(self, call: Call) -> Reply:
        """The answer has the new secret if it was made here."""
        form = await call.form(RotateForm, optional=True)
        overlap_ms = self._settings.overlap_ms if form.overlap_ms < 0 else form.overlap_ms
        if overlap_ms > self._settings.overlap_ms_max:
            raise DoorError(
                f"the body cannot be used: overlap_ms is at most {self._settings.overlap_ms_max}", code="TC434"
            )
        secret = parse_secret(form.secret) if form.secret else make_secret()
        await self._hooks.rotate(call.parameter, secret, overlap_ms)
        endpoint = self._hooks.get(call.parameter)
        return json_reply(200, hook_answer(endpoint, now_ms(), "" if form.secret else format_secret(secret)))

    async def resume_hook(self, call: Call) -> Reply:
        await self._hooks.resume(call.parameter)
        return await self.get_hook(call)

    async def list_attempts(self, call: Call) -> Reply:
        attempts = self._hooks.get(call.parameter).state().attempts
        return json_reply(200, AttemptsAnswer([attempt_answer(row) for row in reversed(attempts)]))

    async def redeliver_hook(self, call: Call) -> Reply:
        """Dead letters of others are not its business: they are as unknown as those that do not exist."""
        form = await call.form(HookRedeliverForm, optional=True)
        own = self._letters(self._hooks.get(call.parameter).row.subscriptions)
        if unknown := set(form.letters) - own:
            raise DoorError(f"there is no dead letter {min(unknown)} of this hook", code="TC416")
        letters = sorted(form.letters or own)
        if letters:
            await self._client.request(Redeliver(letters))
        return json_reply(200, HookRedeliverAnswer(len(letters)))

    def _letters(self, subscriptions: list[str]) -> set[int]:
        """Of these subscriptions, the oldest first, as many as one request may redeliver."""
        tail = self._client.expect_broker().tail
        letters: set[int] = set()
        for id in subscriptions:
            letters.update(tail.letters_of(id, self._settings.letters_max - len(letters)))
        return letters
