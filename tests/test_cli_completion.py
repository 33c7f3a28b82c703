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


CASES = {
    "treecast rep": ["replay"],
    "treecast match --form": ["--format"],
    "treecast match --format j": ["json"],
    "treecast match --format json -s x.csv --ent": ["--entities"],
    "treecast check --format ": ["json", "text"],
    "treecast selective pub": ["publish"],
    "treecast selective publish --u": ["--url"],
    "treecast token revoke --": ["--data", "--help"],
    "treecast completion z": ["zsh"],
    "treecast match my": ["my docs.xml"],
    "treecast --ver": ["--version"],
}

# Each prints what it offers for the words "$@", of which the last is being completed.
BASH = """
. ./script
offers() {
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _treecast
  printf '%s;' "${COMPREPLY[@]}"; echo
}"""
ZSH = """
compdef() { : }
compadd() { shift; local one; for one in "$@"; do [[ $one == "$prefix"* ]] && print -rn -- "$one;"; done }
_files() { compadd -- *(N) }
. ./script
offers() { words=("$@"); CURRENT=$#; prefix=${words[-1]}; _treecast; echo }"""
FISH = """
source ./script
function offers
  string join ';' -- (complete -C (string join ' ' -- $argv) | string replace -r '\\t.*' '')
end"""


@pytest.mark.parametrize(("shell", "start"), [("bash", BASH), ("zsh", ZSH), ("fish", FISH)])
def test_shells_complete(
    shell: str, start: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], leave_out: Callable[[str], None]
) -> None:
    """bash and fish by their own means; zsh by the function that it calls, with what that tells the line editor."""
    if shutil.which(shell) is None:
        leave_out(f"the completion of {shell}: it is not installed")
        return
    (tmp_path / "script").write_text(script(shell, capsys))
    (tmp_path / "my docs.xml").write_text("")
    lines = [start, *("offers " + " ".join(f"'{word}'" for word in line.split(" ")) for line in CASES)]
    (tmp_path / "lines").write_text("\n".join(lines))
    options = {"bash": [], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    command = [shell, *options, "lines"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    for (line, expected), answer in zip(CASES.items(), done.stdout.splitlines(), strict=True):
        assert sorted(filter(None, answer.split(";"))) == expected, line
