"""`treecast render`: what subscribers get of documents, or what queries select.

It is `treecast match --render` with defaults for people: payloads alone, and the elements that -q selects.
"""

from __future__ import annotations

import argparse
from typing import Any

from treecast.cli import match

DESCRIPTION = """\
Writes what each subscription gets of each DOCUMENT that it matches; of -q
QUERY, the elements that it selects. DOCUMENT is an XML file (also compressed),
an archive (zip, tar), a directory, a pattern, or - for standard input."""

EPILOG = """\
example:
  treecast render -q //item/title docs/ new.zip
  treecast render -s subscriptions.jsonl -o outbox/ docs/"""


def add_to(verbs: argparse._SubParsersAction[Any], help: str) -> None:
    parser = verbs.add_parser(
        "render",
        help=help,
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="treecast render (-s FILE | -q QUERY) [options] DOCUMENT …",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30),
    )
    match.add_options(parser, renders=True)
    parser.set_defaults(run=lambda options: match.run(parser, options), render=True, plain_form="payload")
