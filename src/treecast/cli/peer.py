"""`treecast peer`: a peer of a ring, a whole ring on this machine (`up`), or a look at one (`status`).

It runs until it is stopped with SIGTERM or Ctrl-C. One line on stdout says where it listens; logs go to stderr.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from treecast import __version__
from treecast.cli.client_options import add_client_options, client_maker
from treecast.cli.network_options import add_tls_options, read_tls
from treecast.cli.ring import ring_lines
from treecast.cli.serving import add_log_options, add_subcommand, read_addresses

if TYPE_CHECKING:
    from treecast.overlay.chord import NfaSettings
    from treecast.overlay.chord.ring_settings import RingSettings

DESCRIPTION = """\
Runs a peer of a ring: no broker and no coordinator, every peer is like the
others and holds a part of the machine that filters documents. A ring is
founded by the peers that --base names, which stay for ever; others --join it,
and may --leave. A peer with data in DIR needs neither option."""

EPILOG = """\
example:
  treecast peer up 5 --data ring-data --http 127.0.0.1:8080
  treecast peer status --url http://127.0.0.1:8080
  treecast peer --data p1 --listen 127.0.0.1:7501 --http 127.0.0.1:8081 \\
      --base 127.0.0.1:7501 127.0.0.1:7502 127.0.0.1:7503 127.0.0.1:7504
  treecast peer --data p5 --listen 127.0.0.1:7505 --join 127.0.0.1:7501"""

UP_DESCRIPTION = """\
Runs a ring of N peers on this machine, each in a process of its own, with one
HTTP door. A peer that dies is started again. With more peers than last time,
the new ones join."""

UP_EPILOG = """\
example:
  treecast peer up 5 --data ring-data --http 127.0.0.1:8080
  treecast publish --url http://127.0.0.1:8080 article.xml"""

STATUS_DESCRIPTION = """\
Shows the peers of a ring, how much each holds and has to do, and the states
that most documents visit. Any peer's door can say."""

STATUS_EPILOG = """\
example:
  treecast peer status --url http://127.0.0.1:8080
  treecast peer status --svg > ring.svg"""

LISTEN, HTTP = "127.0.0.1:7501", "127.0.0.1:8080"
METHODS = ("recursive", "iterative")
REPLICAS, PLACES, PEERS_MAX = 3, 1, 200


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "peer",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast peer (--data DIR | up N | status) [options]",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=27),
    )
    option = parser.add_argument
    actions = parser.add_subparsers(prog="treecast peer", metavar="COMMAND", required=False, help=argparse.SUPPRESS)
    option("--data", metavar="DIR", help="where everything is kept")
    option("--listen", metavar="HOST:PORT", default=LISTEN, help="for peers and clients; default %(default)s")
    option("--address", metavar="HOST:PORT", help="where others reach it: its name; default --listen")
    option("--base", metavar="PEER", nargs="+", default=[], help="peers that found the ring, and stay")
    option("--join", metavar="PEER", nargs="+", default=[], help="peers of the ring to join")
    _add_ring_options(parser)
    option("--http", metavar="HOST:PORT", help="an HTTP door, with the console")
    option("--status", metavar="HOST:PORT", help="address for /metrics, /healthz and /readyz")
    option("--allow", metavar="HOST", action="append", default=[], help="hosts of peers: 10.0.0.*; default all")
    option("--leave", action="store_true", help="leave the ring for good at the end")
    add_tls_options(parser, "of this host", "CA of all hosts, which then need certificates")
    option("--open", action="store_true", help="allow strangers from other machines")
    add_log_options(parser)
    parser.set_defaults(run=lambda options: run(parser, options))
    _add_up(actions)
    _add_status(actions)


def _add_ring_options(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--replicas", metavar="N", type=int, default=REPLICAS, help="disks that have each entry; default 3")
    option("--places", metavar="N", type=int, default=PLACES, help="of each peer on the ring; default 1")
    option("--fragment-length", metavar="L", type=int, default=0, help="steps of copies beside a state; default 0")
    option("--method", metavar="HOW", choices=METHODS, default="recursive", help="recursive, or iterative")
    option("--shed-rate", metavar="X", type=float, default=0.1, help="copies for states with this share; 1: none")


def _add_up(actions: argparse._SubParsersAction[Any]) -> None:
    parser = add_subcommand(actions, "up", "a ring on this machine, with one HTTP door", UP_DESCRIPTION, UP_EPILOG)
    option = parser.add_argument
    option("peers", metavar="N", type=int, help="peers")
    option("--data", metavar="DIR", required=True, help="where everything is kept")
    option("--http", metavar="HOST:PORT", default=HTTP, help="for HTTP; default %(default)s")
    _add_ring_options(parser)
    option("--open", action="store_true", help="allow strangers from other machines")
    add_log_options(parser)
    parser.set_defaults(run=lambda options: run_up(parser, options))


def _add_status(actions: argparse._SubParsersAction[Any]) -> None:
    parser = add_subcommand(actions, "status", "what a ring looks like", STATUS_DESCRIPTION, STATUS_EPILOG)
    parser.add_argument("--json", action="store_true", help="as the service answers")
    parser.add_argument("--svg", action="store_true", help="a picture")
    add_client_options(parser)
    parser.set_defaults(run=lambda options: run_status(parser, options))


def _ring_settings(parser: argparse.ArgumentParser, options: argparse.Namespace) -> tuple[NfaSettings, RingSettings]:
    """What both commands have; a wrong choice ends the program."""
    from treecast.overlay.chord import NfaSettings
    from treecast.overlay.chord.ring_settings import RingSettings

    if options.replicas < 1 or options.places < 1 or options.fragment_length < 0:
        parser.error("--replicas and --places are at least 1, --fragment-length at least 0")
    if not 0 < options.shed_rate <= 1:
        parser.error("--shed-rate is more than 0, and at most 1")
    return NfaSettings(shed_rate=options.shed_rate), RingSettings(method=options.method)


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from treecast.overlay.broker import BrokerSettings
    from treecast.serve.address import format_address
    from treecast.serve.logs import make_log
    from treecast.serve.ring.peer_process import PeerOptions, run_peer

    if not options.data:
        parser.error("--data is needed, or one of up, status")
    listen, status = read_addresses(parser, options.listen, options.status)
    _, http = read_addresses(parser, options.listen, options.http)
    address = _addresses(parser, [options.address] if options.address else [])
    nfa, ring = _ring_settings(parser, options)
    peer = PeerOptions(
        directory=options.data,
        listen=listen,
        status=status,
        http=http,
        base=_addresses(parser, options.base),
        join=_addresses(parser, options.join),
        address=address[0] if address else "",
        tls=read_tls(parser, options),
        open=options.open,
        allow=tuple(options.allow),
        leaves=options.leave,
        nfa=nfa,
        ring=ring,
        broker=BrokerSettings(announces=http is not None),
        version=__version__,
        replicas=options.replicas,
        members=options.places,
        fragment_length=options.fragment_length,
    )
    _check(parser, options, peer)

    def announce(own: str, door: str) -> None:
        also = f", http://{door}" if door else ""
        print(f"listening on {format_address(*peer.listen)}{also}", flush=True)

    run_peer(peer, make_log(options.log, options.log_level), announce)
    return 0


def _addresses(parser: argparse.ArgumentParser, texts: list[str]) -> tuple[str, ...]:
    """As peers write them; wrong ones end the program."""
    from treecast.serve.address import format_address, parse_address

    try:
        return tuple(format_address(*parse_address(text)) for text in texts)
    except ValueError as error:
        parser.error(str(error))


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace, peer: Any) -> None:
    """Options that do not fit together end the program."""
    from pathlib import Path

    from treecast.serve.ring.ring_file import FILE

    name = peer.peer_name
    if name.endswith(":0"):
        parser.error("a peer needs a port of its own: its address is its name")
    if options.base and options.join:
        parser.error("a peer founds a ring with --base, or joins one with --join, not both")
    if not options.base and not options.join and not (Path(options.data) / FILE).exists():
        parser.error("which ring? name its peers with --join, or found one with --base")
    if peer.base and name not in peer.base:
        parser.error(f"--base does not name this peer, {name}; to join an existing ring, use --join")
    if peer.base and len(set(peer.base)) <= peer.replicas:
        parser.error(f"--base needs {peer.replicas + 1} peers for {peer.replicas} replicas, or choose --replicas")
    if options.leave and name in peer.base:
        parser.error("a peer of the base never leaves")


def run_up(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from treecast.serve.address import format_address
    from treecast.serve.logs import make_log
    from treecast.serve.ring.ring_service import RingServiceOptions, run_ring

    if not 2 <= options.peers <= PEERS_MAX:
        parser.error(f"a ring on one machine has 2 to {PEERS_MAX} peers")
    nfa, ring = _ring_settings(parser, options)
    listen, _ = read_addresses(parser, options.http, None)
    service = RingServiceOptions(
        directory=options.data,
        listen=listen,
        peers=options.peers,
        open=options.open,
        nfa=nfa,
        ring=ring,
        version=__version__,
        log_format=options.log,
        log_level=options.log_level,
        replicas=min(options.replicas, options.peers - 1),
        members=options.places,
        fragment_length=options.fragment_length,
    )

    def announce(address: tuple[str, int], peers: tuple[str, int] | None) -> None:
        print(f"a ring of {options.peers} peers, listening on http://{format_address(*address)}", flush=True)

    run_ring(service, make_log(options.log, options.log_level), announce)
    return 0


def run_status(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from treecast.serve.http_client import HttpClientSettings

    settings = HttpClientSettings(connect_ms=3_000, answer_ms=10_000)
    with client_maker(parser, options, lambda _: None, settings)() as client:
        if options.svg:
            print(client.ask("GET", "/v1/ring.svg").body.decode())
            return 0
        picture = client.ask("GET", "/v1/ring").json
    print(json.dumps(picture) if options.json else "\n".join(ring_lines(picture)))
    return 0
