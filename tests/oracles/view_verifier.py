"""Verify and rebuild the view of a document that a member of a group receives.

This module was written from the guide page "Selective publishing: security" alone, without a look at the code that
it is to be compared with. It needs the packages `cryptography` and `msgspec` and nothing else.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NoReturn

import msgspec
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NONCE, TAG, BLOCK, TOKEN, KEY, SIGNATURE = 12, 16, 32, 16, 32, 64
MALFORMED, FORGED, OLD, GAP, NO_KEY = "TC492", "TC493", "TC494", "TC495", "TC496"

_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", '"': "&quot;", "\t": "&#x9;", "\n": "&#xA;", "\r": "&#xD;"})

Field = str | int | bytes
Pairs = tuple[tuple[str, str], ...]


class RefusalError(Exception):
    """A package or envelope that a member must not accept."""


@dataclass(frozen=True)
class _Record:
    """What the record of an element says."""

    name: str
    attributes: Pairs
    namespaces: Pairs
    gaps: tuple[str, ...]


@dataclass(frozen=True)
class _Entry:
    """What the manifest says of an element."""

    token: bytes
    parent: bytes
    version: int
    key: bytes
    children: tuple[bytes, ...]


@dataclass(frozen=True)
class _Element:
    """An element of the view: its entry, the bytes of its record as they came, and what these say."""

    entry: _Entry
    raw: bytes
    record: _Record


@dataclass(frozen=True)
class _Package:
    """The seven fields of a package."""

    document: str
    group: str
    version: int
    base: int
    epoch: int
    manifest: bytes
    boxes: tuple[bytes, ...]


@dataclass(frozen=True)
class _Manifest:
    """The three fields of a manifest."""

    signature: bytes
    roots: tuple[bytes, ...]
    entries: tuple[_Entry, ...]


def _refuse(code: str, why: str) -> NoReturn:
    """Refuse with a code of the guide page and a reason."""
    raise RefusalError(f"{code}: {why}")


def join(*fields: Field) -> bytes:
    """Concatenate fields, each behind its length as eight bytes, big-endian."""
    parts = []
    for field in fields:
        data = field if isinstance(field, bytes) else str(field).encode()
        parts += [len(data).to_bytes(8, "big"), data]
    return b"".join(parts)


def derive(key: bytes, length: int, *purpose: Field) -> bytes:
    """Derive a key with HKDF-SHA-256, without salt, for a list of purpose fields."""
    info = join("treecast selective 1", *purpose)
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(key)


def box_nonce(key: bytes, about: bytes, data: bytes) -> bytes:
    """Return the nonce that the publisher gives to a box. To open one it is not needed."""
    return derive(key, NONCE, "nonce", sha256(join(about, data)).digest())


def open_box(key: bytes, about: bytes, box: bytes) -> bytes:
    """Decrypt a box and remove what fills it up."""
    size = len(box) - NONCE - TAG
    if size < BLOCK or size % BLOCK:
        _refuse(MALFORMED, "a box has a length that none can have")
    try:
        padded_data = AESGCMSIV(key).decrypt(box[:NONCE], box[NONCE:], about)
    except InvalidTag:
        _refuse(MALFORMED, "a box does not open")
    data = padded_data.rstrip(b"\0")
    if not data.endswith(b"\x80") or len(padded_data) - len(data) >= BLOCK:
        _refuse(MALFORMED, "a box is not filled up as it should be")
    return data[:-1]


def _unpack(data: bytes) -> Any:
    """Decode one MessagePack value with nothing behind it."""
    try:
        return msgspec.msgpack.decode(data)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise RefusalError(f"{MALFORMED}: not MessagePack") from error


def _array(value: Any, length: int | None = None) -> list[Any]:
    """Return an array, of a certain length if one is given."""
    if type(value) is not list or (length is not None and len(value) != length):
        _refuse(MALFORMED, "an array of the right length was expected")
    return value


def _text(value: Any) -> str:
    """Return a text that can be written as UTF-8."""
    if type(value) is not str:
        _refuse(MALFORMED, "a text was expected")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RefusalError(f"{MALFORMED}: a text with half a character") from error
    return value


def _number(value: Any) -> int:
    """Return an integer that is not negative; a truth value is none."""
    if type(value) is not int or value < 0:
        _refuse(MALFORMED, "a number was expected")
    return value


def _binary(value: Any, *lengths: int) -> bytes:
    """Return bytes, of one of the lengths if any are given."""
    if type(value) is not bytes or (lengths and len(value) not in lengths):
        _refuse(MALFORMED, "bytes of the right length were expected")
    return value


def _tokens(value: Any) -> tuple[bytes, ...]:
    """Return an array of tokens."""
    return tuple(_binary(token, TOKEN) for token in _array(value))


def _parse_package(data: bytes) -> _Package:
    """Read a package."""
    document, group, version, base, epoch, manifest, boxes = _array(_unpack(_binary(data)), 7)
    return _Package(
        document=_text(document),
        group=_text(group),
        version=_number(version),
        base=_number(base),
        epoch=_number(epoch),
        manifest=_binary(manifest),
        boxes=tuple(_binary(box) for box in _array(boxes)),
    )


def _parse_entry(value: Any, newest: int) -> _Entry:
    """Read an entry of the manifest of a view with the version `newest`."""
    token, parent, version, key, children = _array(value, 5)
    entry = _Entry(
        token=_binary(token, TOKEN),
        parent=_binary(parent, 0, TOKEN),
        version=_number(version),
        key=_binary(key, KEY),
        children=_tokens(children),
    )
    if not 1 <= entry.version <= newest:
        _refuse(MALFORMED, "an element changed in a version that the view has not had")
    return entry


def _parse_manifest(data: bytes, newest: int) -> _Manifest:
    """Read the manifest of a view with the version `newest`."""
    signature, roots, entries = _array(_unpack(data), 3)
    manifest = _Manifest(
        signature=_binary(signature, SIGNATURE),
        roots=_tokens(roots),
        entries=tuple(_parse_entry(entry, newest) for entry in _array(entries)),
    )
    if len({entry.token for entry in manifest.entries}) != len(manifest.entries):
        _refuse(MALFORMED, "two entries for one element")
    return manifest


def _pairs(value: Any) -> Pairs:
    """Return an array of pairs of texts, no two of which begin with the same."""
    pairs = []
    for item in _array(value):
        first, second = _array(item, 2)
        pairs.append((_text(first), _text(second)))
    if len({first for first, _ in pairs}) != len(pairs):
        _refuse(MALFORMED, "a name or prefix stands twice in a record")
    return tuple(pairs)


def _parse_record(raw: bytes, children: int) -> _Record:
    """Read the record of an element that has so many children."""
    try:
        text = raw.decode()
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RefusalError(f"{MALFORMED}: a record is not JSON in UTF-8") from error
    if re.search(r"\s", _JSON_STRING.sub("", text)):
        _refuse(MALFORMED, "white space between the parts of a record")
    name, attributes, namespaces, gaps = _array(value, 4)
    record = _Record(
        name=_text(name),
        attributes=_pairs(attributes),
        namespaces=_pairs(namespaces),
        gaps=tuple(_text(gap) for gap in _array(gaps, children + 1)),
    )
    prefixes = [prefix for prefix, _ in record.namespaces]
    if not record.name or prefixes != sorted(prefixes) or "xml" in prefixes:
        _refuse(MALFORMED, "the name or the namespaces of a record are not as they should be")
    return record


def _open_elements(package: _Package, manifest: _Manifest) -> dict[bytes, _Element]:
    """Open the boxes of a package, the i-th with the key of the i-th entry."""
    if len(package.boxes) != len(manifest.entries):
        _refuse(MALFORMED, "not as many boxes as entries")
    elements = {}
    for entry, box in zip(manifest.entries, package.boxes, strict=True):
        raw = open_box(entry.key, join("element", package.document, entry.token), box)
        elements[entry.token] = _Element(entry, raw, _parse_record(raw, len(entry.children)))
    return elements


def _walk(roots: Iterable[bytes], elements: dict[bytes, _Element]) -> dict[bytes, _Element]:
    """Go down from the roots, and return the elements on the way, each one before its children."""
    elements_on_way: dict[bytes, _Element] = {}
    todo = [(token, b"") for token in roots]
    while todo:
        token, parent = todo.pop()
        element = elements.get(token)
        if element is None:
            _refuse(FORGED, "an element is missing")
        if element.entry.parent != parent:
            _refuse(FORGED, "an element names another parent")
        if token in elements_on_way:
            _refuse(FORGED, "an element stands in two places")
        elements_on_way[token] = element
        todo += [(child, token) for child in element.entry.children]
    return elements_on_way


def _view_digest(package: _Package, roots: Iterable[bytes], elements: dict[bytes, _Element]) -> bytes:
    """Compute the digest of a view from all of its elements, which are given each one before its children."""
    digests: dict[bytes, bytes] = {}
    for token, element in reversed(elements.items()):
        entry = element.entry
        below = [digests[child] for child in entry.children]
        place = (token, entry.parent, entry.version)
        digests[token] = sha256(join("treecast element 1", package.document, *place, element.raw, *below)).digest()
    top = [digests[root] for root in roots]
    return sha256(join("treecast view 1", package.document, package.group, package.version, *top)).digest()


def _start_tag(record: _Record, in_force: dict[str, str]) -> str:
    """Write a start tag below elements that have these namespaces in force."""
    parts = [record.name]
    for prefix, uri in record.namespaces:
        if in_force.get(prefix) != uri:
            name = f"xmlns:{prefix}" if prefix else "xmlns"
            parts.append(f'{name}="{uri.translate(_ESCAPES)}"')
    parts += [f'{name}="{value.translate(_ESCAPES)}"' for name, value in record.attributes]
    return f"<{' '.join(parts)}>"


def _write(root: bytes, elements: dict[bytes, _Element]) -> bytes:
    """Write a fragment in exclusive canonical form."""
    parts: list[str] = []
    todo: list[str | tuple[bytes, dict[str, str]]] = [(root, {"": ""})]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        token, in_force = item
        element = elements[token]
        record = element.record
        parts += [_start_tag(record, in_force), record.gaps[0]]
        below = {**in_force, **dict(record.namespaces)}
        todo.append(f"</{record.name}>")
        for child, gap in zip(reversed(element.entry.children), reversed(record.gaps[1:]), strict=True):
            todo += [gap, (child, below)]
    return "".join(parts).encode()


class View:
    """The view of a group, as one of its members has it."""

    version: int  # of the newest view that was accepted (0: none)
    newest: int  # the newest version that envelopes have told of (0: none)

    def __init__(self, member: str, key: bytes, document: str, group: str, public_key: bytes) -> None:
        """Begin with nothing: `key` is the member's own, `public_key` that of the publisher's signatures."""
        if len(key) != KEY:
            raise ValueError("the key of a member has 32 bytes")
        self.version = 0
        self.newest = 0
        self._member = member
        self._key = key
        self._document = document
        self._group = group
        self._public_key = Ed25519PublicKey.from_public_bytes(public_key)
        self._group_keys: dict[int, bytes] = {}
        self._roots: tuple[bytes, ...] = ()
        self._elements: dict[bytes, _Element] = {}

    def take_envelope(self, epoch: int, box: bytes) -> None:
        """Open an envelope, and keep the group's key of its epoch."""
        about = join("envelope", self._document, self._group, _number(epoch), self._member)
        data = open_box(self._key, about, _binary(box))
        if len(data) != KEY + 8:
            _refuse(MALFORMED, "an envelope has a key and a version, and nothing else")
        self._group_keys[epoch] = data[:KEY]
        self.newest = max(self.newest, int.from_bytes(data[KEY:], "big"))

    def take_package(self, data: bytes) -> bool:
        """Verify a package and keep what it says; return whether there is something new."""
        package = _parse_package(data)
        if (package.document, package.group) != (self._document, self._group):
            _refuse(MALFORMED, "a package of another document or group")
        if package.version < self.version:
            _refuse(OLD, "a package that is older than the view")
        if package.version == self.version:
            return False
        if package.base > self.version:
            _refuse(GAP, "a package for a newer view than this one")
        manifest = self._open_manifest(package)
        new_elements = _open_elements(package, manifest)
        elements = _walk(manifest.roots, {**self._elements, **new_elements})
        try:
            self._public_key.verify(manifest.signature, _view_digest(package, manifest.roots, elements))
        except InvalidSignature as error:
            raise RefusalError(f"{FORGED}: the publisher has not signed this view") from error
        self.version, self._roots, self._elements = package.version, manifest.roots, elements
        return True

    def _open_manifest(self, package: _Package) -> _Manifest:
        """Open the manifest of a package with the group's key of its epoch."""
        key = self._group_keys.get(package.epoch)
        if key is None:
            _refuse(NO_KEY, "the group's key of this epoch is not there")
        fields = (package.document, package.group, package.version, package.base, package.epoch)
        return _parse_manifest(open_box(key, join("manifest", *fields), package.manifest), package.version)

    def fragments(self) -> list[bytes]:
        """Return the fragments of the view in document order, as exclusive canonical XML."""
        return [_write(root, self._elements) for root in self._roots]
