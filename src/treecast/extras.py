"""The extras of the distribution: which packages each one brings, and the command that installs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

INSTALL = "pip install '.[{extras}]' in a clone of treecast, or 'FILE.whl[{extras}]' with its wheel"
"""treecast is on no package index: a hint that names the project alone would send people to somebody else's package."""

PACKAGES: Mapping[str, frozenset[str]] = {
    "serve": frozenset(
        ("aiohttp", "cryptography", "httptools", "msgspec", "prometheus_client", "structlog", "uvicorn", "websockets")
    ),
    "selective": frozenset(("cryptography", "msgspec")),
    "nats": frozenset(("nats",)),
    "spark": frozenset(("matplotlib", "nats", "pandas", "pyspark")),
    "spark-client": frozenset(("matplotlib", "nats", "pandas")),
    "hdfs": frozenset(("fsspec", "hdfs_native")),
    "bench": frozenset(("lxml", "matplotlib", "saxonche")),
}
"""Extra -> the packages that treecast imports with it, as an import names them."""


def install_command(extras: str) -> str:
    """How extras are installed, for people.

    >>> install_command("serve,nats")
    "pip install '.[serve,nats]' in a clone of treecast, or 'FILE.whl[serve,nats]' with its wheel"
    """
    return INSTALL.format(extras=extras)


def extras_with(module: str, preferred: Iterable[str] = ()) -> str:
    """The extras that bring a module, the preferred ones if they do; empty if no extra has it.

    >>> extras_with("cryptography.x509")
    'serve'
    >>> extras_with("cryptography.x509", ["selective"])
    'selective'
    >>> extras_with("nats.aio", ["serve", "serve,nats"])
    'serve,nats'
    >>> extras_with("pyarrow")
    ''
    """
    package = module.partition(".")[0]
    for extras in (*preferred, *PACKAGES):
        if any(package in PACKAGES[extra] for extra in extras.split(",")):
            return extras
    return ""
