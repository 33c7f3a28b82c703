"""Finds the token of a request, and notices when tokens change.

Without a file of tokens everybody is let in; `treecast up` allows that on addresses of this machine only. Once a file
was there, tokens are needed until the service is started again, even if the file is removed: then there are none.

A request with a wrong token takes the same way through this code whatever is wrong with it: one hash, one comparison.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Iterable
from pathlib import Path

import structlog

from treecast.serve.access.access import Access
from treecast.serve.access.refusals import AccessRefusedError, no_token
from treecast.serve.access.scopes import Scopes
from treecast.serve.access.settings import AccessSettings
from treecast.serve.access.sites import check_site
from treecast.serve.access.tickets import Tickets
from treecast.serve.access.tokens import TEXT, Token, TokenStore, hash_secret
from treecast.serve.connection import now_ms

SCHEME = "bearer "
NOBODY = secrets.token_bytes(32)
"""Stands for the hash of a token that does not exist."""


class Gate:
    """The tokens of a running service."""

    def __init__(
        self,
        directory: Path | None,
        log: structlog.typing.FilteringBoundLogger,
        settings: AccessSettings | None = None,
        *,
        is_public: bool = False,
    ) -> None:
        """`is_public`: without tokens, everybody is meant to get in, not only this machine."""
        self._is_public = is_public
        self.settings = settings = settings or AccessSettings()
        self._store = TokenStore(directory, settings) if directory is not None else None
        self._log = log
        self._signature: object = None
        self._tokens: dict[str, Token] | None = None
        self._hashes: dict[str, bytes] = {}
        self._accesses: dict[str, Access] = {}
        self._everybody = Access()
        self._tickets = Tickets(settings)

    @property
    def is_open(self) -> bool:
        """There are no tokens, and everybody is let in."""
        return self._tokens is None

    # --- requests -----------------------------------------------------------------------------------------------------

    def admit(self, authorization: str) -> Access:
        """What the header `Authorization` gives access to. Raises AccessRefusedError TC602."""
        if self._tokens is None:
            return self._everybody
        is_bearer = authorization[: len(SCHEME)].lower() == SCHEME
        text = TEXT.fullmatch(authorization[len(SCHEME) :].strip()) if is_bearer else None
        id, secret = (text[1], text[2]) if text else ("", "")
        is_right = hmac.compare_digest(hash_secret(secret), self._hashes.get(id, NOBODY))
        access = self._accesses.get(id)
        if not is_right or access is None or access.is_expired:
            raise no_token()
        return access

    def admit_ticket(self, text: str) -> Access:
        """What a ticket gives access to, once. Raises AccessRefusedError: TC602, TC605."""
        if self._tokens is None:
            return self._everybody
        access = self._accesses.get(self._tickets.id_of(text, self._hashes, now_ms()))
        if access is None or access.is_expired:
            raise no_token()
        self._tickets.use(text, now_ms())
        return access

    def make_ticket(self, access: Access) -> tuple[str, int]:
        """For a token that was admitted, and when it ends. Without tokens it says nothing, and is good for everything
        anyway."""
        id = access.id or "0" * 12
        return self._tickets.make(id, self._hashes.get(id, NOBODY), now_ms())

    def check_site(self, headers: Iterable[tuple[bytes, bytes]], *, is_change: bool) -> None:
        """Before `admit`: whether a request was made by a page of another web site. Raises AccessRefusedError TC609."""
        check_site(headers, is_change=is_change, is_open=self._tokens is None and not self._is_public)

    # --- changes ------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """At the start. Raises AccessRefusedError TC606."""
        if self._store is not None:
            self._signature = self._store.signature()
            self._apply(self._store.read())

    async def run(self) -> None:
        """Look at the file now and then, for ever."""
        while True:
            await asyncio.sleep(self.settings.look_ms / 1000)
            self.look()

    def look(self) -> None:
        """Apply what has changed. A file that cannot be used changes nothing, and is logged."""
        for access in list(self._accesses.values()):
            if access.is_expired and not access.is_ended:
                access.end()
        if self._store is None:
            return
        try:
            signature = self._store.signature()
            if signature == self._signature:
                return
            self._signature = signature
            self._apply(self._store.read())
        except (AccessRefusedError, OSError) as error:
            self._log.error("tokens are as before", error=str(error))
        else:
            self._log.info("tokens have changed", tokens=len(self._tokens or ()))

    def _apply(self, tokens: dict[str, Token] | None) -> None:
        if tokens is None:
            if self._tokens is None:
                return
            tokens = {}  # the file is gone, and with it every token
        before = self._tokens or {}
        was_open = self._tokens is None
        self._tokens = tokens
        ended_accesses = [self._accesses.pop(id) for id, token in before.items() if tokens.get(id) != token]
        for id, token in tokens.items():
            if id not in self._accesses:
                scopes = Scopes.parse(token.scopes)
                self._accesses[id] = Access(id, scopes, token.limits, token.expires_ms)
        self._hashes = {id: bytes.fromhex(token.hash) for id, token in tokens.items()}
        for access in ended_accesses:
            self._tickets.forget(access.id)
        for access in [*ended_accesses, *([self._everybody] if was_open else [])]:
            access.end()
