"""Copy every document of a directory into a folder for each subscription that it matches.

    python examples/route_directory.py subscriptions.csv incoming/ routed/

A document that is not well-formed goes to `routed/rejected/`, with a note that says why. The others go to
`routed/for/ID/`; characters of the id that are unsafe in a path are written as %2F.
"""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path
from urllib.parse import quote

import treecast


def build_index(subscriptions: Path) -> treecast.Index:
    index = treecast.Index()
    with subscriptions.open(encoding="utf-8", newline="") as file:
        index.add_many(csv.DictReader(file))
    return index


def route(index: treecast.Index, incoming: Path, routed: Path) -> tuple[int, int]:
    """How many copies were made, and how many documents were rejected."""
    copies = rejected = 0
    for path in sorted(incoming.rglob("*.xml")):
        try:
            found = index.match(path.read_bytes())
        except treecast.DocumentError as error:
            copy_into(routed / "rejected", path).with_suffix(".txt").write_text(f"{error}\n", encoding="utf-8")
            rejected += 1
            continue
        for subscription in found:
            copy_into(routed / "for" / folder_name(subscription), path)
            copies += 1
    return copies, rejected


def folder_name(subscription: str) -> str:
    """Escape an id. Anybody may choose one, so `../elsewhere` must stay inside the directory."""
    return quote(subscription, safe=" ").replace(".", "%2E")


def copy_into(folder: Path, path: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(path, folder))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python examples/route_directory.py SUBSCRIPTIONS.csv INCOMING/ ROUTED/")
    made, bad = route(build_index(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3]))
    print(f"{made} copies, {bad} rejected")
