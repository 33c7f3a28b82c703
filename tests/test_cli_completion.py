"""`treecast completion`: scripts that shells understand, and that know every command and option."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from treecast.cli import main
from treecast.cli.completion import SHELLS, commands
from treecast.cli.entry import build_parser

pytestmark = pytest.mark.house


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_there(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    found = list(commands(build_parser()))
    assert ("selective", "publish") in [command.words for command in found]
    for command in found:
        for name, _ in command.below:
            assert name in text
        for option in command.options:
            for name in option.names:
                assert (f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}") in text or name in text


def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "treecast.bash").write_text(script("bash", capsys))
    (tmp_path / "my docs.xml").write_text("")
    cases = {
        "treecast rep": "replay",
        "treecast match --form": "--format",
        "treecast match --format j": "json",
        "treecast match --format json -s x.csv --ent": "--entities",
        "treecast check --format ": "text json",
        "treecast selective pub": "publish",
        "treecast token revoke --": "--help",
        "treecast completion z": "zsh",
        "treecast match my": "my docs.xml",
        "treecast --ver": "--version",
    }
    lines = [". ./treecast.bash"]
    for line in cases:
        words = " ".join(f"'{word}'" for word in line.split(" "))
        lines.append(f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=(); _treecast")
        lines.append('echo "${COMPREPLY[*]}"')
    done = subprocess.run(["bash", "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    for (line, expected), answer in zip(cases.items(), done.stdout.splitlines(), strict=True):
        assert expected in answer, (line, answer)
    assert done.stdout.splitlines()[0] == "replay"


@pytest.mark.parametrize(("shell", "flag"), [("zsh", "-n"), ("fish", "--no-execute")])
def test_other_shells_can_read_it(
    shell: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], leave_out: Callable[[str], None]
) -> None:
    text = script(shell, capsys)
    if shutil.which(shell) is None:
        leave_out(f"the completion of {shell}: it is not installed")
        return
    (tmp_path / "script").write_text(text)
    done = subprocess.run([shell, flag, str(tmp_path / "script")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
