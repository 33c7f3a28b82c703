"""Two clocks and a scale: wall and CPU time of an action, and the private memory of this process.

>>> from treecast.measure.seconds import Seconds, clock, median
>>> median([Seconds(1.0, 0.5), Seconds(4.0, 0.75), Seconds(2.0, 0.25)])
Seconds(wall=2.0, cpu=0.5)
>>> clock(lambda: sum(range(1000))).wall > 0
True
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Seconds:
    """One measured time, by both clocks."""

    wall: float
    cpu: float

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: Seconds) -> Seconds:
        """What is left, and nothing where noise says less than nothing."""
        return Seconds(max(0.0, self.wall - other.wall), max(0.0, self.cpu - other.cpu))

    def __mul__(self, factor: float) -> Seconds:
        return Seconds(self.wall * factor, self.cpu * factor)

    def __truediv__(self, count: float) -> Seconds:
        return Seconds(self.wall / count, self.cpu / count)


ZERO = Seconds(0.0, 0.0)


def clock(action: Callable[[], object]) -> Seconds:
    """Run once. The collector waits: it would charge one pass for what another left behind."""
    gc.collect()
    gc.disable()
    try:
        wall, cpu = time.perf_counter(), time.process_time()
        action()
        return Seconds(time.perf_counter() - wall, time.process_time() - cpu)
    finally:
        gc.enable()


def tree_clock(action: Callable[[], object]) -> Seconds:
    """The same, with the CPU time of all processes below this one: of a JVM and its workers."""
    wall, cpu = time.perf_counter(), tree_cpu_seconds()
    action()
    return Seconds(time.perf_counter() - wall, tree_cpu_seconds() - cpu)


def median(times: Sequence[Seconds]) -> Seconds:
    return Seconds(statistics.median(t.wall for t in times), statistics.median(t.cpu for t in times))


def tree_cpu_seconds() -> float:
    """CPU time so far of this process and its descendants that live."""
    times, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        pid = int(stat.parent.name)
        parents[pid], times[pid] = int(fields[1]), sum(map(int, fields[11:15]))

    def ours(pid: int) -> bool:
        while pid and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return sum(time for pid, time in times.items() if ours(pid)) / os.sysconf("SC_CLK_TCK")


def private_bytes() -> int:
    """Memory of this process that no file stands behind, so that mapped inputs do not count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("this system does not tell the private memory of a process")
