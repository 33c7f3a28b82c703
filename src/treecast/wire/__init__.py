"""Documents as they travel between brokers: nine formats, three forms each plain or compressed (ONYX, section 4.3.2).

    text         the original bytes; whoever receives them reads them
    binary       an element stream: names once a document, lengths instead of delimiters; decoded without parsing
    dictionary   the same, with names and frequent attribute values that both ends of a link know by number

each plain, with `-zlib` (as in the paper) or with `-zstd`. Every format gives back the same Document: its columns, and
its original bytes, are those of the text.

    >>> from treecast import read
    >>> from treecast.wire import Codec, Dictionary
    >>> document = read(b'<news><item area="SF">Fog</item></news>')
    >>> link = Codec("dictionary", dictionary=Dictionary.learn([document], count_min=1))
    >>> body = link.encode(document)
    >>> len(document.data), len(body)
    (39, 25)
    >>> link.decode(body).data
    b'<news><item area="SF">Fog</item></news>'

Use it on links between processes. To store documents, store their original bytes.
"""

from treecast.wire.codec import Codec
from treecast.wire.dictionary import Dictionaries, Dictionary
from treecast.wire.formats import FORMATS, Format, agree, parse_format

__all__ = ["FORMATS", "Codec", "Dictionaries", "Dictionary", "Format", "agree", "parse_format"]
