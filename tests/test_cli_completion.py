"""`treecast completion`: scripts that shells understand, and that know every command and option."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import subprocess
import threading
import time
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


# As a person does it: the script where `treecast completion --help` puts it, a line, the tab key, and then a key that
# writes down what the line has become. fish asks its terminal questions that nobody answers here; `complete -C` above
# is its own editor.
TYPED = {
    "treecast rep": "treecast replay ",
    "treecast match --form": "treecast match --format ",
    "treecast match --format j": "treecast match --format json ",
    "treecast match --format json -s my": "treecast match --format json -s my\\ docs.xml ",
    "treecast selective pub": "treecast selective publish ",
    "treecast match my": "treecast match my\\ docs.xml ",
}
START = {
    "bash": """
. ./_treecast
bind 'set enable-bracketed-paste off'
write_down() { printf '%s' "$READLINE_LINE" > line.new; mv line.new line; }
bind -x '"\\C-o": write_down'
PS1='READY>'
""",
    "zsh": """
fpath=($PWD $fpath)
autoload -Uz compinit && compinit -u -d ./zcompdump
write_down() { print -rn -- "$BUFFER" > line.new; mv line.new line }
zle -N write_down && bindkey '^O' write_down
PS1='READY>'
""",
}


@pytest.mark.parametrize("shell", START)
def test_the_tab_key(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], leave_out: Callable[[str], None]
) -> None:
    if shutil.which(shell) is None:
        leave_out(f"the tab key in {shell}: it is not installed")
        return
    (tmp_path / "_treecast").write_text(script(shell, capsys))
    (tmp_path / "my docs.xml").write_text("")
    (tmp_path / "start").write_text(START[shell])
    command = {"bash": ["bash", "--noprofile", "--norc", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
    ours, theirs = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm", "LANG": "C.UTF-8"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        screen: list[bytes] = []
        reader = threading.Thread(target=_read_all, args=(ours, screen))
        reader.start()
        try:
            os.write(ours, b". ./start\n")
            _wait_until(lambda: b"READY>" in b"".join(screen), screen)  # its line editor reads the terminal again
            for line, expected in TYPED.items():
                os.write(ours, line.encode() + b"\t\x0f\x15")  # tab, write the line down, clear it
                _wait_until((tmp_path / "line").exists, screen)
                assert (tmp_path / "line").read_text() == expected
                (tmp_path / "line").unlink()
        finally:
            process.kill()
            process.wait()
            reader.join()
            os.close(ours)


def _read_all(terminal: int, screen: list[bytes]) -> None:
    """What the shell shows; it waits if nobody reads it."""
    with contextlib.suppress(OSError):  # the shell has ended
        while data := os.read(terminal, 65536):
            screen.append(data)


def _wait_until(is_so: Callable[[], bool], screen: list[bytes]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, b"".join(screen).decode(errors="replace")
        time.sleep(0.01)
