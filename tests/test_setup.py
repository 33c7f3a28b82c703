"""tools/setup.sh: one line with status 2 names what is missing, and an incomplete venv is made again.

Each test gives the script a PATH of its own: a directory with the few real tools it calls, and fakes for those the test
is about. Nothing is installed and nothing is fetched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
TOOLS = """bash cat chmod chown cp cut dirname env find flock grep head id ln ls mkdir mktemp mv readlink rm sed
    sha256sum sleep sort stat tail touch xargs"""
SOMEONE = 65534  # a user who owns nothing here
GIGABYTES_4 = 'echo "1048576 4096"'
PYTHON_COMPLETE = 'case "$*" in *-c*) echo "3.11 venv headers";; esac'


@dataclass
class Machine:
    """A checkout, and the programs that exist on its machine."""

    checkout: Path
    programs: Path

    def fake(self, name: str, body: str) -> None:
        path = self.programs / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def start(self, *extra: str, user: int | None = None, **settings: str) -> subprocess.Popen[str]:
        script = self.checkout / "tools" / "setup.sh"
        environment = {"PATH": str(self.programs), "HOME": str(self.checkout.parent), **settings}
        command = ["/bin/bash", str(script), *extra]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, user=user, stdout=pipe, stderr=pipe, text=True)

    def setup(self, *extra: str, user: int | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*extra, user=user, **settings)
        out, error = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)

    def created(self) -> set[str]:
        return {path.name for path in self.checkout.iterdir()} - {
            "tools",
            "pyproject.toml",
            "CMakeLists.txt",
            "native",
            "src",
            "requirements.lock",
        }


def make_machine(place: Path) -> Machine:
    """A Debian with everything but Python, venv, Python.h and a compiler; the user is not root."""
    checkout, programs = place / "a checkout", place / "programs"
    programs.mkdir()
    (checkout / "native").mkdir(parents=True)
    (checkout / "src" / "treecast").mkdir(parents=True)
    (checkout / "native" / "cpu.cpp").write_text("// nothing\n")
    for name in ("pyproject.toml", "CMakeLists.txt"):
        shutil.copy(ROOT / name, checkout / name)
    shutil.copytree(ROOT / "tools", checkout / "tools")
    for name in TOOLS.split():
        found = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
        assert found, name
        (programs / name).symlink_to(found)
    result = Machine(checkout, programs)
    result.fake("id", 'case "$1" in -u) echo 1000;; -un) echo someone;; esac')
    result.fake("apt-get", f'echo "$*" >> "{place}/apt.log"')
    result.fake("stat", f'case "$1" in -f) {GIGABYTES_4};; *) echo 1000;; esac')
    return result


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_machine(tmp_path)


def apt_log(machine: Machine) -> list[str]:
    path = machine.programs.parent / "apt.log"
    return path.read_text().splitlines() if path.exists() else []


def python_that(answers: str) -> str:
    """A Python whose probe prints `answers`; /usr/bin/python3 must not be asked, so TREECAST_PYTHON names it."""
    return f'echo "{answers}"'


def refusal(machine: Machine, *extra: str, **settings: str) -> str:
    """The one line, having checked that it is one, that the status is 2 and that nothing was created."""
    result = machine.setup(*extra, user=None, **settings)
    assert result.returncode == 2, result
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, lines
    assert machine.created() == set()
    return lines[0]


def test_everything_missing_is_one_line(machine: Machine) -> None:
    line = refusal(machine, TREECAST_PYTHON="absent")
    assert "Python 3.11 or newer" in line
    assert "C++20 compiler" in line
    assert line.endswith("run as root: apt-get install -y --no-install-recommends python3 python3-venv python3-dev g++")
    assert apt_log(machine) == []


def test_missing_venv(machine: Machine) -> None:
    machine.fake("python3", python_that("3.11 - headers"))
    machine.fake("c++", "exit 0")
    line = refusal(machine, TREECAST_PYTHON="python3")
    assert line.endswith("--no-install-recommends python3-venv")
    assert "Python.h" not in line
    assert "compiler" not in line


def test_missing_headers_of_a_second_python(machine: Machine) -> None:
    machine.fake("python3.12", python_that("3.12 venv -"))
    machine.fake("c++", "exit 0")
    assert refusal(machine, TREECAST_PYTHON="python3.12").endswith("--no-install-recommends python3.12-dev")


def test_old_python_is_not_enough(machine: Machine) -> None:
    machine.fake("python3", python_that("old"))
    machine.fake("c++", "exit 0")
    assert "python3.11 python3.11-venv python3.11-dev" in refusal(machine, TREECAST_PYTHON="python3")


def test_missing_compiler(machine: Machine) -> None:
    machine.fake("python3", PYTHON_COMPLETE)
    for name in ("c++", "g++", "clang++"):
        machine.fake(name, "exit 1")  # there, but not for C++20
    assert refusal(machine, TREECAST_PYTHON="python3").endswith("--no-install-recommends g++")


def test_little_disk(machine: Machine) -> None:
    machine.fake("stat", 'echo "1024 4096"')
    machine.fake("python3", PYTHON_COMPLETE)
    machine.fake("c++", "exit 0")
    line = refusal(machine, TREECAST_PYTHON="python3")
    assert "4 MB of disk free where 3072 MB are needed" in line
    assert "apt-get" not in line


def test_disk_and_packages_share_the_line(machine: Machine) -> None:
    machine.fake("stat", 'echo "1024 4096"')
    machine.fake("python3", PYTHON_COMPLETE)
    machine.fake("id", "echo 0")
    line = refusal(machine, TREECAST_PYTHON="python3")
    assert "of disk free" in line
    assert "run: apt-get install" in line
    assert apt_log(machine) == []


def test_root_may_forbid_apt(machine: Machine) -> None:
    machine.fake("id", "echo 0")
    line = refusal(machine, TREECAST_PYTHON="absent", TREECAST_NO_APT="1")
    assert "; run: apt-get install" in line
    assert apt_log(machine) == []


def test_without_apt_the_packages_are_named(machine: Machine) -> None:
    (machine.programs / "apt-get").unlink()
    machine.fake("id", "echo 0")
    line = refusal(machine, TREECAST_PYTHON="absent")
    assert line.endswith("install what Debian calls: python3 python3-venv python3-dev g++")


def test_root_installs_once_and_prints_the_line_first(machine: Machine) -> None:
    machine.fake("id", "echo 0")
    log = machine.programs.parent / "apt.log"
    appears = machine.programs / "c++"
    machine.fake("apt-get", f'echo "$*" >> "{log}"; printf "#!/bin/bash\\n" > "{appears}"; chmod +x "{appears}"')
    machine.fake("python3", PYTHON_COMPLETE)
    result = machine.setup(TREECAST_PYTHON="python3")
    installs = [line for line in apt_log(machine) if line.startswith("install")]
    assert installs == ["install -y --no-install-recommends g++"]
    first = result.stdout.splitlines()[0]
    assert first.startswith("treecast set-up: ")
    assert first.endswith("apt-get install -y --no-install-recommends g++")


def test_apt_that_does_not_help_ends_with_the_line(machine: Machine) -> None:
    machine.fake("id", "echo 0")
    result = machine.setup(TREECAST_PYTHON="absent")
    assert result.returncode == 2
    assert len(apt_log(machine)) in (1, 2)  # with the package lists fetched first where there are none
    assert result.stderr.count("\n") == 1
    assert "missing: Python 3.11 or newer" in result.stderr


APT_WITHOUT_NETWORK = """echo "W: Failed to fetch deb.example  Temporary failure resolving 'deb.example'"
[ "$1" = update ] || { echo "E: Unable to locate package g++"; exit 100; }"""


def test_apt_without_a_network_is_one_line(machine: Machine) -> None:
    machine.fake("id", "echo 0")
    machine.fake("apt-get", APT_WITHOUT_NETWORK)
    result = machine.setup(TREECAST_PYTHON="absent")
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert "missing: Python 3.11 or newer" in line
    assert (
        "a connection to the package server; connect this machine; the whole log is in build/setup.log; run: apt-get"
        in line
    )


JAVA = r"(openjdk-17|default)-jre-headless"  # by the release of the system


def java_that_says(line: str) -> str:
    return f"echo '{line}' >&2"


@pytest.mark.parametrize("java", [None, 'openjdk version "11.0.22" 2024-01-16', 'java version "1.8.0_392"', "no idea"])
def test_missing_java(machine: Machine, java: str | None) -> None:
    machine.fake("python3", PYTHON_COMPLETE)
    machine.fake("c++", "exit 0")
    if java:
        machine.fake("java", java_that_says(java))
    line = refusal(machine, "java", TREECAST_PYTHON="python3")
    assert "missing: Java 17 or newer; run as root: apt-get install" in line
    assert re.search(rf"--no-install-recommends {JAVA}$", line)


def test_java_shares_the_line(machine: Machine) -> None:
    line = refusal(machine, "java", TREECAST_PYTHON="absent")
    assert "missing: Python 3.11 or newer with venv and Python.h, a C++20 compiler, Java 17 or newer;" in line
    assert re.search(rf"python3 python3-venv python3-dev g\+\+ {JAVA}$", line)
    assert refusal(machine, "maybe-java", TREECAST_PYTHON="absent") == line


def test_java_home_comes_before_the_path(machine: Machine, tmp_path: Path) -> None:
    fake_python_that_makes_venvs(machine)
    machine.fake("java", java_that_says('openjdk version "21.0.1" 2023-10-17'))
    line = refusal(machine, "java", TREECAST_PYTHON="python3", JAVA_HOME=str(tmp_path))
    assert line.endswith(
        f"missing: Java 17 or newer in JAVA_HOME, which is {tmp_path}; let JAVA_HOME name one, or unset it"
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(machine.programs / "java")
    assert machine.setup("java", TREECAST_PYTHON="python3", JAVA_HOME=str(tmp_path)).returncode == 0


@pytest.mark.parametrize("version", ["17.0.15", "17-ea", "25"])
def test_java_is_found_on_the_path(machine: Machine, version: str) -> None:
    fake_python_that_makes_venvs(machine)
    machine.fake("java", java_that_says(f'openjdk version "{version}" 2025-04-15'))
    assert machine.setup("java", TREECAST_PYTHON="python3").returncode == 0


def test_root_installs_java_with_the_rest(machine: Machine) -> None:
    machine.fake("id", "echo 0")
    machine.fake("python3", PYTHON_COMPLETE)
    machine.setup("java", TREECAST_PYTHON="python3")
    installs = {line for line in apt_log(machine) if line.startswith("install")}
    assert len(installs) == 1
    assert re.fullmatch(rf"install -y --no-install-recommends g\+\+ {JAVA}", installs.pop())


@pytest.mark.parametrize("user", ["0", "1000"])
def test_the_venv_is_made_where_only_java_stays_missing(machine: Machine, user: str) -> None:
    fake_python_that_makes_venvs(machine)
    machine.fake("id", f"echo {user}")
    done = machine.setup("maybe-java", TREECAST_PYTHON="python3")
    assert done.returncode == 0
    assert done.stderr == ""
    assert (machine.checkout / ".venv" / "treecast.stamp").exists()
    assert bool(apt_log(machine)) == (user == "0")
    assert machine.setup("java", TREECAST_PYTHON="python3", TREECAST_NO_APT="1").returncode == 2


def test_nats_server_is_wanted_and_not_needed(machine: Machine) -> None:
    fake_python_that_makes_venvs(machine)
    line = refusal(machine, "nats", TREECAST_PYTHON="absent")
    there = Path("/usr/sbin/nats-server").exists()
    assert ("nats-server" in line) != there
    done = machine.setup("maybe-nats", TREECAST_PYTHON="python3")
    assert (done.returncode, done.stderr) == (0, "")


def test_chromium_is_wanted_and_not_needed(machine: Machine) -> None:
    fake_python_that_makes_venvs(machine)
    assert "chromium" in refusal(machine, "chromium", TREECAST_PYTHON="absent")
    done = machine.setup("maybe-chromium", TREECAST_PYTHON="python3")
    assert (done.returncode, done.stderr) == (0, "")
    machine.fake("chromium", "exit 1")
    assert machine.setup("chromium", TREECAST_PYTHON="python3").returncode == 0


def test_xmlsec1_is_wanted_and_not_needed(machine: Machine) -> None:
    fake_python_that_makes_venvs(machine)
    assert "xmlsec1" in refusal(machine, "xmlsec1", TREECAST_PYTHON="absent")
    done = machine.setup("maybe-xmlsec1", TREECAST_PYTHON="python3")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("works", [True, False])
def test_npm_packages_are_fetched_where_npm_is(machine: Machine, works: bool) -> None:
    """As the lock has them, once; where that fails, it is said, and everything else goes on."""
    fake_python_that_makes_venvs(machine)
    for name in ("cmp", "timeout"):
        found = shutil.which(name, path="/usr/bin:/bin")
        assert found
        (machine.programs / name).symlink_to(found)
    shutil.copytree(ROOT / "tests" / "npm", machine.checkout / "tests" / "npm")
    packages = machine.checkout / "build" / "npm" / "node_modules"
    assert machine.setup("maybe-npm", TREECAST_PYTHON="python3").returncode == 0
    assert not packages.exists(), "there is no npm"
    log = machine.programs.parent / "npm.log"
    machine.fake("npm", f'echo "$*" >> "{log}"; mkdir node_modules; exit {0 if works else 1}')
    for _ in range(2):
        done = machine.setup("maybe-npm", TREECAST_PYTHON="python3")
        assert (done.returncode, done.stderr) == (0, "")
        assert packages.exists() == works and ("could not be installed" in done.stdout) != works
    asked = log.read_text().splitlines()
    assert len(asked) == (1 if works else 2) and asked[0].startswith("ci ") and "--ignore-scripts" in asked[0]
    lock = machine.checkout / "tests" / "npm" / "package-lock.json"
    lock.write_text(lock.read_text() + "\n")
    machine.setup("maybe-npm", TREECAST_PYTHON="python3")
    assert len(log.read_text().splitlines()) == len(asked) + 1, "another lock, other packages"


def run_tests(
    machine: Machine,
    plain: int,
    spark: int = 0,
    sanitized: int = 0,
    services: int = 0,
    arguments: tuple[str, ...] = ("-x",),
) -> tuple[int, list[str], str]:
    """tools/test.sh with parts that end so: its status, what was asked for, in any order, and what is on stderr."""
    fake_python_that_makes_venvs(machine)
    assert machine.setup(TREECAST_PYTHON="python3").returncode == 0
    log = machine.programs.parent / "pytest.log"
    (machine.checkout / ".venv" / "bin" / "python").unlink()
    (machine.checkout / ".venv" / "bin" / "python").symlink_to(machine.programs / "tester")
    statuses = f'*"not spark tests/"*) exit {services};; *"not spark"*) exit {plain};; *spark*) exit {spark};;'
    machine.fake("tester", f'echo "$*" >> "{log}"; case "$*" in {statuses} esac')
    (machine.checkout / "tools" / "sanitize.sh").write_text(f'echo sanitizers >> "{log}"; exit {sanitized}\n')
    command = ["/bin/bash", str(machine.checkout / "tools" / "test.sh"), *arguments]
    environment = {"PATH": str(machine.programs), "TREECAST_PYTHON": "python3"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    asked = [line for line in sorted(log.read_text().splitlines()) if "pytest" in line or line == "sanitizers"]
    return done.returncode, asked, done.stderr


PLAIN = "-m pytest -m not long and not spark -x"
SPARK = "-m pytest -p no:cacheprovider -m not long and spark -x"


def test_without_java_the_other_tests_run_and_the_line_fails_it(machine: Machine) -> None:
    status, asked, said = run_tests(machine, 0)
    assert status == 2
    assert asked == [PLAIN, "sanitizers"]
    assert re.fullmatch(rf"treecast set-up: missing: Java 17 or newer; run as root: apt-get .* {JAVA}\n", said)


def test_without_java_failed_tests_count_first(machine: Machine) -> None:
    status, asked, said = run_tests(machine, 1)
    assert (status, len(asked)) == (1, 2)
    assert "missing: Java 17 or newer" in said


@pytest.mark.parametrize(
    ("plain", "spark", "sanitized", "status"),
    [(0, 0, 0, 0), (1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1), (5, 0, 0, 0), (0, 5, 0, 0), (5, 5, 0, 5), (5, 1, 0, 1)],
)
def test_with_java_all_tests_run(machine: Machine, plain: int, spark: int, sanitized: int, status: int) -> None:
    """Any part that fails makes it fail; a half without tests does not, but where there are none at all."""
    machine.fake("java", java_that_says('openjdk version "17.0.15" 2025-04-15'))
    assert run_tests(machine, plain, spark, sanitized) == (status, [PLAIN, SPARK, "sanitizers"], "")


@pytest.mark.parametrize(("services", "status"), [(0, 0), (1, 1), (5, 5)])
def test_without_arguments_tests_of_services_are_beside_the_others(
    machine: Machine, services: int, status: int
) -> None:
    machine.fake("java", java_that_says('openjdk version "17.0.15" 2025-04-15'))
    folders = ("tests/overlay", "tests/serve", "tests/sim")
    others = " ".join(f"--ignore={folder}" for folder in folders)
    plain, spark = PLAIN.removesuffix("-x") + others, SPARK.removesuffix(" -x")
    apart = spark.replace("and spark", f"and not spark {' '.join(folders)}")
    ended, asked, _ = run_tests(machine, 0, services=services, arguments=())
    assert (ended, asked) == (status, sorted([plain, spark, apart, "sanitizers"]))
    assert all(next((ROOT / folder).glob("test_*.py"), None) for folder in folders)


def fake_python_that_makes_venvs(machine: Machine) -> None:
    """`-m venv` makes a bin/python that is this same fake, which answers to everything setup.sh asks of it."""
    this = machine.programs / "python3"
    machine.fake(
        "python3",
        f"""
case "$*" in
    *"-m venv"*) mkdir -p "$3/bin" "$3/lib/python3.11/site-packages/treecast"
                 mkdir "$3/lib/python3.11/site-packages/treecast/_native"
                 ln -s "{this}" "$3/bin/python" ;;
    *"-m pip"*)  echo "pip $*" >> "{machine.programs.parent}/pip.log"; [ ! -e "{machine.programs}/broken" ] ;;
    *"-I -B"*)   echo "3.11 venv headers" ;;
    *platform*)  echo "${{FAKE_PLATFORM:-}}" ;;
    *"lock.py ranges") echo pyarrow ;;
esac""",
    )
    machine.fake("c++", "exit 0")


def pip_log(machine: Machine) -> list[str]:
    path = machine.programs.parent / "pip.log"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def test_second_run_does_nothing(machine: Machine) -> None:
    fake_python_that_makes_venvs(machine)
    assert machine.setup(TREECAST_PYTHON="python3").returncode == 0
    assert len(pip_log(machine)) == 2
    again = machine.setup(TREECAST_PYTHON="python3")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert pip_log(machine) == []


def test_half_made_venv_is_made_again(machine: Machine) -> None:
    fake_python_that_makes_venvs(machine)
    left = machine.checkout / ".venv" / "left-over"
    left.parent.mkdir()
    left.write_text("")
    assert machine.setup(TREECAST_PYTHON="python3").returncode == 0
    assert not left.exists()
    assert (machine.checkout / ".venv" / "treecast.stamp").exists()


def test_failed_install_leaves_no_stamp_and_shows_the_log(machine: Machine) -> None:
    fake_python_that_makes_venvs(machine)
    (machine.programs / "broken").write_text("")
    result = machine.setup(TREECAST_PYTHON="python3")
    assert result.returncode == 1
    assert "build/setup.log" in result.stderr
    assert not (machine.checkout / ".venv" / "treecast.stamp").exists()
    (machine.programs / "broken").unlink()
    assert machine.setup(TREECAST_PYTHON="python3").returncode == 0


@pytest.mark.parametrize("platform", ["cpython 3.11 linux x86_64", "cpython 3.13 linux x86_64"])
def test_an_index_that_cannot_be_reached_is_one_line(machine: Machine, platform: str) -> None:
    """The real pip asks an index that nobody serves; all else of Python is a fake."""
    fake_python_that_makes_venvs(machine)
    python = machine.programs / "python3"
    pip = f'*"-m pip"*) exec {sys.executable} "$@" --ignore-installed --dry-run ;;'
    python.write_text(re.sub(r'\*"-m pip"\*\).*;;', lambda _: pip, python.read_text()))
    shutil.copy(ROOT / "requirements.lock", machine.checkout)
    nowhere = {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": "http://127.0.0.1:1/simple", "PIP_RETRIES": "1"}
    result = machine.setup(user=None, TREECAST_PYTHON="python3", FAKE_PLATFORM=platform, **nowhere)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line == (
        "treecast set-up: missing: a connection to the package index: Connection refused; packages come from PyPI: "
        "connect this machine, or let PIP_INDEX_URL name a mirror; the whole log is in build/setup.log"
    )
    assert not (machine.checkout / ".venv" / "treecast.stamp").exists()


@pytest.mark.parametrize("change", ["native", "a new package", "nothing"])
def test_what_is_rebuilt_without_new_requirements(machine: Machine, change: str) -> None:
    fake_python_that_makes_venvs(machine)
    machine.setup(TREECAST_PYTHON="python3")
    pip_log(machine)
    if change == "native":
        (machine.checkout / "native" / "cpu.cpp").write_text("// something\n")
    elif change == "a new package":
        (machine.checkout / "src" / "treecast" / "room").mkdir()
    else:  # what running the tests leaves behind
        (machine.checkout / "src" / "treecast" / "__pycache__").mkdir()
    assert machine.setup(TREECAST_PYTHON="python3").returncode == 0
    assert ["--editable" in line for line in pip_log(machine)] == [True] * (change != "nothing")


def test_new_requirements_are_installed(machine: Machine) -> None:
    fake_python_that_makes_venvs(machine)
    machine.setup(TREECAST_PYTHON="python3")
    pip_log(machine)
    with (machine.checkout / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    assert machine.setup(TREECAST_PYTHON="python3").returncode == 0
    assert len(pip_log(machine)) == 2


def test_packages_are_those_of_the_lock_where_it_fits(machine: Machine) -> None:
    fake_python_that_makes_venvs(machine)
    shutil.copy(ROOT / "requirements.lock", machine.checkout)
    done = machine.setup(TREECAST_PYTHON="python3", FAKE_PLATFORM="cpython 3.11 linux x86_64")
    first, *others = pip_log(machine)
    assert first.endswith("--require-hashes -r build/requirements-build.lock")
    build, install = sorted(others, key=lambda line: "--editable" not in line)  # they run at the same time
    assert "--editable" in build and install.endswith("--require-hashes --no-build-isolation -r requirements.lock")
    assert done.returncode == 0
    assert re.fullmatch(r"treecast set-up: the first time takes two to five minutes: .*\n", done.stdout)
    built_with = (machine.checkout / "build" / "requirements-build.lock").read_text()
    assert re.findall(r"^\S+(?===)", built_with, re.MULTILINE) == [
        *("cmake", "nanobind", "ninja", "packaging", "pathspec", "scikit-build-core", "setuptools", "wheel")
    ]
    assert not built_with.rstrip().endswith("\\")
    # Another lock: the packages are installed again.
    with (machine.checkout / "requirements.lock").open("a") as file:
        file.write("# changed\n")
    again = machine.setup(TREECAST_PYTHON="python3", FAKE_PLATFORM="cpython 3.11 linux x86_64")
    assert (again.returncode, again.stdout) == (0, "")
    assert len(pip_log(machine)) == 3


def test_elsewhere_the_ranges_decide_which_is_said(machine: Machine) -> None:
    fake_python_that_makes_venvs(machine)
    shutil.copy(ROOT / "requirements.lock", machine.checkout)
    done = machine.setup(TREECAST_PYTHON="python3", FAKE_PLATFORM="cpython 3.13 linux x86_64")
    assert done.returncode == 0 and "installing by the ranges of pyproject.toml, without hashes" in done.stdout
    assert [line.rsplit(" ", 1)[1] for line in pip_log(machine)] == ["pyarrow", "."]


def test_moved_checkout_gets_its_own_venv(machine: Machine, tmp_path: Path) -> None:
    fake_python_that_makes_venvs(machine)
    machine.setup(TREECAST_PYTHON="python3")
    marker = machine.checkout / ".venv" / "of the old place"
    marker.write_text("")
    moved = Machine(machine.checkout.rename(tmp_path / "elsewhere"), machine.programs)
    assert moved.setup(TREECAST_PYTHON="python3").returncode == 0
    assert not (moved.checkout / ".venv" / "of the old place").exists()


def test_two_at_once_make_one_venv(machine: Machine) -> None:
    fake_python_that_makes_venvs(machine)
    first, second = (machine.start(TREECAST_PYTHON="python3") for _ in range(2))
    first.communicate()
    second.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert len(pip_log(machine)) == 2


def test_extra_wish_is_checked_beside_a_finished_venv(machine: Machine) -> None:
    fake_python_that_makes_venvs(machine)
    machine.setup(TREECAST_PYTHON="python3")
    before = machine.created()
    result = machine.setup("fuzzer", TREECAST_PYTHON="python3")
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert "missing: clang with libFuzzer; run as root: apt-get install" in line
    assert machine.created() == before


def test_system_pip_is_never_called(machine: Machine) -> None:
    fake_python_that_makes_venvs(machine)
    for name in ("pip", "pip3"):
        machine.fake(name, f'echo called >> "{machine.programs.parent}/system-pip.log"')
    assert machine.setup(TREECAST_PYTHON="python3").returncode == 0
    assert not (machine.programs.parent / "system-pip.log").exists()


def test_unwritable_checkout_is_one_line() -> None:
    with tempfile.TemporaryDirectory() as name:  # tmp_path lies in a directory that others may not enter
        Path(name).chmod(0o755)
        machine = make_machine(Path(name))
        machine.fake("python3", PYTHON_COMPLETE)
        machine.fake("c++", "exit 0")
        machine.checkout.chmod(0o555)
        result = machine.setup(user=SOMEONE if os.geteuid() == 0 else None, TREECAST_PYTHON="python3")
        machine.checkout.chmod(0o755)
        assert result.returncode == 2, result
        (line,) = result.stderr.splitlines()
        assert f"{machine.checkout} is not writable; run as root: chown -R someone" in line
        assert machine.created() == set()
