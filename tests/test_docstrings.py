"""Every example in a module's documentation runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import treecast

pytestmark = pytest.mark.house


def modules() -> list[str]:
    found = [module.name for module in pkgutil.walk_packages(treecast.__path__, "treecast.")]
    return ["treecast", *(name for name in found if not name.endswith(("__main__", "._native")))]


@pytest.mark.parametrize("name", modules())
def test_examples_in_documentation(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
