"""Policies: which subtrees the members of a group may see, and who is a member.

Nothing is seen that no policy includes, and what a policy excludes wins. A policy is written as paths. They are
evaluated again for every version of the document, so that new elements are judged by them too.

    >>> from treecast.selective.labelled import LabelledDocument
    >>> from treecast.selective.policies import Policies
    >>> document = LabelledDocument.read(b"<firm><staff><name/><pay/></staff></firm>")
    >>> policies = Policies()
    >>> policies.grant("desk", include=["//staff"], exclude=["//pay"])
    >>> policies.join("desk", "ann")
    >>> document.preview(policies.subtrees("desk", document))
    [b'<staff><name></name></staff>']
    >>> policies.check("desk", "bob")
    Traceback (most recent call last):
    treecast.errors.AccessError: TC630 bob is not a member of a group of this name

A request is checked where a subscriber connects: `request`. It names subtrees by labels of the view, which count what
is seen. Labels of the document would tell how much is hidden. What is hidden and what does not exist get the same
answer, because a request can name neither.

    >>> policies.request("desk", "ann", "{(2,1)}", document).to_text(document.outline) == (
    ...     document.choose(["//staff"], exclude=["//pay"]).to_text(document.outline)
    ... )
    True

| code | what is wrong |
|---|---|
| TC630 | not a member of this group, or there is no such group |
| TC631 | a request for something that is not there, or that the member may not see |
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from treecast.errors import AccessError, QueryError
from treecast.selective.labelled import LabelledDocument
from treecast.selective.selector import Selector, check_path, common_spans, count_elements
from treecast.selective.subtrees import Subtree, Subtrees, choose
from treecast.selective.view import TOP, outline_of


@dataclass(frozen=True)
class Policy:
    """What a group may see."""

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    namespaces: Mapping[str, str] = field(default_factory=dict)
    allow_empty: bool = False
    """Its paths may select nothing."""

    def check_paths(self) -> None:
        """Refuse paths that select no elements, whatever the document. Raises QueryError."""
        for path in (*self.include, *self.exclude):
            check_path(path, self.namespaces)

    def check(self, group: str, selector: Selector, *, is_new: bool = True) -> None:
        """Refuse it for a version of the document in which one of its paths selects nothing. Raises QueryError (TC163).

        Of a policy that was in force before, an inclusion may select nothing: then less is seen. An exclusion may not.
        What it has hidden may be there under another name.
        """
        may_include_nothing = self.allow_empty or not is_new
        selector.check(self.include, "inclusion", self.namespaces, group=group, allow_empty=may_include_nothing)
        selector.check(self.exclude, "exclusion", self.namespaces, group=group, allow_empty=self.allow_empty)


@dataclass(frozen=True)
class Effect:
    """What a policy does in a version of the document, in numbers of elements."""

    seen: int = 0
    included: Mapping[str, int] = field(default_factory=dict)
    """By path that includes: the elements in the subtrees that it selects."""
    hidden: Mapping[str, int] = field(default_factory=dict)
    """By path that excludes: how many of the included elements it hides; 0: it hides nothing."""


class Policies:
    """The groups of one document."""

    def __init__(self) -> None:
        self._policies: dict[str, Policy] = {}
        self._members: dict[str, set[str]] = {}
        self._epochs: dict[str, int] = {}

    # -- changes

    def grant(
        self,
        group: str,
        *,
        include: Iterable[str],
        exclude: Iterable[str] = (),
        namespaces: Mapping[str, str] | None = None,
        allow_empty: bool = False,
    ) -> None:
        """Say what a group may see, in place of what it could see before. It holds from the next version on.

        A version in which an exclusion selects nothing is refused, unless `allow_empty`; so is an inclusion when it
        takes effect. Raises QueryError for what is no path to elements.
        """
        if isinstance(include, str) or isinstance(exclude, str):
            raise TypeError("include and exclude are lists of paths")
        self.put(group, Policy(tuple(include), tuple(exclude), dict(namespaces or {}), allow_empty))

    def put(self, group: str, policy: Policy) -> None:
        """The same with a policy that is made already. Raises QueryError."""
        policy.check_paths()
        self._put(group, policy)

    def _put(self, group: str, policy: Policy) -> None:
        self._policies[group] = policy
        self._members.setdefault(group, set())
        self._epochs.setdefault(group, 1)

    def join(self, group: str, member: str) -> None:
        """Add a member to a group that exists."""
        self._members[group].add(member)

    def revoke(self, group: str, member: str) -> None:
        """Take a member out of a group. What is published from now on has keys that it does not get."""
        if member in self._members.get(group, ()):
            self._members[group].remove(member)
            self._epochs[group] += 1

    def remove(self, group: str) -> None:
        """The group may see nothing from the next version on."""
        if group in self._policies:
            self._policies[group] = Policy(())

    # -- at rest

    def to_fields(self) -> dict[str, Any]:
        """All of it as plain values, for a file."""
        return {
            group: {
                "include": list(policy.include),
                "exclude": list(policy.exclude),
                "namespaces": dict(policy.namespaces),
                "allow_empty": policy.allow_empty,
                "members": self.members(group),
                "epoch": self.epoch(group),
            }
            for group, policy in self._policies.items()
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        policies = cls()
        for group, one in fields.items():
            allow_empty = one.get("allow_empty", False)
            policy = Policy(tuple(one["include"]), tuple(one["exclude"]), dict(one["namespaces"]), allow_empty)
            policies._put(group, policy)
            policies._members[group] = set(one["members"])
            policies._epochs[group] = one["epoch"]
        return policies

    # -- questions

    def groups(self) -> list[str]:
        return list(self._policies)

    def members(self, group: str) -> list[str]:
        return sorted(self._members[group])

    def policy(self, group: str) -> Policy:
        return self._policies[group]

    def epoch(self, group: str) -> int:
        """How often somebody has been taken out of the group, and one more."""
        return self._epochs[group]

    def subtrees(self, group: str, document: LabelledDocument) -> Subtrees:
        """What the group sees of a document; nothing, if its paths select nothing there."""
        policy = self._policies[group]
        ids_by_path = {path: document.select(path, policy.namespaces) for path in {*policy.include, *policy.exclude}}
        return choose(
            (id for path in policy.include for id in ids_by_path[path]),
            (id for path in policy.exclude for id in ids_by_path[path]),
            document.outline,
        )

    def effect(self, group: str, document: LabelledDocument) -> Effect:
        """What the policy of a group does in a document.

        >>> policies = Policies()
        >>> policies.grant("desk", include=["//staff"], exclude=["//pay"])
        >>> policies.effect("desk", LabelledDocument.read(b"<firm><staff><name/><pay/></staff></firm>"))
        Effect(seen=2, included={'//staff': 3}, hidden={'//pay': 1})
        """
        policy = self._policies[group]

        def spans(*paths: str) -> list[tuple[int, int]]:
            return document.selector.spans(paths, policy.namespaces)

        included = spans(*policy.include)
        return Effect(
            seen=count_elements(included) - count_elements(common_spans(included, spans(*policy.exclude))),
            included={path: count_elements(spans(path)) for path in policy.include},
            hidden={path: count_elements(common_spans(included, spans(path))) for path in policy.exclude},
        )

    def check(self, group: str, member: str) -> None:
        """Raise AccessError unless it is a member. Whether there is such a group is not said."""
        if member not in self._members.get(group, ()):
            raise AccessError(f"TC630 {member} is not a member of a group of this name", code="TC630")

    def request(self, group: str, member: str, text: str, document: LabelledDocument) -> Subtrees:
        """A subscription in SSL by a member, with the labels of its view, as subtrees of the document.

        What is hidden below is excluded. Raises AccessError.
        """
        self.check(group, member)
        rights = self.subtrees(group, document)
        visible_outline, ids = outline_of(rights, document.outline)
        try:
            subtrees = Subtrees.parse(text, visible_outline)
        except QueryError as error:
            if error.code in ("TC161", "TC162"):
                raise _beyond_rights() from None
            raise
        if any(part.root == TOP for part in subtrees.parts):
            raise _beyond_rights()
        outline = document.outline
        hidden_ids = [id for right in rights.parts for id in right.without]  # none is inside another
        ends = [outline.label(id)[0] for id in hidden_ids]
        parts = []
        for part in subtrees.parts:
            pon, low = outline.label(ids[part.root])
            inside = hidden_ids[bisect_left(ends, low) : bisect_right(ends, pon)]
            parts.append(Subtree(ids[part.root], (*(ids[id] for id in part.without), *inside)))
        return Subtrees.of(parts, outline)


def _beyond_rights() -> AccessError:
    return AccessError("TC631 there is no such subtree among those that you may see", code="TC631")
