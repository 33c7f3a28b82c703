"""A network of brokers on the command line: what `treecast up --brokers N` starts, and what `treecast status` shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from treecast.cli.up_settings import Effective, Mistake, SettingsError
from treecast.cli.wording import plural
from treecast.names import printable

if TYPE_CHECKING:
    from treecast.serve.fleet.fleet_process import WorkerOptions
    from treecast.serve.network.service import NetworkServiceOptions
    from treecast.serve.service_process import ServiceOptions

BROKERS_MAX = 64
"""On one machine."""
REPLICAS_MAX = 2
NOT_OFFERED = ("backbone", "demo", "firewall", "peer_listen", "peer_ca", "selective")


def network_of(effective: Mapping[str, Effective], service: ServiceOptions | WorkerOptions) -> NetworkServiceOptions:
    """What a network is started with, if these settings fit together. Raises SettingsError."""
    import msgspec

    from treecast.serve.network.service import NetworkServiceOptions

    count = effective["brokers"].value
    mistakes = [
        Mistake(f"--{name.replace('_', '-')}", "a network does not offer it; leave out --brokers")
        for name in NOT_OFFERED
        if effective[name].value
    ]
    if count > BROKERS_MAX:
        mistakes.append(Mistake("--brokers", f"{count} are too many for one machine; at most {BROKERS_MAX}"))
    replicas = effective["replicas"].value
    if replicas > REPLICAS_MAX:
        mistakes.append(Mistake("--replicas", f"{replicas} are too many; at most {REPLICAS_MAX}"))
    if mistakes:
        raise SettingsError(mistakes)
    settings = {name: getattr(service, name) for name in service.__struct_fields__}
    more = {"brokers": count, "replicas": replicas, "policy": effective["policy"].value}
    logs = {"log_format": effective["log"].value, "log_level": effective["log_level"].value}
    return msgspec.convert(
        {**settings, **more, **logs},
        NetworkServiceOptions,
        from_attributes=True,
    )


def network_lines(picture: Mapping[str, Any]) -> Iterator[str]:
    """Brokers, and each tree with its links, for people.

    >>> broker = {"name": "b1", "is_up": True, "restarts": 0, "address": "127.0.0.1:1", "subscriptions": 1}
    >>> link = {"root": "b1", "parent": "b1", "child": "b2", "depth": 1, "documents": 1, "bytes": 90, "table": 2}
    >>> link |= {"values": 700, "documents_per_second": 0.5, "bytes_per_second": 9.0, "bytes_saved": 1}
    >>> print("\\n".join(network_lines({"brokers": [broker], "roots": ["b1"], "links": [link]})))
    b1             up    1 subscription, 0 restarts, 127.0.0.1:1
    tree of b1
      b1 -> b2: 0.5 documents/s, 9 bytes/s; 1 document, 90 bytes, 1 byte saved; a table of 2 queries with 700 values
    """
    for broker in picture["brokers"]:
        state = "up" if broker["is_up"] else "down"
        counts = f"{plural(broker['subscriptions'], 'subscription')}, {plural(broker['restarts'], 'restart')}"
        if broker.get("replicas"):
            places = f"at {printable(broker['host'])}, backup {printable(broker['backup']) or 'none'}"
            counts += f", {broker['replicas']} ({places})"
        yield f"{printable(broker['name']):<14} {state:<5} {counts}, {printable(broker['address'])}"
    for root in picture["roots"]:
        yield f"tree of {printable(root)}"
        for link in picture["links"]:
            if link["root"] == root:
                rates = f"{link['documents_per_second']:,g} documents/s, {link['bytes_per_second']:,.0f} bytes/s"
                totals = f"{plural(link['documents'], 'document')}, {plural(link['bytes'], 'byte')}"
                ends = f"{'  ' * link['depth']}{printable(link['parent'])} -> {printable(link['child'])}"
                yield f"{ends}: {rates}; {totals}{_savings(link)}; a table of {_table(link)}"


def _table(link: Mapping[str, Any]) -> str:
    queries = "1 query" if link["table"] == 1 else f"{link['table']:,} queries"
    return f"{queries} with {link['values']:,} values" if link.get("values") else queries


def _savings(link: Mapping[str, Any]) -> str:
    """How much smaller documents were, by what was done before the link."""
    return f", {plural(link['bytes_saved'], 'byte')} saved" if link.get("bytes_saved") else ""
