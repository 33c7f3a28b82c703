"""`treecast up`: a broker, its store and the HTTP door in one process.

It runs until it is stopped with SIGTERM or Ctrl-C. One line on stdout says where it listens; logs go to stderr.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast import __version__
from treecast.cli.fleet import worker_of
from treecast.cli.network import network_of
from treecast.cli.up_settings import TOP, Effective, Mistake, SettingsError, build, format_settings, resolve, sections
from treecast.cli.wording import in_words
from treecast.errors import TreecastError
from treecast.names import printable_lines

if TYPE_CHECKING:
    from treecast.serve.fleet.fleet_process import WorkerOptions
    from treecast.serve.service_process import ServiceOptions

DESCRIPTION = """\
Runs a broker that is used over HTTP: publish documents, subscribe with
queries, receive what they match. What it has acknowledged is on disk, in DIR.
With --backbone it is one of several workers, and NATS JetStream keeps all."""

EPILOG = """\
Every setting may also stand in FILE (log_level = "error") or in the
environment (TREECAST_UP_LOG_LEVEL=error). Options win, then the environment.

example:
  treecast up --demo
  treecast up --data news-data --listen 127.0.0.1:8080 --brokers 3
  treecast up --backbone nats://127.0.0.1:4222 --fleet news
  curl -T article.xml -X POST http://127.0.0.1:8080/v1/documents"""

DEMO = "--demo"
"""Who chose the directory of a demonstration."""


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "up",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast up (--data DIR | --backbone URL | --demo) [options]",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=26),
    )
    option = parser.add_argument
    for setting in TOP:
        flag = f"--{setting.name.replace('_', '-')}"
        if setting.kind == "switch":
            option(flag, action="store_true", help=setting.help)
        else:
            option(flag, metavar=setting.metavar, help=setting.help)
    option("--hooks-allow", metavar="CIDR", action="append", default=[], help="network of hooks, though not public")
    option("--set", metavar="NAME=VALUE", action="append", default=[], help="any other setting: door.header_ms=5s")
    option("--config", metavar="FILE", help="read settings from a TOML file")
    option("--check", action="store_true", help="print all settings, start nothing")
    parser.set_defaults(run=lambda options: run(parser, options), unknown_options=[])


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    try:
        networks = [f"hooks.allow={','.join(options.hooks_allow)}"] if options.hooks_allow else []
        effective = resolve(vars(options), [*options.set, *networks], options.unknown_options, os.environ)
        with _data_directory(effective):
            is_worker = bool(effective["backbone"].value)
            service = worker_of(effective, try_files) if is_worker else _service(effective)
            if effective["brokers"].value > 1:
                service = network_of(effective, service)
            elif effective["replicas"].value > 1:
                raise SettingsError([Mistake("--replicas", "it needs --brokers: another one has the second copy")])
            elif effective["policy"].value != "load":
                raise SettingsError([Mistake("--policy", "it needs --brokers: one broker has all subscriptions")])
            if options.check:
                print(format_settings(effective), end="")
                return 0
            _run(service, effective)
    except SettingsError as error:
        parser.exit(2, f"{parser.prog}: {printable_lines(in_words(str(error), options.words))}\n")
    return 0


def _run(service: ServiceOptions | WorkerOptions, effective: Mapping[str, Effective]) -> None:
    """Until it is stopped. Raises TreecastError."""
    from treecast.serve import service_process
    from treecast.serve.address import format_address
    from treecast.serve.logs import make_log

    log = make_log(effective["log"].value, effective["log_level"].value)

    def announce(address: tuple[str, int], peers: tuple[str, int] | None) -> None:
        also = f", peers on {format_address(*peers)}" if peers else ""
        url = f"{'https' if service.tls is not None else 'http'}://{format_address(*address)}"
        print(f"listening on {url}{also}", flush=True)
        if effective["demo"].value:
            data = effective["data"]
            print(next_steps(url, data.value, is_kept=data.origin != DEMO), file=sys.stderr, flush=True)

    if effective["brokers"].value > 1:
        from treecast.serve.network.service import NetworkServiceOptions, run_network

        assert isinstance(service, NetworkServiceOptions)
        run_network(service, log, announce)
    elif isinstance(service, service_process.ServiceOptions):
        from treecast.serve.network.service import check_no_network

        check_no_network(Path(service.directory))
        service_process.run_service(service, log, announce)
    else:
        from treecast.serve.fleet.fleet_process import run_worker

        run_worker(service, log, announce)


@contextmanager
def _data_directory(effective: dict[str, Effective]) -> Iterator[None]:
    """For a demonstration without one: a directory that is removed at the end. Raises SettingsError."""
    data, demo = effective["data"], effective["demo"]
    if demo.value and effective["backbone"].value:
        raise SettingsError([Mistake("--demo", "a worker of a fleet shows nothing by itself; leave out --backbone")])
    if data.value or not demo.value:
        yield
        return
    directory = tempfile.mkdtemp(prefix="treecast-demo-")
    effective["data"] = Effective(data.setting, directory, DEMO)
    try:
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def next_steps(url: str, directory: str, *, is_kept: bool) -> str:
    """What to try while a demonstration runs."""
    service = "" if url.endswith("://127.0.0.1:8080") else f" --url {url}"
    return f"""\
treecast: the demonstration publishes five documents a second. In another terminal, try
  treecast subscribe{service} demo/sport
  treecast subscribe{service} mine -q '//item[price > 150]' --deliver elements
  treecast status{service}
and look at the console, {url}/
data are in {directory}{"" if is_kept else ", which is removed at the end"}; Ctrl-C ends it"""


def _service(effective: Mapping[str, Effective]) -> ServiceOptions:
    """What a service is started with, if these settings fit together. Raises SettingsError."""
    from treecast.serve.firewall.firewall import load_rules
    from treecast.serve.hooks.addresses import AddressRules
    from treecast.serve.service_process import ServiceOptions
    from treecast.serve.tls import TlsFiles

    value = {setting.name: effective[setting.name].value for setting in TOP}
    structs = sections()
    tls = None
    if value["certificate"]:
        tls = TlsFiles(certificate=value["certificate"], key=value["key"], ca=value["peer_ca"])
    service = ServiceOptions(
        directory=value["data"],
        listen=value["listen"],
        peer_listen=value["peer_listen"],
        selective_listen=value["selective"],
        name=value["name"],
        version=__version__,
        tls=tls,
        open=value["open"],
        demo=value["demo"],
        firewall=value["firewall"],
        dispatch=build(effective, structs, "dispatch"),
        door=build(effective, structs, "door"),
        broker=build(effective, structs, "broker"),
        access=build(effective, structs, "access"),
        runtime=build(effective, structs, "peer"),
    )
    mistakes = [
        Mistake(f"--{name.replace('_', '-')}", f"it needs --{needed}")
        for name, needed in (("key", "certificate"), ("peer_ca", "certificate"), ("peer_ca", "peer-listen"))
        if value[name] and not value[needed.replace("-", "_")]
    ]
    try:
        AddressRules(service.door.hooks.allow)
    except ValueError as error:
        mistakes.append(Mistake("hooks.allow", f"{error}; write 10.1.0.0/16"))
    if service.firewall:
        try:
            load_rules(service.firewall, service.dispatch)
        except TreecastError as error:
            mistakes.append(Mistake("--firewall", str(error)))
    mistakes += try_files(service)
    if mistakes:
        raise SettingsError(mistakes)
    return service


def _directory_problem(directory: Path) -> str:
    """Why nothing can be kept there, as far as that can be seen before."""
    place = directory.absolute()
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir():
        return "it is not a directory" if place == directory.absolute() else f"{place} is not a directory"
    return "" if os.access(place, os.W_OK | os.X_OK) else f"{place} may not be written to"


def try_files(service: ServiceOptions | WorkerOptions) -> list[Mistake]:
    """What the service would refuse when it starts, as far as that can be tried before."""
    from treecast.serve.access.exposure import check_exposure
    from treecast.serve.access.tokens import TokenStore
    from treecast.serve.certificate import Certificate
    from treecast.serve.logs import make_log

    mistakes: list[Mistake] = []

    def add(place: str, error: TreecastError) -> None:
        text, _, hint = str(error).removeprefix(error.code).strip().partition("\n  hint: ")
        mistakes.append(Mistake(place, f"{error.code} {text}" + (f"; {hint}" if hint else "")))

    problem = _directory_problem(Path(service.directory)) if service.directory else ""
    if problem:
        return [Mistake("--data", f"{service.directory}: {problem}; choose another directory")]
    has_tokens = True
    try:
        has_tokens = bool(service.directory) and TokenStore(Path(service.directory), service.access).read() is not None
    except TreecastError as error:
        add("--data", error)
    if service.tls is not None:
        try:
            Certificate(service.tls, make_log())
        except TreecastError as error:
            add("--certificate", error)
    if not service.open:
        certified = service.tls is not None and bool(service.tls.ca)
        for place, listen, peers in (
            ("--listen", service.listen, None),
            ("--peer-listen", ("127.0.0.1", 0), getattr(service, "peer_listen", None)),
        ):
            try:
                check_exposure(listen, peers, has_tokens=has_tokens, has_peer_certificates=certified)
            except TreecastError as error:
                add(place, error)
    return mistakes
