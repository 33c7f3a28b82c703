"""The console of a network, in a browser: brokers, trees, link rates and table sizes, as processes come and go."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect
from support.chromium import LEFT_OUT, Watched, chromium
from support.quick_process import PIPE, QuickProcess

pytestmark = pytest.mark.house

END_SECONDS = 30
SUBSCRIPTIONS = 4


class Network:
    """Two brokers, a few subscriptions with both, and documents for all of them."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "log"
        options = ("--data", str(directory / "data"), "--listen", "127.0.0.1:0", "--brokers", "2")
        with self._log.open("w") as errors:
            self.process = QuickProcess(["-m", "treecast", "up", *options], stdout=PIPE, stderr=errors)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1] + "/"

    def ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        with urllib.request.urlopen(urllib.request.Request(self.address + path, body, method=method)) as answer:
            return json.load(answer)

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.ask("POST", "v1/documents", b"<a>text</a>")

    def kill(self, name: str) -> None:
        rows = [json.loads(line) for line in self._log.read_text().splitlines()]
        (*_, pid) = (row["pid"] for row in rows if row["event"] == "a process serves" and row["name"] == name)
        os.kill(pid, signal.SIGKILL)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(END_SECONDS)


def test_a_network_in_a_browser(tmp_path: Path, leave_out: Callable[[str], None]) -> None:
    network = Network(tmp_path)
    try:
        with chromium() as browser:
            if browser is None:
                leave_out(LEFT_OUT)
                pytest.skip(LEFT_OUT)
            for number in range(SUBSCRIPTIONS):
                network.ask("PUT", f"v1/subscriptions/s{number}", b'{"query": "/a"}')
            watched = Watched(browser, network.address)
            page = watched.page
            page.goto(network.address)
            check_sections(page)
            check_links(page, network)
            check_axe(page, None)
            page.set_viewport_size({"width": 360, "height": 740})
            page.emulate_media(color_scheme="dark", reduced_motion="reduce")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            check_axe(page, {"runOnly": ["color-contrast", "scrollable-region-focusable"]})
            check_down(page, network)
            check_restart(page, network)
            assert watched.wrong == []
            watched.close()
        assert network.end() == 0
    finally:
        network.process.kill()


def check_sections(page: Page) -> None:
    """Those that the door of a network offers."""
    expect(page.locator("#state")).to_have_text("Live")
    assert page.locator("nav a").all_text_contents() == ["Network", "Subscriptions", "Sources"]
    expect(page.locator("#broker")).to_have_text("2 brokers")
    expect(page.locator("#network-summary")).to_contain_text(
        f"2 of 2 brokers up, {SUBSCRIPTIONS} subscriptions, 1 tree;"
    )
    page.get_by_role("link", name="Subscriptions").click()
    expect(page.locator("#subscriptions-list > li")).to_have_count(SUBSCRIPTIONS)
    page.get_by_role("link", name="Network").click()
    expect(page.locator("h1#network-title")).to_be_focused()


def check_links(page: Page, network: Network) -> None:
    """What travels is seen while it does."""
    root, child = page.locator("#trees li").nth(0), page.locator("#trees li").nth(1)
    expect(root).to_contain_text("the root")
    expect(child).to_contain_text("1 query in the routing table")
    names = {page.locator("#trees .branch").nth(place).text_content() for place in (0, 1)}
    assert names == {"broker-1", "broker-2"}
    network.publish(20)
    row = page.locator("#links tr")
    expect(row).to_have_count(1)
    expect(row.locator("td").nth(3)).to_have_text("20")
    expect(row.locator("td").nth(6)).to_have_text("1 query")
    assert re.fullmatch(r"[\d.]+ (bytes|KB)", row.locator("td").nth(4).text_content() or "")


def check_down(page: Page, network: Network) -> None:
    """What a broker that is down looks like. It is up again so soon that the answer is changed on its way."""

    def answer_down(route: Route) -> None:
        picture = network.ask("GET", "v1/network")
        picture["brokers"][1] |= {"is_up": False, "replicas": "alone", "host": "broker-1", "backup": ""}
        route.fulfill(json=picture)

    page.route("**/v1/network", answer_down)
    second = page.locator("#brokers > li").nth(1)
    expect(second.locator(".pill")).to_have_text("down")
    expect(second).to_contain_text("alone: served by broker-1, no backup")
    expect(page.locator("#network-summary")).to_contain_text("1 of 2 brokers up")
    expect(page.locator("#trees .dot.bad")).to_have_count(1)
    check_axe(page, {"runOnly": ["color-contrast"]})
    page.unroute("**/v1/network")
    expect(second.locator(".pill")).to_have_text("up")


def check_restart(page: Page, network: Network) -> None:
    network.kill("broker-2")
    second = page.locator("#brokers > li").nth(1)
    expect(second).to_contain_text("restarted 1 time")
    expect(second.locator(".pill")).to_have_text("up")
    expect(second).to_contain_text(f"{SUBSCRIPTIONS // 2} subscriptions")


def check_axe(page: Page, options: dict[str, Any] | None) -> None:
    found = Axe().run(page, options=options).response["violations"]
    assert [(one["id"], [item["html"] for item in one["nodes"]]) for one in found] == []
