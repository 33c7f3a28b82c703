"""`treecast up --backbone`: a worker of a fleet, with its documents, subscriptions and deliveries in NATS JetStream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from treecast import __version__
from treecast.cli.up_settings import TOP, Effective, Mistake, SettingsError, build, sections

if TYPE_CHECKING:
    from treecast.serve.fleet.fleet_process import WorkerOptions

ONLY_BROKERS = ("peer_listen", "peer_ca", "selective")


def worker_of(effective: Mapping[str, Effective], try_files: Callable[[WorkerOptions], list[Mistake]]) -> WorkerOptions:
    """What a worker is started with, if these settings fit together. Raises SettingsError."""
    from treecast.serve.fleet.fleet_error import BackboneError
    from treecast.serve.fleet.fleet_process import WorkerOptions
    from treecast.serve.fleet.records import Names
    from treecast.serve.tls import TlsFiles

    value = {setting.name: effective[setting.name].value for setting in TOP}
    structs = sections()
    tls = TlsFiles(certificate=value["certificate"], key=value["key"]) if value["certificate"] else None
    worker = WorkerOptions(
        servers=tuple(part.strip() for part in value["backbone"].split(",")),
        fleet=value["fleet"],
        listen=value["listen"],
        directory=value["data"] or "",
        version=__version__,
        tls=tls,
        open=value["open"],
        settings=build(effective, structs, "worker"),
        door=build(effective, structs, "door"),
        access=build(effective, structs, "access"),
    )
    mistakes = [
        Mistake(f"--{name.replace('_', '-')}", "a worker of a fleet has no peers; leave out --backbone, or this")
        for name in ONLY_BROKERS
        if value[name]
    ]
    if value["firewall"]:
        mistakes.append(Mistake("--firewall", "a worker of a fleet is no firewall; leave out --backbone, or this"))
    if value["key"] and not value["certificate"]:
        mistakes.append(Mistake("--key", "it needs --certificate"))
    for server in worker.servers:
        if not server.startswith(("nats://", "tls://")):
            mistakes.append(Mistake("--backbone", "an address of NATS begins with nats:// or tls://"))
    try:
        Names(worker.fleet)
    except BackboneError as error:
        mistakes.append(Mistake("--fleet", f"it cannot be called {worker.fleet[:100]!r}; {error.hint}"))
    mistakes += try_files(worker)
    if mistakes:
        raise SettingsError(mistakes)
    return worker
