"""A command starts without the packages of any extra, and what needs one names the extra that brings it.

`tools/try_wheel.py` does the same with a wheel in clean venvs; here a finder hides the packages that are installed.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

import pytest

from treecast.cli.entry import VERBS
from treecast.extras import PACKAGES, extras_with, install_command

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = "<a><b><c>1</c></b></a>"
HIDE = """
import sys
from importlib.machinery import PathFinder

class Hide(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else super().find_spec(name, path, target)

hidden = set(sys.argv.pop(1).split(","))
sys.meta_path[:] = [Hide if finder is PathFinder else finder for finder in sys.meta_path]
"""
PROGRAM = f"{HIDE}\nfrom treecast.cli import main\nsys.exit(main())"
ALL_HELP = f"""{HIDE}
from treecast.cli.entry import VERBS, main
for words in [["--version"], ["--help"], *([verb, "--help"] for verb in VERBS)]:
    try:
        main(words)
    except SystemExit as ended:
        assert not ended.code, words
print(*sorted(name for name in sys.modules if name.startswith("treecast.cli.")))
"""
CLIENT_WORDS = {"publish": ["a.xml"], "subscribe": ["c"], "status": ["--once"]}
EVERY_PACKAGE = frozenset[str]().union(*PACKAGES.values())


@pytest.fixture(scope="module")
def try_wheel() -> ModuleType:
    spec = importlib.util.spec_from_file_location("try_wheel", ROOT / "tools" / "try_wheel.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def without(packages: frozenset[str], *words: str, cwd: Path, program: str = PROGRAM) -> tuple[int, str, str]:
    """Status, stdout and stderr of the command where these packages are not installed."""
    command = [sys.executable, "-c", program, ",".join(sorted(packages)), *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_every_help_is_there_without_any_extra(tmp_path: Path) -> None:
    status, out, error = without(EVERY_PACKAGE, cwd=tmp_path, program=ALL_HELP)
    assert (status, error) == (0, "")
    assert out.count("\nexample:\n") >= len(VERBS)


def test_verbs_that_need_no_extra(tmp_path: Path, try_wheel: ModuleType) -> None:
    for name, text in try_wheel.FILES.items():
        (tmp_path / name).write_text(text)
    called = set()
    for call in try_wheel.CALLS:
        if not call.needs:
            words = shlex.split(call.words)
            status, out, error = without(EVERY_PACKAGE, *words, cwd=tmp_path)
            assert status == 0 and call.says in out + error, (words, error)
            called.add(words[0])
    clients = {"publish", "subscribe", "status"}  # of a service that is not there
    assert {name for name, verb in VERBS.items() if not verb.extras} <= called | clients
    for name in clients:
        status, _, error = without(
            EVERY_PACKAGE, name, "--url", "http://127.0.0.1:1", *CLIENT_WORDS[name], cwd=tmp_path
        )
        assert status == 1 and "TC407 no connection" in error


def test_every_verb_is_tried_with_the_wheel(try_wheel: ModuleType) -> None:
    clients = [client for server in try_wheel.SERVERS for client in server.clients]
    tried = {one.words.split()[0] for one in (*try_wheel.CALLS, *try_wheel.SERVERS, *clients)}
    assert tried == set(VERBS)


@pytest.mark.parametrize(
    ("words", "missing", "extras"),
    [
        (["up", "--demo"], EVERY_PACKAGE, "serve"),
        (["up", "--demo"], frozenset(["uvicorn"]), "serve"),
        (["up", "--backbone", "nats://127.0.0.1:1", "--check"], frozenset(["nats"]), "serve,nats"),
        (["token", "list", "--data", "d"], EVERY_PACKAGE, "serve"),
        (["broker", "--data", "d"], EVERY_PACKAGE, "serve"),
        (["registry", "--data", "d"], EVERY_PACKAGE, "serve"),
        (["source", "list", "--registry", "127.0.0.1:1"], EVERY_PACKAGE, "serve"),
        (["peer", "up", "3", "--data", "d"], EVERY_PACKAGE, "serve"),
        (["selective", "status", "d"], EVERY_PACKAGE, "selective"),
        (["selective", "follow", "d", "--broker", "b=127.0.0.1:1"], frozenset(["structlog"]), "serve"),
        (["experiment", "--list"], EVERY_PACKAGE, "bench,serve"),
        (["experiment", "--list"], frozenset(["cryptography"]), "bench,serve"),
        (["experiment", "yfilter-rivals"], frozenset(["matplotlib"]), "bench"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0] if isinstance(value, list) else "without",
)
def test_a_missing_extra_is_named(tmp_path: Path, words: list[str], missing: frozenset[str], extras: str) -> None:
    (tmp_path / "d").mkdir()
    status, out, error = without(missing, *words, cwd=tmp_path)
    assert (status, out) == (1, "")
    said, hint = error.splitlines()
    package = re.fullmatch(rf"treecast: TC791 treecast {words[0]} needs (\w+), which is not installed", said)
    assert package is not None and package[1] in missing, said
    assert hint == f"  hint: {install_command(extras)}"
    assert not list(tmp_path.glob("d/*")), "nothing was begun"


def test_only_the_module_of_the_chosen_verb_is_imported(tmp_path: Path) -> None:
    program = f"{HIDE}\nfrom treecast.cli.entry import VERBS, build_parser\nbuild_parser('token')\n"
    program += "print(*[verb for verb in VERBS if f'treecast.cli.{verb}' in sys.modules])"
    assert without(frozenset(["nothing"]), cwd=tmp_path, program=program) == (0, "token\n", "")


def test_packages_are_those_of_the_extras() -> None:
    """In both directions: an extra brings each package, and all that it brings is known."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installed = {module: {_plain(name) for name in names} for module, names in packages_distributions().items()}
    assert extras.keys() - PACKAGES.keys() == {"dev", "all"}
    for extra, packages in PACKAGES.items():
        brought = {_plain(re.split(r"[^\w.-]", requirement)[0]) for requirement in extras[extra]}
        assert {name for package in packages for name in installed[package] & brought} == brought, extra
        assert all(installed[package] & brought for package in packages), extra
    assert extras_with("no_such_module") == ""


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
