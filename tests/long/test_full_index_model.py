"""An index against its model, full size: a hundred thousand changes. The twin of tests/test_index_model.py."""

from __future__ import annotations

from random import Random

import pytest
from oracles.differential import CACHES
from test_index_model import Pool, run

from treecast import Index

pytestmark = pytest.mark.long


@pytest.mark.parametrize("cache", list(CACHES))
def test_many_changes(cache: str) -> None:
    limit = CACHES[cache]
    index = Index() if limit is None else Index(cache_bytes_max=limit)
    run(Pool(17, 2000), index, Random(f"{cache}/full"), 35_000, 3000)
