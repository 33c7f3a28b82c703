"""The faults of a run, as a list that is drawn before it begins.

A fault says what goes wrong, where, and when. A run with the same seed and the same list is the same run; so a failing
seed can be run with fewer faults, until only those are left that it needs (`treecast.sim.shorten`).

`draw_faults` is swarm testing: each seed draws which kinds of faults it has at all, and then how many of each. Runs
that have everything at once rarely get anywhere; runs with two kinds of faults find what the two do to each other.

    >>> print(text_of(Crash("broker", at_ms=1200, down_ms=300)))
    at 1200 ms: broker crashes, and is back after 300 ms
    >>> faults = [Crash("broker", at_ms=1200, down_ms=300), Partition([["broker"], ["c1", "c2"]], 500, 900)]
    >>> from_toml(to_toml(faults)) == faults
    True
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Literal

import msgspec

ANY = "*"
"""Any host, as one end of a link."""


class _Fault(msgspec.Struct, frozen=True, tag_field="fault"):
    pass


class Crash(_Fault, frozen=True, tag="crash"):
    """A host loses its memory and what its disk has not synced, and later starts again."""

    host: str
    at_ms: int
    down_ms: int
    loses_disk: bool = False
    """It comes back with an empty disk. Only for overlays that keep copies."""


class Partition(_Fault, frozen=True, tag="partition"):
    """Hosts of different groups do not hear each other. Hosts in no group hear all."""

    groups: list[list[str]]
    begin_ms: int
    end_ms: int
    one_way: bool = False
    """What later groups send to earlier ones arrives."""


LinkEffect = Literal["loss", "duplication", "reordering", "flips", "delay"]
HostEffect = Literal[
    "stall", "slow", "full-disk", "slow-disk", "failed-sync", "damage", "clock-jump", "clock-drift"
]  # fmt: skip


class LinkFault(_Fault, frozen=True, tag="link"):
    """What is sent from one host to another is disturbed.

    `amount` is in thousandths of all frames for loss, duplication and flips; in milliseconds for delay and reordering,
    where each frame is delayed by up to so much and may be overtaken.
    """

    effect: LinkEffect
    sender: str
    receiver: str
    begin_ms: int
    end_ms: int
    amount: int


class HostFault(_Fault, frozen=True, tag="host"):
    """A host is not well.

    stall: it does nothing, and then handles all that has arrived meanwhile. slow: it needs `amount` ms a frame.
    full-disk: storing fails. slow-disk: a sync needs `amount` ms more. failed-sync: the next sync fails. damage: one
    stored body becomes unreadable. clock-jump: its clock is set by `amount` ms. clock-drift: its clock is fast by
    `amount` millionths.
    """

    effect: HostEffect
    host: str
    begin_ms: int
    end_ms: int = 0
    amount: int = 0


Fault = Crash | Partition | LinkFault | HostFault

_LINK_TEXTS: dict[LinkEffect, str] = {
    "loss": "{amount}/1000 of the frames are lost",
    "duplication": "{amount}/1000 of the frames arrive twice",
    "reordering": "frames arrive up to {amount} ms later, in any order",
    "flips": "{amount}/1000 of the frames have flipped bits",
    "delay": "frames arrive {amount} ms later",
}
_HOST_TEXTS: dict[HostEffect, str] = {
    "stall": "{host} does nothing, and then handles all that has arrived",
    "slow": "{host} needs {amount} ms for each frame",
    "full-disk": "the disk of {host} is full",
    "slow-disk": "a sync of {host} needs {amount} ms more",
    "failed-sync": "the next sync of {host} fails",
    "damage": "a body on the disk of {host} becomes unreadable",
    "clock-jump": "the clock of {host} is set by {amount} ms",
    "clock-drift": "the clock of {host} is fast by {amount} ppm",
}


def text_of(fault: Fault) -> str:
    """One line for people."""
    if isinstance(fault, Crash):
        disk = " with an empty disk" if fault.loses_disk else ""
        return f"at {fault.at_ms} ms: {fault.host} crashes, and is back{disk} after {fault.down_ms} ms"
    if isinstance(fault, Partition):
        groups = " | ".join(" ".join(group) for group in fault.groups)
        direction = "only later groups are heard" if fault.one_way else "nobody hears another group"
        return f"{fault.begin_ms}-{fault.end_ms} ms: partition {groups}: {direction}"
    if isinstance(fault, LinkFault):
        text = _LINK_TEXTS[fault.effect].format(amount=fault.amount)
        return f"{fault.begin_ms}-{fault.end_ms} ms: from {fault.sender} to {fault.receiver}, {text}"
    time = f"{fault.begin_ms}-{fault.end_ms} ms" if fault.end_ms else f"at {fault.begin_ms} ms"
    return f"{time}: {_HOST_TEXTS[fault.effect].format(host=fault.host, amount=fault.amount)}"


def to_toml(faults: Sequence[Fault]) -> str:
    """`faults = [...]`, a line each, for a file of cases."""
    lines = []
    for fault in faults:
        fields: dict[str, Any] = msgspec.to_builtins(fault)
        lines.append("  { " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in fields.items()) + " },\n")
    return "faults = [\n" + "".join(lines) + "]\n"


def from_toml(text: str) -> list[Fault]:
    return from_tables(tomllib.loads(text)["faults"])


def from_tables(tables: list[dict[str, Any]]) -> list[Fault]:
    """Faults from the tables of a TOML file."""
    return [msgspec.convert(table, Fault) for table in tables]


# --- drawing ----------------------------------------------------------------------------------------------------------


class FaultRates(msgspec.Struct, frozen=True):
    """Which faults a scenario allows, and how many of a kind a run has at most."""

    count_max: int = 4
    crashing: tuple[str, ...] = ()
    """Hosts that may crash, stall, or be slow."""
    restarting: tuple[str, ...] = ()
    """Hosts that crash more often than the others, and are soon back."""
    storing: tuple[str, ...] = ()
    """Hosts whose disks may fail."""
    loses_disk: bool = False
    damages: bool = False
    clock_jump_ms_max: int = 5_000


def draw_faults(random: Random, hosts: Sequence[str], duration_ms: int, rates: FaultRates) -> list[Fault]:
    """The faults of a run. Each kind is in about a third of all runs; one run in ten has none at all."""
    faults: list[Fault] = []
    if random.random() < 0.1:
        return faults

    def times() -> range:
        """So often for a kind of fault that this run has, and never for the others."""
        return range(random.randint(1, rates.count_max) if random.random() < 0.35 else 0)

    def period(longest: float) -> tuple[int, int]:
        """Begin and end, within the run."""
        begin = random.randrange(duration_ms)
        return begin, min(duration_ms, begin + int(random.uniform(0.01, longest) * duration_ms) + 1)

    for _ in times() if rates.crashing else ():
        host, at = random.choice(rates.crashing), random.randrange(duration_ms)
        down = random.choice([1, random.randint(1, 100), random.randint(100, max(101, duration_ms // 3))])
        faults.append(Crash(host, at, down, rates.loses_disk and random.random() < 0.3))
    for _ in times():
        faults.append(_draw_partition(random, hosts, period(0.4)))
    for effect in ("loss", "duplication", "reordering", "flips", "delay"):
        for _ in times():
            sender, receiver = random.choice([*hosts, ANY]), random.choice([*hosts, ANY])
            amount = random.choice([5, 50, 300, 700]) if effect in ("loss", "duplication", "flips") else 0
            amount = amount or random.choice([2, 20, 200, 2_000])
            faults.append(LinkFault(effect, sender, receiver, *period(0.8), amount))
    for effect in ("stall", "slow"):
        for _ in times() if rates.crashing else ():
            host, amount = random.choice(rates.crashing), random.choice([1, 10, 50])
            faults.append(HostFault(effect, host, *period(0.3), amount))  # type: ignore[arg-type]
    faults += _draw_disk_faults(random, rates, times, period)
    for _ in times():
        jump = random.randint(-rates.clock_jump_ms_max, rates.clock_jump_ms_max)
        faults.append(HostFault("clock-jump", random.choice(hosts), random.randrange(duration_ms), 0, jump))
    for _ in times():
        faults.append(HostFault("clock-drift", random.choice(hosts), *period(1.0), random.randint(-50_000, 50_000)))
    for _ in times() if rates.restarting else ():
        host, at = random.choice(rates.restarting), random.randrange(duration_ms)
        faults.append(Crash(host, at, random.choice([1, random.randint(1, 50)])))
    crashes = [fault for fault in faults if isinstance(fault, Crash)]
    return faults + [_draw_late(random, crash) for crash in crashes if random.random() < 0.6]


def _draw_late(random: Random, crash: Crash) -> LinkFault:
    """Some of what a host has sent before a crash arrives when it is back, and between what it sends then."""
    begin, end = max(crash.at_ms - 300, 0), crash.at_ms + crash.down_ms + 200
    return LinkFault("reordering", crash.host, ANY, begin, end, random.choice([50, 300, 1_000]))


def _draw_partition(random: Random, hosts: Sequence[str], times: tuple[int, int]) -> Partition:
    groups: list[list[str]] = [[] for _ in range(random.choice([2, 2, 2, 3]))]
    for host in hosts:
        random.choice(groups).append(host)
    random.shuffle(groups)
    return Partition([group for group in groups if group], *times, one_way=random.random() < 0.4)


def _draw_disk_faults(
    random: Random,
    rates: FaultRates,
    times: Callable[[], range],
    period: Callable[[float], tuple[int, int]],
) -> list[Fault]:
    faults: list[Fault] = []
    if not rates.storing:
        return faults
    for _ in times():
        faults.append(HostFault("full-disk", random.choice(rates.storing), *period(0.2)))
    for _ in times():
        faults.append(HostFault("slow-disk", random.choice(rates.storing), *period(0.5), random.choice([5, 50, 500])))
    for _ in times():
        faults.append(HostFault("failed-sync", random.choice(rates.storing), period(0.1)[0]))
    for _ in times() if rates.damages else ():
        faults.append(HostFault("damage", random.choice(rates.storing), period(0.1)[0]))
    return faults
