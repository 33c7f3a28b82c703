"""How many shards each of several clusters gets, and which clusters share one: sized by the load that they bring."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def allot(loads: Mapping[Key, float], shards: int) -> list[tuple[tuple[Key, ...], int]]:
    """Divide `shards` among clusters: [(clusters that stay together, number of shards for them), …].

    A cluster whose share of the load is worth a shard or more gets as many for itself; the others are packed together,
    the heaviest first, each to where there is least. The numbers add up to `shards`, or to the number of clusters
    where there are fewer of those and none has any load to divide.
    """
    if not loads:
        return []
    total = sum(loads.values())
    keys_by_load = sorted(loads, key=lambda key: (-loads[key], str(key)))
    if total <= 0 or shards == 1:
        return [(group, 1) for group in _pack(keys_by_load, dict.fromkeys(keys_by_load, 1.0), shards)]
    large = [key for key in keys_by_load if loads[key] * shards >= total]
    small = [key for key in keys_by_load if loads[key] * shards < total]
    while large and small and len(large) >= shards:  # keep one for the rest
        small.insert(0, large.pop())
    rest = sum(loads[key] for key in small)
    room = max(1, min(len(small), shards - len(large), round(rest * shards / total))) if small else 0
    counts = dict.fromkeys(large, 1)
    for _ in range(shards - len(large) - room):  # one after the other to whoever has most load per shard
        if not large:
            break
        counts[max(large, key=lambda key: (loads[key] / counts[key], str(key)))] += 1
    if not large and small:
        room = min(len(small), shards)
    return [((key,), counts[key]) for key in large] + [(group, 1) for group in _pack(small, loads, room)]


def _pack(keys: Sequence[Key], loads: Mapping[Key, float], bins: int) -> list[tuple[Key, ...]]:
    heap = [(0.0, number) for number in range(min(bins, len(keys)))]
    groups: list[list[Key]] = [[] for _ in heap]
    for key in keys:
        load, number = heapq.heappop(heap)
        groups[number].append(key)
        heapq.heappush(heap, (load + loads[key], number))
    return [tuple(group) for group in groups]
