"""Schemas -> documents: random, well-formed, valid, of about the requested size.

    >>> from treecast.workload import DocumentSettings, Schema, generate_documents
    >>> documents = list(generate_documents(Schema.news(), 20, DocumentSettings(bytes_target=5000), seed=1))
    >>> 3000 < sum(map(len, documents)) / 20 < 7000
    True

Several schemas make one workload, evenly or by weights; each gives the same documents as it would alone:

    >>> both = generate_documents([Schema.news(), Schema.records()], 4, DocumentSettings(bytes_target=500))
    >>> [document.split(b"\\n")[1][:7] for document in both]
    [b'<news>', b'<trades', b'<news>', b'<trades']

One exception: if a DTD uses a prefix and declares no attribute `xmlns:prefix` for it, no document is both valid and
well-formed with namespaces. Ours are then well-formed, and valid in everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from treecast.workload.document_writer import DocumentWriter
from treecast.workload.schema import Schema
from treecast.workload.shares import turns
from treecast.workload.values import SKEW_MAX, Values

# What treecast's reader accepts by default.
DEPTH_MAX = 512


@dataclass(frozen=True)
class DocumentSettings:
    """What documents look like.

    `bytes_target`: their average size, as far as the DTD allows. With None only the draws decide, and `bytes_max` is
    where a document that grows without end is finished.
    `depth_max`: the maximum number of levels; a content model that needs more gets as few as possible.
    `repeats_max`: how often a part marked * or + is repeated, unless the size requires more.
    `recursion_max`: how many ancestors of its own name an element may have, unless the content model requires more.
    `optional`: the probability of a part marked ?.
    `attributes`: the probability of an attribute that is not required.
    `skew`: theta; the alternatives of a choice and the children of mixed content are drawn by Zipf's law in the order
    of the content model. `weights`, by element name, multiply that (0: only where nothing else fits).
    `values`: the contents of attributes and texts.
    """

    bytes_target: int | None = 30_000
    bytes_max: int = 16 << 20
    depth_max: int = 10
    repeats_max: int = 4
    recursion_max: int | None = None
    optional: float = 0.6
    attributes: float = 0.25
    skew: float = 0.0
    weights: Mapping[str, float] = field(default_factory=dict)
    values: Values = field(default_factory=Values)

    def __post_init__(self) -> None:
        sizes = (self.bytes_target, self.bytes_max, self.repeats_max)
        if any(size is not None and size < 1 for size in sizes):
            raise ValueError("bytes_target, bytes_max and repeats_max are at least 1")
        if not 1 <= self.depth_max <= DEPTH_MAX:
            raise ValueError(f"depth_max is at least 1 and at most {DEPTH_MAX}")
        if self.recursion_max is not None and self.recursion_max < 0:
            raise ValueError("recursion_max is at least 0")
        if not 0 <= self.attributes <= 1 or not 0 <= self.optional <= 1:
            raise ValueError("attributes and optional are probabilities, from 0 to 1")
        if not 0 <= self.skew <= SKEW_MAX:
            raise ValueError(f"a skew is from 0 to {SKEW_MAX:g}")
        if not all(0 <= weight < float("inf") for weight in self.weights.values()):
            raise ValueError("weights are not negative")


def generate_documents(
    schema: Schema | Sequence[Schema],
    count: int,
    settings: DocumentSettings | None = None,
    *,
    seed: int = 0,
    start: int = 0,
    weights: Sequence[float] | None = None,
) -> Iterator[bytes]:
    """Documents number `start`, `start` + 1, … of these schemas, settings and seed. Each document is the same, however
    many are drawn. `weights` are the shares of several schemas."""
    if count < 0 or start < 0:
        raise ValueError("count and start are not negative")
    schemas = [schema] if isinstance(schema, Schema) else list(schema)
    order = turns(len(schemas), weights)
    settings = settings or DocumentSettings()
    check_names(schemas, settings)
    writers = [DocumentWriter(one, settings, seed) for one in schemas]
    return (writers[place].write(number) for place, number in islice(order, start, start + count))


def check_names(schemas: Sequence[Schema], settings: DocumentSettings) -> None:
    """Refuse weights for elements that no schema has, so that a typo does not go unnoticed."""
    element_names = {name for schema in schemas for name in schema.elements}
    unknown = next((name for name in settings.weights if name not in element_names), None)
    if unknown is not None:
        raise ValueError(f"there is a weight for '{unknown}', and no such element")
    settings.values.check_names([element for schema in schemas for element in schema.elements.values()])
