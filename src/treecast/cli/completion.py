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
Prints a script with which a shell completes commands, options and values."""

EPILOG = """\
example:
  treecast completion bash > ~/.treecast.bash   # source it in ~/.bashrc
  treecast completion zsh > ~/.zfunc/_treecast  # a directory of $fpath
  treecast completion fish > ~/.config/fish/completions/treecast.fish"""


def add_to(verbs: argparse._SubParsersAction[Any], root: argparse.ArgumentParser) -> None:
    parser = verbs.add_parser(
        "completion",
        help="what a shell needs to complete commands",
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast completion bash|zsh|fish",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")
    parser.set_defaults(run=lambda options: run(root, options.shell))


def run(root: argparse.ArgumentParser, shell: str) -> int:
    writers = {"bash": bash, "zsh": zsh, "fish": fish}
    print("\n".join(writers[shell](list(commands(root)))))
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


def _candidates(command: Command) -> list[str]:
    return [*(name for name, _ in command.below), *command.values]


def bash(all_commands: list[Command]) -> Iterator[str]:
    """A function for `complete -F`. Words that are no option and no command complete to names of files."""
    yield from (
        "# completion of treecast for bash: written by `treecast completion bash`",
        "_treecast() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" path="" place',
        "  local names options",
        "  for ((place = 1; place < COMP_CWORD; place++)); do",
        '    case "$path ${COMP_WORDS[place]}" in',
    )
    below = [" ".join(("", *command.words)) for command in all_commands if command.words]
    yield f'      {"|".join(map(_quoted, below))}) path="$path ${{COMP_WORDS[place]}}" ;;'
    yield from ("    esac", "  done", '  case "$path $before" in')
    for command in all_commands:
        for option in command.options:
            if option.choices:
                patterns = "|".join(_quoted(" ".join(("", *command.words, name))) for name in option.names)
                yield f'    {patterns}) COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$word")); return ;;'
    yield from ("  esac", '  case "$path" in')
    for command in all_commands:
        options = " ".join(name for option in command.options for name in option.names)
        path = _quoted(" ".join(("", *command.words)) if command.words else "")
        yield f'    {path}) names="{" ".join(_candidates(command))}"; options="{options}" ;;'
    yield from (
        "  esac",
        '  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word"))',
        '  elif [[ -n $names ]]; then COMPREPLY=($(compgen -W "$names" -- "$word"))',
        '  else compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$word")); fi',
        "}",
        "complete -F _treecast treecast",
    )


def zsh(all_commands: list[Command]) -> Iterator[str]:
    """A function for a directory of $fpath, or to be sourced."""
    yield from (
        "#compdef treecast",
        "# completion of treecast for zsh: written by `treecast completion zsh`",
        "_treecast() {",
        '  local word="${words[CURRENT]}" before="${words[CURRENT-1]}" path_="" place',
        "  local -a names options",
        "  for ((place = 2; place < CURRENT; place++)); do",
        '    case "$path_ ${words[place]}" in',
    )
    below = [" ".join(("", *command.words)) for command in all_commands if command.words]
    yield f'      {"|".join(map(_quoted, below))}) path_="$path_ ${{words[place]}}" ;;'
    yield from ("    esac", "  done", '  case "$path_ $before" in')
    for command in all_commands:
        for option in command.options:
            if option.choices:
                patterns = "|".join(_quoted(" ".join(("", *command.words, name))) for name in option.names)
                yield f"    {patterns}) compadd -- {' '.join(option.choices)}; return ;;"
    yield from ("  esac", '  case "$path_" in')
    for command in all_commands:
        options = " ".join(name for option in command.options for name in option.names)
        path = _quoted(" ".join(("", *command.words)) if command.words else "")
        yield f"    {path}) names=({' '.join(_candidates(command))}); options=({options}) ;;"
    yield from (
        "  esac",
        "  if [[ $word == -* ]]; then compadd -- $options",
        "  elif (( $#names )); then compadd -- $names",
        "  else _files; fi",
        "}",
        'if [[ ${funcstack[1]} == _treecast ]]; then _treecast "$@"; else compdef _treecast treecast; fi',
    )


def fish(all_commands: list[Command]) -> Iterator[str]:
    """A line for each command, option and value."""
    yield "# completion of treecast for fish: written by `treecast completion fish`"
    yield "complete -c treecast -n __fish_use_subcommand -f"
    for command in all_commands:
        condition = _fish_condition(command)
        taken = " ".join(name for name, _ in command.below)
        for name, text in command.below:
            seen = f"; and not __fish_seen_subcommand_from {taken}" if command.words else ""
            yield f"complete -c treecast -n {_quoted(condition + seen)} -f -a {name} -d {_quoted(text)}"
        for value in command.values:
            yield f"complete -c treecast -n {_quoted(condition)} -f -a {value}"
        for option in command.options:
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
            value = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else " -r" * option.takes_value
            yield f"complete -c treecast -n {_quoted(condition)} {names}{value} -d {_quoted(option.help)}"


def _fish_condition(command: Command) -> str:
    if not command.words:
        return "__fish_use_subcommand"
    return "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.words)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", r"'\''") + "'"
