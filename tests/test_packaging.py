"""What is distributed: a wheel with library, stubs and data for any x86-64, and a source distribution that builds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path
from tarfile import open as open_tar

import pytest

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "treecast"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel and a source distribution, built as `make wheel` builds them."""
    place = tmp_path_factory.mktemp("dist")
    command = [sys.executable, str(ROOT / "tools" / "build_dist.py"), str(place)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return place


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


def test_wheel_holds_library_stubs_and_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"treecast/_native/__init__.pyi", "treecast/_native/testing.pyi", "treecast/py.typed"} <= names
    assert any(re.fullmatch(r"treecast/_native\.[\w.-]+\.so", name) for name in names)
    ours = {path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {f"treecast/{path.relative_to(SOURCE).as_posix()}" for path in ours} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"treecast"}


def test_wheel_offers_the_extras_and_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name.rpartition("/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
        metadata = Parser().parsestr(archive.read(inside["METADATA"]).decode())
        assert set(metadata.get_all("Provides-Extra", [])) == {
            "spark",
            "spark-client",
            "hdfs",
            "serve",
            "nats",
            "selective",
            "bench",
            "dev",
            "all",
        }
        assert metadata["License-Expression"] == "Apache-2.0"
        assert "treecast = treecast.cli:main" in archive.read(inside["entry_points.txt"]).decode()
        assert b"Apache License" in archive.read(inside["LICENSE"])


def test_wheel_requires_no_particular_processor(wheel: Path) -> None:
    """No compiler flag raises the instruction set: what needs AVX2 says so itself and is chosen at run time."""
    tag = re.sub(r"^treecast-[^-]+-", "", wheel.stem)
    commands = json.loads((ROOT / "build" / tag / "compile_commands.json").read_text())
    assert len(commands) > 5
    for entry in commands:
        assert not re.search(r"-m(arch|tune|cpu|avx|sse|bmi|popcnt)", entry["command"]), entry["file"]


def test_types_reach_the_users_of_a_wheel(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    program = tmp_path / "program.py"
    program.write_text(
        "import treecast\nfrom treecast import _native\n\nreveal_type(_native.testing.simd_best())\n"
        "reveal_type(treecast.parse('/a'))\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(tmp_path / "cache")]
    result = subprocess.run(
        [*command, str(program)],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in result.stdout.splitlines() if line.startswith("program.py")]
    assert any('"int"' in line or '"builtins.int"' in line for line in lines), result.stdout
    assert any("treecast.query" in line and "Query" in line for line in lines), result.stdout
    assert not any("error" in line for line in lines), result.stdout


def test_source_distribution_has_what_a_build_needs(dist: Path) -> None:
    (found,) = dist.glob("*.tar.gz")
    with open_tar(found) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    native = {path.relative_to(ROOT).as_posix() for path in (ROOT / "native").glob("*/*.[ch]pp")}
    assert {"pyproject.toml", "CMakeLists.txt", "LICENSE", "README.md", "src/treecast/py.typed"} | native <= names
    assert not any(name.startswith((".venv", "build/", "results")) for name in names)


@pytest.mark.long
def test_source_distribution_installs_in_a_new_venv(dist: Path, tmp_path: Path) -> None:
    """`pip install` from source, build packages fetched and all; the command then answers. Twin: the tests above."""
    (found,) = dist.glob("*.tar.gz")
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", str(found)], check=True)
    answer = subprocess.run(
        [str(python.parent / "treecast"), "--version"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "0." in answer.stdout
