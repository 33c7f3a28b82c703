"""Checks a page without a browser: well-formed, no script but its own, and nothing in it that could cause a request.

A script is the page's own if its policy allows it by its hash. A browser refuses any other.
"""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "input", "line", "wbr"}
FORBIDDEN = {"iframe", "object", "embed", "form", "base", "img", "audio", "video", "use", "foreignobject"}
LEAVES_THE_PAGE = re.compile(r"https?:|//|url\(|@import|javascript:", re.IGNORECASE)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag not in FORBIDDEN, tag
        assert tag != "script" or not attributes, attributes
        self.tags.add(tag)
        for name, value in attributes:
            assert not name.startswith("on"), name
            if name in ("src", "href", "srcset", "action", "data", "poster", "style"):
                assert value == "data:," or not LEAVES_THE_PAGE.search(value or ""), value
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            assert not LEAVES_THE_PAGE.search(data)
        elif self.open and self.open[-1] == "script":
            self.scripts.append(data)
        else:
            self.texts.append(data)


def check_page(text: str) -> str:
    """Assert all of it; the answer is what a reader sees."""
    assert text.startswith("<!DOCTYPE html>")
    text.encode()  # no halves of characters
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text)
    parser = _Page()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    assert {"html", "head", "title", "main", "h1"} <= parser.tags
    policy = re.search("default-src 'none'[^\"]*", text)
    assert policy
    assert len(parser.scripts) <= 1
    for script in parser.scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"script-src 'sha256-{digest}'" in policy[0]
        assert not re.search("fetch|XMLHttp|import|eval|innerHTML|cookie|Storage", script)
    return "".join(parser.texts)
