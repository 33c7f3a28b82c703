"""What `import treecast` brings, and what it leaves for later."""

from __future__ import annotations

import subprocess
import sys

import pytest

import treecast

pytestmark = pytest.mark.house

LATER = {
    "AsyncIndex": "asyncio",
    "read_subscriptions": "treecast.inputs.subscriptions",
    "records": "pyarrow",
    "transcode": "treecast.transcoding",
}


def modules_after(code: str) -> set[str]:
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_is_light() -> None:
    heavy = {"asyncio", "msgspec", "pyarrow", "pyspark", "py4j", "numpy", "lxml", "socket", "matplotlib"}
    assert modules_after("import treecast; dir(treecast)") & heavy == set()


@pytest.mark.parametrize("name", LATER)
def test_other_names_are_imported_when_asked_for(name: str) -> None:
    assert LATER[name] in modules_after(f"import treecast; treecast.{name}")
    assert name in dir(treecast) and name in treecast.__all__


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="module 'treecast' has no attribute 'Indexes'"):
        treecast.Indexes  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name"):
        exec("from treecast import Indexes")
