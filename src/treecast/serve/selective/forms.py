"""What the HTTP door takes and gives for selective publishing, as JSON."""

from __future__ import annotations

from typing import Annotated

import msgspec

from treecast.overlay.messages import Name, Text
from treecast.serve.doors.envelopes import Envelope

PATHS_MAX = 1_000
Paths = Annotated[list[Text], msgspec.Meta(max_length=PATHS_MAX)]
Members = Annotated[list[Annotated[Name, msgspec.Meta(min_length=1)]], msgspec.Meta(max_length=10_000)]
Group = Annotated[Name, msgspec.Meta(min_length=1)]


class _Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class GrantForm(_Form, frozen=True):
    """What a group may see, in place of what it could see before: paths that include, and paths that exclude, which
    win. Without `include` only members are added. A path that selects nothing is refused unless `allow_empty`."""

    group: Group
    include: Paths = []
    exclude: Paths = []
    namespaces: dict[Name, Text] = {}
    members: Members = []
    allow_empty: bool = False


class RevokeForm(_Form, frozen=True):
    """Members that leave a group; without any, the group sees nothing from now on."""

    group: Group
    members: Members = []


class SubtreesForm(_Form, frozen=True):
    """Which member of which group, and the subtrees of its view that it wants; without paths, all of it."""

    group: Group
    member: Group
    paths: Paths = []
    namespaces: dict[Name, Text] = {}


class GroupStatus(msgspec.Struct, frozen=True):
    """`version` counts the changes of what the group sees, `epoch` its revocations; `bytes` and `elements` are what it
    sees. `included` has the number of elements that each path includes, `hidden` of those that each path hides of them:
    0 if it hides nothing."""

    group: str
    include: list[str]
    exclude: list[str]
    allow_empty: bool
    included: dict[str, int]
    hidden: dict[str, int]
    members: list[str]
    version: int
    epoch: int
    elements: int
    bytes: int


class SelectiveAnswer(msgspec.Struct, frozen=True):
    """A document, and who may see what. `changed` are the groups whose view this request has changed."""

    document: str
    bytes: int
    elements: int
    groups: list[GroupStatus]
    changed: list[str]


class SelectiveListAnswer(msgspec.Struct, frozen=True):
    """Names of documents; and the source of the network, if there is one."""

    documents: list[str]
    address: str
    neighbours: list[str]
    elements_sent: int


class MemberAnswer(msgspec.Struct, frozen=True):
    """What a member has to know to follow its view: keep it secret. `treecast selective follow` reads it."""

    member: str
    document: str
    group: str
    key: str
    public_key: str
    mailbox: int
    roots: list[int]
    edition: int
    epoch: int
    envelope: str


class ViewAnswer(msgspec.Struct, frozen=True):
    """A view, one delivery for each fragment; or what has changed, one sealed package. `version` is where to go on."""

    version: int
    deliveries: list[Envelope]


class ShapeAnswer(msgspec.Struct, frozen=True):
    """An element: its start tag, the beginning of its own text, its size without children, and who sees it."""

    id: int
    parent: int
    tag: str
    text: str
    bytes: int
    groups: list[str]


class ShapesAnswer(msgspec.Struct, frozen=True):
    """The elements of a document in their order. `is_cut`: there are more."""

    elements: list[ShapeAnswer]
    is_cut: bool
