"""What the C library does with memory that a process has freed.

It gives large blocks back to the system by default, and takes them anew for the next frame: each of their pages costs a
fault, and is cleared. A broker needs blocks of that size all the time. Small blocks it keeps: what ten thousand
connections have left stays with the process, unless it asks for it to be given back.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

BLOCK_BYTES_MAX = 4 << 20
"""Larger blocks are taken from the system, and given back; frames are smaller."""
FREE_BYTES_MAX = 32 << 20
"""What is free at the end of the heap is given back beyond this."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h


def keep_freed_memory() -> bool:
    """Let this process keep what it frees, within limits. False where the C library does not offer it.

    PERF: bench/network_cpu.py. A broker that passes on and delivers had 200 faults for a frame, and has 20 with this.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, BLOCK_BYTES_MAX) and mallopt(_TRIM_THRESHOLD, FREE_BYTES_MAX))


def give_back_memory() -> None:
    """Collect garbage, and give what is free to the system, where the C library offers it."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
