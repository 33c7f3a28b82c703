"""What mkdocs does not do by itself for our site: pages that are not in docs/, and links that leave it.

Three kinds of pages are made when the site is built, so that no fact has a second home: the Python reference (one
entry for each public name; mkdocstrings reads the docstrings), the command line (what `treecast VERB --help` prints),
and the pages at the root of the repository. A link to a file that the site lacks, such as a source file, becomes its
text.
"""

from __future__ import annotations

import argparse
import os
import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
README = "README.md"  # its contents are the first pages of the guide
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
COLUMNS = "100"


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


def python_page(names: list[str]) -> str:
    """One entry for each public name of the package."""
    entries = "\n\n".join(f"::: treecast.{name}" for name in names)
    return f"# Python\n\nThe public names of `treecast`, from their docstrings.\n\n{entries}\n"


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
    import treecast
    from treecast.cli.entry import build_parser

    pages = {f"project/{name}": (ROOT / name).read_text("utf-8") for name in ROOT_PAGES}
    pages["reference/python.md"] = python_page(treecast.__all__)
    pages["reference/cli.md"] = cli_page(build_parser())
    return pages


def on_files(files: Any, config: Any) -> Any:
    """mkdocs calls this once it knows the files of docs/."""
    from mkdocs.structure.files import File  # type: ignore[import-not-found,unused-ignore]

    for place, text in made_pages().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """mkdocs calls this for each page."""
    place = page.file.src_uri
    source = place.removeprefix("project/") if place.startswith("project/") else f"docs/{place}"
    return markdown if place.startswith("reference/") else rewrite_links(markdown, source)
