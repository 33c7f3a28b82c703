"""Why a broker refuses a request. Codes of queries and documents are those of the index; these are the broker's own.

TC410   no such source
TC411   too many documents in one request
TC412   no such subscription
TC413   too many sources, clients or subscriptions
TC414   a name that is empty, too long, or not text
TC415   the store is full
TC416   no such dead letter
TC417   too many sessions, or too many subscriptions in one
TC418   a record that is too large
TC419   a document that nobody wants
TC480   a request for a registry, sent to a broker; or one for a broker, sent to a registry; or one that neither knows
TC481   no broker takes part in the network, so a registry has none to give
"""

from __future__ import annotations

from typing import Never, get_args

from treecast.errors import PeerError, QueryError, TreecastError
from treecast.model import Deliver
from treecast.overlay.messages import Refusal, Subscribe

NAME_BYTES_MAX = 1024


class RequestError(PeerError):
    """A request that cannot be done. Nothing has changed."""

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(f"{code} {message}" + (f"\n  hint: {hint}" if hint else ""), code=code, hint=hint)


def unknown_command(who: str, command: Never) -> RequestError:
    """For the last case of a match, which is never reached while all commands have one: a type checker looks. Without
    a case, a command would be acknowledged and not done."""
    name = type(command).__name__
    return RequestError(f"{who} does not know {name}", code="TC480", hint="use the same version on both sides")


def refusal(error: TreecastError, item: int = 0) -> Refusal:
    return Refusal(item, error.code, str(error))


def check_subscription(command: Subscribe) -> None:
    """What the index takes for granted, and a stranger may get wrong."""
    check_name(command.id, "id")
    if command.deliver not in get_args(Deliver):
        message = f"TC144 deliver is document or elements, not {command.deliver[:80]!r}"
        raise QueryError(message, code="TC144", hint="leave it out for whole documents")


def check_name(name: str, what: str) -> None:
    """Names come from strangers, and are kept."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= NAME_BYTES_MAX:
        raise RequestError(f"the {what} must have 1-{NAME_BYTES_MAX} bytes, got {size}", code="TC414")
    if "\0" in name or any("\ud800" <= char <= "\udfff" for char in name):
        raise RequestError(f"the {what} contains a character that is not text", code="TC414")
