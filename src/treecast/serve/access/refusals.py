"""Why access is refused.

TC602  there is no token, or it is wrong, expired or revoked: which of them is not said
TC603  the token does not allow this
TC604  more documents or bytes than the token allows in this time
TC605  the token has as many subscriptions or streams as it may have
TC606  a file of tokens that cannot be used
TC607  a token that cannot be made or revoked as asked
TC608  an address that strangers can reach, without tokens or certificates
TC609  a request that a page of another web site makes
"""

from __future__ import annotations

from treecast.errors import AccessError

STATUSES = {"TC602": 401, "TC603": 403, "TC604": 429, "TC605": 403}
CHALLENGE = ("www-authenticate", 'Bearer realm="treecast"')
Headers = tuple[tuple[str, str], ...]


class AccessRefusedError(AccessError):
    """A request that may not be made. `status` and `headers` are those of the answer over HTTP."""

    def __init__(self, message: str, *, code: str, hint: str = "", headers: Headers = ()) -> None:
        super().__init__(f"{code} {message}" + (f"\n  hint: {hint}" if hint else ""), code=code, hint=hint)
        self.status = STATUSES.get(code, 403)
        self.headers = headers


def no_token() -> AccessRefusedError:
    """The same for a token that is missing, wrong, expired or revoked."""
    hint = "send the header Authorization: Bearer tc_…"
    return AccessRefusedError("a valid token is needed", code="TC602", hint=hint, headers=(CHALLENGE,))


def not_allowed() -> AccessRefusedError:
    return AccessRefusedError("the token does not allow this", code="TC603")
