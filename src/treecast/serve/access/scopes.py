"""What a token is for: a list of scopes.

    publish:news      publish to the source `news`, and describe it
    publish:news.*    the same for every source whose name begins with `news.`
    subscribe:desk.   manage and receive all subscriptions whose ids begin with `desk.`; `subscribe:*` is all of them
    read              look at everything: status, metrics, documents, lists; change and receive nothing
    admin             everything

>>> scopes = Scopes.parse(["publish:wire", "subscribe:desk.a.", "subscribe:desk."])
>>> scopes.prefixes, scopes.allows_source("wire"), scopes.allows_source("wires")
(('desk.',), True, False)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from treecast.overlay.messages import NAME_CHARS_MAX
from treecast.serve.access.refusals import AccessRefusedError

KINDS = ("publish", "subscribe", "read", "admin")
EVERYTHING = "*"


class Scopes(msgspec.Struct, frozen=True):
    """Parsed. `prefixes` are those of subscriptions, in order, none the beginning of another."""

    kinds: frozenset[str]
    sources: frozenset[str]
    source_prefixes: tuple[str, ...]
    prefixes: tuple[str, ...]

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Scopes:
        """Raises AccessRefusedError TC607."""
        pairs = [_parse(text) for text in texts]
        publish_names = [name for kind, name in pairs if kind == "publish"]
        subscribe_names = [name for kind, name in pairs if kind == "subscribe"]
        return cls(
            frozenset(kind for kind, _ in pairs),
            frozenset(name for name in publish_names if not name.endswith(EVERYTHING)),
            _shortest(name.removesuffix(EVERYTHING) for name in publish_names if name.endswith(EVERYTHING)),
            _shortest(name.removesuffix(EVERYTHING) for name in subscribe_names),
        )

    def allows_source(self, name: str) -> bool:
        return name in self.sources or name.startswith(self.source_prefixes)

    def allows_subscription(self, id: str) -> bool:
        return id.startswith(self.prefixes)


def _parse(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if kind not in KINDS:
        raise _wrong(text, f"the scopes are {', '.join(KINDS)}")
    if kind in ("read", "admin"):
        if colon:
            raise _wrong(text, f"write {kind} alone")
        return kind, ""
    if not name:
        raise _wrong(text, f"write {kind}:NAME, or {kind}:* for all")
    if EVERYTHING in name[:-1]:
        raise _wrong(text, "a * stands at the end only")
    if len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise _wrong(text, f"names have at most {NAME_CHARS_MAX} characters, and no control characters")
    return kind, name


def _shortest(prefixes: Iterable[str]) -> tuple[str, ...]:
    """Without those that begin with another."""
    shortest: list[str] = []
    for prefix in sorted(set(prefixes)):
        if not shortest or not prefix.startswith(shortest[-1]):
            shortest.append(prefix)
    return tuple(shortest)


def _wrong(text: str, hint: str) -> AccessRefusedError:
    return AccessRefusedError(f"{text[:100]!r} is not a scope", code="TC607", hint=hint)
