"""Workloads: documents and queries drawn from DTDs, for benchmarks and for tests.

Use it to measure treecast on documents shaped like yours when the documents themselves cannot be shared. It is not a
fuzzer: its documents are always well-formed, and valid against their DTD.

Example:

    >>> from treecast.workload import Schema, generate_documents, generate_queries
    >>> schema = Schema.news()
    >>> [document] = generate_documents(schema, 1, seed=7)
    >>> document.startswith(b"<?xml"), schema.root
    (True, 'news')
    >>> len(set(generate_queries(schema, 1000, seed=7)))
    1000

Equal settings and seeds give equal bytes, on every machine and with every hash seed.
"""

from treecast.workload.content_model import Attribute, Element, Group, Name, Particle
from treecast.workload.documents import DocumentSettings, generate_documents
from treecast.workload.queries import QuerySettings, generate_queries
from treecast.workload.schema import Schema
from treecast.workload.values import NumberRange, Values

__all__ = [
    "Attribute",
    "DocumentSettings",
    "Element",
    "Group",
    "Name",
    "NumberRange",
    "Particle",
    "QuerySettings",
    "Schema",
    "Values",
    "generate_documents",
    "generate_queries",
]
