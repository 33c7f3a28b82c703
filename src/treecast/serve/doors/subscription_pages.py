"""The pages of subscribers: subscriptions, deliveries as events or pulled, dead letters."""

from __future__ import annotations

import asyncio
import re

from treecast.overlay.broker.inspection import ROWS_MAX, Row, letter_fields
from treecast.overlay.broker.rows import SubscriptionRow, letter_key
from treecast.overlay.broker.tail import Tail
from treecast.overlay.messages import Pause, Redeliver, Replay, Unsubscribe
from treecast.serve.access.access import Access
from treecast.serve.access.refusals import no_token
from treecast.serve.access.settings import AccessSettings
from treecast.serve.doors.calls import Call, Reply, json_reply, problem_reply
from treecast.serve.doors.envelopes import timestamp
from treecast.serve.doors.event_replies import EVENT_HEADERS, EVENT_STREAM, close_when_gone, read_event_request
from treecast.serve.doors.events import Feed, Stream
from treecast.serve.doors.forms import (
    Letter,
    LettersAnswer,
    PullAnswer,
    PullForm,
    RedeliverForm,
    ReplayAnswer,
    ReplayForm,
    SettleAnswer,
    SettleForm,
    SubscriptionForm,
    SubscriptionsAnswer,
    TryForm,
    subscription_answer,
)
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.problems import DoorError, problem_of_error
from treecast.serve.doors.pulling import Pulls
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.trying import try_query
from treecast.serve.doors.visible import (
    adding_subscriptions,
    check_subscription,
    unknown_letter,
    unknown_subscription,
    visible_subscriptions,
)

NUMBER = re.compile(r"[0-9]{1,18}")


def search_rows(
    tail: Tail, access: Access, after: str, count: int, text: str, looked_at_max: int
) -> tuple[list[tuple[str, SubscriptionRow]], str]:
    """Those that contain a text, and where to go on, if there may be more: only so many are looked at in one go."""
    matching_rows: list[tuple[str, SubscriptionRow]] = []
    rows = visible_subscriptions(tail, access, after, looked_at_max)
    for id, row in rows:
        if text in id.casefold() or text in row.query.casefold():
            matching_rows.append((id, row))
            if len(matching_rows) == count:
                return matching_rows, id if id != rows[-1][0] or len(rows) == looked_at_max else ""
    return matching_rows, rows[-1][0] if len(rows) == looked_at_max else ""


class SubscriptionPages:
    """Subscriptions and what they get."""

    def __init__(self, client: LocalClient, settings: DoorSettings, access: AccessSettings) -> None:
        self._client = client
        self._settings = settings
        self._access = access
        self.feed = Feed(client, settings)
        self._pulls = Pulls(client, settings)

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def _row(self, id: str) -> SubscriptionRow:
        row = self._client.expect_broker().tail.subscription(id)
        if row is None:
            raise unknown_subscription(id)
        return row

    async def put_subscription(self, call: Call) -> Reply:
        form = await call.form(SubscriptionForm)
        tail = self._client.expect_broker().tail
        is_new = tail.subscription(call.parameter) is None
        with adding_subscriptions(call.access, tail, int(is_new), self._access.count_ms):
            await self._client.request(form.command(call.parameter))
        return json_reply(201 if is_new else 200, subscription_answer(call.parameter, self._row(call.parameter)))

    async def get_subscription(self, call: Call) -> Reply:
        return json_reply(200, subscription_answer(call.parameter, self._row(call.parameter)))

    async def delete_subscription(self, call: Call) -> Reply:
        await self._client.request(Unsubscribe(call.parameter))
        self._pulls.forget(call.parameter)
        return Reply(204)

    async def list_subscriptions(self, call: Call) -> Reply:
        count = call.number_parameter("count", 100, self._settings.page_rows_max)
        after, search = call.text_parameter("after"), call.text_parameter("search").casefold()
        tail = self._client.expect_broker().tail
        if search:
            looked_at_max = self._settings.search_rows_max
            rows, more = search_rows(tail, call.access, after, count, search, looked_at_max)
        else:
            rows = visible_subscriptions(tail, call.access, after, count + 1)
            more = rows[count - 1][0] if len(rows) > count else ""
        return json_reply(200, SubscriptionsAnswer([subscription_answer(*row) for row in rows[:count]], more))

    async def try_subscription(self, call: Call) -> Reply:
        form = await call.form(TryForm)
        return json_reply(200, await try_query(form, self._client.expect_broker(), self._settings, call.access))

    async def pause(self, call: Call) -> Reply:
        await self._client.request(Pause(call.parameter, True))
        return await self.get_subscription(call)

    async def resume(self, call: Call) -> Reply:
        await self._client.request(Pause(call.parameter, False))
        return await self.get_subscription(call)

    async def replay(self, call: Call) -> Reply:
        form = await call.form(ReplayForm, optional=True)
        self.feed.replaying(call.parameter)
        answer = await self._client.request(Replay(call.parameter, form.from_document, form.from_ms))
        return json_reply(200, ReplayAnswer(answer.documents[0]))

    # --- deliveries ---------------------------------------------------------------------------------------------------

    async def pull(self, call: Call) -> Reply:
        form = await call.form(PullForm, optional=True)
        wait_ms = min(form.wait_ms, self._settings.pull_wait_ms_max)
        envelopes = await self._pulls.pull(call.parameter, form.max, wait_ms)
        if call.access.is_ended:  # while it waited: what came is for others
            await self._pulls.settle(call.parameter, [envelope.delivery for envelope in envelopes], is_failed=True)
            raise no_token()
        return json_reply(200, PullAnswer(envelopes))

    async def acknowledge(self, call: Call) -> Reply:
        return await self._settle(call, is_failed=False)

    async def fail(self, call: Call) -> Reply:
        return await self._settle(call, is_failed=True)

    async def _settle(self, call: Call, *, is_failed: bool) -> Reply:
        form = await call.form(SettleForm)
        ids = list(dict.fromkeys(form.deliveries))
        unknown = await self._pulls.settle(call.parameter, ids, is_failed)
        return json_reply(200, SettleAnswer(len(ids) - len(unknown), unknown))

    async def events(self, call: Call) -> Reply | None:
        """Answers by itself, as long as the other side listens."""
        if call.scope["method"] == "HEAD":
            return Reply(200, b"", EVENT_STREAM)
        ids, position = read_event_request(call)
        await self._client.current_broker()
        stream = self.feed.open(ids, position)
        try:
            with call.access.holding(stream.close):
                await self._send_events(call, stream)
        finally:
            self.feed.close(stream)
        return None

    async def _send_events(self, call: Call, stream: Stream) -> None:
        async def write(data: bytes) -> None:
            await call.send({"type": "http.response.body", "body": data, "more_body": True})

        connection = call.scope.get("connection")  # that of `http_server.py`
        watching = None
        if connection is None:
            watching = asyncio.create_task(close_when_gone(call, stream.close))
        else:
            stream.connection, connection.on_lost = connection, stream.close
        try:
            await call.send({"type": "http.response.start", "status": 200, "headers": EVENT_HEADERS})
            await self.feed.run(stream, write)
            await call.send({"type": "http.response.body", "body": b""})
        finally:
            if watching is not None:
                watching.cancel()

    async def socket(self, call: Call) -> Reply:
        """For those who come without a handshake: the others are taken over by `web_socket.py`."""
        error = DoorError("this page is a WebSocket", code="TC434", hint="send its handshake: RFC 6455", status=426)
        reply = problem_reply(problem_of_error(error))
        reply.headers = (("upgrade", "websocket"),)
        return reply

    # --- dead letters -------------------------------------------------------------------------------------------------

    async def letters(self, call: Call) -> Reply:
        count = call.number_parameter("count", 100, self._settings.page_rows_max)
        after = call.text_parameter("after")
        if call.access.sees_everything:
            rows, more = await self._all_letters(after, count)
        else:
            rows, more = self._own_letters(call.access, after, count)
        letters = [
            Letter(
                int(row["key"]),
                str(row["subscription"]),
                int(row["document"]),
                str(row["reason"]),
                int(row["attempts"]),
                int(row["bytes"]),
                timestamp(int(row["died_ms"])),
            )
            for row in rows
        ]
        return json_reply(200, LettersAnswer(letters, more))

    async def _all_letters(self, after: str, count: int) -> tuple[list[Row], str]:
        """Up to so many, by number, and the letter after which to go on if there are more."""
        if after and not NUMBER.fullmatch(after):
            raise DoorError("the parameter after is the number of a letter", code="TC434")
        most = min(ROWS_MAX, count)
        rows = await self._client.inspect("letters", after, most)
        last = str(rows[-1]["key"]) if len(rows) == most else ""
        return rows, last if last and await self._client.inspect("letters", last, 1) else ""

    def _own_letters(self, access: Access, after: str, count: int) -> tuple[list[Row], str]:
        """The same of the subscriptions that a token may see, by subscription and number. Those of others are not
        looked at, so the time tells nothing of them."""
        number, _, id = after.partition("@")
        if after and not (NUMBER.fullmatch(number) and id):
            raise DoorError("the parameter after is the field next of an answer", code="TC434")
        tail = self._client.expect_broker().tail
        begin = letter_key(id, int(number)) if after else ""
        rows: list[Row] = []
        for prefix in access.visible_prefixes:
            letters = tail.letters(prefix, begin, count + 1 - len(rows))
            rows += [letter_fields(number, letter) for number, letter in letters]
        last = rows[count - 1] if len(rows) > count else None
        return rows[:count], f"{last['key']}@{last['subscription']}" if last else ""

    async def redeliver(self, call: Call) -> Reply:
        form = await call.form(RedeliverForm)
        if not call.access.is_admin:
            tail = self._client.expect_broker().tail
            for number in form.letters:
                id = tail.letter_subscription(number)
                if id is None or not call.access.sees_subscription(id):
                    raise unknown_letter(number)
                check_subscription(call.access, id)
        await self._client.request(Redeliver(list(form.letters)))
        return Reply(204)
