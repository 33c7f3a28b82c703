"""What the HTTP door answers when it refuses something: `application/problem+json` (RFC 9457) with a code.

TC430  there is no such page
TC431  a method that a page does not have
TC432  a request is too large
TC433  a request did not arrive in time
TC434  a request that cannot be understood
TC435  a content type or encoding that is not known here
TC436  the broker is not ready, or has too much to do: try again
TC437  a failure of ours
TC450  a server behind the firewall gave no usable answer
TC451  the servers behind the firewall have too much to do, or none is available: try again
TC460  a message of a WebSocket that makes no sense
TC461  a web page of another site wants to open a WebSocket
TC462  subscriptions that cannot be imported: nothing was
TC463  an import that ended before its end, as something else had changed

Codes of queries, documents and requests are those of the index and of the broker:

    >>> problem_of("TC412", "TC412 no subscription has the id 'a'").status
    404
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from treecast.errors import PeerError, TreecastError

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_S = 1

STATUSES = {
    "TC402": 413,
    "TC404": 400,
    "TC405": 503,
    "TC410": 404,
    "TC411": 413,
    "TC412": 404,
    "TC413": 409,
    "TC414": 400,
    "TC415": 507,
    "TC416": 404,
    "TC417": 503,
    "TC418": 413,
    "TC419": 422,
    "TC424": 410,
    "TC430": 404,
    "TC431": 405,
    "TC432": 413,
    "TC433": 408,
    "TC434": 400,
    "TC435": 415,
    "TC436": 503,
    "TC437": 500,
    "TC472": 421,
    "TC440": 404,
    "TC441": 400,
    "TC442": 400,
    "TC443": 409,
    "TC444": 502,
    "TC450": 502,
    "TC451": 503,
    "TC490": 501,
    "TC460": 400,
    "TC461": 403,
    "TC462": 422,
    "TC463": 409,
    "TC632": 409,
    "TC633": 409,
    "TC634": 404,
    "TC635": 409,
    "TC714": 400,
    "TC715": 413,
}
FAMILIES = {"TC1": 422, "TC2": 422, "TC3": 422, "TC4": 503, "TC6": 403}


class Problem(msgspec.Struct, frozen=True):
    """Why something was refused. `code` is stable; `detail` and `hint` are for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str = ""


class DoorError(PeerError):
    """A request that the door itself refuses."""

    def __init__(self, message: str, *, code: str, hint: str = "", status: int = 0, allow: str = "") -> None:
        super().__init__(f"{code} {message}" + (f"\n  hint: {hint}" if hint else ""), code=code, hint=hint)
        self.status = status or STATUSES[code]
        self.headers = (("allow", allow),) if allow else ()
        """Of the answer: the methods that a page has, for 405."""


def problem_of(code: str, message: str, status: int = 0) -> Problem:
    """The problem of an error's code and text."""
    status = status or STATUSES.get(code) or FAMILIES.get(code[:3], 500)
    text, _, hint = message.removeprefix(code).strip().partition("\n  hint: ")
    return Problem(f"urn:treecast:error:{code}", HTTPStatus(status).phrase, status, code, text, hint)


def problem_of_error(error: TreecastError) -> Problem:
    return problem_of(error.code, str(error), getattr(error, "status", 0))
