"""The command `treecast`. One file per verb; entry.py puts them together."""

from treecast.cli.entry import main

__all__ = ["main"]
