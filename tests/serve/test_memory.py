"""Freed memory stays with the process, so that the next block of that size costs no faults of pages."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.house

PROGRAM = """
import resource, sys
from treecast.serve.memory import keep_freed_memory

if sys.argv[1] == "kept":
    assert keep_freed_memory()

def use():
    for block in [bytearray(1_500_000) for _ in range(4)]:
        block[:] = bytes(1_500_000)

use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    return int(subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, check=True).stdout)


def test_blocks_of_the_size_of_frames_are_kept() -> None:
    assert faults("kept") * 5 < faults("given back")
