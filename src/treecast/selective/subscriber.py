"""The subscriber's side: packages are opened, verified and put together to what the group sees of the document.

Nothing that brokers on the way have altered, moved, left out, put in or kept from an older version is accepted: what is
there after a package must have exactly the digest that the publisher signed. A package that is refused changes nothing.
`treecast.selective.publisher` has an example.

| code | what is wrong |
|---|---|
| TC492 | a package, a manifest, an element or an envelope was altered, or is for somebody else |
| TC493 | what the package makes of the view is not what the publisher has signed |
| TC494 | an old version: the view has a newer one already |
| TC495 | a package builds on a version that is not there: ask for what has changed since the one that is |
| TC496 | there is no key for this package: the member has got no envelope of this epoch |

What is filtered by content is filtered here, or anywhere else where there is nothing but the view: `matches`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from treecast import _native
from treecast.errors import PeerError, QueryError
from treecast.selective.digests import element_digest, form_from, view_digest
from treecast.selective.folded import Element
from treecast.selective.keys import open_envelope, refusal, unseal
from treecast.selective.outline import Outline
from treecast.selective.package import Entry, Manifest, Package, decode_manifest, decode_package, element_about
from treecast.selective.subtrees import choose
from treecast.selective.view import TOP, write_fragment


class ViewElement:
    """An element that a subscriber holds."""

    __slots__ = ("digest", "entry", "record")

    def __init__(self, entry: Entry, record: bytes) -> None:
        self.entry = entry
        self.record = record
        self.digest: bytes | None = None


class Subscriber:
    """What one member holds of one group's view of a document."""

    def __init__(self, member: str, key: bytes, document: str, group: str, public_key: bytes) -> None:
        self.member = member
        self.document = document
        self.group = group
        self.version = 0
        self._key = key
        self._verifier = Ed25519PublicKey.from_public_bytes(public_key)
        self._newest = 0  # of the versions that envelopes name
        self._group_keys: dict[int, bytes] = {}
        self._elements: dict[bytes, ViewElement] = {}
        self._fragments: list[bytes] = []

    def admit(self, epoch: int, envelope: bytes) -> None:
        """Take the key of the group for one epoch. Raises PeerError (TC492)."""
        key, version = open_envelope(self._key, self.document, self.group, epoch, self.member, envelope)
        self._group_keys[epoch] = key
        self._newest = max(self._newest, version)

    @property
    def is_behind(self) -> bool:
        """Whether there is a newer version, as an envelope says: what is seen is old, and somebody holds back the rest.

        Versions are accepted one after the other, so an old one is no error; but do not rely on it.
        """
        return self.version < self._newest

    def receive(self, data: bytes) -> bool:
        """Take a package; says whether it changed anything. Raises PeerError, and then nothing has changed."""
        package = decode_package(data)
        if (package.document, package.group) != (self.document, self.group):
            raise refusal("TC492", "the package is for another document or group", "it was sent astray")
        if package.version == self.version and self.version:
            return False  # the same again
        if package.version < self.version:
            raise refusal("TC494", f"version {package.version} of the view is older than {self.version}", "ignore it")
        if package.base > self.version:
            raise refusal(
                "TC495", f"the package builds on version {package.base}, and this is {self.version}",
                f"ask for what has changed since {self.version}",
            )  # fmt: skip
        manifest, changed_elements = self._open(package)
        elements = self._elements | changed_elements
        try:
            self._verify(package.version, elements, manifest, changed_elements)
        except PeerError:
            for one in self._elements.values():  # some digests may be those of what was refused
                one.digest = None
            raise
        self._elements = _reachable(elements, manifest.fragments)
        self._fragments = manifest.fragments
        self.version = package.version
        return True

    def _verify(
        self, version: int, elements: dict[bytes, ViewElement], manifest: Manifest, changed_tokens: Iterable[bytes]
    ) -> None:
        for token in changed_tokens:
            # Above the place where it was, as verified. An entry may name any parent, which must not leave digests as
            # they are above the place that it takes. If it moves, its new parent has changed, and is here as well.
            _clear_above(self._elements, token)
        digests = [self._digest(elements, token) for token in manifest.fragments]
        try:
            self._verifier.verify(manifest.signature, view_digest(self.document, self.group, version, digests))
        except InvalidSignature:
            raise _not_signed("its digest is another one") from None

    def _open(self, package: Package) -> tuple[Manifest, dict[bytes, ViewElement]]:
        key = self._group_keys.get(package.epoch)
        if key is None:
            raise refusal(
                "TC496", f"{self.member} has no key for epoch {package.epoch} of this group",
                "ask for an envelope; a member that was taken out of the group gets none",
            )  # fmt: skip
        manifest_bytes = unseal(key, package.manifest, package.about())
        if manifest_bytes is None:
            raise refusal("TC492", "the manifest of a package cannot be opened", "it was altered on its way")
        manifest = decode_manifest(manifest_bytes)
        if len(manifest.entries) != len(package.elements):
            raise refusal("TC492", "the package has too few or too many elements", "it was altered on its way")
        elements: dict[bytes, ViewElement] = {}
        for entry, sealed_record in zip(manifest.entries, package.elements, strict=True):
            record = unseal(entry.key, sealed_record, element_about(self.document, entry.token))
            if record is None:
                raise refusal("TC492", "an element of a package cannot be opened", "it was altered on its way")
            elements[entry.token] = ViewElement(entry, record)
        return manifest, elements

    def _digest(self, elements: dict[bytes, ViewElement], top: bytes) -> bytes:
        """The digest of a fragment. Every element must be there, once, below the parent that it names."""
        waiting: list[tuple[bytes, bytes, bool]] = [(top, b"", False)]
        while waiting:
            token, above, is_open = waiting.pop()
            one = elements.get(token)
            if one is None or one.entry.parent != above:
                raise _not_signed("an element is missing, or hangs in another place")
            if one.digest is not None:
                continue
            if not is_open:
                if len(waiting) > len(elements) + 1:
                    raise _not_signed("elements contain each other")
                waiting.append((token, above, True))
                waiting.extend((child, token, False) for child in one.entry.children)
                continue
            below = [elements[child].digest or b"" for child in one.entry.children]
            one.digest = element_digest(self.document, token, above, one.entry.version, one.record, below)
        return elements[top].digest or b""

    # -- what is seen

    def forms(self) -> dict[bytes, Element]:
        """The elements by their tokens."""
        return {token: form_from(one.record) for token, one in self._elements.items()}

    def fragments(self) -> list[bytes]:
        """What the group sees, one document for each fragment, in exclusive canonical form."""
        forms = self.forms()
        children = {token: one.entry.children for token, one in self._elements.items()}
        return [write_fragment(token, forms, children) for token in self._fragments]

    def outline(self) -> Outline:
        """What is seen, without content: its labels, which count what is seen, are those of requests."""
        places: dict[bytes, int] = {}
        parents = [-1]
        for token in _reachable(self._elements, self._fragments):
            places[token] = len(parents)
            parents.append(places.get(self._elements[token].entry.parent, TOP))
        return Outline(parents, spacing=1)

    def request(
        self, include: Iterable[str], *, exclude: Iterable[str] = (), namespaces: Mapping[str, str] | None = None
    ) -> str:
        """SSL for subtrees of the view, selected by paths, for whoever checks it (`Policies.request`).

        Raises QueryError (TC163).
        """
        outline = self.outline()
        included_ids, excluded_ids = ([*self._select(paths, namespaces)] for paths in (include, exclude))
        subtrees = choose(included_ids, excluded_ids, outline)
        if not subtrees.parts:
            raise QueryError("nothing of the view is asked for", code="TC163", hint="include more, or exclude less")
        return subtrees.to_text(outline)

    def _select(self, paths: Iterable[str], namespaces: Mapping[str, str] | None) -> Iterator[int]:
        """The ids in `outline` of what paths select, fragment by fragment: each is a document of its own."""
        bindings = sorted((namespaces or {}).items())
        fragments = self.fragments()
        sizes = [len(_reachable(self._elements, [token])) for token in self._fragments]
        for path in paths:
            first = TOP + 1
            for fragment, size in zip(fragments, sizes, strict=True):
                yield from (
                    first + number for kind, number in _native.select(fragment, path.encode(), bindings) if not kind
                )
                first += size

    def matches(self, query: str) -> list[bool]:
        """Whether each fragment matches a query: it sees the fragment, and nothing of the document around it."""
        return [bool(_native.select(fragment, query.encode())) for fragment in self.fragments()]


def _clear_above(elements: dict[bytes, ViewElement], token: bytes) -> None:
    """Forget the digests of those above an element that has changed."""
    while token in elements and elements[token].digest is not None:
        elements[token].digest = None
        token = elements[token].entry.parent


def _reachable(elements: dict[bytes, ViewElement], fragments: list[bytes]) -> dict[bytes, ViewElement]:
    reachable: dict[bytes, ViewElement] = {}
    waiting = list(reversed(fragments))
    while waiting:
        token = waiting.pop()
        reachable[token] = elements[token]
        waiting.extend(reversed(elements[token].entry.children))
    return reachable


def _not_signed(reason: str) -> PeerError:
    return refusal(
        "TC493", f"the view is not the one that the publisher signed: {reason}", "ask for the whole view again"
    )
