"""The pages of the firewall: documents that are checked and sent on, and what it is doing."""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus

from treecast.durable import unused_name
from treecast.errors import TreecastError
from treecast.overlay.broker import Broker
from treecast.overlay.broker.refused import RequestError
from treecast.overlay.messages import NAME_CHARS_MAX, Document
from treecast.serve.connection import now_ms
from treecast.serve.doors.calls import INERT, Call, Reply, json_reply
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.problems import DoorError, Problem, problem_of_error
from treecast.serve.doors.publishing import Publisher
from treecast.serve.doors.refusals import Refusals
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.visible import unknown_source
from treecast.serve.firewall.backend import unavailable
from treecast.serve.firewall.dispatcher import RuleOutcome
from treecast.serve.firewall.firewall import Firewall
from treecast.serve.firewall.forms import BackendOutcome, DispatchAnswer, RuleAnswer
from treecast.serve.firewall.forwarding import CORRELATION, Outcome, Request, request_headers
from treecast.serve.firewall.rules import Rule, Rules

AT_ONCE_BYTES = 64 << 10
"""A larger document is matched and checked in a thread."""
DEFAULT_SOURCE = "default"
_CORRELATION_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


class FirewallPages:
    """`firewall` is None in a service that has none: its pages say so."""

    def __init__(
        self,
        firewall: Firewall | None,
        client: LocalClient,
        publisher: Publisher,
        settings: DoorSettings,
        refusals: Refusals,
    ) -> None:
        self._firewall = firewall
        self._client = client
        self._publisher = publisher
        self._settings = settings
        self._refusals = refusals

    def _expect(self) -> Firewall:
        if self._firewall is None:
            raise DoorError("this service is no firewall", code="TC430", hint="start it with --firewall rules.toml")
        return self._firewall

    def claims(self, method: str, path: str) -> bool:
        """Whether the rules want what is posted to this path."""
        return method == "POST" and self._firewall is not None and self._firewall.rules.source_of(path) is not None

    async def get_firewall(self, call: Call) -> Reply:
        return json_reply(200, self._expect().status())

    async def reload_firewall(self, call: Call) -> Reply:
        """Raises RulesError: the rules in force stay."""
        firewall = self._expect()
        firewall.reload()
        return json_reply(200, firewall.status())

    # --- documents ----------------------------------------------------------------------------------------------------

    async def dispatch(self, call: Call) -> Reply:
        firewall = self._expect()
        rules = firewall.rules
        source = self._source(call, rules)
        id = call.header(b"treecast-document-id")
        correlation = _correlation(call)
        body = b""
        try:
            if len(id) > NAME_CHARS_MAX:
                raise DoorError(f"an id has at most {NAME_CHARS_MAX} characters", code="TC414")
            headers = request_headers(call, rules.form.pass_headers, source, correlation)
            call.access.check_rate()
            body = await call.body(call.access.document_bytes_max(self._settings.document_bytes_max))
            call.access.charge(1, len(body))
            reply = await self._pass(firewall, rules, Document(body, id), source, headers)
        except TreecastError as error:
            problem = problem_of_error(error)
            firewall.counts[_outcome_of(problem)] += 1
            if problem.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                self._refusals.add(source, id[:NAME_CHARS_MAX], problem, body, now_ms())
            error.headers = (*getattr(error, "headers", ()), (CORRELATION.lower(), correlation))  # type: ignore[attr-defined]
            raise
        reply.headers = (*reply.headers, (CORRELATION.lower(), correlation))
        return reply

    def _source(self, call: Call, rules: Rules) -> str:
        """Of the path, if the rules say; else the one that is named."""
        source = rules.source_of(call.scope["path"]) or call.text_parameter("source")
        source = source or call.header(b"treecast-source")
        if not source and rules.form.source_required:
            raise DoorError("the document names no source", code="TC434", hint="send the header Treecast-Source")
        source = source or DEFAULT_SOURCE
        call.access.check_source(source)
        return source

    async def _pass(
        self, firewall: Firewall, rules: Rules, document: Document, source: str, headers: dict[str, str]
    ) -> Reply:
        """Refuse the document, or send it on. Raises TreecastError."""
        broker = self._client.expect_broker()
        if source not in broker.tail.sources():
            raise unknown_source(source)
        applying = await self._check(broker, rules, document.body, source)
        number = 0
        if applying or (rules.form.store and await _is_wanted(broker, document.body)):
            if rules.form.store:
                number = await self._store(source, document)
        elif rules.form.unwanted == "refuse":
            raise RequestError("nobody wants this document", code="TC419", hint="no rule applies to it")
        else:
            firewall.counts["unwanted"] += 1
            return json_reply(202, DispatchAnswer([]))
        if not applying:
            firewall.counts["dispatched"] += 1
            return json_reply(201, DispatchAnswer([], number))
        request = Request(document.body, headers)
        outcomes = await firewall.dispatcher.dispatch(applying, request, rules.context)
        reply = _reply(outcomes, number)
        firewall.counts["dispatched"] += 1
        return reply

    async def _check(self, broker: Broker, rules: Rules, body: bytes, source: str) -> list[Rule]:
        """The rules that apply. Raises DocumentError: the document is not well-formed, or not valid."""
        validator = broker.validator(source)

        def check() -> frozenset[str]:
            names = rules.matching(body)  # it is well-formed, then
            if validator is not None:
                broker.schemas.check(validator, body)
            return names

        names = check() if len(body) <= AT_ONCE_BYTES else await asyncio.to_thread(check)
        return rules.applying(names, source)

    async def _store(self, source: str, document: Document) -> int:
        """Keep it for subscribers as well. Raises DoorError: it is not, so it is not sent on either."""
        (outcome,) = await self._publisher.publish(source, [document])
        if isinstance(outcome, Problem):
            raise RequestError(outcome.detail, code=outcome.code, hint=outcome.hint)
        return outcome.document


async def _is_wanted(broker: Broker, body: bytes) -> bool:
    """By a subscription."""
    if len(body) <= AT_ONCE_BYTES:
        return bool(broker.index.match(body))
    return bool(await asyncio.to_thread(broker.index.match, body))


def _correlation(call: Call) -> str:
    """The client's own, if it can be used, or a new one."""
    client_id = call.header(CORRELATION.lower().encode())
    return client_id if _CORRELATION_ID.fullmatch(client_id) else unused_name()


def _outcome_of(problem: Problem) -> str:
    if problem.code == "TC419":
        return "unwanted"
    if problem.code == "TC410":
        return "unknown_source"
    if problem.code[:3] in ("TC2", "TC3"):
        return "invalid"
    return "failed" if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "refused"


# --- answers ----------------------------------------------------------------------------------------------------------


def _reply(outcomes: list[RuleOutcome], number: int) -> Reply:
    """That of the first rule that sends to one back end; a summary, if all send to all. Raises DoorError."""
    headers = (("treecast-document", str(number)),) if number else ()
    single = next((one for one in outcomes if one.rule.form.policy != "all"), None)
    if single is None:
        return _summary(outcomes, number, headers)
    if not single.outcomes:
        raise unavailable()
    last = single.outcomes[-1]
    if not last.status or (last.error and not last.content_type):
        if not any(one.is_sent for one in single.outcomes):
            raise unavailable()
        raise _no_answer(last)
    inert = tuple((name.decode(), value.decode()) for name, value in INERT)
    return Reply(last.status, last.body, last.content_type, (*last.headers, *headers, *inert))


def _no_answer(outcome: Outcome) -> DoorError:
    hint = "it may have received the document all the same"
    return DoorError(f"the server behind {outcome.error}", code="TC450", hint=hint)


def _summary(outcomes: list[RuleOutcome], number: int, headers: tuple[tuple[str, str], ...]) -> Reply:
    """200 if all have accepted it, 207 if some have, 502 if none has."""
    answer = DispatchAnswer(
        [
            RuleAnswer(one.rule.name, [BackendOutcome(each.backend, each.status, each.error) for each in one.outcomes])
            for one in outcomes
        ],
        number,
    )
    good = [not each.error and each.status < HTTPStatus.BAD_REQUEST for one in outcomes for each in one.outcomes]
    status = 200 if all(good) else 207 if any(good) else 502
    return json_reply(status, answer, headers)
