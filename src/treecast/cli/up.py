"""`treecast up`: a broker, its store and the HTTP door in one process.

It runs until it is stopped with SIGTERM or Ctrl-C. One line on stdout says where it listens; logs go to stderr.
"""

from __future__ import annotations

import argparse
from typing import Any

from treecast import __version__
from treecast.cli.serving import add_log_options, add_name_option, add_place_options, read_addresses

DESCRIPTION = """\
Runs a broker that is used over HTTP: publish documents, subscribe with
queries, receive what they match. What it has acknowledged is on disk, in DIR,
which it creates if need be."""

EPILOG = """\
example:
  treecast up --data news-data --listen 127.0.0.1:8080
  curl -T article.xml -X POST http://127.0.0.1:8080/v1/documents"""

LISTEN = "127.0.0.1:8080"


def add_to(verbs: argparse._SubParsersAction[Any]) -> None:
    parser = verbs.add_parser(
        "up",
        help="serve over HTTP: publish, subscribe, receive",
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast up --data DIR [options]",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30),
    )
    add_place_options(parser, LISTEN, "HTTP")
    parser.add_argument("--peer-listen", metavar="HOST:PORT", help="address for the Python client; else none")
    add_name_option(parser)
    add_log_options(parser)
    parser.set_defaults(run=lambda options: run(parser, options))


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    try:
        from treecast.serve import service_process
        from treecast.serve.address import format_address
        from treecast.serve.logs import make_log
    except ModuleNotFoundError as error:
        parser.error(f"a service needs {error.name}; pip install 'treecast[serve]'")
    listen, peer_listen = read_addresses(parser, options.listen, options.peer_listen)
    settings = service_process.ServiceOptions(
        directory=options.data, listen=listen, peer_listen=peer_listen, name=options.name, version=__version__
    )

    def announce(address: tuple[str, int], peers: tuple[str, int] | None) -> None:
        also = f", peers on {format_address(*peers)}" if peers else ""
        print(f"listening on http://{format_address(*address)}{also}", flush=True)

    service_process.run_service(settings, make_log(options.log, options.log_level), announce)
    return 0
