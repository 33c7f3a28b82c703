"""What `treecast` does before and after a verb: arguments, exit status, and no traceback for bad input.

Exit status: 0 done; 1 bad input, reported on stderr with the error's code; 2 wrong usage; 130 interrupted. A reader of
our output that goes away (`| head`) is no failure: the command stops quietly with 0.

Codes: TC790 a place that cannot be written to.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from treecast import __version__
from treecast.cli import (
    bench,
    broker,
    build,
    check,
    completion,
    demo,
    experiment,
    explain,
    generate,
    init,
    match,
    peer,
    publish,
    registry,
    render,
    replay,
    run,
    selective,
    source,
    status,
    subscribe,
    token,
    up,
)
from treecast.cli.wording import choice_message, in_words, option_message, words_of
from treecast.errors import TreecastError
from treecast.names import printable, printable_lines

INTERRUPTED = 130

EPILOG = """\
example:
  treecast match -s subscriptions.csv docs/*.xml
  treecast match --help"""


class Parser(argparse.ArgumentParser):
    """argparse, with the way to more help in the one line that it prints."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """A verb whose options have the default `unknown_options` says itself what it does not know.

        The options of a verb get `words`: what its reader can type, for its messages.
        """
        options, unknown = super().parse_known_args(args, namespace)
        if not self._verbs():
            options.words = words_of(self)
        if unknown and hasattr(options, "unknown_options"):
            options.unknown_options, unknown = unknown, []
        if unknown and not self._verbs():  # the parser of a verb: it knows its options, the one above does not
            self.error(option_message(unknown, self._option_string_actions))
        return options, unknown

    def _verbs(self) -> list[str]:
        """The commands among which the next word chooses; none for a verb."""
        return [name for action in self._actions if isinstance(action.choices, dict) for name in action.choices]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action.choices, dict) and value not in action.choices:
            self.error(choice_message(str(value), action.choices))
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        between = " " if message.endswith("?") else "; "
        self.exit(2, f"{self.prog}: {printable(message)}{between}see '{self.prog} --help'\n")


class CommandsFormatter(argparse.RawDescriptionHelpFormatter):
    """Leaves room for the longest command: argparse forgets that commands are indented."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=18)
        self._action_max_length = len("experiment") + 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    if sys.stderr is None:  # closed by whoever started us
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 (it stays open to the end)
    if sys.stdout is None:
        print("treecast: standard output is closed; send it to a file or to /dev/null", file=sys.stderr)
        return 1
    options = argparse.Namespace(words={})
    try:
        options = build_parser().parse_args(arguments)
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # What is still buffered would be flushed at exit, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except TreecastError as error:
        _say(in_words(str(error), options.words))
        return 1
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        _say(f"TC790 {name}{error.strerror or error}\n  hint: {_advice(error)}")
        return 1


def _say(message: str) -> None:
    """On stderr, in place of the progress that a terminal may still show."""
    wipe = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{wipe}treecast: {printable_lines(message)}", file=sys.stderr)


def _advice(error: OSError) -> str:
    advice = {
        errno.ENOENT: "create the directory first",
        errno.ENOTDIR: "create the directory first",
        errno.ENOSPC: "free some space and run it again",
        errno.EISDIR: "name a file in it",
        errno.EEXIST: "choose another name",
        errno.ENOTEMPTY: "choose a new directory, or an empty one",
        errno.EACCES: "choose a place that you may write to",
        errno.EROFS: "choose a place that you may write to",
    }
    return advice.get(error.errno or 0, "check the disk, or choose another place")


def build_parser() -> Parser:
    parser = Parser(
        prog="treecast",
        description="Matches XML documents against standing XPath queries, called subscriptions.",
        epilog=EPILOG,
        formatter_class=CommandsFormatter,
    )
    parser.add_argument("--version", action="version", version=f"treecast {__version__}")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    match.add_to(verbs)
    render.add_to(verbs)
    explain.add_to(verbs)
    replay.add_to(verbs)
    check.add_to(verbs)
    build.add_to(verbs)
    demo.add_to(verbs)
    init.add_to(verbs)
    run.add_to(verbs)
    up.add_to(verbs)
    publish.add_to(verbs)
    subscribe.add_to(verbs)
    status.add_to(verbs)
    token.add_to(verbs)
    broker.add_to(verbs)
    registry.add_to(verbs)
    source.add_to(verbs)
    peer.add_to(verbs)
    selective.add_to(verbs)
    generate.add_to(verbs)
    bench.add_to(verbs)
    experiment.add_to(verbs)
    completion.add_to(verbs, parser)
    return parser
