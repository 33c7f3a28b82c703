"""The folder deploy/: units are valid and hardened and start what they say, the image installs by hashes.

And services tell systemd how they are."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trustme

from treecast.cli import main
from treecast.serve.notify import notify

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed: units are not verified")
EXPOSURE_MAX = 1.5
UNITS = ("treecast.service", "treecast-broker@.service", "treecast-registry.service")


def analyze(*arguments: str) -> str:
    assert ANALYZE is not None
    done = subprocess.run([ANALYZE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def unit_text(unit: str) -> str:
    """With the program that is tested in place of the one that will be installed."""
    text = (DEPLOY / unit).read_text()
    assert text.count("/opt/treecast/bin/treecast") == 1
    return text.replace("/opt/treecast/bin/treecast", str(Path(sys.executable).parent / "treecast"))


@needs_systemd
@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_is_valid(unit: str, tmp_path: Path) -> None:
    path = tmp_path / unit.replace("@.", "@b1.")
    path.write_text(unit_text(unit))
    assert analyze("verify", "--man=no", str(path)) == ""


@needs_systemd
@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_is_hardened(unit: str) -> None:
    if "--offline" not in analyze("--help"):
        pytest.skip("this systemd-analyze cannot look at a unit that is not installed")
    said = analyze("security", "--no-pager", "--offline=true", str(DEPLOY / unit))
    (level,) = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", said)
    assert float(level) <= EXPOSURE_MAX


def test_units_of_a_network_start_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the units say, with the files that docs/guide/deploying.md asks for, in other places."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "network.pem")
    with ExitStack() as stack:
        registry = stack.enter_context(started(tmp_path, authority, "treecast-registry.service", "registry", {}))
        settings = {"REGISTRY": registry, "OPTIONS": "--location 2,0 --log-level error"}
        broker = stack.enter_context(started(tmp_path, authority, "treecast-broker@.service", "b1", settings))
        authority.issue_cert("127.0.0.1", "me", common_name="me").private_key_and_cert_chain_pem.write_to_path(
            tmp_path / "me.pem"
        )
        tls = ["--tls-cert", str(tmp_path / "me.pem"), "--tls-ca", str(tmp_path / "network.pem"), "--name", "me"]
        end = time.monotonic() + 60
        while main(["source", "add", "news", "--registry", registry, *tls]) != 0:
            assert "TC481" in capsys.readouterr().err and time.monotonic() < end, "the broker joins soon"
        assert capsys.readouterr().out == f"news: publish at b1, {broker}\n"


@contextmanager
def started(directory: Path, authority: trustme.CA, unit: str, name: str, settings: dict[str, str]) -> Iterator[str]:
    """The program of a unit, as systemd starts it; yields its address."""
    own = authority.issue_cert("127.0.0.1", name, common_name=name).private_key_and_cert_chain_pem
    (directory / name).mkdir()
    own.write_to_path(directory / name / "cert.pem")
    variables = {"LISTEN": "127.0.0.1:0", "OPTIONS": "--log-level error", **settings}
    variables["CREDENTIALS_DIRECTORY"] = str(directory / name)
    (line,) = re.findall(r"^ExecStart=(.*)$", unit_text(unit).replace("\\\n", ""), re.MULTILINE)
    line = line.replace("%S", str(directory)).replace("%i", name).replace("/etc/treecast", str(directory))
    words: list[str] = []
    for word in line.split():
        split = variables[word[1:]].split() if re.fullmatch(r"\$\w+", word) else [word]
        words += [re.sub(r"\$\{(\w+)\}", lambda match: variables[match[1]], one) for one in split]
    with systemd_hears(directory / f"{name}.notify", words) as line:
        yield line.removeprefix("listening on ").strip()


@contextmanager
def systemd_hears(path: Path, command: list[str]) -> Iterator[str]:
    """A service tells systemd, at this path, when it is ready and when it stops, and nothing else. Yields its line."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(path))
        listening.settimeout(60)
        environment = {**os.environ, "NOTIFY_SOCKET": str(path)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            assert listening.recv(100) == b"READY=1"
            assert process.stdout is not None
            yield process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert listening.recv(100) == b"STOPPING=1"
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
            process.wait()
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.recv(100)


@pytest.mark.parametrize("command", [["up", "--brokers", "2", "--listen", ":0"], ["peer", "up", "3", "--http", ":0"]])
def test_many_processes_are_one_service(command: list[str], tmp_path: Path) -> None:
    """Systemd is told once, when all of them are there, and nothing by each."""
    options = ["--data", str(tmp_path / "data"), "--log-level", "error"]
    with systemd_hears(tmp_path / "notify", [sys.executable, "-m", "treecast", *command, *options]) as line:
        assert "listening on " in line


def test_the_file_of_settings_is_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREECAST_UP_DATA", str(tmp_path))
    text = (DEPLOY / "treecast.toml").read_text()
    assert main(["up", "--check", "--config", str(DEPLOY / "treecast.toml")]) == 0
    assert 'keep_bytes = "10G"' in capsys.readouterr().out
    # And so are those that are commented out, beside files that are missing here.
    proposed = re.sub(r"^# (\w+ = )", r"\1", text.replace('listen = "127.0.0.1:8080"\n', ""), flags=re.MULTILINE)
    (tmp_path / "all.toml").write_text(proposed)
    with pytest.raises(SystemExit):
        main(["up", "--check", "--open", "--config", str(tmp_path / "all.toml")])
    said = capsys.readouterr().err
    assert "a setting is wrong" in said and "TC409" in said and "server.pem" in said


def test_the_image_is_made_of_what_there_is_and_by_hashes() -> None:
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", "")
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists(), name
    commands = [part for line in text.splitlines() if line.startswith("RUN") for part in line.split("&&")]
    installs = [part for part in commands if "pip " in part]
    assert len(installs) == 4
    assert all("--no-deps" in part and ("--require-hashes" in part or "--no-index" in part) for part in installs)
    assert text.index("\nUSER treecast\n") > text.rindex("\nRUN ") and "\nVOLUME /data\n" in text
    assert "HEALTHCHECK" in text and "TREECAST_UP_DATA=/data" in text


def test_a_part_of_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("lock", ROOT / "tools" / "lock.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    exact = dict(re.findall(r"^(\S+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))

    def resolve(wanted: list[str], constraints: str) -> list[tuple[str, str, str]]:
        assert f"msgspec=={exact['msgspec']}" in constraints.splitlines()
        names = sorted(tool.normal(re.split(r"[<>=\[]", one)[0]) for one in wanted)
        return [(name, exact[name], "") for name in names]

    monkeypatch.setattr(tool, "resolve", resolve)
    entries = list(tool.part("serve"))
    assert "uvicorn" in {entry.partition("==")[0] for entry in entries}
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "scikit-build-core" in {entry.partition("==")[0] for entry in tool.part("build")}
    monkeypatch.setattr(tool, "resolve", lambda *_: [("msgspec", "0.0.1", "")])
    with pytest.raises(SystemExit, match=r"msgspec 0\.0\.1 is not in requirements\.lock"):
        list(tool.part("serve"))


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_is_told(tmp_path: Path, is_abstract: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"@treecast-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + name[1:] if is_abstract else name)
        listening.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        assert notify("READY=1") and listening.recv(100) == b"READY=1"
        if not is_abstract:
            command = [sys.executable, "-m", "treecast", "up", "--data", str(tmp_path / "data"), "--listen", ":0"]
            service = subprocess.Popen([*command, "--log-level", "error"], stdout=subprocess.DEVNULL)
            try:
                assert listening.recv(100) == b"READY=1"
                service.send_signal(signal.SIGTERM)
                assert listening.recv(100) == b"STOPPING=1"
                assert service.wait(timeout=60) == 0
            finally:
                service.kill()
                service.wait()
    assert not notify("READY=1")  # nobody listens
    monkeypatch.delenv("NOTIFY_SOCKET")
    assert not notify("READY=1")


def test_the_image_has_what_the_build_calls() -> None:
    """Scripts that CMake runs are none of the sources, and were forgotten once."""
    called = set(re.findall(r"CMAKE_CURRENT_SOURCE_DIR\}/(tools/[\w./]+)", (ROOT / "CMakeLists.txt").read_text()))
    copied = {word for line in (DEPLOY / "Containerfile").read_text().splitlines() for word in line.split()}
    assert called and called <= copied
