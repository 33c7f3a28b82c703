"""requirements.lock: exact versions that pyproject.toml allows, each with hashes, and no index."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
ENTRY = re.compile(r"([a-z0-9-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


@pytest.fixture(scope="module")
def lock_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock", ROOT / "tools" / "lock.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def locked() -> dict[str, Version]:
    return {name: Version(version) for name, version, _ in ENTRY.findall(LOCK.read_text())}


def test_every_line_is_an_exact_version_with_hashes() -> None:
    text = LOCK.read_text()
    entries = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    assert ENTRY.sub("", entries) == ""
    names = [name for name, _, _ in ENTRY.findall(entries)]
    assert names == sorted(set(names)) and len(names) > 30
    assert "://" not in text and "index" not in text


def test_the_lock_satisfies_the_ranges(lock_tool: ModuleType) -> None:
    """Change a range and forget the lock, and this says so: run tools/lock.py."""
    versions = locked()
    for text in (*lock_tool.ranges(), *lock_tool.BUILD_REQUIRES):
        wanted = Requirement(text)
        name = lock_tool.normal(wanted.name)
        assert name in versions and versions[name] in wanted.specifier, text


def test_nothing_is_lacking(lock_tool: ModuleType) -> None:
    """What the packages that are installed here need is in the lock too: by hashes pip installs all or nothing."""
    versions = locked()
    looked_at = 0
    for name in versions:
        try:
            needs = requires(name) or ()
        except PackageNotFoundError:  # of another platform, or a venv from before the lock
            continue
        looked_at += 1
        for text in needs:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert lock_tool.normal(needed.name) in versions, f"{name} needs {text}"
    assert looked_at > 20


def test_files_for_the_platform_are_recognised(lock_tool: ModuleType) -> None:
    for file, fits in {
        "a-1-py3-none-any.whl": True,
        "a-1-py2.py3-none-any.whl": True,
        "a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl": True,
        "a-1-cp38-abi3-manylinux_2_28_x86_64.whl": True,
        "a-1-py3-none-manylinux_2_17_x86_64.whl": True,
        "a-1.tar.gz": True,
        "a-1-cp312-cp312-manylinux_2_17_x86_64.whl": False,
        "a-1-cp312-abi3-manylinux_2_17_x86_64.whl": False,
        "a-1-cp311-cp311-win_amd64.whl": False,
        "a-1-cp311-cp311-macosx_11_0_x86_64.whl": False,
        "a-1-cp311-cp311-manylinux_2_17_aarch64.whl": False,
        "a-1-cp39-cp39-manylinux_2_17_x86_64.whl": False,
        "a-1.egg": False,
    }.items():
        assert lock_tool.fits(file) == fits, file
    assert lock_tool.version_of("scikit_build_core-1.1.1-py3-none-any.whl", "scikit-build-core") == "1.1.1"
    assert lock_tool.version_of("nats-py-2.16.0.tar.gz", "nats-py") == "2.16.0"
    assert lock_tool.version_of("nats-py-extra-2.16.0.tar.gz", "nats-py") is None
