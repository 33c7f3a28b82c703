"""How the documents of one root are written on links, and read once: formats agreed on by link (ONYX, section 4.3.2).

A child says what it reads when it announces itself; the parent writes in the first of its own formats that is among
those, or as text, which everybody reads. What comes is read once, into a Document: for routing, for what links do to
it, and for the broker's own subscribers. What comes in the format of the next link leaves as it came.

    >>> from treecast.overlay.onyx.settings import NetworkSettings
    >>> formats = LinkFormats(NetworkSettings(link_formats=("binary-zstd", "binary")))
    >>> formats.choose(["binary", "text-zlib", "a later one"], 0)
    'binary'
    >>> arrivals = formats.read([Parcel(7, "s", "", 0, "text", b"<a><b/></a>")])
    >>> (sent,) = formats.write(arrivals, "binary")
    >>> formats.read([sent])[0].body
    b'<a><b/></a>'
    >>> formats.write(formats.read([sent]), "binary")[0] is sent
    True

**Dictionaries** belong to a root: it learns one from its documents, and every broker hands it on to the children that
read it, as it is. So a document is encoded once, and passes every link of the tree unchanged. A dictionary is used on a
link once the child has said that it is there; until then the same format goes without one. On the wire its fingerprint
is part of the name of the format, `dictionary-zstd:5f1c0a2b`: equal names mean equal bytes.

A format or dictionary that is not known here, or a body that is broken, is a PeerError: the range counts as lost, and
the root is asked for it, as text.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import overload

from treecast.document import AnyDocument, Document, Limits
from treecast.errors import PeerError
from treecast.overlay.onyx.network_messages import Parcel
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.wire import Codec, Dictionary, agree, parse_format

TEXT = "text"
_DICTIONARY = "dictionary"


class Arrival:
    """A document that has come to a broker, or was published there: as it came, and, where that is needed, as read."""

    __slots__ = ("_body", "document", "forms", "is_read", "number", "parcel")

    def __init__(self, parcel: Parcel, document: Document | None, *, is_read: bool = True) -> None:
        self.parcel = parcel
        self.number = parcel.number
        self.document = document
        """None: it is not read so far, or it is text that cannot be read here, which may be a matter of limits."""
        self.is_read = is_read
        self.forms: dict[str, Parcel] | None = None
        """By format, what was encoded here."""
        self._body: bytes | None = parcel.body if parcel.format == TEXT else None

    @property
    def source(self) -> str:
        return self.parcel.source

    @property
    def id(self) -> str:
        return self.parcel.id

    @property
    def published_ms(self) -> int:
        return self.parcel.published_ms

    @property
    def early(self) -> str:
        """The mark of what was done to it on the way."""
        return self.parcel.early

    @property
    def body(self) -> bytes:
        """The text."""
        if self._body is None:
            assert self.document is not None, "what is no text was read"
            self._body = self.document.data
        return self._body

    @property
    def content(self) -> AnyDocument:
        """What an index takes, once it was read."""
        assert self.is_read, "a form of a link is nothing for an index"
        return self.parcel.body if self.document is None else self.document

    @property
    def size_bytes(self) -> int:
        """What it takes while it waits, about."""
        return len(self.parcel.body) + (self.document.size_bytes if self.document is not None else 0)


class Forms(Sequence[Arrival]):
    """Documents of one format as they came, to which nothing was done on the way. They are read when somebody looks at
    one of them; mostly native code reads them, and nobody else does.

        >>> from treecast.overlay.onyx.settings import NetworkSettings
        >>> forms = LinkFormats(NetworkSettings()).forms(Parcels.of([Parcel(7, "s", "", 0, "text", b"<a/>")]))
        >>> len(forms), forms[0].body
        (1, b'<a/>')
    """

    def __init__(self, parcels: Parcels, codec: Codec, formats: LinkFormats) -> None:
        self.parcels = parcels
        self.codec = codec
        self._formats = formats
        self._arrivals: list[Arrival] | None = None

    def __len__(self) -> int:
        return len(self.parcels)

    @overload
    def __getitem__(self, place: int) -> Arrival: ...
    @overload
    def __getitem__(self, place: slice) -> list[Arrival]: ...
    def __getitem__(self, place: int | slice) -> Arrival | list[Arrival]:
        if self._arrivals is None:
            self._arrivals = self._formats.read(self.parcels)
        return self._arrivals[place]

    def after(self, number: int) -> Forms:
        """Those with higher numbers, which ascend."""
        parcels = self.parcels.after(number)
        return self if parcels is self.parcels else self.those(parcels)

    def those(self, parcels: Parcels) -> Forms:
        """Some of them."""
        return Forms(parcels, self.codec, self._formats)


class LinkFormats:
    """What one broker writes and reads of one root's documents."""

    def __init__(self, settings: NetworkSettings, limits: Limits | None = None) -> None:
        self._settings = settings
        self._limits = limits
        self._codecs: dict[str, Codec] = {}
        self._known: OrderedDict[int, Dictionary] = OrderedDict()
        self.dictionary: Dictionary | None = None
        """The one that is to be used on the links to the children; at a root, learnt here."""
        self._order = (0, 0)  # of that: the life of its root, and its version
        self._sample: list[Document] = []
        self._passed = 0  # documents that were looked at to learn
        self._due = settings.dictionary_documents

    # --- agreeing -----------------------------------------------------------------------------------------------------

    @property
    def offered(self) -> list[str]:
        """What others are told: everything that is read here."""
        return list(self._settings.link_reads)

    def choose(self, offered: Sequence[str], known: int) -> str:
        """The format for a child that reads these, and has confirmed the dictionary with that fingerprint (0: none)."""
        ready = self.dictionary is not None and self.dictionary.fingerprint == known
        for name in self._settings.link_formats:
            if name not in offered:
                continue
            format = parse_format(name)
            if format.form != _DICTIONARY:
                return name
            if ready:
                return f"{name}:{known:08x}"
            plain = name.replace(_DICTIONARY, "binary")
            if plain in offered:
                return plain
        return TEXT

    def choose_plain(self, offered: Sequence[str]) -> str:
        """The format for somebody who is no child, and knows no dictionary."""
        wanted = [name.replace(_DICTIONARY, "binary") for name in self._settings.link_formats]
        return agree(wanted, offered)

    def uses_dictionary(self, offered: Sequence[str]) -> bool:
        """A link to a child that reads these would use a dictionary."""
        return any(name in offered and name.startswith(_DICTIONARY) for name in self._settings.link_formats)

    # --- documents ----------------------------------------------------------------------------------------------------

    def take(self, parcels: Sequence[Parcel]) -> list[Arrival]:
        """Documents that came, which are still to be read. Raises PeerError for formats that are not read here."""
        for name in {parcel.format for parcel in parcels}:
            self.codec(name)
        return [Arrival(parcel, None, is_read=False) for parcel in parcels]

    def forms(self, parcels: Parcels) -> Forms | None:
        """Documents that came, if nobody here has to do more with them than to read them; None: somebody has, or they
        have several formats. Raises PeerError as `take` does."""
        format = parcels.format
        if format is None or not parcels.is_unchanged:
            return None
        return Forms(parcels, self.codec(format), self)

    def read(self, parcels: Sequence[Parcel]) -> list[Arrival]:
        """The same, read. Raises PeerError, for all of them."""
        arrivals = self.take(parcels)
        self.read_all(arrivals)
        return arrivals

    def read_all(self, arrivals: Sequence[Arrival]) -> None:
        """Read those that were not read so far, a batch by a native call. Raises PeerError."""
        missing = [arrival for arrival in arrivals if not arrival.is_read]
        for name in dict.fromkeys(arrival.parcel.format for arrival in missing):
            some = [arrival for arrival in missing if arrival.parcel.format == name]
            documents = self.codec(name).decode_many([arrival.parcel.body for arrival in some])
            for arrival, document in zip(some, documents, strict=True):
                if isinstance(document, Document):
                    arrival.document = document
                elif name != TEXT:
                    raise unreadable(document)
                arrival.is_read = True

    def write(self, arrivals: Sequence[Arrival], name: str) -> list[Parcel]:
        """These documents in a format that was chosen; each is encoded once, however many links it leaves by."""
        if {arrival.parcel.format for arrival in arrivals} <= {name}:
            return [arrival.parcel for arrival in arrivals]
        self.read_all([arrival for arrival in arrivals if arrival.parcel.format != name])
        parcels: list[Parcel | None] = []
        missing: list[tuple[int, Arrival, Document]] = []
        for place, arrival in enumerate(arrivals):
            parcel = arrival.parcel
            document = arrival.document
            if parcel.format == name or document is None:  # what cannot be read here stays as it is
                parcels.append(parcel)
            elif arrival.forms is not None and name in arrival.forms:
                parcels.append(arrival.forms[name])
            else:
                parcels.append(None)
                missing.append((place, arrival, document))
        if missing:
            bodies = self.codec(name).encode_many([document for _, _, document in missing])
            for (place, arrival, _), body in zip(missing, bodies, strict=True):
                made = arrival.parcel
                made = Parcel(made.number, made.source, made.id, made.published_ms, name, body, made.early)
                arrival.forms = {**(arrival.forms or {}), name: made}
                parcels[place] = made
        return [parcel for parcel in parcels if parcel is not None]

    def codec(self, name: str) -> Codec:
        """For a name as it travels. Raises PeerError where it is not known, or not read here."""
        codec = self._codecs.get(name)
        if codec is None:
            form, mark, fingerprint = name.partition(":")
            known = self._known.get(_number(fingerprint)) if fingerprint else None
            dictionary = parse_format(form).form == _DICTIONARY
            if dictionary and (known is None or fingerprint != f"{known.fingerprint:08x}"):
                raise PeerError(f"TC487 there is no dictionary {fingerprint[:40]!r} here", code="TC487")
            forms = (TEXT, *self._settings.link_reads, *self._settings.link_formats, *self._plain_formats)
            # A codec has one name: those that others think up are not kept.
            if (mark and not dictionary) or form not in forms:
                raise PeerError(f"TC486 documents in the format {name[:40]!r} are not read here", code="TC486")
            codec = self._codecs[name] = Codec(form, dictionary=known if dictionary else None, limits=self._limits)
        return codec

    @property
    def _plain_formats(self) -> list[str]:
        """What formats with dictionaries are without one."""
        return [name.replace(_DICTIONARY, "binary") for name in self._settings.link_formats]

    # --- dictionaries -------------------------------------------------------------------------------------------------

    def adopt(self, dictionary: Dictionary, root_life: int) -> bool:
        """A dictionary of the root: to read with, and, if it is newer than what is here, to hand on."""
        if dictionary.fingerprint not in self._known:
            self._known[dictionary.fingerprint] = dictionary
            while len(self._known) > self._settings.dictionaries_max:
                gone, _ = self._known.popitem(last=False)
                for name in [name for name in self._codecs if name.endswith(f":{gone:08x}")]:
                    del self._codecs[name]
        if (root_life, dictionary.version) <= self._order:
            return False
        self._order = (root_life, dictionary.version)
        self.dictionary = dictionary
        return True

    @property
    def is_learning(self) -> bool:
        """Another dictionary is to come."""
        return self._due > 0

    def learn(self, arrivals: Sequence[Arrival], root_life: int) -> bool:
        """At a root: look at documents that are passed on. True: there is a new dictionary."""
        if not self._due:
            return False
        count = self._settings.dictionary_documents
        self._passed += len(arrivals)
        self._sample += [arrival.document for arrival in arrivals if arrival.document is not None]
        del self._sample[:-count]
        if self._passed < self._due:
            return False
        version = self.dictionary.version + 1 if self.dictionary is not None else 1
        self._due = self._due * count if version == 1 else 0
        learnt = Dictionary.learn(self._sample, version=version, bytes_max=self._settings.dictionary_bytes_max)
        self._sample.clear()
        return self.adopt(learnt, root_life)


def unreadable(error: Exception) -> PeerError:
    """A document that came in a broken form."""
    return PeerError(f"a document cannot be read: {error}", code="TC404")


def _number(fingerprint: str) -> int:
    try:
        return int(fingerprint, 16)
    except ValueError:
        return 0
