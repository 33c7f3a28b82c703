"""The publisher of a document: policies in, sealed and signed packages out, one for each group whose view has changed.

    >>> from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    >>> from treecast.selective.policies import Policies
    >>> from treecast.selective.publisher import Publisher
    >>> from treecast.selective.subscriber import Subscriber
    >>> policies = Policies()
    >>> policies.grant("desk", include=["//staff"], exclude=["//pay"])
    >>> policies.join("desk", "ann")
    >>> signer = Ed25519PrivateKey.from_private_bytes(bytes(32))
    >>> publisher = Publisher("firm", policies, secret=bytes(32), signer=signer)
    >>> publisher.publish(b"<firm><staff><name>Ida</name><pay>9</pay></staff></firm>")
    ['desk']
    >>> ann = Subscriber("ann", publisher.keys.member("ann"), "firm", "desk", publisher.public_key)
    >>> ann.admit(*publisher.envelope("desk", "ann"))
    >>> ann.receive(publisher.package("desk"))
    True
    >>> ann.fragments()
    [b'<staff><name>Ida</name></staff>']
    >>> publisher.publish(b"<firm><staff><name>Ida</name><pay>10</pay></staff></firm>")  # nobody sees the change
    []

A new version of a view is compared with the last one by the digests of subtrees (`treecast.selective.versions`).
`package(group, since=...)` has only what has changed after that version of the view.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from treecast.document import Bytes, Limits
from treecast.errors import SnapshotError
from treecast.selective.folded import fold
from treecast.selective.group_view import GroupView, SavedView
from treecast.selective.keys import Keys, seal
from treecast.selective.labelled import LabelledDocument
from treecast.selective.package import Entry, Manifest, Package, element_about, encode, manifest_about
from treecast.selective.policies import Policies, Policy
from treecast.selective.selector import Selector
from treecast.selective.versions import apply_version


class SavedPublisher(msgspec.Struct, frozen=True):
    """A publisher at rest."""

    document: bytes
    views: dict[str, SavedView]


class Publisher:
    """One document, its policies, and the views that follow from them."""

    def __init__(self, name: str, policies: Policies, *, secret: bytes, signer: Ed25519PrivateKey) -> None:
        self.name = name
        self.policies = policies
        self.keys = Keys(secret)
        self.public_key = signer.public_key().public_bytes_raw()
        """What subscribers verify signatures with."""
        self.document: LabelledDocument | None = None
        self._signer = signer
        self._views: dict[str, GroupView] = {}
        self._in_force: dict[str, Policy] = {}  # by group: the policies that the views follow

    def publish(self, data: Bytes, *, limits: Limits | None = None) -> list[str]:
        """Publish a version. Returns the groups whose view has changed: they alone are sent anything.

        Raises QueryError (TC163) if an exclusion of a policy selects nothing in it, and leaves everything as it was.
        """
        folded = fold(data, limits=limits)
        selector = Selector(folded)
        for group in self.policies.groups():
            self._check(group, self.policies.policy(group), selector)
        if self.document is None:
            self.document = LabelledDocument.from_folded(folded)
        else:
            apply_version(self.document, folded)
        self.document.selector = selector  # what it has selected need not be selected again
        return self.refresh()

    def check(self, group: str, policy: Policy) -> None:
        """Refuse a policy that could not take effect with the document as it is. Raises QueryError (TC163)."""
        if self.document is not None:
            self._check(group, policy, self.document.selector)

    def _check(self, group: str, policy: Policy, selector: Selector) -> None:
        policy.check(group, selector, is_new=self._in_force.get(group) != policy)

    def refresh(self, groups: Collection[str] | None = None) -> list[str]:
        """Let changed policies take effect, of these groups or of all, without a new version of the document.

        Raises QueryError (TC163), and then no view has changed.
        """
        assert self.document is not None, "publish a document first"
        subtrees_by_group = {}
        # All at first: a policy that cannot be evaluated must not leave some views changed and others not.
        for group in self.policies.groups() if groups is None else groups:
            self._check(group, self.policies.policy(group), self.document.selector)
            subtrees_by_group[group] = self.policies.subtrees(group, self.document)
        changed_groups = []
        for group, subtrees in subtrees_by_group.items():
            self._in_force[group] = self.policies.policy(group)
            if group not in self._views:
                self._views[group] = GroupView(self.name, group, partial(self._secrets, group))
            if self._views[group].refresh(self.document, subtrees):
                changed_groups.append(group)
        return changed_groups

    def _secrets(self, group: str, id: int, version: int) -> tuple[bytes, bytes]:
        token = self.keys.token(self.name, group, id)
        return token, self.keys.element(self.name, token, version)

    # -- at rest

    def save(self) -> bytes:
        """The document and the views, to go on later: `restore`. It has the content in clear, and no key."""
        assert self.document is not None, "publish a document first"
        views = {group: view.save() for group, view in self._views.items()}
        return msgspec.msgpack.encode(SavedPublisher(self.document.to_bytes(), views))

    def restore(self, data: bytes) -> None:
        """Go on from what was saved, with the same secret, signer and policies. Raises SnapshotError (TC510)."""
        try:
            state = msgspec.msgpack.decode(data, type=SavedPublisher)
        except (msgspec.MsgspecError, ValueError) as error:  # ValueError: a text that is no UTF-8
            raise SnapshotError(f"TC510 this is not the saved state of a publisher: {error}", code="TC510") from None
        self.document = LabelledDocument.read(state.document)
        for group, view in state.views.items():
            self._views[group] = GroupView(self.name, group, partial(self._secrets, group))
            self._views[group].restore(view)
            if group in self.policies.groups():
                self._in_force[group] = self.policies.policy(group)

    # -- what is sent

    def has_view(self, group: str) -> bool:
        """Whether something has been published for the group."""
        return group in self._views

    def view(self, group: str) -> GroupView:
        """The view of a group, for those who send it in other forms (`treecast.selective.parcels`)."""
        return self._views[group]

    def sign(self, digest: bytes) -> bytes:
        return self._signer.sign(digest)

    def version(self, group: str) -> int:
        """The version of a group's view: how often it has changed."""
        return self._views[group].version

    def envelope(self, group: str, member: str) -> tuple[int, bytes]:
        """The epoch, and the group's key for a member. Raises AccessError."""
        self.policies.check(group, member)
        epoch = self.policies.epoch(group)
        version = self.version(group) if self.has_view(group) else 0
        return epoch, self.keys.envelope(self.name, group, epoch, member, version)

    def package(self, group: str, since: int = 0) -> bytes:
        """What a group that has this version of its view needs; everything, for 0."""
        view = self._views[group]
        epoch = self.policies.epoch(group)
        entries = view.changes(since)
        manifest = Manifest(
            self._signer.sign(view.digest()),
            [one.token for one in view.fragments()],
            [
                Entry(
                    one.token,
                    view.parent_token(one.id),
                    one.version,
                    one.key,
                    [child.token for child in view.children(one.id)],
                )
                for one in entries
            ],
        )
        context = manifest_about(self.name, group, view.version, since, epoch)
        return encode(
            Package(
                self.name,
                group,
                view.version,
                since,
                epoch,
                seal(self.keys.group(self.name, group, epoch), encode(manifest), context),
                [seal(one.key, one.record, element_about(self.name, one.token)) for one in entries],
            )
        )
