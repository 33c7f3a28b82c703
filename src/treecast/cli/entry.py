"""What `treecast` does before and after a verb: arguments, exit status, and no traceback for bad input.

The module of a verb is imported when the verb is chosen, and no other: a command starts quickly, and what another one
needs may be missing.

Exit status: 0 done; 1 bad input, reported on stderr with the error's code; 2 wrong usage; 130 interrupted. A reader of
our output that goes away (`| head`) is no failure: the command stops quietly with 0.

Codes: TC790 a place that cannot be written to; TC791 a package of an extra is missing.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from treecast import __version__
from treecast.cli.wording import choice_message, in_words, option_message, words_of
from treecast.errors import TreecastError
from treecast.extras import extras_with, install_command
from treecast.names import printable, printable_lines

INTERRUPTED = 130


@dataclass(frozen=True)
class Verb:
    """A command: `treecast.cli` has a module of its name, whose `add_to` adds its options."""

    help: str
    extras: tuple[str, ...] = ()
    """What it needs: the first that has a missing package is what a hint names."""


VERBS: Mapping[str, Verb] = {
    "match": Verb("list the subscriptions that match each document"),
    "render": Verb("write what each subscriber gets"),
    "explain": Verb("show why a query matches a document, or why not"),
    "replay": Verb("show what a subscription would have matched"),
    "check": Verb("find mistakes and duplicates in subscriptions"),
    "build": Verb("save subscriptions as an index that loads at once"),
    "demo": Verb("match a firehose of stories and report the rate"),
    "init": Verb("write a commented pipeline.toml for a directory"),
    "run": Verb("run the main job, on Spark", ("spark",)),
    "up": Verb("serve over HTTP: publish, subscribe, receive", ("serve", "serve,nats")),
    "publish": Verb("send documents to a service"),
    "subscribe": Verb("receive deliveries of a service"),
    "status": Verb("watch rates, lag and queues of a service"),
    "token": Verb("manage who may use a service", ("serve",)),
    "broker": Verb("serve publishers and subscribers, durably", ("serve",)),
    "registry": Verb("run the registry of a network of brokers", ("serve",)),
    "source": Verb("register what a network publishes", ("serve",)),
    "peer": Verb("run a peer of a ring, or a whole ring", ("serve",)),
    "selective": Verb("publish subtrees to those who may see them", ("selective", "serve")),
    "generate": Verb("draw documents and queries from a DTD"),
    "bench": Verb("measure engines and other tools on a workload", ("bench", "spark")),
    "experiment": Verb("measure the findings of the papers again", ("bench", "bench,serve", "spark")),
    "completion": Verb("print a completion script for a shell"),
}

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
    command_line = sys.argv[1:] if arguments is None else list(arguments)
    # The options of `treecast` itself take no values, so the first word that is none of them names the verb.
    verb = next((word for word in command_line if not word.startswith("-")), "")
    try:
        options = build_parser(verb).parse_args(command_line)
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
    except ModuleNotFoundError as error:
        extras = extras_with(error.name or "", VERBS[verb].extras if verb in VERBS else ())
        if not extras:
            raise
        _say(f"TC791 treecast {verb} needs {error.name}, which is not installed\n  hint: {install_command(extras)}")
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


def build_parser(verb: str | None = None) -> Parser:
    """The parser of the command line. With `verb`, the other verbs are known by name only."""
    parser = Parser(
        prog="treecast",
        description="Matches XML documents against standing XPath queries, called subscriptions.",
        epilog=EPILOG,
        formatter_class=CommandsFormatter,
    )
    parser.add_argument("--version", action="version", version=f"treecast {__version__}")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, description in VERBS.items():
        if verb in (None, name):
            import_module(f"treecast.cli.{name}").add_to(verbs, description.help)
        else:
            verbs.add_parser(name, help=description.help)
    return parser
