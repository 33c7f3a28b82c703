"""Tickets: what a web page sends where it cannot send a token.

`EventSource` and `WebSocket` of browsers send no header of the page's choice, and a token in a URL would end up in
histories and in the logs of proxies. So a page asks for a ticket with its token, and opens one stream or one socket
with it: it holds for seconds, for one request, and for nothing else.

    POST /v1/tickets                               with the header Authorization
    GET  /v1/events?subscription=a&ticket=tt_…     within `ticket_ms`, once

A ticket is signed with what the service keeps of the token, and not stored: each worker of a fleet that knows the token
knows its tickets, and they end with it. Those that were used are remembered, by each process, until they would have
ended.

>>> tickets = Tickets(AccessSettings())
>>> text, _ = tickets.make("0123456789ab", b"key", now_ms=1)
>>> tickets.id_of(text, {"0123456789ab": b"key"}, now_ms=2), tickets.id_of(text, {"0123456789ab": b"other"}, now_ms=2)
('0123456789ab', '')
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping

from treecast.serve.access.refusals import AccessRefusedError, no_token
from treecast.serve.access.settings import AccessSettings

PURPOSE = b"treecast ticket\n"
NONCE_BYTES = 16
NOBODY = secrets.token_bytes(32)
"""Stands for the key of a token that does not exist."""
TEXT = re.compile(rf"tt_([0-9a-f]{{12}})_([0-9a-f]{{1,16}})_([0-9a-f]{{{2 * NONCE_BYTES}}})_([0-9a-f]{{64}})")


class Tickets:
    """Makes tickets, and looks at those that come back."""

    def __init__(self, settings: AccessSettings) -> None:
        self._settings = settings
        self._used_nonces: dict[str, dict[str, int]] = {}  # by token: nonces, and when their tickets end

    def make(self, id: str, key: bytes, now_ms: int) -> tuple[str, int]:
        """A ticket of the token with this id, and when it ends."""
        ends_ms = now_ms + self._settings.ticket_ms
        nonce = secrets.token_hex(NONCE_BYTES)
        return f"tt_{id}_{ends_ms:x}_{nonce}_{_sign(key, id, f'{ends_ms:x}', nonce)}", ends_ms

    def id_of(self, text: str, keys: Mapping[str, bytes], now_ms: int) -> str:
        """The id of the token that a ticket was made for, or nothing. The same way whatever is wrong with it."""
        parts = TEXT.fullmatch(text)
        id, ends, nonce, signature = parts.groups() if parts else ("", "0", "", "")
        is_right = hmac.compare_digest(_sign(keys.get(id, NOBODY), id, ends, nonce), signature)
        return id if is_right and now_ms < int(ends, 16) else ""

    def use(self, text: str, now_ms: int) -> None:
        """Once: of a ticket that `id_of` has accepted. Raises AccessRefusedError: TC602 used before, TC605 too many."""
        _, id, ends, nonce, _ = text.split("_")
        end_by_nonce = self._used_nonces.setdefault(id, {})
        for old in [one for one, ends_ms in end_by_nonce.items() if ends_ms <= now_ms]:
            del end_by_nonce[old]
        if nonce in end_by_nonce:
            raise no_token()
        if len(end_by_nonce) >= self._settings.tickets_max:
            hint = "try again in a moment, or keep streams open"
            raise AccessRefusedError(
                f"the token has used {len(end_by_nonce)} tickets just now", code="TC605", hint=hint
            )
        end_by_nonce[nonce] = int(ends, 16)

    def forget(self, id: str) -> None:
        """The token has gone."""
        self._used_nonces.pop(id, None)


def _sign(key: bytes, id: str, ends: str, nonce: str) -> str:
    return hmac.new(key, PURPOSE + f"{id}\n{ends}\n{nonce}".encode(), "sha256").hexdigest()
