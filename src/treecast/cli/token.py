"""`treecast token`: make, list and revoke the tokens of a service, whether it runs or not."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast.cli.serving import add_subcommand
from treecast.cli.sizes import FACTORS
from treecast.names import printable

if TYPE_CHECKING:
    from treecast.serve.access.tokens import Token, TokenStore

DESCRIPTION = """\
Tokens say who may do what over HTTP. Once there is one, the service of DIR
asks for a token with every request; it need not be started again."""

EPILOG = """\
example:
  treecast token create --data news-data --scope publish:wire
  treecast token list --data news-data
  treecast token revoke --data news-data 5f1c0a2bcc17"""

CREATE_EPILOG = """\
scopes: publish:SOURCE, publish:news.*, subscribe:PREFIX, read, admin

example:
  treecast token create --data news-data --scope subscribe:desk. --expires 30d"""

LIST_EPILOG = """\
example:
  treecast token list --data news-data"""

REVOKE_EPILOG = """\
example:
  treecast token revoke --data news-data 5f1c0a2bcc17"""

UNITS = {"": 1, **FACTORS}
SECONDS = {"m": 60, "h": 3_600, "d": 86_400}
LIMITS = {
    "documents_per_second": "documents to publish",
    "bytes_per_second": "bytes of documents to publish, such as 1M",
    "document_bytes_max": "of one document, such as 64K",
    "subscriptions_max": "with its prefixes",
    "streams_max": "open at the same time",
}


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = add_subcommand(verbs, "token", help, DESCRIPTION, EPILOG)
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    create = add_subcommand(
        actions, "create", "make a token, and print it once", "Makes a token, and prints it: once.", CREATE_EPILOG
    )
    _add_data(create)
    option = create.add_argument
    option("--scope", metavar="SCOPE", action="append", required=True, dest="scopes", help="may be repeated")
    option("--expires", metavar="TIME", type=_duration, help="such as 12h or 30d; default never")
    option("--description", metavar="TEXT", default="", help="for those who read the list")
    for name, text in LIMITS.items():
        option(f"--{name.replace('_', '-')}", metavar="N", type=_size, default=0, help=text)
    create.set_defaults(run=lambda options: _create(create, options))
    list_parser = add_subcommand(
        actions, "list", "show the tokens, without their secrets", "Shows the tokens.", LIST_EPILOG
    )
    _add_data(list_parser)
    list_parser.add_argument(
        "--format", metavar="FORMAT", choices=("text", "json"), default="text", help="text or json"
    )
    list_parser.set_defaults(run=lambda options: _list(list_parser, options))
    revoke = add_subcommand(
        actions, "revoke", "end tokens, and what they have open", "Ends tokens, at once.", REVOKE_EPILOG
    )
    _add_data(revoke)
    revoke.add_argument("ids", metavar="ID", nargs="+", help="of the list")
    revoke.set_defaults(run=lambda options: _revoke(revoke, options))


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="DIR", required=True, help="the directory of the service")


def _duration(text: str) -> int:
    """In seconds."""
    parts = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text)
    if parts is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 90m, 12h or 30d")
    return int(parts[1]) * SECONDS[parts[2]]


def _size(text: str) -> int:
    found = re.fullmatch(r"([1-9][0-9]{0,14})([KMG]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1: write 100, 64K or 16M")
    return int(found[1]) * UNITS[found[2]]


def _store(parser: argparse.ArgumentParser, options: argparse.Namespace) -> TokenStore:
    from treecast.serve.access.tokens import TokenStore

    return TokenStore(Path(options.data))


def _create(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    store = _store(parser, options)
    from treecast.serve.access.tokens import TokenLimits

    limits = TokenLimits(**{name: getattr(options, name) for name in LIMITS})
    expires_ms = (int(time.time()) + options.expires) * 1000 if options.expires else 0
    _, text = store.create(options.scopes, limits=limits, expires_ms=expires_ms, description=options.description)
    if not (Path(options.data) / "store.json").exists():
        print(f"treecast: no service has used {printable(options.data)} yet", file=sys.stderr)
    print(text)
    return 0


def _list(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    tokens = _store(parser, options).read() or {}
    for token in tokens.values():
        fields = _fields(token)
        if options.format == "json":
            print(json.dumps(fields))
        else:
            about = "  ".join(f"{name} {value}" for name, value in fields.items() if name not in ("id", "scopes"))
            print(printable(f"{token.id}  {' '.join(token.scopes)}  {about}"))
    return 0


def _fields(token: Token) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": token.id, "scopes": token.scopes, "created": _when(token.created_ms)}
    if token.expires_ms:
        fields["expires"] = _when(token.expires_ms)
    fields |= {name: value for name in LIMITS if (value := getattr(token.limits, name))}
    if token.description:
        fields["description"] = token.description
    return fields


def _when(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _revoke(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    _store(parser, options).revoke(options.ids)
    return 0
