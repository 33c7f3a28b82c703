"""A small, invented set of documents and subscriptions.

`path()` is a directory with `documents/` (news, trades, feeds, invoices, clinical notes and patents, in several
encodings and namespaces, one of them gzipped) and `subscriptions.csv` (columns id, query, namespaces). The demo, the
README and the tests use it; it is too small for measurements.

    >>> from treecast import sample
    >>> sorted(entry.name for entry in (sample.path() / "documents").iterdir())
    ['clinical', 'feeds', 'invoices', 'news', 'patents', 'trades']

`python -m treecast.sample` prints the directory, for use on a command line.
"""

from __future__ import annotations

from pathlib import Path


def path() -> Path:
    """The directory of the sample, as installed."""
    return Path(__file__).parent
