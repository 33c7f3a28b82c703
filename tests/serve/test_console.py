"""The console, driven in a browser as people use it: nothing fails, nothing comes from elsewhere, nothing runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect
from support.chromium import LEFT_OUT, Watched, chromium
from support.served_http import Service, eventually

from treecast.serve.access.tokens import TokenStore

pytestmark = pytest.mark.house

NEWS = '<news>\n  <item topic="sport">2:1</item>\n  <item topic="other">…</item>\n</news>'
SECTIONS = ("overview", "documents", "subscriptions", "letters", "refusals", "sources", "subtrees")
Open = Callable[..., Watched]


@pytest.fixture(scope="module")
def browser(leave_out: Callable[[str], None]) -> Iterator[Browser | None]:
    with chromium() as running:
        if running is None:
            leave_out(LEFT_OUT)
        yield running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One for all tests here: they use names of their own."""
    with Service(tmp_path_factory.mktemp("console") / "data", status_ms=50, search_rows_max=5) as running:
        yield running
        assert running.end() == (0, "")


@pytest.fixture
def visit(browser: Browser | None, broker: Service) -> Iterator[Open]:
    """Opens the console at a section. At the end, nothing may have gone wrong on any page."""
    pages: list[Watched] = []
    if browser is None:
        pytest.skip(LEFT_OUT)

    def open_page(section: str = "overview", **options: Any) -> Watched:
        watched = Watched(browser, f"http://127.0.0.1:{broker.port}/", **options)
        pages.append(watched)
        watched.show(section)
        expect(watched.page.locator("#state")).to_have_text("Live")
        return watched

    with contextlib.ExitStack() as closing:
        yield open_page
        for watched in pages:
            closing.callback(watched.close)
        assert [what for watched in pages for what in watched.wrong] == []


def row(page: Page, text: str) -> Locator:
    return page.locator("main > section:not([hidden]) .rows > li", has_text=text)


def paste(page: Page, text: str, id: str = "") -> None:
    """Publish from the page."""
    if not page.locator("#publish").evaluate("element => element.open"):
        page.locator("#publish > summary").click()
    expect(page.locator("#publish-source option")).not_to_have_count(0)
    page.fill("#publish-body", text)
    page.fill("#publish-id", id)
    page.locator("#publish-form button").click()


def kill_delivery(broker: Service, id: str) -> int:
    """Make a dead letter of the only delivery; returns the number of its document."""
    (envelope,) = broker.ask("POST", f"/v1/subscriptions/{id}:pull", {"wait_ms": 10_000}).json["deliveries"]
    broker.ask("POST", f"/v1/subscriptions/{id}:fail", {"deliveries": [envelope["delivery"]]})
    number: int = envelope["document"]
    return number


# --- what people do ---------------------------------------------------------------------------------------------------


def test_register_publish_and_see_the_match_and_the_delivery(visit: Open, broker: Service) -> None:
    page = visit("subscriptions").page
    page.locator("#subscribe > summary").click()
    page.fill("#subscribe-id", "first")
    page.fill("#subscribe-query", "//item[@topic=")
    page.click("#subscribe-try")
    expect(page.locator("#subscribe-result .problem")).to_contain_text("TC1")
    page.fill("#subscribe-query", '//item[@topic="sport"]')
    page.select_option("#subscribe-deliver", "elements")
    page.click("#subscribe-try")
    expect(page.locator("#subscribe-result")).to_contain_text("The query is valid.")
    assert broker.ask("GET", "/v1/subscriptions/first").status == 404
    page.click("#subscribe-form .primary")
    expect(page.locator("#subscribe-result")).to_contain_text("Registered: first")
    expect(row(page, '//item[@topic="sport"]').locator(".name").first).to_have_text("first")

    page.get_by_role("link", name="Documents").click()
    expect(page.locator("h1#documents-title")).to_be_focused()
    paste(page, NEWS)
    expect(page.locator("#publish-result")).to_contain_text("Published as document")
    chip = page.locator("#document .chips button", has_text="first")
    expect(chip).to_contain_text("waiting")
    chip.click()
    assert page.locator("#document mark.result").all_text_contents() == ["<item ", 'topic="sport"', ">2:1</item>"]
    expect(page.locator("#document mark.evidence")).to_have_text('topic="sport"')
    expect(page.locator("#document .steps")).to_contain_text("/news[1]/item[1], line 2")
    page.locator("#document .reasons summary").click()
    expect(page.locator("#document .payload")).to_have_text('<item topic="sport">2:1</item>')
    assert page.locator("#document .document").inner_text() == NEWS

    with broker.events("first") as reader:
        (delivered,) = reader.take(1)
    assert delivered["payload"] == '<item topic="sport">2:1</item>'
    path = f"/v1/documents/{delivered['document']}/matches"
    eventually(lambda: broker.ask("GET", path).json["matches"][0]["state"] == "done")
    page.reload()
    expect(page.locator("#document .chips button", has_text="first")).to_contain_text("delivered")


def test_see_what_a_group_and_a_member_see(visit: Open, broker: Service) -> None:
    firm = "<firm><staff><name>Ida</name><pay>9‮</pay></staff><news/></firm>"
    broker.ask("PUT", "/v1/selective/firm", firm.encode())
    grant = {"group": "desk", "include": ["//staff"], "exclude": ["//pay"], "members": ["ann", "<b>bob"]}
    broker.ask("POST", "/v1/selective/firm:grant", grant)
    page = visit("subtrees").page
    lines = page.locator("#subtrees-text li")
    expect(lines).to_have_count(5)
    expect(lines.nth(3)).to_contain_text("<pay> 9⟨U+202E⟩")
    expect(page.locator("#subtrees-text .seen")).to_have_count(0)
    for label in ("everybody in desk", "<b>bob"):
        page.select_option("#subtrees-viewer", label=label)
        expect(page.locator("#subtrees-text .seen")).to_have_text(["  <staff>", "    <name> Ida"])
        expect(page.locator("#subtrees-text .unseen")).to_have_count(3)
        expect(page.locator("#subtrees-summary")).to_contain_text("2 of 5 elements · 31 bytes of 72 bytes")
    expect(row(page, "desk")).to_contain_text("2 members · version 1 · 31 bytes")


def test_a_dead_letter_is_redelivered(visit: Open, broker: Service) -> None:
    for number in range(3):
        broker.subscribe(f"fragile {number}", f"/fragile{number}", attempts_max=1)
        broker.publish(f"<fragile{number}/>")
        kill_delivery(broker, f"fragile%20{number}")
    page = visit("letters").page
    row(page, "fragile 1").get_by_role("button").click()
    expect(row(page, "fragile 1")).to_contain_text("on its way")
    pulled = broker.ask("POST", "/v1/subscriptions/fragile%201:pull", {"wait_ms": 10_000}).json["deliveries"]
    assert [envelope["payload"] for envelope in pulled] == ["<fragile1/>"]
    ids = [envelope["delivery"] for envelope in pulled]
    broker.ask("POST", "/v1/subscriptions/fragile%201:ack", {"deliveries": ids})
    page.mouse.move(0, 0)
    expect(row(page, "fragile 1")).to_have_count(0)

    page.click("#letters-all")
    expect(page.locator("#toasts")).to_contain_text("letters are delivered again")
    for number in (0, 2):
        path = f"/v1/subscriptions/fragile%20{number}"
        pulled = broker.ask("POST", f"{path}:pull", {"wait_ms": 10_000}).json["deliveries"]
        broker.ask("POST", f"{path}:ack", {"deliveries": [envelope["delivery"] for envelope in pulled]})
    page.mouse.move(0, 0)
    page.locator("h1#letters-title").focus()
    expect(row(page, "fragile")).to_have_count(0)


def test_a_refused_document_is_seen(visit: Open, broker: Service) -> None:
    page = visit("documents").page
    paste(page, "<news><item></news>", "the bad one")
    expect(page.locator("#publish-result .problem")).to_contain_text("TC202")
    page.get_by_role("link", name="Refused").click()
    refused = row(page, "the bad one")
    expect(refused).to_contain_text("the end tag </news> does not match the start tag <item>")
    refused.locator("summary").click()
    expect(refused.locator("pre")).to_have_text("<news><item></news>")
    before = broker.ask("GET", "/v1/refusals").json["total"]
    broker.ask("POST", "/v1/documents", b"no document", Treecast_Document_Id="the next one")
    page.mouse.move(0, 0)
    page.locator("h1#refusals-title").focus()
    expect(row(page, "the next one")).to_be_visible()
    expect(page.locator("#refusals-count")).to_have_text(str(before + 1))


def test_subscriptions_are_found_paused_changed_and_deleted(visit: Open, broker: Service) -> None:
    for number in range(12):  # more than one search looks at
        broker.subscribe(f"zoo/{number:02}", f"/zoo/animal{number}")
    broker.subscribe("zz", "/last[@of = 'all']")
    page = visit("subscriptions").page
    page.fill("#search", "OF = 'ALL'")
    expect(page.locator("#subscriptions-list > li")).to_have_count(1)
    found = row(page, "zz")
    found.get_by_role("button", name="Pause zz").click()
    expect(found.locator(".pill")).to_have_text("paused")
    assert broker.ask("GET", "/v1/subscriptions/zz").json["paused"]
    found.get_by_role("button", name="Resume zz").click()
    expect(found.locator(".pill")).to_be_hidden()
    found.get_by_role("button", name="Change zz").click()
    page.fill("#subscribe-namespaces", "x=urn:x")
    page.fill("#subscribe-query", "//x:last")
    page.click("#subscribe-form .primary")
    expect(page.locator("#subscribe-result")).to_contain_text("Registered: zz")
    assert broker.ask("GET", "/v1/subscriptions/zz").json["namespaces"] == {"x": "urn:x"}
    page.fill("#search", "x:last")
    row(page, "zz").get_by_role("button", name="Delete zz").click()
    page.locator("#confirm").get_by_role("button", name="Keep").click()
    row(page, "zz").get_by_role("button", name="Delete zz").click()
    page.locator("#confirm").get_by_role("button", name="Delete").click()
    expect(page.locator("#subscriptions-empty")).to_be_visible()  # its text is there before, for the next search
    expect(page.locator("#subscriptions-empty")).to_have_text("No id and no query contains this.")
    assert broker.ask("GET", "/v1/subscriptions/zz").status == 404


def test_rates_queues_and_sources(visit: Open, broker: Service) -> None:
    page = visit("sources").page
    page.locator("#source > summary").click()
    page.fill("#source-id", "wire")
    page.click("#source-form button")
    expect(row(page, "wire")).to_be_visible()
    broker.subscribe("slow one", "/slow")
    for _ in range(20):
        broker.publish("<slow/>", Treecast_Source="wire")
    page.get_by_role("link", name="Overview").click()
    expect(row(page, "slow one")).to_contain_text("20 waiting")
    expect(row(page, "slow one")).to_contain_text("nobody receives")
    chart = page.locator(".chart.published")
    expect(chart.locator(".figure")).not_to_have_text("0/s")
    points = (chart.locator("path.line").get_attribute("d") or "").split("L")
    assert len(points) == 60 and len({point.split()[-1] for point in points}) > 1
    expect(page.locator(".chart.lag")).to_contain_text("The oldest delivery waits")


def test_a_list_that_somebody_looks_at_stays(visit: Open, broker: Service) -> None:
    broker.publish("<before/>")
    page = visit("documents").page
    top = page.locator("#documents-list > li").first
    top.hover()
    broker.publish("<meanwhile/>")
    expect(page.locator("#documents-newer")).to_be_visible()
    expect(top).to_contain_text("<before/>")
    page.click("#documents-newer")
    expect(top).to_contain_text("<meanwhile/>")
    page.mouse.move(0, 0)
    page.locator("h1#documents-title").focus()
    broker.publish("<after/>")
    expect(top).to_contain_text("<after/>")


def test_everything_works_by_keyboard(visit: Open, broker: Service) -> None:
    page = visit("overview").page
    press = page.keyboard.press
    press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    for _ in range(3):
        press("Tab")
    expect(page.get_by_role("link", name="Subscriptions", exact=True)).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press("Enter")
    expect(page.locator("h1#subscriptions-title")).to_be_focused()
    press("Tab")
    press("Enter")  # the form opens
    for text in ("typed", "/typed"):
        press("Tab")
        page.keyboard.type(text)
    for _ in range(6):
        press("Tab")
    press("Enter")
    expect(page.locator("#subscribe-result")).to_contain_text("Registered: typed")
    assert broker.ask("GET", "/v1/subscriptions/typed").json["query"] == "/typed"


# --- documents of all kinds -------------------------------------------------------------------------------------------


def test_the_match_of_a_large_document_is_found(visit: Open, broker: Service) -> None:
    broker.subscribe("needle", "//needle")
    filler = "<straw>ü€</straw>" * 20_000
    number = broker.publish(f"<hay>{filler}<needle>here</needle>{filler}</hay>")
    page = visit(f"documents/{number}").page
    expect(page.locator("#document mark")).to_have_text("<needle>here</needle>")
    expect(page.locator("#document mark")).to_be_in_viewport()
    expect(page.locator("#document .cut")).to_have_count(2)
    assert len(page.locator("#document .document").inner_text()) < 70_000
    assert "\ufffd" not in page.locator("#document .document").inner_text()


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1"])
def test_matches_in_other_encodings(visit: Open, broker: Service, encoding: str) -> None:
    tag = encoding.replace("-", "")
    broker.subscribe(f"in {encoding}", f"//{tag}/ä")
    text = f'<?xml version="1.0" encoding="{encoding}"?><{tag}>süß<ä>ÿ</ä></{tag}>'
    answer = broker.ask("POST", "/v1/documents", text.encode(encoding))
    page = visit(f"documents/{answer.json['document']}").page
    expect(page.locator("#document mark")).to_have_text("<ä>ÿ</ä>")
    assert page.locator("#document .document").inner_text() == text


HOSTILE = [
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "abc\u202etxt.exe",
    "nul\x01\x1b[2J\x7f\x85",
    "x" * 1_000,
    "\u202e" * 300,
    "العربية/../%2e%2e",
    "a\nb\tc",
]


def test_hostile_names_and_documents_are_inert(visit: Open, broker: Service) -> None:
    script = "<html xmlns='http://www.w3.org/1999/xhtml'><script>window.hacked = 1</script>\u202e\u2028</html>"
    for id in HOSTILE:
        answer = broker.ask("PUT", f"/v1/subscriptions/{quote(id, safe='')}", {"query": "/*[local-name() = 'html']"})
        assert answer.status == 201, answer
    broker.ask("PUT", f"/v1/sources/{quote(HOSTILE[0], safe='')}", {"description": HOSTILE[1]})
    number = broker.publish(script)
    broker.ask("POST", "/v1/documents", f"{script}<b>".encode())
    phone = visit("overview", viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    page = phone.page
    for section in (*SECTIONS, f"documents/{number}"):
        phone.show(section)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), section
        assert page.evaluate("document.scripts.length") == 1
        shown = page.locator("main").inner_text()
        assert "\u202e" not in shown and "\x1b" not in shown and "\u2028" not in shown, section
    phone.show("subscriptions")
    expect(row(page, "abc⟨U+202E⟩txt.exe")).to_be_visible()
    expect(row(page, HOSTILE[0])).to_be_visible()
    row(page, HOSTILE[0]).get_by_role("button", name="Pause").click()
    expect(row(page, HOSTILE[0]).locator(".pill")).to_have_text("paused")
    phone.show(f"documents/{number}")
    expect(page.locator("#document mark").last).to_contain_text("</script>⟨U+202E⟩⟨U+2028⟩</html>")
    assert page.evaluate("window.hacked") is None


def test_a_document_that_a_browser_is_led_to_runs_nothing(visit: Open, broker: Service) -> None:
    script = "<title>before</title><script>document.title = 'hacked'</script>"
    number = broker.publish(f"<html xmlns='http://www.w3.org/1999/xhtml'>{script}</html>")
    watched = visit()
    page = watched.page
    page.goto(f"{watched.address}v1/documents/{number}")
    assert page.title() == "before"
    assert any("Blocked script execution" in what or "Content Security Policy" in what for what in watched.wrong)
    watched.wrong.clear()


# --- for everybody ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
def test_axe_finds_nothing(visit: Open, broker: Service, scheme: Any, width: int) -> None:
    broker.subscribe(f"axe {scheme}", f"/axe[@of='{scheme}']", attempts_max=1)
    number = broker.publish(f"<axe of='{scheme}'/>")
    kill_delivery(broker, f"axe%20{scheme}")
    broker.ask("POST", "/v1/documents", b"<refused>")
    viewport = {"width": width, "height": 740}
    watched = visit("overview", viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
    page = watched.page
    rules = ["color-contrast", "scrollable-region-focusable"]  # what colours and widths can change
    sections = ["overview", "subscriptions", "refusals", f"documents/{number}"]
    for section in sections if scheme == "dark" else [*sections, "letters", "sources"]:
        watched.show(section)
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        found = Axe().run(page, options={"runOnly": rules} if scheme == "dark" else None).response["violations"]
        assert [(one["id"], [item["html"] for item in one["nodes"]]) for one in found] == [], section
    moving = "element => parseFloat(getComputedStyle(element).transitionDuration)"
    assert page.locator("button").first.evaluate(moving) == 0


# --- brokers that ask for a token, or do not answer -------------------------------------------------------------------


def test_a_token_is_asked_for_and_a_restart_is_survived(browser: Browser | None, tmp_path: Path) -> None:
    if browser is None:
        pytest.skip(LEFT_OUT)
    _, token = TokenStore(tmp_path).create(["read"])
    with Service(tmp_path) as broker, contextlib.ExitStack() as closing:
        watched = Watched(browser, f"http://127.0.0.1:{broker.port}/")
        closing.callback(watched.close)
        page = watched.page
        page.goto(watched.address)
        expect(page.locator("#token")).to_be_visible()
        expect(page.locator("#token-note")).to_be_hidden()
        page.fill("#token-text", "tc_wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#token-note")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#state")).to_have_text("a valid token is needed")
        expect(page.locator("#token")).to_be_hidden()  # who does not want to is asked no more
        page.click("#enter-token")
        page.fill("#token-text", token)
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("#state")).to_have_text("Live")
        expect(page.locator("#enter-token")).to_be_hidden()
        assert page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]") == [1, 0, ""]

        watched.show("sources")
        page.locator("#source > summary").click()
        page.fill("#source-id", "not allowed")
        page.click("#source-form button")
        expect(page.locator("#toasts")).to_contain_text("TC60")

        broker.end()
        expect(page.locator("#state")).to_have_text("No answer, trying again")
        broker.start()
        expect(page.locator("#state")).to_have_text("Live")
        noise = ("401", "403", "ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET")
        assert [what for what in watched.wrong if not any(word in what for word in noise)] == []


IN_A_PAGE = """
async ([token, id]) => {
  const headers = { Authorization: `Bearer ${token}` };
  const ticket = async () => (await (await fetch("/v1/tickets", { method: "POST", headers })).json()).ticket;
  const query = async () => `subscription=${id}&ticket=${await ticket()}`;
  const socket = new WebSocket(`ws://${location.host}/v1/socket?${await query()}`);
  const opened = await new Promise((resolve) => (socket.onmessage = (event) => resolve(event.data)));
  const source = new EventSource(`/v1/events?${await query()}`);
  const delivered = new Promise((resolve) => source.addEventListener("delivery", (event) => resolve(event.data)));
  await new Promise((resolve) => (source.onopen = resolve));
  socket.send(JSON.stringify({ publish: { document: "<a>from a page</a>", source: "wire" } }));
  const payload = JSON.parse(await delivered).payload;
  source.close();
  socket.close();
  return [opened, payload];
}
"""


def test_a_page_receives_with_tickets(browser: Browser | None, tmp_path: Path) -> None:
    """Browsers send no header with an EventSource or a WebSocket."""
    if browser is None:
        pytest.skip(LEFT_OUT)
    _, token = TokenStore(tmp_path).create(["subscribe:desk.", "publish:wire"])
    with Service(tmp_path) as broker, contextlib.ExitStack() as closing:
        broker.token = token
        broker.subscribe("desk.a", "/a")
        assert broker.ask("PUT", "/v1/sources/wire").status == 201
        watched = Watched(browser, f"http://127.0.0.1:{broker.port}/")
        closing.callback(watched.close)
        watched.page.goto(f"{watched.address}healthz")
        opened, payload = watched.page.evaluate(IN_A_PAGE, [token, "desk.a"])
    assert (opened, payload) == ('{"opened":["desk.a"]}', "<a>from a page</a>")
