"""The documents that a service publishes selectively: their publishers, and what doors do with them.

Everything here may take long (a document is compared with its last version and sealed), so doors call it in threads;
one lock for each document keeps them apart. What is to travel through a network is put into a queue, in order, which
whoever runs the source empties (`take_versions`).

| code | what is wrong |
|---|---|
| TC634 | there is no such document |
| TC635 | a limit: too many documents, groups, members or paths |
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from urllib.parse import unquote

import msgspec

from treecast.document import Limits
from treecast.errors import AccessError, QueryError
from treecast.overlay.selective.publication import Publication
from treecast.overlay.selective.tree_source import TreeVersion
from treecast.selective.assembly import WHOLE
from treecast.selective.labelled import LabelledDocument
from treecast.selective.policies import Policy
from treecast.selective.selector import check_path
from treecast.selective.subtrees import Subtrees
from treecast.serve.connection import now_ms
from treecast.serve.selective.homes import GroupState, MemberFields, PublisherHome, file_name
from treecast.serve.selective.refusals import no_document

DOCUMENTS_MAX = 1_000
GROUPS_MAX = 10_000
"""Of one document."""
MEMBERS_MAX = 100_000
"""Of one group."""
PATHS_MAX = 1_000
"""Of one policy or request."""
NAME_CHARS_MAX = 200


class PublishedDocument:
    """One document and its publisher."""

    def __init__(self, home: PublisherHome) -> None:
        self.home = home
        self.publication = Publication(home.publisher, home.watches())
        self.lock = Lock()
        self.published_ms = 0
        self.is_removed = False


class Shape(msgspec.Struct, frozen=True):
    """An element of a document, for people: its tag, the beginning of its text, and the groups that see it."""

    id: int
    parent: int
    tag: str
    text: str
    bytes: int
    groups: list[str]


class Publishers:
    """All documents, each in its own directory."""

    def __init__(self, directory: Path, limits: Limits | None = None, *, has_network: bool = False) -> None:
        """`has_network`: somebody takes what is to travel."""
        self._has_network = has_network
        self._directory = directory
        self._limits = limits
        self._documents: dict[str, PublishedDocument] = {}
        self._lock = Lock()
        self._versions: deque[TreeVersion] = deque()
        if directory.is_dir():
            for path in sorted(directory.iterdir()):
                if (path / "secret").exists():
                    name = unquote(path.name)
                    self._documents[name] = PublishedDocument(PublisherHome(path, name))

    def names(self) -> list[str]:
        return sorted(self._documents)

    def get(self, name: str) -> PublishedDocument:
        """Raises AccessError (TC634)."""
        if name not in self._documents:
            raise no_document(name)
        return self._documents[name]

    def _get_or_make(self, name: str) -> tuple[PublishedDocument, bool]:
        with self._lock:
            if name in self._documents:
                return self._documents[name], False
            if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
                raise too_many(f"the name of a document has 1 to {NAME_CHARS_MAX} characters that can be printed")
            if len(self._documents) >= DOCUMENTS_MAX:
                raise too_many(f"there are {DOCUMENTS_MAX} documents already")
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory = self._directory / file_name(name)
            is_new = not directory.exists()
            document = PublishedDocument(PublisherHome(directory, name))
            self._documents[name] = document
            return document, is_new

    @contextmanager
    def _changing(self, name: str) -> Iterator[PublishedDocument]:
        """The document of this name, locked. One that is made for a request which is refused goes with it."""
        while True:
            document, is_new = self._get_or_make(name)
            with document.lock:
                if document.is_removed:
                    continue
                try:
                    yield document
                except BaseException:
                    if is_new:
                        self._remove(name, document)
                    raise
                return

    def _remove(self, name: str, document: PublishedDocument) -> None:
        with self._lock:
            document.is_removed = True
            del self._documents[name]
            shutil.rmtree(document.home.directory, ignore_errors=True)

    # -- for a network

    def take_versions(self) -> list[TreeVersion]:
        """What is to travel, in order."""
        versions = []
        while self._versions:
            versions.append(self._versions.popleft())
        return versions

    def collect_all(self) -> None:
        """A network starts over: everything is to travel."""
        for document in list(self._documents.values()):
            with document.lock:
                document.publication = Publication(document.home.publisher, document.publication.watches())
                self._versions.extend(document.publication.collect(now_ms()))

    def _collect(self, document: PublishedDocument) -> None:
        if self._has_network:
            self._versions.extend(document.publication.collect(now_ms()))

    # -- publishers

    def publish(self, name: str, data: bytes) -> tuple[bool, list[str]]:
        """Publish a version. Returns whether it is the first, and the groups whose view has changed."""
        with self._changing(name) as document:
            is_first = document.home.publisher.document is None
            changed_groups = document.home.advance(data, self._limits)
            document.published_ms = now_ms()
            self._collect(document)
            return is_first, changed_groups

    def grant(
        self,
        name: str,
        group: str,
        include: Sequence[str],
        exclude: Sequence[str],
        namespaces: Mapping[str, str],
        members: Sequence[str],
        *,
        allow_empty: bool = False,
    ) -> list[str]:
        """Say what a group may see, if anything is included, and who is a member. Returns groups that see a change.

        A refusal changes nothing. Raises QueryError and AccessError.
        """
        _check_paths([*include, *exclude], namespaces)
        policy = Policy(tuple(include), tuple(exclude), dict(namespaces), allow_empty) if include else None
        if exclude and policy is None:
            raise QueryError("exclusions take something out of inclusions: say what these are", code="TC163")
        with self._changing(name) as document:
            policies = document.home.policies
            is_new = group not in policies.groups()
            if is_new and len(policies.groups()) >= GROUPS_MAX:
                raise too_many(f"there are {GROUPS_MAX} groups already")
            present = 0 if is_new else len(policies.members(group))
            if present + len(members) > MEMBERS_MAX:
                raise too_many(f"a group has at most {MEMBERS_MAX} members")
            document.home.grant(group, policy, members)
            return self._take_effect(document, [group] if policy else [])

    def revoke(self, name: str, group: str, members: Sequence[str]) -> list[str]:
        """Take members out of a group, or, without members, let it see nothing any more. Raises AccessError."""
        document = self.get(name)
        with document.lock:
            policies = document.home.policies
            if group not in policies.groups():
                raise AccessError("TC630 there is no such group", code="TC630")
            if members:
                document.home.revoke(group, members)
                return self._take_effect(document, [])
            document.home.remove(group)
            return self._take_effect(document, [group])

    def _take_effect(self, document: PublishedDocument, groups: Sequence[str]) -> list[str]:
        """Of policies that have changed, or of who is a member."""
        if document.home.publisher.document is None:
            return []
        changed_groups = document.home.advance(None, groups=groups)
        self._collect(document)
        return changed_groups

    # -- members

    def subscribe(
        self, name: str, group: str, member: str, paths: Sequence[str], namespaces: Mapping[str, str]
    ) -> MemberFields:
        """What a member has to know, with the subtrees of its view that paths select. Raises AccessError."""
        _check_paths(paths, namespaces)
        document = self._of_member(name, group, member)
        with document.lock:
            roots = [WHOLE]
            if paths:
                view = document.home.publisher.view(group) if document.home.publisher.has_view(group) else None
                selected_ids = (
                    {id for path in paths for id in view.select(path, namespaces)} if view is not None else set()
                )
                if not selected_ids or view is None:
                    raise AccessError("TC631 there is no such subtree among those that you may see", code="TC631")
                outline = view.outline
                roots = sorted(id for id in selected_ids if not selected_ids.intersection(outline.ancestors(id)))
                parcels = document.publication.parcels(group)
                are_new = [parcels.watch(id) for id in roots]
                if any(are_new):
                    document.home.save_watches(document.publication.watches())
                    self._collect(document)
            return document.home.member_fields(group, member, roots)

    def _of_member(self, name: str, group: str, member: str) -> PublishedDocument:
        """The same answer for a document, a group and a member that are not there."""
        document = self._documents.get(name)
        if document is None:
            raise AccessError(f"TC630 {member} is not a member of a group of this name", code="TC630")
        document.home.policies.check(group, member)
        return document

    def view(self, name: str, group: str, member: str) -> tuple[int, int, list[bytes]]:
        """Version, time, and what a member sees. Raises AccessError."""
        document = self._of_member(name, group, member)
        with document.lock:
            publisher = document.home.publisher
            if not publisher.has_view(group) or publisher.document is None:
                return 0, 0, []
            return publisher.version(group), document.published_ms, publisher.view(group).texts()

    def package(self, name: str, group: str, member: str, since: int) -> tuple[int, int, bytes]:
        """Version, time, and the sealed package of what has changed since a version; empty if nothing has."""
        document = self._of_member(name, group, member)
        with document.lock:
            publisher = document.home.publisher
            if not publisher.has_view(group) or publisher.version(group) <= since:
                return since, 0, b""
            return publisher.version(group), document.published_ms, publisher.package(group, since)

    # -- people

    def shapes(self, name: str, elements_max: int) -> tuple[list[Shape], bool]:
        """The elements of a document with the groups that see each; and whether there are more than so many."""
        document = self.get(name)
        with document.lock:
            labelled_document = document.home.publisher.document
            if labelled_document is None:
                return [], False
            policies = document.home.policies
            subtrees_by_group = {group: policies.subtrees(group, labelled_document) for group in policies.groups()}
            return _shapes(labelled_document, subtrees_by_group, elements_max), len(
                labelled_document.outline
            ) > elements_max

    def status(self, name: str) -> tuple[int, int, list[GroupState]]:
        """Bytes and elements of a document, and who sees what of it."""
        document = self.get(name)
        with document.lock:
            published = document.home.publisher.document
            sizes = (0, 0) if published is None else (len(published.to_bytes()), len(published))
            return *sizes, document.home.group_states()


def _shapes(document: LabelledDocument, subtrees_by_group: Mapping[str, Subtrees], elements_max: int) -> list[Shape]:
    shapes: list[Shape] = []
    for id in document.outline:
        if len(shapes) >= elements_max:
            break
        element = document.elements[id]
        parent = document.outline.parent(id)
        text = " ".join("".join(element.gaps).split())
        tag = element.start_tag(element.declarations)
        size = len(tag) + len(element.name) + 3 + sum(len(gap.encode()) for gap in element.gaps)
        groups = [group for group, subtrees in subtrees_by_group.items() if subtrees.covers(id, document.outline)]
        shapes.append(Shape(id, -1 if parent is None else parent, tag[:500], text[:200], size, groups))
    return shapes


def _check_paths(paths: Sequence[str], namespaces: Mapping[str, str]) -> None:
    if len(paths) > PATHS_MAX:
        raise too_many(f"there are {len(paths)} paths, and at most {PATHS_MAX} at once")
    for path in paths:
        check_path(path, namespaces)  # raises what is wrong with it


def too_many(text: str) -> AccessError:
    return AccessError(f"TC635 {text}", code="TC635")
