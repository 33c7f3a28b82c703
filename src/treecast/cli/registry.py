"""`treecast registry`: the peer of a network of brokers that knows who takes part, and where things are.

It runs until it is stopped with SIGTERM or Ctrl-C. One line on stdout says where it listens; logs go to stderr.
"""

from __future__ import annotations

import argparse
from typing import Any, get_args

from treecast.cli.network_options import REGISTRY, add_tls_options, read_registries, read_tls
from treecast.cli.serving import add_log_options, add_place_options, peer_name, read_addresses

DESCRIPTION = """\
Runs the registry of a network: brokers that are started with its address
become one service. It chooses the root broker of each source, and the host of
each subscription. Brokers go on without it; what it knows is in DIR."""

EPILOG = """\
example:
  treecast registry --data registry-data --listen 127.0.0.1:7410
  treecast registry --data r1-data --name r1 --partner r2=10.0.0.2:7410 \\
      --listen 10.0.0.1:7410 --tls-cert r1.pem --tls-ca network.pem"""

LISTEN = "127.0.0.1:7410"
POLICIES = ("near", "load", "content")


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "registry",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast registry --data DIR [options]",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30),
    )
    option = parser.add_argument
    add_place_options(parser, LISTEN, "brokers and clients")
    option("--name", metavar="NAME", type=peer_name, default=REGISTRY, help="of this registry; default %(default)s")
    option("--partner", metavar="NAME=HOST:PORT", help="a second registry: each takes over for the other")
    option("--policy", choices=POLICIES, default="near", help="how hosts are chosen; default %(default)s")
    option("--allow", metavar="NAME", action="append", default=[], help="brokers that may join: names, b*; default all")
    option("--fan-out-max", metavar="N", type=int, default=4, help="children of a broker in a tree; default 4")
    option("--status", metavar="HOST:PORT", help="address for /metrics, /healthz and /readyz")
    add_tls_options(parser, "of the registry", "CA of brokers and clients: they then need certificates")
    option("--open", action="store_true", help="allow peers without certificates from other machines")
    add_log_options(parser)
    parser.set_defaults(run=lambda options: run(parser, options))


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from treecast.overlay.onyx.registry.settings import Policy
    from treecast.serve.address import format_address
    from treecast.serve.logs import make_log
    from treecast.serve.network_process import NetworkOptions, registry_settings, run_network_peer

    assert get_args(Policy) == POLICIES
    listen, status = read_addresses(parser, options.listen, options.status)
    if options.fan_out_max < 1:
        parser.error("--fan-out-max is at least 1")
    partner = read_registries(parser, [options.partner] if options.partner else [])
    if options.name in partner:
        parser.error("the partner has the same name: give both a --name")
    # Both have to agree on who is the first: the one whose name is.
    registries = dict(sorted({options.name: format_address(*listen), **partner}.items()))
    settings = NetworkOptions(
        directory=options.data,
        listen=listen,
        status=status,
        name=options.name,
        tls=read_tls(parser, options),
        open=options.open,
        registries=registries,
        registry=registry_settings(policy=options.policy, fan_out_max=options.fan_out_max, allow=tuple(options.allow)),
    )

    def announce(host: str, port: int) -> None:
        print(f"listening on {format_address(host, port)}", flush=True)

    run_network_peer(settings, make_log(options.log, options.log_level), announce)
    return 0
