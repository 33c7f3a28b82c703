"""What `treecast up --brokers N` starts: the settings of a network, of which some have no meaning for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from treecast.cli.up_settings import Effective, Mistake, SettingsError

if TYPE_CHECKING:
    from treecast.serve.fleet.fleet_process import WorkerOptions
    from treecast.serve.network.service import NetworkServiceOptions
    from treecast.serve.service_process import ServiceOptions

BROKERS_MAX = 64
"""On one machine."""
NOT_OFFERED = ("backbone", "demo", "firewall", "peer_listen", "peer_ca")


def network_of(effective: Mapping[str, Effective], service: ServiceOptions | WorkerOptions) -> NetworkServiceOptions:
    """What a network is started with, if these settings fit together. Raises SettingsError."""
    from treecast.serve.network.service import NetworkServiceOptions

    count = effective["brokers"].value
    mistakes = [
        Mistake(f"--{name.replace('_', '-')}", "a network does not offer it; leave out --brokers")
        for name in NOT_OFFERED
        if effective[name].value
    ]
    if count > BROKERS_MAX:
        mistakes.append(Mistake("--brokers", f"{count} are too many for one machine; at most {BROKERS_MAX}"))
    if mistakes:
        raise SettingsError(mistakes)
    given = {name: getattr(service, name) for name in service.__struct_fields__}
    return msgspec.convert(
        {**given, "brokers": count, "log_format": effective["log"].value, "log_level": effective["log_level"].value},
        NetworkServiceOptions,
        from_attributes=True,
    )
