"""A publisher's document in a network: a tree for each group's view, and one for the mail of the members.

`collect` compares what was collected before with what the publisher has now, and returns what has changed, for the
source (`TreeSource.publish`): nothing for groups whose view is as it was.
"""

from __future__ import annotations

from collections.abc import Mapping

from treecast.overlay.selective.selective_messages import Rights
from treecast.overlay.selective.tree_source import TreeVersion
from treecast.selective.parcels import Parcels, mail_for, mailbox, tree_name
from treecast.selective.publisher import Publisher

Watches = Mapping[str, Mapping[int, int]]
"""For each group the elements of its view that have seals of their own (`Parcels.watches`)."""


class Publication:
    """One document."""

    def __init__(self, publisher: Publisher, watches: Watches | None = None) -> None:
        self.publisher = publisher
        self._watches = watches or {}
        self._parcels: dict[str, Parcels] = {}
        self._sent_version: dict[str, tuple[int, int]] = {}  # version and epoch of each group
        self._mail: dict[str, bytes] = {}
        self._mail_version = 0

    def parcels(self, group: str) -> Parcels:
        """Those of a group that has a view."""
        if group not in self._parcels:
            self._parcels[group] = Parcels(self.publisher, group, self._watches.get(group))
        return self._parcels[group]

    def watches(self) -> dict[str, dict[int, int]]:
        """To be kept, and given to the next `Publication` of this document."""
        return {group: one.watches for group, one in self._parcels.items() if one.watches}

    def collect(self, now_ms: int) -> list[TreeVersion]:
        """What is new since the last time."""
        versions: list[TreeVersion] = []
        for group in self.publisher.policies.groups():
            if not self.publisher.has_view(group):
                continue
            parcels = self.parcels(group)
            parcels.forget_removed()
            version, epoch = parcels.version, parcels.epoch()
            sent_version = self._sent_version.get(group, (0, 0))
            if sent_version != (version, epoch):
                self._sent_version[group] = (version, epoch)
                rights = Rights(epoch, self.publisher.public_key)
                versions.append(
                    TreeVersion(parcels.tree, parcels.rows(), rights, version, parcels.changes(sent_version[0]))
                )
        return [*versions, *self._collect_mail(now_ms)]

    def _collect_mail(self, now_ms: int) -> list[TreeVersion]:
        """Letters that say something new. Who belongs to no group any more finds an empty mailbox."""
        policies = self.publisher.policies
        members = {member for group in policies.groups() for member in policies.members(group)} | set(self._mail)
        mail = {member: mail_for(self.publisher, member) for member in members}
        changed_members = {member for member in members if mail[member] != self._mail.get(member)}
        if not changed_members:
            return []
        self._mail = mail
        # Versions must not start over after a restart, and the clock goes on.
        self._mail_version = max(self._mail_version + 1, now_ms)
        boxes = {member: mailbox(self.publisher, member) for member in members}
        rows = [(0, -1), *((box, 0) for box in sorted(boxes.values()))]
        states = {boxes[member]: (self._mail_version, mail[member]) for member in sorted(changed_members)}
        return [TreeVersion(tree_name(self.publisher.name, ""), rows, Rights(), self._mail_version, states)]
