"""Pieces of HTML that the parts of a page share. Whatever comes from documents, subscriptions or settings goes through
`text`, `path` or `lines`: escaped, without control characters, and shortened if it is long.

>>> text('<a href="x">', 9)
'&lt;a href=&quot;…'
>>> path("docs/a.xml")
'docs/<wbr>a.xml'
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from treecast.names import printable
from treecast.report.figures import shown


def text(value: str, chars_max: int = 200) -> str:
    """One line of text."""
    return html.escape(shown(value, chars_max))


def lines(value: str) -> str:
    """Text of several lines, with its white space."""
    rows = ("\t".join(map(printable, row.split("\t"))) for row in value.split("\n"))
    return html.escape("\n".join(rows))


def path(value: str, chars_max: int = 300) -> str:
    """A name of a file, which may be broken after each slash: it has to fit a phone."""
    return text(value, chars_max).replace("/", "/<wbr>")


def link(place: str, directory: str) -> str:
    """A link to what is below the directory of the page; otherwise the place as text.

    >>> link("results/a b", "results")
    '<a href="a%20b"><code>a b</code></a>'
    """
    inside = place.removeprefix(f"{directory}/") if directory else place
    if not directory or inside == place or len(place) > 400:
        return f"<code>{path(place, 400)}</code>"
    return f'<a href="{quote(inside, errors="surrogateescape")}"><code>{path(inside, 400)}</code></a>'


def common_directory(names: Iterable[str]) -> str:
    """The directory that all of these are in, with a slash at its end; empty where there is none, or only one name.

    >>> common_directory(["/data/docs/a.xml", "/data/docs/b/c.xml"])
    '/data/docs/'
    >>> common_directory(["a.xml", "b/c.xml"])
    ''
    """
    directories = [name.split("/")[:-1] for name in names]
    if len(directories) < 2:
        return ""
    shared: list[str] = []
    for parts in zip(*directories, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "/".join(shared) + "/" if any(shared) else ""


def section(title: str, body: str, attributes: str = "") -> str:
    """A part of the page with a heading; `attributes` begin with a space."""
    return f"<section{attributes}>\n<h2>{html.escape(title)}</h2>\n{body}\n</section>\n"


def pair(left: str, right: str) -> str:
    """Two parts side by side, if there are two."""
    return f'<div class="pair">\n{left}{right}</div>\n' if left and right else left or right


def soft(sentence: str) -> str:
    """A sentence that explains."""
    return f'<p class="soft">{sentence}</p>\n'


def controls(label: str, kinds: Sequence[tuple[str, str]] = ()) -> str:
    """A search field and, if there are `kinds` (value, words), a choice among them. The script shows them."""
    choice = ""
    if kinds:
        options = "".join(f'<option value="{value}">{words}</option>' for value, words in kinds)
        choice = f'<select aria-label="Which {label}">{options}</select>'
    field = f'<input type="search" aria-label="Search {label}" placeholder="Search {label}">'
    count = '<span class="soft" data-count role="status"></span>'
    return f'<div class="controls" data-control hidden>{field}{choice}{count}</div>\n'


MORE = "<p data-control hidden><button data-more hidden>Show more</button></p>\n"


def sorter(name: str, key: str, *, number: bool = False) -> str:
    """A heading by which the rows can be sorted; `key` names their attribute data-…"""
    return f'<button data-sort="{key}"{" data-number" if number else ""} disabled>{name}</button>'
