"""Installs a wheel into clean venvs, with extras and without, and tries every command in each.

    tools/try_wheel.py build/dist/treecast-*.whl                      no extra, serve, selective
    tools/try_wheel.py WHEEL none serve,nats bench                    these: a venv for each
    tools/try_wheel.py WHEEL --python /usr/bin/python3.13 all         every extra, with that Python

In each venv every command prints its help. What the extras promise is then called, and has to work; every other call
has to name the extra that it needs. Servers are started, and the commands that are their clients talk to them.

pip fetches the packages. For the Python of .venv their versions are those of .venv; for another Python, the newest that
the ranges of pyproject.toml allow.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from treecast.cli.entry import VERBS
from treecast.extras import PACKAGES, install_command

USUAL = ("none", "serve", "selective")
ALL = ("none", *PACKAGES, "serve,nats", "bench,serve")
FILES = {"a.xml": "<a><b><c>1</c></b></a>", "s.csv": "id,query\nc,//c\n"}
SECONDS_MAX = 120


@dataclass(frozen=True)
class Call:
    """One use of a command: what it needs, and a part of what it then says."""

    words: str
    needs: str = ""
    """Extras, with commas. Without them the command may work all the same, or has to name what it lacks."""
    says: str = ""


@dataclass(frozen=True)
class Server:
    """A command that runs until it is stopped, and commands that use it; {} is its address."""

    words: str
    needs: str
    clients: tuple[Call, ...] = ()


# Later calls use what earlier ones have written.
CALLS = (
    Call("match -q //a a.xml", says="a.xml\t//a"),
    Call("render -q //c a.xml", says="<c>1</c>"),
    Call("explain -q //c a.xml", says="matches"),
    Call("replay -q //c a.xml", says="//c"),
    Call("check s.csv", says="nothing to report"),
    Call("build s.csv -o s.tcx"),
    Call("match -s s.tcx a.xml", says="a.xml\tc"),
    Call("demo --documents 100 --subscriptions 100 -o demo", says="demo/report.html"),
    Call("init . -o pipeline.toml", says="pipeline.toml"),
    Call("generate documents --count 1", says="<?xml"),
    Call("generate queries --count 10", says="id,query"),
    Call("completion bash", says="complete -F"),
    Call("bench record --peers none --queries 100 --documents 5 --budget 0.1 -o bench", says="100 queries"),
    Call("bench record --peers lxml --queries 10 --documents 5 --budget 0.1 -o peers", "bench", "lxml"),
    Call("token create --data tokens --scope read", "serve"),
    Call("up --check --backbone nats://127.0.0.1:4222 --fleet news", "serve,nats", 'fleet = "news"'),
    Call("selective grant firm desk --include //c --member ann", "selective"),
    Call("selective publish firm a.xml", "selective", "firm/out/desk"),
    Call("selective subscribe firm desk ann ann-home", "selective"),
    Call("selective update ann-home firm", "selective", "<c>1</c>"),
    Call("experiment yfilter-wildcards --quick --queries 100 --documents 5 -o experiments", "bench", "Verdict"),
    Call("experiment --list", "bench,serve", "selective-merging"),
    Call("run --dry-run", "spark", "everything is in order"),
)
SERVERS = (
    Server(
        "up --data data --listen 127.0.0.1:0",
        "serve",
        (
            Call("publish a.xml --url {}", says="1 accepted"),
            Call("subscribe c -q //c --from beginning --count 1 --format payload --url {}", says="<c>1</c>"),
            Call("status --once --url {}", says="1 document,"),
        ),
    ),
    Server("broker --data broker --listen 127.0.0.1:0", "serve"),
    Server("registry --data registry --listen 127.0.0.1:0", "serve", (Call("source list --registry {}"),)),
    Server(
        "peer up 2 --data ring --http 127.0.0.1:0", "serve", (Call("peer status --url {}", says="2 of 2 peers up"),)
    ),
    Server("selective broker --name b1 --rank 1 --listen 127.0.0.1:0", "serve"),
)


class WrongAnswerError(Exception):
    """A command that did not do what its extras promise."""


class Venv:
    """A clean venv with the wheel and some extras in it, and a directory in which commands run."""

    def __init__(self, place: Path, python: str, wheel: Path, extras: str) -> None:
        self.extras = frozenset(extras.split(",")) - {"none"}
        self._bin = place / "venv" / "bin"
        self._work = place / "work"
        self._work.mkdir()
        for name, text in FILES.items():
            (self._work / name).write_text(text)
        subprocess.run([python, "-m", "venv", "--without-pip", str(place / "venv")], check=True)
        command = [sys.executable, "-m", "pip", "--python", str(self._bin / "python"), "install", "--quiet"]
        command += ["--disable-pip-version-check"]
        if "spark" not in self.extras:  # PySpark is published as a source distribution only
            command += ["--only-binary", ":all:"]
        if python == sys.executable:
            versions = sorted({f"{one.name}=={one.version}\n" for one in distributions() if one.name != "treecast"})
            (place / "constraints.txt").write_text("".join(versions))
            command += ["--constraint", str(place / "constraints.txt")]
        wanted = f"[{','.join(sorted(self.extras))}]" if self.extras else ""
        subprocess.run([*command, f"{wheel.resolve()}{wanted}"], check=True)

    def has(self, extras: str) -> bool:
        """Whether all these extras' packages are here, with whichever extra they came."""
        here = frozenset[str]().union(*(PACKAGES[extra] for extra in self.extras))
        return all(PACKAGES[extra] <= here for extra in extras.split(",") if extra)

    def start(self, words: str) -> subprocess.Popen[str]:
        """The command, with nothing of this machine's environment but Java."""
        environment = {"PATH": f"{self._bin}:{os.environ['PATH']}", "HOME": str(self._work), "LANG": "C.UTF-8"}
        environment |= {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
        command = [str(self._bin / "treecast"), *shlex.split(words)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self._work, env=environment, stdout=pipe, stderr=pipe, text=True)

    def run(self, words: str) -> tuple[int, str]:
        """Status, and all that it said."""
        process = self.start(words)
        try:
            out, error = process.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            raise WrongAnswerError(f"treecast {words}: no end after {SECONDS_MAX} s") from None
        return process.returncode, out + error

    def call(self, words: str, says: str, needs: str = "") -> bool:
        """Whether the command works. Raises WrongAnswerError unless it does or, without what it needs, says so."""
        status, said = self.run(words)
        if status == 0 and says in said:
            return True
        verb = VERBS.get(words.split()[0])
        hints = tuple(f"  hint: {install_command(extras)}" for extras in (verb.extras if verb else ()))
        lines = said.splitlines()
        if self.has(needs) or status != 1 or len(lines) != 2 or not lines[1].startswith(hints):
            raise WrongAnswerError(f"treecast {words}: status {status}, and {says!r} is expected in\n{said}")
        return False

    @contextmanager
    def serving(self, words: str) -> Iterator[str]:
        """Runs a server, gives its address, and stops it. Raises WrongAnswerError if one of these does not work."""
        process = self.start(words)
        assert process.stdout is not None and process.stderr is not None
        try:
            line = process.stdout.readline()
            if "listening on " not in line:
                raise WrongAnswerError(f"treecast {words}: it does not listen\n{line}{process.stderr.read()}")
            yield line.split()[-1]
            process.send_signal(signal.SIGTERM)
            _, error = process.communicate(timeout=SECONDS_MAX)
            if process.returncode != 0 or "Traceback" in error:
                raise WrongAnswerError(f"treecast {words}: status {process.returncode} after SIGTERM\n{error}")
        finally:
            process.kill()


def try_all(venv: Venv) -> tuple[int, int]:
    """How many commands worked, and how many named the extra that they need. Raises WrongAnswerError."""
    for words in ("--version", "--help", *(f"{verb} --help" for verb in VERBS)):
        venv.call(words, "treecast")
    results = [venv.call(call.words, call.says, call.needs) for call in CALLS]
    for server in SERVERS:
        if not venv.has(server.needs):
            results.append(venv.call(server.words, "nothing", server.needs))
            continue
        with venv.serving(server.words) as address:
            results += [True, *(venv.call(client.words.format(address), client.says) for client in server.clients)]
    return results.count(True), results.count(False)


def try_extras(wheel: Path, python: str, extras: str) -> bool:
    """One line that says what came of it; whether all was well."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="treecast-") as directory:
        what = "no extra" if extras == "none" else f"[{extras}]"
        try:
            worked, refused = try_all(Venv(Path(directory), python, wheel, extras))
        except (WrongAnswerError, subprocess.CalledProcessError) as error:
            print(f"treecast: {wheel.name} with {what}: {error}", file=sys.stderr, flush=True)
            return False
    seconds = time.monotonic() - began
    counts = f"{len(VERBS)} helps, {worked} commands work, {refused} name what they need"
    print(f"treecast: {wheel.name} with {what}: {counts}; {seconds:.0f} s", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Try a wheel in clean venvs.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("extras", nargs="*", help=f"none, all, or extras with commas; default {' '.join(USUAL)}")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    every = ALL if options.extras == ["all"] else options.extras or USUAL
    python = shutil.which(options.python) or parser.error(f"there is no {options.python}")
    with ThreadPoolExecutor(2) as pool:  # pip waits for the disk and the network
        results = list(pool.map(lambda extras: try_extras(options.wheel, python, extras), every))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
