"""The pages of the documentation site: those of docs/, those that are made, and links that fit their place in the site.

    python tools/docs_pages.py build/docs/pages

Three kinds of pages are made when the site is built, so that no fact has a second home: the Python references (one
entry for each public name; mkdocstrings reads the docstrings), the command line (what `treecast VERB --help` prints),
and the pages at the root of the repository. A link to a file that the site lacks, such as a source file, becomes its
text.
"""

from __future__ import annotations

import argparse
import os
import posixpath
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
README = "README.md"  # its contents are the first pages of the guide
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
COLUMNS = "100"
PYTHON = {
    "Matching": ("treecast", ("Index", "Subscription", "Delivery", "DeliveryLimits")),
    "Documents": ("treecast", ("read", "Document", "Reader", "Limits")),
    "Queries": ("treecast", ("parse", "Query")),
    "Errors": (
        "treecast",
        (
            "TreecastError",
            "QueryError",
            "DocumentError",
            "LimitError",
            "PeerError",
            "SnapshotError",
            "AccessError",
            "PipelineError",
            "UndecidedWarning",
        ),
    ),
    "Files and other encodings": ("treecast", ("read_subscriptions", "records", "transcode")),
    "Event loops": ("treecast", ("AsyncIndex",)),
    "Engines": ("treecast", ("engines",)),
}
SPARK = {
    "Match and render": ("match", "matches", "register", "split", "refused", "render"),
    "Look into answers": ("explain", "check", "describe_matches"),
    "Sources": ("documents", "match_files", "broker_documents"),
    "Streams": ("match_stream", "JetStream", "PayloadFiles"),
    "Files": ("write_payloads", "path_of", "write_directories", "stream_directories"),
    "Populations": ("pep", "aggregate", "generate_documents", "generate_queries"),
}
FRONT = """\
<!doctype html><html lang="en"><title>treecast</title><link rel="icon" href="data:,">
<meta http-equiv="refresh" content="0; url=guide/index.html"></html>
"""


def in_site(target: str) -> str | None:
    """Where the site has this file of the repository; None if it has not."""
    if target in ROOT_PAGES:
        return f"project/{target}"
    if target == README:
        return "guide/index.md"
    if target.startswith("docs/") and (ROOT / target).is_file():
        return target.removeprefix("docs/")
    return None


def rewrite_links(text: str, source: str) -> str:
    """The links of a page that lies at `source` in the repository, for its place in the site."""
    page = in_site(source) or source.removeprefix("docs/")

    def rewrite(link: re.Match[str]) -> str:
        is_image, words, target = link.groups()
        path, mark, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return link[0]
        place = in_site(posixpath.normpath(posixpath.join(posixpath.dirname(source), path)))
        if place is None:
            return words
        return f"{is_image}[{words}]({posixpath.relpath(place, posixpath.dirname(page))}{mark}{anchor})"

    parts = FENCE.split(text)
    parts[::2] = [LINK.sub(rewrite, part) for part in parts[::2]]
    return "".join(parts)


def python_page() -> str:
    """One entry for each public name of the package, what a newcomer needs first."""
    parts = ["# Python", "The public names of `treecast`, from their docstrings."]
    for title, (module, names) in PYTHON.items():
        parts += [f"## {title}", *(f"::: {module}.{name}" for name in names)]
    return "\n\n".join(parts) + "\n"


def spark_page() -> str:
    """One entry for each public name of `treecast.spark`."""
    parts = ["# Spark", "The public names of `treecast.spark`, from their docstrings."]
    for title, names in SPARK.items():
        parts += [f"## {title}", *(f"::: treecast.spark.{name}" for name in names)]
    return "\n\n".join(parts) + "\n"


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    parser_by_verb: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            parser_by_verb.update(action.choices)
    return parser_by_verb


def cli_page(parser: argparse.ArgumentParser) -> str:
    """The help of the command and of each verb, as the terminal shows it."""
    parts = ["# Command line\n", f"```text\n{parser.format_help()}```\n"]
    for verb, its_parser in sorted(verbs_of(parser).items()):
        parts += [f"## {verb}\n", f"```text\n{its_parser.format_help()}```\n"]
        for second, second_parser in sorted(verbs_of(its_parser).items()):
            parts += [f"### {verb} {second}\n", f"```text\n{second_parser.format_help()}```\n"]
    return "\n".join(parts)


def made_pages() -> dict[str, str]:
    """The pages that are made, by their place in the site."""
    os.environ["COLUMNS"] = COLUMNS
    from treecast.cli.entry import build_parser

    pages = {f"project/{name}": rewrite_links((ROOT / name).read_text("utf-8"), name) for name in ROOT_PAGES}
    pages["reference/python.md"] = python_page()
    pages["reference/spark.md"] = spark_page()
    pages["reference/cli.md"] = cli_page(build_parser())
    return pages


def write_pages(place: Path) -> None:
    """Fill a folder with what the generator reads."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / "docs", place)
    for page in place.rglob("*.md"):
        source = f"docs/{page.relative_to(place).as_posix()}"
        page.write_text(rewrite_links(page.read_text("utf-8"), source), "utf-8")
    for name, text in made_pages().items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text, "utf-8")
    (place / "index.html").write_text(FRONT, "utf-8")  # the address of the site alone


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
