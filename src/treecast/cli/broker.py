"""`treecast broker`: documents and subscriptions come in over TCP, deliveries go out, and nothing is lost.

It runs until it is stopped with SIGTERM or Ctrl-C. One line on stdout says where it listens; logs go to stderr.
"""

from __future__ import annotations

import argparse
from typing import Any

from treecast.cli.serving import add_log_options, add_name_option, add_place_options, read_addresses

DESCRIPTION = """\
Runs a broker: publishers send it documents, subscribers send it queries and
get what they match. What it has acknowledged is on disk, in DIR, which it
creates if need be. It serves the Python client (treecast.serve.client)."""

EPILOG = """\
example:
  treecast broker --data broker-data --listen 127.0.0.1:7400
  treecast broker --data broker-data --listen 0.0.0.0:7400 \\
      --tls-cert broker.pem --tls-key broker.key --tls-ca clients.pem"""

LISTEN = "127.0.0.1:7400"


def add_to(verbs: argparse._SubParsersAction[Any]) -> None:
    parser = verbs.add_parser(
        "broker",
        help="serve publishers and subscribers, durably",
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast broker --data DIR [options]",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30),
    )
    option = parser.add_argument
    add_place_options(parser, LISTEN, "clients")
    option("--status", metavar="HOST:PORT", help="address for /metrics, /healthz and /readyz")
    add_name_option(parser)
    option("--tls-cert", metavar="FILE", help="certificate of the broker (PEM)")
    option("--tls-key", metavar="FILE", help="its key, unless it is in the same file")
    option("--tls-ca", metavar="FILE", help="CA of clients: they then must have certificates")
    option("--open", action="store_true", help="allow clients without certificates from other machines")
    option("--connections-max", metavar="N", type=int, help="clients at the same time; else 10000")
    add_log_options(parser)
    parser.set_defaults(run=lambda options: run(parser, options))


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    try:
        from treecast.serve import broker_process
        from treecast.serve.address import format_address
        from treecast.serve.logs import make_log
        from treecast.serve.settings import RuntimeSettings
        from treecast.serve.tls import TlsFiles
    except ModuleNotFoundError as error:
        parser.error(f"a broker needs {error.name}; pip install 'treecast[serve]'")
    listen, status = read_addresses(parser, options.listen, options.status)
    if (options.tls_key or options.tls_ca) and not options.tls_cert:
        parser.error("--tls-key and --tls-ca need --tls-cert")
    if options.connections_max is not None and options.connections_max < 1:
        parser.error("--connections-max is at least 1")
    tls = None
    if options.tls_cert:
        tls = TlsFiles(certificate=options.tls_cert, key=options.tls_key or "", ca=options.tls_ca or "")
    limit = {} if options.connections_max is None else {"connections_max": options.connections_max}
    settings = broker_process.BrokerOptions(
        directory=options.data,
        listen=listen,
        status=status,
        name=options.name,
        tls=tls,
        open=options.open,
        runtime=RuntimeSettings(**limit),
    )

    def announce(host: str, port: int) -> None:
        print(f"listening on {format_address(host, port)}", flush=True)

    broker_process.run_broker(settings, make_log(options.log, options.log_level), announce)
    return 0
