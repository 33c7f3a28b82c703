"""What one token allows, and what it has used up.

Pages ask `call.access`: `check_subscription` (`doors/visible.py`) before they touch a subscription,
`sees_subscription(id)` before they mention one, `charge` before they publish, `holding` around what stays open. A
subscription that a token may not see does not exist for it: the answer is that of an id that nobody has, and it is made
without looking.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from treecast.serve.access.bucket import Bucket
from treecast.serve.access.refusals import AccessRefusedError, not_allowed
from treecast.serve.access.scopes import Scopes
from treecast.serve.access.tokens import TokenLimits
from treecast.serve.connection import now_ms, steady_ms

EVERYBODY = Scopes(frozenset({"admin"}), frozenset(), (), ())


class Access:
    """One for each token; and one for everybody, where there are no tokens."""

    def __init__(
        self, id: str = "", scopes: Scopes = EVERYBODY, limits: TokenLimits | None = None, expires_ms: int = 0
    ) -> None:
        self.id = id
        self.scopes = scopes
        self.limits = limits = limits or TokenLimits()
        self.expires_ms = expires_ms
        self.is_admin = "admin" in scopes.kinds
        self.is_ended = False
        """The token was revoked or changed, or has expired."""
        self.streams = 0
        self.subscriptions: int | None = None
        """How many there are under its prefixes, if that was counted; see `quotas.py`."""
        self.counted_ms = 0
        now = steady_ms()
        self._documents = Bucket(limits.documents_per_second, now) if limits.documents_per_second else None
        self._bytes = Bucket(limits.bytes_per_second, now) if limits.bytes_per_second else None
        self._open: dict[object, Callable[[], None]] = {}

    # --- what is allowed ----------------------------------------------------------------------------------------------

    def check_page(self, scopes: Collection[str]) -> None:
        """One of these is needed. A page that declares none is for administrators."""
        if not self.is_admin and self.scopes.kinds.isdisjoint(scopes):
            raise not_allowed()

    @property
    def sees_everything(self) -> bool:
        return self.is_admin or "read" in self.scopes.kinds

    @property
    def visible_prefixes(self) -> tuple[str, ...]:
        """The beginnings of the ids of subscriptions that may be seen, in order."""
        return ("",) if self.sees_everything else self.scopes.prefixes

    def allows_subscription(self, id: str) -> bool:
        """To manage it, and to receive from it."""
        return self.is_admin or self.scopes.allows_subscription(id)

    def sees_subscription(self, id: str) -> bool:
        return self.sees_everything or self.scopes.allows_subscription(id)

    def allows_source(self, name: str) -> bool:
        """To publish to it, and to describe it."""
        return self.is_admin or self.scopes.allows_source(name)

    def sees_source(self, name: str) -> bool:
        return self.sees_everything or self.scopes.allows_source(name)

    def check_source(self, name: str) -> None:
        """To publish. Whether the source exists makes no difference."""
        if not self.allows_source(name):
            raise not_allowed()

    # --- what is used up ----------------------------------------------------------------------------------------------

    def document_bytes_max(self, of_service: int) -> int:
        return min(self.limits.document_bytes_max or of_service, of_service)

    def check_rate(self) -> None:
        """Before a body is read: refuse it if nothing may be published yet. Raises AccessRefusedError TC604."""
        if self._documents or self._bytes:
            self._take(1, 1, is_asking=True)

    def charge(self, documents: int, size: int) -> None:
        """All of it, or nothing. Raises AccessRefusedError TC604, with `Retry-After`."""
        if self._documents or self._bytes:
            self._take(documents, size)

    def _take(self, documents: int, size: int, *, is_asking: bool = False) -> None:
        now = steady_ms()
        pairs = [(bucket, cost) for bucket, cost in ((self._documents, documents), (self._bytes, size)) if bucket]
        wait = max((bucket.wait_ms(cost, now) for bucket, cost in pairs), default=0)
        if wait:
            seconds = str(-(-wait // 1000))
            raise AccessRefusedError(
                "the token allows no more documents at present",
                code="TC604",
                hint=f"try again in {seconds} s",
                headers=(("retry-after", seconds),),
            )
        if not is_asking:
            for bucket, cost in pairs:
                bucket.take(cost, now)

    @contextmanager
    def holding(self, end: Callable[[], None]) -> Iterator[None]:
        """Something stays open: an event stream, a socket. `end` is called when the token is revoked or expires.

        Raises AccessRefusedError TC605 if the token has as many streams as it may have.
        """
        if self.limits.streams_max and self.streams >= self.limits.streams_max:
            hint = "close one first"
            raise AccessRefusedError(f"the token has {self.streams} streams already", code="TC605", hint=hint)
        key = object()
        self._open[key] = end
        self.streams += 1
        try:
            yield
        finally:
            self._open.pop(key, None)
            self.streams -= 1

    # --- the end ------------------------------------------------------------------------------------------------------

    @property
    def is_expired(self) -> bool:
        return bool(self.expires_ms) and now_ms() >= self.expires_ms

    def end(self) -> None:
        """The token is not valid any more: close what it has open."""
        self.is_ended = True
        for close in list(self._open.values()):
            close()
