"""The folder deploy/: the unit is valid and hardened, the image installs by hashes, and the service tells systemd."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from treecast.cli import main
from treecast.serve.notify import notify

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed: the unit is not verified")
EXPOSURE_MAX = 1.5


def analyze(*arguments: str) -> str:
    assert ANALYZE is not None
    done = subprocess.run([ANALYZE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs_systemd
def test_the_unit_is_valid(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "treecast"
    text = (DEPLOY / "treecast.service").read_text()
    assert text.count("/opt/treecast/bin/treecast") == 1
    (tmp_path / "treecast.service").write_text(text.replace("/opt/treecast/bin/treecast", str(program)))
    assert analyze("verify", "--man=no", str(tmp_path / "treecast.service")) == ""


@needs_systemd
def test_the_unit_is_hardened() -> None:
    if "--offline" not in analyze("--help"):
        pytest.skip("this systemd-analyze cannot look at a unit that is not installed")
    said = analyze("security", "--no-pager", "--offline=true", str(DEPLOY / "treecast.service"))
    (level,) = re.findall(r"Overall exposure level for treecast.service: ([0-9.]+)", said)
    assert float(level) <= EXPOSURE_MAX


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
