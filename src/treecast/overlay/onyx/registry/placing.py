"""Where sources and subscriptions go (ONYX, sections 3.1 and 4.4): pure functions of what is known of brokers.

**The root of a source**: of the brokers whose bandwidth is enough for what the source is expected to send, times the
children to which the root sends it, the nearest. If it is enough nowhere, the one that has most to spare.

**The host of a subscription**: of the brokers that are about as near as the nearest, the one with the lowest load
(`near`); the one with the lowest load of all (`load`); or the broker of the partition that the query belongs to
(`content`), which is PEP. A partition's broker is drawn by rendezvous hashing, with a bound for each: when a broker
comes or goes, few partitions move but those that it gets or had.

    >>> brokers = {"a": BrokerInfo(location=(0, 0), bandwidth=100), "b": BrokerInfo(location=(5, 0), bandwidth=1000)}
    >>> choose_root(brokers, (1, 0), 10, {}, copies=1), choose_root(brokers, (1, 0), 500, {}, copies=1)
    ('a', 'b')
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

from treecast.overlay.onyx.view import BrokerInfo, Location, distance


def choose_root(
    brokers: Mapping[str, BrokerInfo], location: Location, volume: int, used: Mapping[str, int], copies: int
) -> str:
    """The root for a source that sends `volume` bytes a second. `used` is what other sources send to each broker.

    There is at least one broker. One that does not say what bandwidth it has is assumed to have enough.
    """

    def spare(name: str) -> float:
        bandwidth = brokers[name].bandwidth
        return bandwidth - (used.get(name, 0) + volume) * copies if bandwidth else float("inf")

    def rank(name: str) -> tuple[float, int, str]:
        return distance(brokers[name].location, location), used.get(name, 0), name

    fitting = [name for name in brokers if spare(name) >= 0]
    if fitting:
        return min(fitting, key=rank)
    return min(brokers, key=lambda name: (-spare(name), *rank(name)))


def choose_host(
    brokers: Mapping[str, BrokerInfo], location: Location | None, loads: Mapping[str, int], near_slack: float
) -> str:
    """By distance and load; without a location by load only. There is at least one broker."""
    candidates: Collection[str] = brokers
    if location is not None:
        away = {name: distance(info.location, location) for name, info in brokers.items()}
        nearest = min(away.values())
        candidates = [name for name in brokers if away[name] <= nearest + near_slack]
    return min(candidates, key=lambda name: (loads.get(name, 0), name))


def hosts_of_partitions(brokers: Collection[str], partitions: int) -> list[str]:
    """The broker of each partition of queries. None has more than its share, rounded up.

    >>> hosts_of_partitions(["a", "b"], 4)
    ['b', 'b', 'a', 'a']
    """
    share = -(-partitions // len(brokers))
    room = dict.fromkeys(sorted(brokers), share)
    hosts = []
    for partition in range(partitions):
        host = max(
            (name for name in room if room[name]),
            key=lambda name: hashlib.blake2b(f"{partition}/{name}".encode(), digest_size=8).digest(),
        )
        room[host] -= 1
        hosts.append(host)
    return hosts
