"""Checks a page without a browser: well-formed, no script, and nothing in it that could cause a request."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "input", "line"}
FORBIDDEN = {"script", "iframe", "object", "embed", "form", "base", "img", "audio", "video", "use", "foreignobject"}
LEAVES_THE_PAGE = re.compile(r"https?:|//|url\(|@import|javascript:", re.IGNORECASE)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.texts: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag not in FORBIDDEN, tag
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
    assert "default-src 'none'" in text
    return "".join(parser.texts)
