"""Debian's Chromium, driven by playwright, for tests of pages. Where it is missing, tests say what they leave out.

`Watched` is a page that remembers what should not happen: errors, and requests to anywhere else than its own broker.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)  # no clock decides a test, except that it ends
LEFT_OUT = "the console in a browser: chromium is not installed (Debian: chromium)"
FLAGS = [
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def program() -> str | None:
    return shutil.which("chromium")


@contextmanager
def chromium() -> Iterator[Browser | None]:
    """A browser, or None. Meanwhile nothing else in this thread can use asyncio: playwright has an event loop there."""
    path = program()
    if path is None:
        yield None
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page of a new profile, at an address, and what went wrong on it."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        self.address = address
        self.wrong: list[str] = []
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        context.set_default_timeout(PATIENCE_MS)
        self.page: Page = context.new_page()
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self._note("error", str(error)))
        self.page.on("request", lambda request: self._note_request(request.url))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning", "assert"):
            self.wrong.append(f"{kind}: {text}")

    def _note_request(self, url: str) -> None:
        if not url.startswith(self.address):
            self.wrong.append(f"request: {url}")

    def show(self, section: str) -> Page:
        """Go to a section of the console, and wait until it is there."""
        self.page.goto(f"{self.address}#/{section}")
        expect(self.page.locator(f"#{section.partition('/')[0]}:not([aria-busy])")).to_be_visible()
        return self.page

    def close(self) -> None:
        self.page.context.close()
