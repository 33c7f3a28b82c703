"""`treecast completion`: what a shell needs to complete commands, options and their values, as a script.

The script is written from the parser of the command line itself, so it knows every option that there is. It is plain
text that the shell reads once: nothing of treecast runs while somebody types.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SHELLS = ("bash", "zsh", "fish")

DESCRIPTION = """\
Prints a script that lets a shell complete commands, options and values."""

EPILOG = """\
example:
  treecast completion bash > ~/.treecast.bash   # source it in ~/.bashrc
  treecast completion zsh > ~/.zfunc/_treecast  # a directory of $fpath
  treecast completion fish > ~/.config/fish/completions/treecast.fish"""


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "completion",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast completion bash|zsh|fish",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")
    parser.set_defaults(run=lambda options: run(options.shell))


def run(shell: str) -> int:
    from treecast.cli.entry import build_parser

    writers = {"bash": bash, "zsh": zsh, "fish": fish}
    print("\n".join(writers[shell](list(commands(build_parser())))))
    return 0


@dataclass(frozen=True)
class Option:
    """An option of a command: its names, the values among which it chooses, and whether it takes one at all."""

    names: tuple[str, ...]
    choices: tuple[str, ...]
    takes_value: bool
    help: str


@dataclass(frozen=True)
class Command:
    """The words after `treecast` that lead here, the commands below it, and its options."""

    words: tuple[str, ...]
    below: tuple[tuple[str, str], ...]
    """(name, help)"""
    options: tuple[Option, ...]
    values: tuple[str, ...]
    """Of its argument, where that is a choice."""


def commands(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[Command]:
    """A parser and all below it."""
    below: dict[str, argparse.ArgumentParser] = {}
    names: list[tuple[str, str]] = []
    options: list[Option] = []
    values: list[str] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = dict(action.choices)
            names = [(choice.dest, choice.help or "") for choice in action._choices_actions]
        elif action.option_strings:
            choices = tuple(map(str, action.choices or ()))
            text = (action.help or "").partition(";")[0].replace("%%", "%").replace("%(default)s", str(action.default))
            text = "" if action.help == argparse.SUPPRESS else text
            options.append(Option(tuple(action.option_strings), choices, action.nargs != 0, text))
        elif action.choices:
            values += map(str, action.choices)
    yield Command(words, tuple(names), tuple(options), tuple(values))
    for name, inner in below.items():
        yield from commands(inner, (*words, name))


# What bash and zsh say differently: where the typed words are, and how an answer is given. `earlier` are the words
# between the command and the one that is being completed, `word`.
BASH = (
    "# completion of treecast for bash: written by `treecast completion bash`",
    '_treecast_offer() { COMPREPLY=($(compgen -W "$*" -- "$word")); }',
    "_treecast_files() { compopt -o filenames 2>/dev/null; local IFS=$'\\n'; COMPREPLY=($(compgen -f -- \"$word\")); }",
    "_treecast() {",
    '  local word="${COMP_WORDS[COMP_CWORD]}"',
    '  local -a earlier=("${COMP_WORDS[@]:1:COMP_CWORD-1}")',
)
BASH_END = ("complete -F _treecast treecast",)
ZSH = (
    "#compdef treecast",
    "# completion of treecast for zsh: written by `treecast completion zsh`",
    '_treecast_offer() { compadd -- "$@" }',
    "_treecast_files() { _files }",
    "_treecast() {",
    '  local word="${words[CURRENT]}"',
    '  local -a earlier=("${(@)words[2,CURRENT-1]}")',
)
ZSH_END = ('if [[ ${funcstack[1]} == _treecast ]]; then _treecast "$@"; else compdef _treecast treecast; fi',)


def bash(all_commands: list[Command]) -> Iterator[str]:
    """A function for `complete -F`."""
    yield from (*BASH, *_body(all_commands), *BASH_END)


def zsh(all_commands: list[Command]) -> Iterator[str]:
    """A function for a directory of $fpath, or to be sourced."""
    yield from (*ZSH, *_body(all_commands), *ZSH_END)


def _body(all_commands: list[Command]) -> Iterator[str]:
    """The rest of the function, in what bash and zsh have in common. Words that are no option and no command complete
    to names of files."""
    yield from (
        '  local chain="" before="" earlier_word',
        "  local -a names=() options=()",
        '  for earlier_word in "${earlier[@]}"; do',
        '    case "$chain $earlier_word" in',
    )
    chains = [_chain(command) for command in all_commands if command.words]
    yield f'      {"|".join(map(_quoted, chains))}) chain="$chain $earlier_word" ;;'
    yield from ("    esac", '    before="$earlier_word"', "  done", '  case "$chain $before" in')
    for command in all_commands:
        for option in command.options:
            if option.choices:
                patterns = "|".join(_quoted(f"{_chain(command)} {name}") for name in option.names)
                yield f"    {patterns}) _treecast_offer {' '.join(option.choices)}; return ;;"
    yield from ("  esac", '  case "$chain" in')
    for command in all_commands:
        names = " ".join([*(name for name, _ in command.below), *command.values])
        options = " ".join(name for option in command.options for name in option.names)
        yield f"    {_quoted(_chain(command))}) names=({names}); options=({options}) ;;"
    yield from (
        "  esac",
        '  if [[ $word == -* ]]; then _treecast_offer "${options[@]}"',
        '  elif [[ ${#names[@]} -gt 0 ]]; then _treecast_offer "${names[@]}"',
        "  else _treecast_files; fi",
        "}",
    )


FISH = (
    "# completion of treecast for fish: written by `treecast completion fish`",
    "function __treecast_at --description 'whether the words typed so far lead to this command'",
    "  set -l chain ''",
    "  for word in (commandline -opc)[2..]",
    '    switch "$chain $word"',
)
FISH_END = (
    '        set chain "$chain $word"',
    "    end",
    "  end",
    '  test "$chain" = "$argv"',
    "end",
)


def fish(all_commands: list[Command]) -> Iterator[str]:
    """A line for each command, option and value; its condition is the command that the words so far lead to."""
    chains = [_chain(command) for command in all_commands if command.words]
    yield from (*FISH, f"      case {' '.join(map(_quoted, chains))}", *FISH_END)
    for command in all_commands:
        condition = f'__treecast_at "{_chain(command)}"'
        start = f"complete -c treecast -n {_quoted(condition)}"
        for name, text in command.below:
            yield f"{start} -f -a {name} -d {_quoted(text)}"
        for value in command.values:
            yield f"{start} -f -a {value}"
        for option in command.options:
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
            value = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else " -r" * option.takes_value
            yield f"{start} {names}{value} -d {_quoted(option.help)}"


def _chain(command: Command) -> str:
    """The words of a command, a space before each."""
    return "".join(f" {word}" for word in command.words)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", r"'\''") + "'"
