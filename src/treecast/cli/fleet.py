"""`treecast up --backbone`: a worker of a fleet, with its documents, subscriptions and deliveries in NATS JetStream."""

from __future__ import annotations

import argparse

from treecast import __version__

FLEET = "main"


def add_fleet_options(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--backbone", metavar="URL[,URL]", help="be one of several workers, on these NATS servers")
    option("--fleet", metavar="NAME", help=f"which fleet to join or to begin; else {FLEET}")
    option("--replicas", metavar="N", type=int, help="copies of each stream in NATS, if this worker begins the fleet")


def run_worker(parser: argparse.ArgumentParser, options: argparse.Namespace, listen: tuple[str, int]) -> int:
    """Run a worker until it is stopped; returns the exit status."""
    if options.data or options.peer_listen:
        parser.error("a worker has no --data and no --peer-listen: NATS keeps everything")
    if options.replicas is not None and options.replicas < 1:
        parser.error("--replicas is at least 1")
    try:
        from treecast.serve.address import format_address
        from treecast.serve.fleet.fleet_process import WorkerOptions, run_worker
        from treecast.serve.fleet.settings import FleetSettings
        from treecast.serve.logs import make_log
    except ModuleNotFoundError as error:
        parser.error(f"a fleet needs {error.name}; pip install 'treecast[serve,nats]'")
    worker = WorkerOptions(
        servers=tuple(part.strip() for part in options.backbone.split(",")),
        fleet=options.fleet or FLEET,
        listen=listen,
        version=__version__,
        settings=FleetSettings(replicas=options.replicas or 1),
    )

    def announce(address: tuple[str, int]) -> None:
        print(f"listening on http://{format_address(*address)}", flush=True)

    run_worker(worker, make_log(options.log, options.log_level), announce)
    return 0
