"""What `treecast registry`, `broker` and `source` have in common: certificates, and where registries are."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treecast.serve.tls import TlsFiles

REGISTRY = "registry"
"""The name of a registry that nobody has named."""


def add_tls_options(parser: argparse.ArgumentParser, whose: str, ca: str) -> None:
    option = parser.add_argument
    option("--tls-cert", metavar="FILE", help=f"certificate {whose} (PEM)")
    option("--tls-key", metavar="FILE", help="its key, unless it is in the same file")
    option("--tls-ca", metavar="FILE", help=ca)


def read_tls(parser: argparse.ArgumentParser, options: argparse.Namespace) -> TlsFiles | None:
    """The files that were named, if any; a wrong choice ends the program."""
    from treecast.serve.tls import TlsFiles

    if (options.tls_key or options.tls_ca) and not options.tls_cert:
        parser.error("--tls-key and --tls-ca need --tls-cert")
    if not options.tls_cert:
        return None
    return TlsFiles(certificate=options.tls_cert, key=options.tls_key or "", ca=options.tls_ca or "")


def add_registry_option(parser: argparse.ArgumentParser, help: str, *, is_needed: bool) -> None:
    parser.add_argument(
        "--registry", metavar="[NAME=]HOST:PORT", action="append", default=[], required=is_needed, help=help
    )


def read_registries(parser: argparse.ArgumentParser, texts: list[str]) -> dict[str, str]:
    """Addresses by name; wrong ones end the program.

    >>> read_registries(argparse.ArgumentParser(), ["127.0.0.1:7410", "r2=127.0.0.1:7411"])
    {'registry': '127.0.0.1:7410', 'r2': '127.0.0.1:7411'}
    """
    from treecast.serve.address import format_address, parse_address

    addresses: dict[str, str] = {}
    for text in texts:
        name, _, address = text.rpartition("=")
        name = name or REGISTRY
        if name in addresses:
            parser.error(f"there are two registries with the name {name}: write NAME=HOST:PORT")
        try:
            addresses[name] = format_address(*parse_address(address))
        except ValueError as error:
            parser.error(str(error))
    return addresses


def location(text: str) -> tuple[float, float]:
    """For argparse.

    >>> location("2,-0.5")
    (2.0, -0.5)
    """
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no location: write X,Y such as 2,0.5") from None
    if not (math.isfinite(x) and math.isfinite(y)):
        raise argparse.ArgumentTypeError(f"{text!r} is no location: both numbers are finite")
    return x, y
