"""`treecast broker`: documents and subscriptions come in over TCP, deliveries go out, and nothing is lost.

It runs until it is stopped with SIGTERM or Ctrl-C. One line on stdout says where it listens; logs go to stderr.
"""

from __future__ import annotations

import argparse
from typing import Any

from treecast.cli.network_options import add_registry_option, add_tls_options, location, read_registries, read_tls
from treecast.cli.serving import add_log_options, add_name_option, add_place_options, read_addresses
from treecast.cli.sizes import size

DESCRIPTION = """\
Runs a broker: publishers send it documents, subscribers send it queries and
get what they match. What it has acknowledged is on disk, in DIR, which it
creates if need be. It serves the Python client (treecast.serve.client). With
--registry it is one of a network of brokers."""

EPILOG = """\
example:
  treecast broker --data broker-data --listen 127.0.0.1:7400
  treecast broker --data broker-data --listen 0.0.0.0:7400 \\
      --tls-cert broker.pem --tls-key broker.key --tls-ca clients.pem
  treecast broker --data b1-data --listen 127.0.0.1:7401 --name b1 \\
      --registry 127.0.0.1:7410"""

LISTEN = "127.0.0.1:7400"


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "broker",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast broker --data DIR [options]",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30),
    )
    option = parser.add_argument
    add_place_options(parser, LISTEN, "clients")
    option("--status", metavar="HOST:PORT", help="address for /metrics, /healthz and /readyz")
    add_name_option(parser)
    add_tls_options(parser, "of the broker", "CA of clients: they then must have certificates")
    option("--open", action="store_true", help="allow clients without certificates from other machines")
    option("--connections-max", metavar="N", type=int, help="clients at the same time; default 10000")
    add_registry_option(parser, "of its network; again for a second one", is_needed=False)
    option("--location", metavar="X,Y", type=location, help="where it is, for its network; default 0,0")
    option("--bandwidth", metavar="BYTES", type=size, help="bytes a second that it can send; default: any number")
    option("--replicas", type=int, choices=(1, 2), default=1, help="disks of its network that have all; default 1")
    option("--address", metavar="HOST:PORT", help="where its network reaches it; default --listen")
    add_log_options(parser)
    parser.set_defaults(run=lambda options: run(parser, options))


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from treecast.serve import broker_process, network_process
    from treecast.serve.address import format_address
    from treecast.serve.logs import make_log
    from treecast.serve.settings import RuntimeSettings

    listen, status = read_addresses(parser, options.listen, options.status)
    if options.connections_max is not None and options.connections_max < 1:
        parser.error("--connections-max is at least 1")
    tls = read_tls(parser, options)
    registries = _registries(parser, options)
    limit = {} if options.connections_max is None else {"connections_max": options.connections_max}
    settings = {
        "directory": options.data,
        "listen": listen,
        "status": status,
        "name": options.name,
        "tls": tls,
        "open": options.open,
        "runtime": RuntimeSettings(**limit),
    }

    def announce(host: str, port: int) -> None:
        print(f"listening on {format_address(host, port)}", flush=True)

    log = make_log(options.log, options.log_level)
    if registries:
        network = network_process.NetworkOptions(
            **settings,
            registries=registries,
            location=options.location or (0.0, 0.0),
            bandwidth=options.bandwidth or 0,
            address=options.address or "",
            replicas=options.replicas,
        )
        network_process.run_network_peer(network, log, announce)
    else:
        broker_process.run_broker(broker_process.BrokerOptions(**settings), log, announce)
    return 0


def _registries(parser: argparse.ArgumentParser, options: argparse.Namespace) -> dict[str, str]:
    """Of its network, if it is in one; options that do not fit together end the program."""
    registries = read_registries(parser, options.registry)
    if not registries and (options.location or options.bandwidth or options.address or options.replicas > 1):
        parser.error("--location, --bandwidth, --address and --replicas need --registry")
    if registries and options.name == "broker":
        parser.error("--registry needs --name: each broker of a network has another one")
    if options.name in registries:
        parser.error(f"{options.name} is the name of a registry")
    read_addresses(parser, options.listen, options.address)
    return registries
