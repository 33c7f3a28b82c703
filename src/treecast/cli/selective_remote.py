"""`treecast selective … --url URL`: the same commands for a document of a service, through its HTTP door."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from treecast.cli.client_options import client_maker
from treecast.cli.wording import plural
from treecast.names import printable


def run_remote(parser: argparse.ArgumentParser, name: str, options: argparse.Namespace) -> int:
    """DIR is the name of a document of the service."""
    if name == "grant":
        check_exclusions(parser, options)
    with client_maker(parser, options, lambda text: print(text, file=sys.stderr))() as client:
        ACTIONS[name](client, options)
    return 0


def check_exclusions(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.exclude and not options.include:
        parser.error("--exclude takes something out of --include: say what that is")


def print_effect(seen: int, elements: int) -> None:
    """Of a document with so many elements; 0: none has been published."""
    if elements:
        print(f"  sees {seen:,} of {plural(elements, 'element')}")
    else:
        print("  sees nothing yet: no version has been published")


def print_policy(
    include: Iterable[str], exclude: Iterable[str], included: Mapping[str, int], hidden: Mapping[str, int]
) -> None:
    """The paths of a policy, with what they do in the document if there is one.

    >>> print_policy(["//staff"], ["//pay", "//bonus"], {"//staff": 3}, {"//pay": 1, "//bonus": 0})
      includes //staff: 3 elements
      excludes //pay: hides 1 element
      excludes //bonus: hides nothing
    """
    for path in include:
        print(f"  includes {path}" + (f": {plural(included[path], 'element')}" if path in included else ""))
    for path in exclude:
        effect = plural(hidden[path], "element") if hidden.get(path) else "nothing"
        print(f"  excludes {path}" + (f": hides {effect}" if path in hidden else ""))


def _path(document: Any, rest: str = "") -> str:
    return f"/v1/selective/{quote(str(document), safe='')}{rest}"


def _grant(client: Any, options: argparse.Namespace) -> None:
    namespaces = dict(one.partition("=")[::2] for one in options.namespace)
    form = {
        "group": options.group,
        "include": options.include,
        "exclude": options.exclude,
        "namespaces": namespaces,
        "members": options.member,
        "allow_empty": options.allow_empty,
    }
    client.ask("POST", _path(options.dir, ":grant"), form)


def _revoke(client: Any, options: argparse.Namespace) -> None:
    client.ask("POST", _path(options.dir, ":revoke"), {"group": options.group, "members": options.members})


def _publish(client: Any, options: argparse.Namespace) -> None:
    headers = {"Content-Type": "application/xml"}
    answer = client.ask_again("PUT", _path(options.dir), options.file.read_bytes(), **headers).json
    for group in answer["changed"]:
        print(f"{printable(group)} sees a change")
    if not answer["changed"]:
        print("nobody sees a change", file=sys.stderr)


def _status(client: Any, options: argparse.Namespace) -> None:
    answer = client.ask_again("GET", _path(options.dir)).json
    for one in answer["groups"]:
        print(f"{printable(one['group'])}\tversion {one['version']}\tepoch {one['epoch']}\t{one['bytes']} bytes")
        print_effect(one["elements"], answer["elements"])
        print_policy(one["include"], one["exclude"], one["included"], one["hidden"])
        print(f"  members: {', '.join(map(printable, one['members'])) or 'none'}")


def _subscribe(client: Any, options: argparse.Namespace) -> None:
    import msgspec

    from treecast.serve.selective.homes import MemberFields, make_member_home

    namespaces = dict(one.partition("=")[::2] for one in options.namespace)
    form = {"group": options.group, "member": options.member, "paths": options.path, "namespaces": namespaces}
    answer = client.ask("POST", _path(options.dir, ":subscribe"), form).json
    make_member_home(options.home, msgspec.convert(answer, MemberFields))


def _update(client: Any, options: argparse.Namespace) -> None:
    from treecast.serve.selective.homes import MemberHome

    home = MemberHome(options.home)
    fields = home.fields
    asked = {"group": fields.group, "member": fields.member, "since": home.subscriber.version}
    answer = client.ask_again("GET", _path(fields.document, f"/updates?{urlencode(asked)}")).json
    form = {"group": fields.group, "member": fields.member}
    keys = client.ask("POST", _path(fields.document, ":subscribe"), form).json
    home.admit(keys["epoch"], bytes.fromhex(keys["envelope"]))
    for one in answer["deliveries"]:
        home.receive(base64.b64decode(one["payload"]))
    for fragment in home.subscriber.fragments():
        print(fragment.decode())


ACTIONS: dict[str, Callable[[Any, argparse.Namespace], None]] = {
    "grant": _grant,
    "revoke": _revoke,
    "publish": _publish,
    "status": _status,
    "subscribe": _subscribe,
    "update": _update,
}
