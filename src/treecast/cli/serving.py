"""What the commands of the service have in common: how they are added, some options, and how addresses are read."""

from __future__ import annotations

import argparse
from typing import Any

LOG_LEVELS = ("debug", "info", "warning", "error")
NAME_BYTES_MAX = 1024
RESERVED = "host:"
"""Of names inside a network."""


def add_subcommand(
    actions: argparse._SubParsersAction[Any], name: str, help: str, description: str, epilog: str
) -> argparse.ArgumentParser:
    """A command, or one of the things that a command does, with a help text of its own."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30),
    )
    return parser


def add_place_options(parser: argparse.ArgumentParser, listen: str, purpose: str) -> None:
    """Where data are kept, and where to listen."""
    parser.add_argument("--data", metavar="DIR", required=True, help="where everything is kept")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default=listen, help=f"address for {purpose}; default %(default)s"
    )


def peer_name(text: str) -> str:
    """For argparse.

    >>> peer_name("b1")
    'b1'
    """
    if not 0 < len(text.encode("utf-8", "surrogateescape")) <= NAME_BYTES_MAX or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is no name: 1 to {NAME_BYTES_MAX} bytes that can be printed")
    if text.startswith(RESERVED):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is no name: {RESERVED} is for hosts of replicas")
    return text


def add_name_option(parser: argparse.ArgumentParser) -> None:
    help = "of the broker, in messages; default %(default)s"
    parser.add_argument("--name", metavar="NAME", type=peer_name, default="broker", help=help)


def add_log_options(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--log", metavar="FORMAT", choices=("json", "console"), default="json", help="json or console")
    option("--log-level", metavar="LEVEL", choices=LOG_LEVELS, default="info", help="least level; default %(default)s")


def read_addresses(
    parser: argparse.ArgumentParser, listen: str, other: str | None
) -> tuple[tuple[str, int], tuple[str, int] | None]:
    """An address that is needed and one that may be missing; a wrong one ends the program."""
    from treecast.serve.address import parse_address

    try:
        return parse_address(listen), parse_address(other) if other else None
    except ValueError as error:
        parser.error(str(error))
