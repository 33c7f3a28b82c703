"""`treecast peer up 4`: one door before a ring; its console in a browser, and the commands that use it."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect
from support.chromium import LEFT_OUT, Watched, chromium
from support.quick_process import PIPE, QuickProcess
from support.served_ring import wait_for

from treecast.cli.entry import main

pytestmark = pytest.mark.house

END_SECONDS = 60
PEERS, SUBSCRIPTIONS = 4, 6
PICTURES = os.environ.get("TREECAST_PICTURES")
"""A directory for screenshots, for those who want to look at them."""


class RingService:
    """A ring on this machine, with a few subscriptions."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "log"
        self._options = (
            "--data",
            str(directory / "data"),
            "--http",
            "127.0.0.1:0",
            "--places",
            "2",
            "--shed-rate",
            "1",
        )
        self.start()

    def start(self) -> None:
        with self._log.open("a") as errors:
            self.process = QuickProcess(
                ["-m", "treecast", "peer", "up", str(PEERS), *self._options], stdout=PIPE, stderr=errors
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(f"a ring of {PEERS} peers, listening on http://"), self._log.read_text()
        self.address = line.split()[-1] + "/"

    def read(self, path: str) -> bytes:
        with urllib.request.urlopen(self.address + path) as answer:
            return bytes(answer.read())

    def ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        with urllib.request.urlopen(urllib.request.Request(self.address + path, body, method=method)) as answer:
            return json.load(answer)

    def publish(self, count: int) -> None:
        for number in range(count):
            answer = self.ask("POST", "v1/documents", b"<news><item><title>%d</title></item></news>" % number)
            assert answer["filtering"] == "complete"

    def kill(self, name: str) -> None:
        rows = [json.loads(line) for line in self._log.read_text().splitlines()]
        (*_, pid) = (row["pid"] for row in rows if row["event"] == "a process serves" and row["name"] == name)
        os.kill(pid, signal.SIGKILL)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(END_SECONDS)


@pytest.fixture
def service(tmp_path: Path) -> Any:
    service = RingService(tmp_path)
    try:
        yield service
    finally:
        service.process.kill()


def test_a_ring_and_its_door(
    service: RingService, tmp_path: Path, leave_out: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(SUBSCRIPTIONS):
        service.ask("PUT", f"v1/subscriptions/s{number}", b'{"query": "/news//title"}')
    service.publish(6)
    check_commands(service, tmp_path, capsys)
    check_picture(service)
    is_left_out = check_browser(service)
    check_restart(service)
    assert service.end() == 0
    if is_left_out:
        leave_out(LEFT_OUT)
        pytest.skip(LEFT_OUT)


def check_commands(service: RingService, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`treecast publish`, `subscribe` and `peer status` through the door."""
    document = directory / "late.xml"
    document.write_text("<late/>")
    url = ["--url", service.address.rstrip("/")]
    service.ask("PUT", "v1/subscriptions/late", b'{"query": "/late"}')
    assert main(["publish", str(document), *url]) == 0
    pulled = service.ask("POST", "v1/subscriptions/late:pull", b'{"wait_ms": 5000}')
    assert [one["payload"] for one in pulled["deliveries"]] == ["<late/>"]
    listed = service.ask("GET", "v1/subscriptions")["subscriptions"]
    assert len(listed) == SUBSCRIPTIONS + 1
    assert [row["id"] for row in service.ask("GET", "v1/sources")["sources"]] == ["default"]
    urllib.request.urlopen(urllib.request.Request(f"{service.address}v1/subscriptions/late", method="DELETE")).close()
    capsys.readouterr()
    assert main(["peer", "status", *url]) == 0
    shown = capsys.readouterr().out
    assert f"{PEERS} of {PEERS} peers up" in shown and "/{}news/$/{}title" in shown
    assert main(["peer", "status", "--svg", *url]) == 0
    ElementTree.fromstring(capsys.readouterr().out)


def check_picture(service: RingService) -> None:
    picture = service.ask("GET", "v1/ring")
    assert len(picture["peers"]) == PEERS and all(peer["is_settled"] for peer in picture["peers"])
    assert all(len(peer["places"]) == 2 for peer in picture["peers"])
    assert sum(peer["load"] for peer in picture["peers"]) == pytest.approx(1, abs=0.01)
    assert sum(peer["complete"] for peer in picture["peers"]) == 7
    hottest = picture["states"][0]
    assert hottest["state"] == "/" and hottest["documents"] == 7  # every document begins there
    svg = ElementTree.fromstring(service.read("v1/ring.svg"))
    space = "{http://www.w3.org/2000/svg}"
    assert len(svg.findall(f"{space}circle")) == 1 + 2 * PEERS and len(svg.findall(f"{space}path")) == 2 * PEERS


def check_restart(service: RingService) -> None:
    """A peer that is killed comes back; started again, the ring is the same, and has what it had."""
    service.kill("peer-2")
    wait_for(lambda: service._log.read_text().count('"name": "peer-2"') >= 2 and _all_settled(service))
    service.publish(1)
    assert service.end() == 0
    service.start()
    service.publish(1)
    for number in range(SUBSCRIPTIONS):
        pulled = service.ask("POST", f"v1/subscriptions/s{number}:pull", b'{"wait_ms": 5000}')
        assert len(pulled["deliveries"]) >= 8


def _all_settled(service: RingService) -> bool:
    picture = service.ask("GET", "v1/ring")
    return bool(sum(peer["is_settled"] for peer in picture["peers"]) == PEERS)


# --- in a browser ----------------------------------------------------------------------------------------------------


def check_browser(service: RingService) -> bool:
    """True: there is none."""
    with chromium() as browser:
        if browser is None:
            return True
        watched = Watched(browser, service.address)
        page = watched.page
        page.goto(service.address)
        assert page.locator("nav a").all_text_contents() == ["Ring", "Subscriptions", "Sources"]
        expect(page.locator("#broker")).to_have_text(f"{PEERS} peers")
        summary = page.locator("#ring-summary")
        # Four, and one that nobody asks for any more: that is remembered for a day.
        expect(summary).to_contain_text(f"{PEERS} of {PEERS} peers up, 5 states on 3 disks each")
        expect(page.locator("#ring-picture circle.place")).to_have_count(2 * PEERS)
        expect(page.locator("#ring-picture path.range")).to_have_count(2 * PEERS)
        expect(page.locator("#peers > li")).to_have_count(PEERS)
        expect(page.locator("#peers > li .pill.good")).to_have_count(PEERS)
        expect(page.locator("#states tr").first).to_contain_text("7")
        assert "level-4" in (page.locator("#peers .swatch").first.get_attribute("class") or "")
        take_picture(page, "light")
        check_axe(page, None)
        page.set_viewport_size({"width": 360, "height": 740})
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        check_axe(page, {"runOnly": ["color-contrast", "scrollable-region-focusable"]})
        take_picture(page, "phone")
        check_down(page, service)
        assert watched.wrong == []
        watched.close()
    return False


def check_down(page: Page, service: RingService) -> None:
    """What a peer that is down looks like. It is up again so soon that the answer is changed on its way."""

    def answer_down(route: Route) -> None:
        picture = service.ask("GET", "v1/ring")
        picture["peers"][1] |= {"is_up": False, "is_settled": False}
        route.fulfill(json=picture)

    page.route("**/v1/ring", answer_down)
    expect(page.locator("#ring-summary")).to_contain_text(f"{PEERS - 1} of {PEERS} peers up")
    expect(page.locator("#ring-picture circle.down")).to_have_count(2)
    expect(page.locator("#peers .pill.bad")).to_have_text("down")
    page.set_viewport_size({"width": 1200, "height": 900})
    check_axe(page, {"runOnly": ["color-contrast"]})
    take_picture(page, "dark")
    page.unroute("**/v1/ring")
    expect(page.locator("#peers .pill.bad")).to_have_count(0)


def take_picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=str(Path(PICTURES) / f"ring-{name}.png"), full_page=True)


def check_axe(page: Page, options: dict[str, Any] | None) -> None:
    found = Axe().run(page, options=options).response["violations"]
    assert [(one["id"], [item["html"] for item in one["nodes"]]) for one in found] == []
