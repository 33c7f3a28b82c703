"""`treecast selective`: publish documents of which each group may see other subtrees."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast.cli import selective_network
from treecast.cli.client_options import add_client_options
from treecast.cli.selective_remote import check_exclusions, print_effect, print_policy, run_remote
from treecast.cli.serving import add_subcommand

if TYPE_CHECKING:
    from treecast.serve.selective.homes import MemberHome, PublisherHome

URL_HELP = "the address of one; without it, DIR is a directory"

DESCRIPTION = """\
Publishes a document of which each group may see other subtrees. Packages are
encrypted for the group and signed; they may travel by any way, or through a
network of brokers. DIR keeps the secrets of the publisher, HOME the key of a
member. With --url, DIR is the name of a document of a service."""

EPILOG = """\
example:
  treecast selective grant firm desk --include //staff --member ann
  treecast selective publish firm firm.xml
  treecast selective subscribe firm desk ann ann-home
  treecast selective receive ann-home firm/out/desk/1.package"""


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = add_subcommand(verbs, "selective", help, DESCRIPTION, EPILOG)
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    grant = _add(actions, "grant", "say what a group may see, and who is a member", "firm desk --include //staff")
    _group(grant)
    option = grant.add_argument
    option("--include", metavar="PATH", action="append", default=[], help="subtrees to see; may be repeated")
    option("--exclude", metavar="PATH", action="append", default=[], help="subtrees to hide, which wins")
    option("--namespace", metavar="P=URI", action="append", default=[], help="a prefix of these paths")
    option("--allow-empty", action="store_true", help="paths may select nothing in a version; default: it is refused")
    option("--member", metavar="NAME", action="append", default=[], help="add a member; may be repeated")
    add_client_options(grant, URL_HELP)
    revoke = _add(actions, "revoke", "take members out of a group, from the next version on", "firm desk ann")
    _group(revoke)
    revoke.add_argument("members", metavar="MEMBER", nargs="+")
    add_client_options(revoke, URL_HELP)
    publish = _add(actions, "publish", "publish a version, and write what is to be sent", "firm firm.xml")
    publish.add_argument("dir", metavar="DIR", type=Path)
    publish.add_argument("file", metavar="FILE", type=Path, nargs="?", help="without it, changed policies take effect")
    add_client_options(publish, URL_HELP)
    preview = _add(actions, "preview", "show what a group sees", "firm desk")
    _group(preview)
    status = _add(actions, "status", "show groups, members and versions", "firm")
    status.add_argument("dir", metavar="DIR", type=Path)
    add_client_options(status, URL_HELP)
    subscribe = _add(actions, "subscribe", "make the directory of a member, with its key", "firm desk ann ann-home")
    _group(subscribe)
    subscribe.add_argument("member", metavar="MEMBER")
    subscribe.add_argument("home", metavar="HOME", type=Path)
    option = subscribe.add_argument
    option("--path", metavar="PATH", action="append", default=[], help="with --url: subtrees of the view; default all")
    option("--namespace", metavar="P=URI", action="append", default=[], help="a prefix of these paths")
    add_client_options(subscribe, URL_HELP)
    update = _add(actions, "update", "fetch what has changed, verify it, and print what is seen", "ann-home firm")
    update.add_argument("home", metavar="HOME", type=Path)
    update.add_argument("dir", metavar="DIR", type=Path, nargs="?", help="of the publisher; or use --url")
    add_client_options(update, URL_HELP)
    receive = _add(actions, "receive", "verify packages, and print what is seen", "ann-home 1.package 2.package")
    receive.add_argument("home", metavar="HOME", type=Path)
    receive.add_argument("packages", metavar="PACKAGE", type=Path, nargs="*")
    receive.add_argument("--envelope", metavar="FILE", type=Path, action="append", default=[], help="of a new epoch")
    selective_network.add_to(actions)


def _add(actions: argparse._SubParsersAction[Any], name: str, help: str, example: str) -> argparse.ArgumentParser:
    epilog = f"example:\n  treecast selective {name} {example}"
    parser = add_subcommand(actions, name, help, f"{help[0].upper()}{help[1:]}.", epilog)
    parser.set_defaults(run=lambda options: _run(parser, name, options))
    return parser


def _group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR", type=Path, help="of the publisher; its name is that of the document")
    parser.add_argument("group", metavar="GROUP")


def _run(parser: argparse.ArgumentParser, name: str, options: argparse.Namespace) -> int:
    from treecast.serve.selective.homes import MemberHome, PublisherHome

    if name == "receive":
        return _receive(MemberHome(options.home), options)
    if getattr(options, "url", None):
        if name == "publish" and options.file is None:
            parser.error("name a FILE: a service lets changed policies take effect by itself")
        return run_remote(parser, name, options)
    if name == "update":
        return _update(parser, MemberHome(options.home), options)
    if getattr(options, "path", None):
        parser.error("--path needs --url: packages have the whole view")
    if name not in ("grant", "publish") and not options.dir.is_dir():
        parser.error(f"{options.dir} is not the directory of a publisher: publish creates one")
    with _removed_on_failure(options.dir):
        home = PublisherHome(options.dir)
        if name == "grant":
            namespaces = dict(one.partition("=")[::2] for one in options.namespace)
            _grant(parser, home, options, namespaces)
        elif name == "revoke":
            home.revoke(options.group, options.members)
        elif name == "publish":
            _publish(parser, home, options)
        elif name == "preview":
            _preview(parser, home, options)
        elif name == "subscribe":
            home.enrol(options.group, options.member, options.home)
        else:
            _status(home)
    return 0


@contextlib.contextmanager
def _removed_on_failure(directory: Path) -> Iterator[None]:
    """Leave no directory of a publisher that a command which failed has made."""
    is_new = not directory.exists()
    try:
        yield
    except BaseException:
        if is_new:
            shutil.rmtree(directory, ignore_errors=True)
        raise


def _grant(
    parser: argparse.ArgumentParser, home: PublisherHome, options: argparse.Namespace, namespaces: dict[str, str]
) -> None:
    from treecast.selective.policies import Policy

    check_exclusions(parser, options)
    if not options.include and options.group not in home.policies.groups():
        parser.error(f"there is no group {options.group}: say with --include what it may see")
    policy = Policy(tuple(options.include), tuple(options.exclude), namespaces, options.allow_empty)
    home.grant(options.group, policy if options.include else None, options.member)


def _publish(parser: argparse.ArgumentParser, home: PublisherHome, options: argparse.Namespace) -> None:
    if options.file is None and home.publisher.document is None:
        parser.error("there is no document yet: name a FILE")
    written = home.publish(None if options.file is None else options.file.read_bytes())
    for path in written:
        print(f"{path}\t{path.stat().st_size} bytes")
    if not written:
        print("nobody sees a change", file=sys.stderr)


def _preview(parser: argparse.ArgumentParser, home: PublisherHome, options: argparse.Namespace) -> None:
    document = home.publisher.document
    if document is None or options.group not in home.policies.groups():
        parser.error("there is no document yet, or no such group")
    for fragment in document.preview(home.policies.subtrees(options.group, document)):
        print(fragment.decode())


def _status(home: PublisherHome) -> None:
    document = home.publisher.document
    for state in home.group_states():
        print(f"{state.group}\tversion {state.version}\tepoch {state.epoch}")
        print_effect(state.effect.seen, 0 if document is None else len(document))
        print_policy(state.policy.include, state.policy.exclude, state.effect.included, state.effect.hidden)
        if document is not None and not home.is_published(state.group):
            print("  this takes effect with the next treecast selective publish")
        print(f"  members: {', '.join(state.members) or 'none'}")


def _update(parser: argparse.ArgumentParser, home: MemberHome, options: argparse.Namespace) -> int:
    """From the files of a publisher."""
    if options.dir is None:
        parser.error("say from where: DIR, or --url")
    from treecast.serve.selective.homes import file_name

    out = options.dir / "out" / file_name(home.fields.group)
    for path in sorted(out.glob(f"{file_name(home.member)}.*.envelope")):
        home.admit(int(path.name.split(".")[-2]), path.read_bytes())
    numbers = sorted(int(path.stem) for path in out.glob("*.package") if path.stem.isdecimal())
    for number in numbers:
        if number > home.subscriber.version:
            home.receive((out / f"{number}.package").read_bytes())
    for fragment in home.subscriber.fragments():
        print(fragment.decode())
    return 0


def _receive(home: Any, options: argparse.Namespace) -> int:
    for path in options.envelope:
        home.admit(int(path.name.split(".")[-2]), path.read_bytes())
    for path in options.packages:
        home.receive(path.read_bytes())
    for fragment in home.subscriber.fragments():
        print(fragment.decode())
    if home.subscriber.is_behind:
        print("this is an old version: a newer one has been published", file=sys.stderr)
    return 0
