"""A member's side of a network: parcels are opened, put together, and shown once they are what the publisher signed.

Parcels arrive one by one, perhaps twice, perhaps those of one version before others of the version before. So they are
collected, and `settle` looks whether they fit: what is there below a seal must have exactly the digest that the seal
signs. Until it does, what was verified last stays as it is.

    assembly.admit(mail)                 letters: the key of the group
    assembly.take(number, payload)       a parcel or a seal, as it arrives
    assembly.settle()                    True if a newer view has been verified
    assembly.fragments()                 what is seen, as it was verified last

Nothing that brokers have altered, moved, left out or kept from an older version is ever shown. What is not verified
after a while is to be fetched again, from elsewhere: `is_waiting`, `start_over`.
"""

from __future__ import annotations

from collections.abc import Iterable

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from treecast.selective.digests import element_digest, form_from, view_digest
from treecast.selective.key_chain import earlier_key
from treecast.selective.keys import KEY_BYTES, unseal
from treecast.selective.package import Entry, element_about
from treecast.selective.parcels import (
    VERSION_BYTES,
    Letter,
    Mail,
    Parcel,
    Seal,
    Signed,
    alteration_error,
    decode,
    letter_about,
    place_about,
    seal_about,
    subtree_digest,
)
from treecast.selective.view import write_fragment

WHOLE = 0
"""What a member asks for that wants all of its view."""


class Piece:
    """An element that has arrived."""

    __slots__ = ("digest", "entry", "number", "record")

    def __init__(self, number: int, entry: Entry, record: bytes) -> None:
        self.number = number
        self.entry = entry
        self.record = record
        self.digest: bytes | None = None


class VerifiedView:
    """What was verified below one seal."""

    def __init__(self, version: int, tops: list[bytes], pieces: dict[bytes, Piece]) -> None:
        self.version = version
        self.tops = tops
        self.pieces = pieces


class Assembly:
    """What one member holds of one group's view of a document, as it came through a network."""

    def __init__(
        self, member: str, key: bytes, document: str, group: str, public_key: bytes, roots: Iterable[int] = (WHOLE,)
    ) -> None:
        """`roots` are the elements of the view whose subtrees are wanted; `WHOLE` for all of it."""
        self.member = member
        self.document = document
        self.group = group
        self.roots = tuple(roots)
        self.epoch = 0
        self.proof = b""
        """The pass that brokers ask for."""
        self._key = key
        self._verifier = Ed25519PublicKey.from_public_bytes(public_key)
        self._chain = b""
        self._version_min = 0
        self._pieces: dict[bytes, Piece] = {}
        self._seals: dict[int, Signed] = {}
        self._view_by_root: dict[int, VerifiedView] = {}
        self._parcels_without_key: dict[int, bytes] = {}  # what came before its key
        self._is_changed = False

    @property
    def version(self) -> int:
        """The newest version of the view that has been verified, of what is wanted of it; 0: nothing yet."""
        return max((one.version for one in self._view_by_root.values()), default=0)

    # -- what arrives

    def admit(self, mail: bytes) -> bool:
        """Take letters; says whether there is a newer key of the group. Raises PeerError (TC492)."""
        letter = decode(mail, Mail).letters.get(self.group)
        if letter is None or letter.epoch < self.epoch:
            return False
        self._open_letter(letter)
        parcels, self._parcels_without_key = self._parcels_without_key, {}
        for number, payload in parcels.items():
            self.take(number, payload)
        return True

    def _open_letter(self, letter: Letter) -> None:
        data = unseal(self._key, letter.key, letter_about(self.document, self.group, letter.epoch, self.member))
        if data is None or len(data) != KEY_BYTES + VERSION_BYTES:
            raise alteration_error()
        self.epoch, self._chain, self.proof = letter.epoch, data[:KEY_BYTES], letter.proof
        self._version_min = max(self._version_min, int.from_bytes(data[KEY_BYTES:], "big"))

    def take(self, number: int, payload: bytes) -> None:
        """A parcel or a seal. Raises PeerError (TC492) if it was altered; then nothing has changed."""
        if number % 2:
            seal = decode(payload, Seal)
            key = self._group_key(seal.epoch)
            if key is None:
                self._parcels_without_key[number] = payload
                return
            context = seal_about(self.document, self.group, seal.epoch, number // 2)
            signed = decode(_require(unseal(key, seal.signed, context)), Signed)
            old = self._seals.get(number // 2)
            if old is None or old.version <= signed.version:  # an older one came later
                self._seals[number // 2] = signed
        else:
            parcel = decode(payload, Parcel)
            key = self._group_key(parcel.epoch)
            if key is None:
                self._parcels_without_key[number] = payload
                return
            place = _require(unseal(key, parcel.place, place_about(self.document, self.group, parcel.epoch)))
            entry = decode(place, Entry)
            record = _require(unseal(entry.key, parcel.record, element_about(self.document, entry.token)))
            self._add_piece(Piece(number, entry, record))
        self._is_changed = True

    def _group_key(self, epoch: int) -> bytes | None:
        """None: the letter with it has not come yet."""
        return earlier_key(self._chain, self.epoch, epoch) if 0 < epoch <= self.epoch else None

    def _add_piece(self, piece: Piece) -> None:
        token = piece.entry.token
        old = self._pieces.get(token)
        if old is not None and old.entry.version > piece.entry.version:
            return
        self._forget_digests(token)  # where it hung, and where it hangs
        self._pieces[token] = piece
        self._forget_digests(token)

    def _forget_digests(self, token: bytes) -> None:
        visited = set()  # what has been altered may go in circles
        while token in self._pieces and token not in visited:
            visited.add(token)
            self._pieces[token].digest = None
            token = self._pieces[token].entry.parent

    # -- what is verified

    def settle(self) -> bool:
        """Show what fits together; says whether anything has."""
        if not self._is_changed:
            return False
        is_new = False
        for root in self.roots:
            signed = self._seals.get(root)
            last_shown = self._view_by_root.get(root)
            if signed is None or (last_shown is not None and signed.version <= last_shown.version):
                continue
            if root == WHOLE and signed.version < self._version_min:
                continue  # older than the view was when this member was let in
            pieces = self._verify(root, signed)
            if pieces is not None:
                self._view_by_root[root] = VerifiedView(signed.version, signed.tops, pieces)
                is_new = True
        if not self.is_waiting:
            self._is_changed = False
            self._drop_unused()
        return is_new

    @property
    def is_waiting(self) -> bool:
        """Something has arrived, or must be there, that does not fit yet."""
        return bool(self._parcels_without_key) or any(
            root not in self._view_by_root
            or (root in self._seals and self._seals[root].version > self._view_by_root[root].version)
            for root in self.roots
        )

    def _verify(self, root: int, signed: Signed) -> dict[bytes, Piece] | None:
        """The elements below a seal, if they are what it signs."""
        pieces: dict[bytes, Piece] = {}
        digests = []
        for top in signed.tops:
            piece = self._pieces.get(top)
            above = b"" if root == WHOLE or piece is None else piece.entry.parent
            digest = self._digest(top, above)
            if digest is None:
                return None
            digests.append(digest)
        if root == WHOLE:
            digest = view_digest(self.document, self.group, signed.version, digests)
        elif len(digests) == 1:
            digest = subtree_digest(self.document, self.group, signed.version, signed.tops[0], digests[0])
        else:
            return None
        try:
            self._verifier.verify(signed.signature, digest)
        except InvalidSignature:
            return None
        waiting = list(reversed(signed.tops))
        while waiting:
            token = waiting.pop()
            pieces[token] = self._pieces[token]
            waiting.extend(reversed(self._pieces[token].entry.children))
        return pieces

    def _digest(self, top: bytes, above: bytes) -> bytes | None:
        """The digest of a subtree; None if an element is missing or hangs in another place."""
        waiting: list[tuple[bytes, bytes, bool]] = [(top, above, False)]
        while waiting:
            token, parent, is_open = waiting.pop()
            piece = self._pieces.get(token)
            if piece is None or piece.entry.parent != parent:
                return None
            if piece.digest is not None:
                continue
            if not is_open:
                if len(waiting) > 2 * len(self._pieces) + 1:
                    return None  # elements contain each other
                waiting.append((token, parent, True))
                waiting.extend((child, token, False) for child in piece.entry.children)
                continue
            below = [self._pieces[child].digest or b"" for child in piece.entry.children]
            piece.digest = element_digest(self.document, token, parent, piece.entry.version, piece.record, below)
        return self._pieces[top].digest

    def _drop_unused(self) -> None:
        used_tokens = {token for one in self._view_by_root.values() for token in one.pieces}
        self._pieces = {token: piece for token, piece in self._pieces.items() if token in used_tokens}

    def start_over(self) -> None:
        """Forget what has arrived and does not fit. What is shown stays."""
        self._parcels_without_key.clear()
        self._seals.clear()
        self._pieces.clear()
        self._is_changed = False

    # -- what is seen

    def numbers(self) -> set[int]:
        """The numbers of the elements that are shown."""
        return {piece.number for one in self._view_by_root.values() for piece in one.pieces.values()}

    def fragments(self) -> list[bytes]:
        """What was verified last, one document for each fragment, in exclusive canonical form."""
        documents = []
        for root in self.roots:
            view = self._view_by_root.get(root)
            if view is None:
                continue
            forms = {token: form_from(piece.record) for token, piece in view.pieces.items()}
            children = {token: piece.entry.children for token, piece in view.pieces.items()}
            documents += [write_fragment(token, forms, children) for token in view.tops]
        return documents


def _require(data: bytes | None) -> bytes:
    if data is None:
        raise alteration_error()
    return data
