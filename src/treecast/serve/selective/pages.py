"""The pages of selective publishing: publish, grant, revoke, subscribe, read a view or what has changed in it.

Publishers need a token for a source with the name of the document; members one for subscriptions that begin with
`DOCUMENT/GROUP/MEMBER/`. Who may read everything sees who may see what. For all others a document, a group or a member
that they may not see does not exist (`check_selective` in `doors/visible.py` looks before anything is read).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import TypeVar

import msgspec

from treecast.selective.parcels import tree_name
from treecast.serve.access.refusals import not_allowed
from treecast.serve.doors.calls import Call, Reply, json_reply
from treecast.serve.doors.envelopes import CONTENT_TYPE, Envelope, timestamp
from treecast.serve.doors.problems import DoorError
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.selective.forms import (
    GrantForm,
    GroupStatus,
    MemberAnswer,
    RevokeForm,
    SelectiveAnswer,
    SelectiveListAnswer,
    ShapeAnswer,
    ShapesAnswer,
    SubtreesForm,
    ViewAnswer,
)
from treecast.serve.selective.publishers import Publishers
from treecast.serve.selective.refusals import subscription_id
from treecast.serve.selective.source_process import SourceNetwork

PACKAGE_TYPE = "application/vnd.treecast.package"
SHAPES_MAX = 5_000
"""Elements that people are shown."""
Result = TypeVar("Result")
NO_STORE = (("cache-control", "no-store"),)


class SelectivePages:
    """Documents of which each group may see other subtrees."""

    def __init__(self, publishers: Publishers, settings: DoorSettings, network: SourceNetwork) -> None:
        self._publishers = publishers
        self._settings = settings
        self._network = network

    async def _do(self, work: Callable[[], Result]) -> Result:
        """In a thread; then the network gets what has become of it."""
        try:
            return await asyncio.to_thread(work)
        finally:
            self._network.send()

    # -- publishers

    async def list_selective(self, call: Call) -> Reply:
        names = [name for name in self._publishers.names() if call.access.sees_source(name)]
        status = self._network.status()
        neighbours = sorted(status.get("neighbours", {}))
        elements_sent = status.get("elements_sent", 0)
        return json_reply(200, SelectiveListAnswer(names, self._network.address, neighbours, elements_sent))

    async def put_selective(self, call: Call) -> Reply:
        name = call.parameter
        call.access.check_rate()
        body = await call.body(call.access.document_bytes_max(self._settings.document_bytes_max))
        call.access.charge(1, len(body))
        is_first, changed_groups = await self._do(lambda: self._publishers.publish(name, body))
        return json_reply(201 if is_first else 200, await self._answer(name, changed_groups))

    async def get_selective(self, call: Call) -> Reply:
        return json_reply(200, await self._answer(call.parameter, []))

    async def grant_selective(self, call: Call) -> Reply:
        name = call.parameter
        form = await call.form(GrantForm)
        work = (name, form.group, form.include, form.exclude, form.namespaces, form.members)
        changed_groups = await self._do(lambda: self._publishers.grant(*work, allow_empty=form.allow_empty))
        return json_reply(200, await self._answer(name, changed_groups))

    async def revoke_selective(self, call: Call) -> Reply:
        name = call.parameter
        form = await call.form(RevokeForm)
        changed_groups = await self._do(lambda: self._publishers.revoke(name, form.group, form.members))
        return json_reply(200, await self._answer(name, changed_groups))

    async def _answer(self, name: str, changed_groups: list[str]) -> SelectiveAnswer:
        size, elements, states = await asyncio.to_thread(self._publishers.status, name)
        groups = [
            GroupStatus(
                group=state.group,
                include=list(state.policy.include),
                exclude=list(state.policy.exclude),
                allow_empty=state.policy.allow_empty,
                included=dict(state.effect.included),
                hidden=dict(state.effect.hidden),
                members=state.members,
                version=state.version,
                epoch=state.epoch,
                elements=state.effect.seen,
                bytes=state.bytes,
            )
            for state in states
        ]
        return SelectiveAnswer(name, size, elements, groups, changed_groups)

    async def shapes_selective(self, call: Call) -> Reply:
        shapes, is_cut = await asyncio.to_thread(self._publishers.shapes, call.parameter, SHAPES_MAX)
        return json_reply(200, ShapesAnswer(msgspec.convert(shapes, list[ShapeAnswer], from_attributes=True), is_cut))

    # -- members

    async def subscribe_selective(self, call: Call) -> Reply:
        name, form = call.parameter, await call.form(SubtreesForm)
        self._check_member(call, form.group, form.member)
        work = (name, form.group, form.member, form.paths, form.namespaces)
        fields = await self._do(lambda: self._publishers.subscribe(*work))
        edition = self._network.edition(tree_name(name, form.group))
        answer = msgspec.convert(msgspec.structs.replace(fields, edition=edition), MemberAnswer, from_attributes=True)
        return json_reply(200, answer, NO_STORE)

    async def view_selective(self, call: Call) -> Reply:
        group, member = self._member(call)
        version, time_ms, fragments = await asyncio.to_thread(self._publishers.view, call.parameter, group, member)
        id = subscription_id(call.parameter, group, member)
        deliveries = [
            Envelope(f"{id}:{version}:{number}", version, id, CONTENT_TYPE, fragment.decode(), timestamp(time_ms))
            for number, fragment in enumerate(fragments)
        ]
        return json_reply(200, ViewAnswer(version, deliveries), NO_STORE)

    async def updates_selective(self, call: Call) -> Reply:
        group, member = self._member(call)
        text = call.text_parameter("since") or "0"
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            raise DoorError("the parameter since is the version of a view", code="TC434")
        name, since = call.parameter, int(text)
        version, time_ms, data = await asyncio.to_thread(self._publishers.package, name, group, member, since)
        if not data:
            return json_reply(200, ViewAnswer(since, []), NO_STORE)
        id = subscription_id(name, group, member)
        payload = base64.b64encode(data).decode()
        envelope = Envelope(
            *(f"{id}:{since}:{version}", version, id, PACKAGE_TYPE, payload, timestamp(time_ms)), "base64"
        )
        return json_reply(200, ViewAnswer(version, [envelope]), NO_STORE)

    def _member(self, call: Call) -> tuple[str, str]:
        group, member = call.text_parameter("group"), call.text_parameter("member")
        if not group or not member:
            raise DoorError("the parameters group and member are missing", code="TC434")
        self._check_member(call, group, member)
        return group, member

    def _check_member(self, call: Call, group: str, member: str) -> None:
        if not call.access.allows_subscription(subscription_id(call.parameter, group, member)):
            raise not_allowed()
