"""Measures the wall-clock and CPU time of an action, and the private memory of this process.

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
from typing import NamedTuple


@dataclass(frozen=True)
class Seconds:
    """One measured time, by both clocks."""

    wall: float
    cpu: float

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: Seconds) -> Seconds:
        """The difference, or zero if noise makes it negative."""
        return Seconds(max(0.0, self.wall - other.wall), max(0.0, self.cpu - other.cpu))

    def __mul__(self, factor: float) -> Seconds:
        return Seconds(self.wall * factor, self.cpu * factor)

    def __truediv__(self, count: float) -> Seconds:
        return Seconds(self.wall / count, self.cpu / count)


ZERO = Seconds(0.0, 0.0)


def clock(action: Callable[[], object]) -> Seconds:
    """Run once, with the garbage collector off: it would charge one pass for the garbage of another."""
    gc.collect()
    gc.disable()
    try:
        wall, cpu = time.perf_counter(), time.process_time()
        action()
        return Seconds(time.perf_counter() - wall, time.process_time() - cpu)
    finally:
        gc.enable()


def tree_clock(action: Callable[[], object]) -> Seconds:
    """The same, with the CPU time of all child processes: a JVM and its workers."""
    wall, before = time.perf_counter(), _tree()
    action()
    return Seconds(time.perf_counter() - wall, _ticks_between(before, _tree()) / os.sysconf("SC_CLK_TCK"))


def median(times: Sequence[Seconds]) -> Seconds:
    return Seconds(statistics.median(t.wall for t in times), statistics.median(t.cpu for t in times))


class _Ticks(NamedTuple):
    """CPU time of one process, and of the children that it has waited for."""

    own: int
    waited: int


def _tree() -> dict[tuple[int, str], _Ticks]:
    """This process and its living descendants, by id and start time, because ids are reused."""
    ticks_by_pid, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        ticks_by_pid[pid] = fields[19], _Ticks(int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14]))

    def is_descendant(pid: int) -> bool:
        while pid and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return {(pid, start): ticks for pid, (start, ticks) in ticks_by_pid.items() if is_descendant(pid)}


def _ticks_between(before: dict[tuple[int, str], _Ticks], after: dict[tuple[int, str], _Ticks]) -> int:
    """The CPU time spent between two snapshots.

    The time of a process that has ended is in what its parent waited for, minus what it had spent before. If nobody
    waited (an idle worker that was killed), it is unknown and counts as zero.
    """
    none = _Ticks(0, 0)
    living_ticks = sum(now.own - before.get(who, none).own for who, now in after.items())
    waited_ticks = sum(now.waited - before.get(who, none).waited for who, now in after.items())
    ended_ticks = sum(sum(then) for who, then in before.items() if who not in after)
    return living_ticks + max(0, waited_ticks - ended_ticks)


def private_bytes() -> int:
    """Memory of this process without a file behind it, so that mapped inputs do not count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("this system does not report the private memory of a process")
