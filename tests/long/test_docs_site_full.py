"""The documentation site, built, and looked at in Chromium: light, dark, phone. Twin: tests/test_docs_site.py."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.house]

ROOT = Path(__file__).resolve().parent.parent.parent
SITE = ROOT / "build" / "site"
PAGES = ("guide/index.html", "guide/errors.html", "reference/python.html", "reference/cli.html", "papers.html")
LOOKS = {"light": ("light", 1280, 900), "dark": ("dark", 1280, 900), "phone": ("light", 390, 844)}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    subprocess.run(["bash", str(ROOT / "tools" / "docs.sh")], check=True, capture_output=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("look", LOOKS)
def test_pages_fit_and_search_finds(address: str, look: str) -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    assert chromium, "needs chromium; run as root: apt-get install -y chromium"
    scheme, width, height = LOOKS[look]
    mistakes: list[str] = []
    requests: list[str] = []
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": height})  # type: ignore[arg-type]
        page.on("console", lambda message: mistakes.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: mistakes.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        page.wait_for_url("**/guide/index.html")
        for name in PAGES:
            page.goto(f"{address}/{name}")
            page.wait_for_load_state("networkidle")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, background[4:-1].split(", "))) < 384) == (scheme == "dark")
        page.click("label.md-header__button[for=__search]" if look == "phone" else ".md-search__button")
        page.get_by_role("combobox", name="Search").fill("acknowledgement")
        page.get_by_role("option").first.click()
        page.wait_for_url("**h=acknowledgement**")
        assert "acknowledge" in page.inner_text("article")
        if look != "phone":  # there the menu has the logo
            page.click("a.md-logo >> visible=true")
            page.wait_for_url("**/guide/index.html")
        browser.close()
    assert mistakes == []
    assert [url for url in requests if not url.startswith(address)] == []
