"""`treecast selective broker` and `follow`: a network that carries sealed documents, and its members."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from treecast.cli.network_options import add_tls_options, read_tls
from treecast.cli.serving import add_log_options, add_subcommand, read_addresses

BROKER = """\
Runs a broker of a network that carries sealed documents. Rank 1 is next to
the source (treecast up --selective); members connect to the brokers
of the last rank (--last). A broker needs the addresses of some neighbours,
of the ranks above and below; it finds the others. It keeps nothing on disk."""

FOLLOW = """\
Follows the view of a member: whenever it has changed and has been verified,
it is written to HOME/view/, one file for each fragment, and a line says so.
A member that was away gets what has changed. HOME is made by subscribe --url."""


def add_to(actions: argparse._SubParsersAction[Any]) -> None:
    broker = add_subcommand(
        *(actions, "broker", "run a broker of a network of levels", BROKER),
        "example:\n  treecast selective broker --name b2 --rank 2 --last --listen 127.0.0.1:7502 \\\n"
        "      --neighbour b1=127.0.0.1:7501",
    )
    option = broker.add_argument
    option("--name", metavar="NAME", required=True, help="another one for each broker")
    option("--rank", metavar="N", type=int, required=True, help="its level: 1 is next to the source")
    option("--last", action="store_true", help="members connect here: ask them for their passes")
    option("--listen", metavar="HOST:PORT", default="127.0.0.1:7500", help="its address; default %(default)s")
    option("--address", metavar="HOST:PORT", help="where others reach it; default --listen")
    option("--neighbour", metavar="NAME=HOST:PORT", action="append", default=[], help="may be repeated")
    option("--policy", choices=("best-fit", "first-fit"), default="best-fit", help="whom to ask; default best-fit")
    option("--status", metavar="HOST:PORT", help="address for /metrics, /healthz and /readyz")
    option("--open", action="store_true", help="allow others without certificates from other machines")
    add_tls_options(broker, "of the broker", "CA of others: they then must have certificates")
    add_log_options(broker)
    broker.set_defaults(run=lambda options: run_broker(broker, options))
    follow = add_subcommand(
        *(actions, "follow", "follow a view through a network", FOLLOW),
        "example:\n  treecast selective follow ann-home --broker b2=127.0.0.1:7502",
    )
    option = follow.add_argument
    option("home", metavar="HOME", type=Path)
    option("--broker", metavar="NAME=HOST:PORT", action="append", default=[], required=True, help="of the last rank")
    option("--once", action="store_true", help="end when the view is there")
    add_tls_options(follow, "of the member", "CA of brokers")
    add_log_options(follow)
    follow.set_defaults(run=lambda options: run_follow(follow, options))


def read_peers(parser: argparse.ArgumentParser, texts: list[str]) -> dict[str, str]:
    """Addresses by name; wrong ones end the program.

    >>> read_peers(argparse.ArgumentParser(), ["b1=127.0.0.1:7501"])
    {'b1': '127.0.0.1:7501'}
    """
    from treecast.serve.address import format_address, parse_address

    addresses: dict[str, str] = {}
    for text in texts:
        name, equals, address = text.rpartition("=")
        if not equals or not name:
            parser.error(f"{text!r} is no neighbour: write NAME=HOST:PORT")
        try:
            addresses[name] = format_address(*parse_address(address))
        except ValueError as error:
            parser.error(str(error))
    return addresses


def run_broker(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from treecast.overlay.selective.settings import SelectiveSettings
    from treecast.serve.address import format_address
    from treecast.serve.logs import make_log
    from treecast.serve.selective.broker_process import SelectiveOptions, run_selective_broker

    if options.rank < 1:
        parser.error("--rank is at least 1: the source has rank 0")
    listen, status = read_addresses(parser, options.listen, options.status)
    read_addresses(parser, options.listen, options.address)
    settings = SelectiveOptions(
        listen=listen,
        name=options.name,
        rank=options.rank,
        neighbours=read_peers(parser, options.neighbour),
        faces_subscribers=options.last,
        address=options.address or "",
        status=status,
        tls=read_tls(parser, options),
        open=options.open,
        settings=SelectiveSettings(propagation=options.policy),
    )

    def announce(host: str, port: int) -> None:
        print(f"listening on {format_address(host, port)}", flush=True)

    run_selective_broker(settings, make_log(options.log, options.log_level), announce)
    return 0


def run_follow(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from treecast.serve.logs import make_log
    from treecast.serve.selective.homes import MemberHome
    from treecast.serve.selective.member_process import MemberOptions, run_member

    home = MemberHome(options.home)
    settings = MemberOptions(
        brokers=read_peers(parser, options.broker), once=options.once, tls=read_tls(parser, options)
    )

    def show(version: int, fragments: list[bytes]) -> None:
        home.save_view(fragments)
        print(f"version {version}\t{len(fragments)} fragments\t{sum(map(len, fragments))} bytes", flush=True)

    run_member(home, settings, make_log(options.log, options.log_level), show)
    return 0
