"""The exact packages that the set-up installs, with hashes: requirements.lock.

    tools/lock.py                 resolve the ranges of pyproject.toml again, and write requirements.lock
    tools/lock.py ranges          print the ranges that the set-up needs, one a line
    tools/lock.py part serve      print the part of requirements.lock that the library needs with this extra
    tools/lock.py part build      print the part that a build needs

Run it with the Python of .venv, 3.11 on Linux x86-64: the lock is for that platform. pip resolves the ranges. The
hashes are those of every file of the chosen version that fits the platform; if the index cannot be read, that of the
file that pip chose. The lock names no index, so you can install from a mirror and get the same bytes.

The lock also covers the build requirements of source distributions: it contains setuptools and wheel, and the set-up
installs them first and builds without isolation. Otherwise pip would fetch them without checking hashes.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
EXTRAS = ("spark", "hdfs", "serve", "nats", "selective", "bench", "dev")
BUILD_REQUIRES = ("setuptools>=77,<90", "wheel>=0.45,<1")  # for source distributions; the first setuptools with SPDX
LINK = re.compile(r'href="([^"]+)"')
HEADER = """\
# What tools/setup.sh installs, on Python 3.11 and Linux x86-64; written by tools/lock.py.
# Ranges for everybody else are in pyproject.toml.
"""


def ranges() -> list[str]:
    """The requirements of the set-up: the build, the library, Spark, brokers, measurements, tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]
    groups = (project["build-system"]["requires"], project["project"]["dependencies"], *map(extras.get, EXTRAS))
    return list(dict.fromkeys(requirement for group in groups for requirement in group))


def resolve(requirements: list[str], constraints: str = "") -> Iterator[tuple[str, str, str]]:
    """Name, version and SHA-256 of what pip would install for these ranges."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.json")
        Path(directory, "constraints").write_text(constraints, "utf-8")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--constraint", str(Path(directory, "constraints"))]
        subprocess.run([*command, "--report", str(report), *requirements], check=True)
        report_content: dict[str, Any] = json.loads(report.read_text("utf-8"))
    for one in report_content["install"]:
        hashes = one["download_info"]["archive_info"]["hashes"]
        yield normal(one["metadata"]["name"]), one["metadata"]["version"], hashes["sha256"]


def normal(name: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def indexes() -> list[str]:
    """Where pip looks for packages."""
    settings = dict(re.findall(r"^[\w:-]*\.([\w-]+)='(.*)'$", said_by_pip("config", "list"), re.MULTILINE))
    preset = re.search(r"--index-url\b.*?\(default\s+(\S+?)\)", said_by_pip("install", "--help"), re.DOTALL)
    first = settings.get("index-url", preset[1] if preset else "")
    return [index for index in (first, *settings.get("extra-index-url", "").split()) if index]


def said_by_pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def files_of(name: str, version: str) -> dict[str, str]:
    """Files of this version and their SHA-256, as the indexes list them."""
    digest_by_file: dict[str, str] = {}
    for index in indexes():
        page = f"{index.rstrip('/')}/{name}/" + ("index.html" if index.startswith("file:") else "")
        try:
            with urllib.request.urlopen(page, timeout=60) as answer:
                text = answer.read().decode("utf-8", "replace")
        except (urllib.error.URLError, OSError):
            continue
        for link in LINK.findall(text):
            place, _, digest = link.partition("#sha256=")
            file = urllib.parse.unquote(place.rsplit("/", 1)[-1])
            if digest and version_of(file, name) == version:
                digest_by_file[file] = digest
    return digest_by_file


def version_of(file: str, name: str) -> str | None:
    """The version in a file name; None if the file does not belong to this package."""
    stem = re.sub(r"\.(tar\.gz|zip)$", "", file)
    parts = file.split("-") if file.endswith(".whl") else stem.rsplit("-", 1)
    return parts[1] if len(parts) > 1 and normal(parts[0]) == name else None


def fits(file: str) -> bool:
    """Whether the file fits the platform of the lock; source distributions always do."""
    if not file.endswith(".whl"):
        return file.endswith((".tar.gz", ".zip"))
    *_, pythons, abis, platforms = file.removesuffix(".whl").split("-")
    if platforms != "any" and not ("linux" in platforms and "x86_64" in platforms):
        return False
    for python in pythons.split("."):
        if python in ("py3", "py311", "cp311") and (abis != "abi3t"):
            return abis in ("none", "abi3", "cp311")
        older = re.fullmatch(r"cp3(\d+)", python)
        if older and int(older[1]) < 11 and "abi3" in abis.split("."):
            return True
    return False


def lines() -> Iterator[str]:
    """The lock, package by package."""
    for name, version, own_digest in sorted(resolve([*ranges(), *BUILD_REQUIRES])):
        hashes = {digest for file, digest in files_of(name, version).items() if fits(file)} | {own_digest}
        yield " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{digest}" for digest in sorted(hashes))])


def part(name: str) -> Iterator[str]:
    """The entries of the lock for a build, or for the library with one extra. pip says which; the lock has the hashes.

    To be installed with --require-hashes and --no-deps, so that nothing comes beside them.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]
    if name == "build":
        tools = [requirements for requirements in extras["dev"] if requirements.startswith(("cmake", "ninja"))]
        requirements = [*project["build-system"]["requires"], *tools]
    else:
        requirements = [*project["project"]["dependencies"], *extras[name]]
    entries = {entry.partition("==")[0]: entry for entry in re.split(r"\n(?=\w)", LOCK.read_text("utf-8").strip())}
    exact = "\n".join(re.findall(r"^\S+==\S+", LOCK.read_text("utf-8"), re.MULTILINE))
    for package, version, _ in sorted(resolve(requirements, exact)):
        entry = entries.get(package, "")
        if not entry.startswith(f"{package}=={version} "):
            raise SystemExit(f"{package} {version} is not in {LOCK.name}; run tools/lock.py")
        yield entry


def main() -> int:
    if len(sys.argv) == 3 and sys.argv[1] == "part":
        print("\n".join(part(sys.argv[2])))
        return 0
    if sys.argv[1:] == ["ranges"]:
        print("\n".join(ranges()))
        return 0
    if sys.argv[1:] or sys.version_info[:2] != (3, 11) or platform.machine() != "x86_64":
        print(__doc__, file=sys.stderr)
        return 2
    text = HEADER + "\n".join(lines()) + "\n"
    LOCK.write_text(text, "utf-8")
    print(f"{LOCK.name}: {text.count('==')} packages, {text.count('--hash')} hashes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
