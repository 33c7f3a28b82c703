"""The report in a browser, as people use it: search, sorting, looking into a document; dark, and on a phone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from oracles.report_page import check_page
from playwright.sync_api import Browser, Locator, Page, expect
from support.chromium import Watched, chromium

from treecast.cli import main

pytestmark = pytest.mark.house
LEFT_OUT = "the report in a browser: chromium is not installed (Debian: chromium)"
DOCUMENTS, SUBSCRIPTIONS = 120, 400


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("report") / "out"
    counts = ["--documents", str(DOCUMENTS), "--subscriptions", str(SUBSCRIPTIONS)]
    assert main(["demo", "--quiet", "--threads", "1", "-o", str(output), *counts]) == 0
    return output / "report.html"


@pytest.fixture(scope="module")
def browser(leave_out: Callable[[str], None]) -> Iterator[Browser]:
    with chromium() as running:
        if running is None:
            leave_out(LEFT_OUT)
            pytest.skip(LEFT_OUT)
        yield running


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Page]:
    """The report; at the end nothing may have been said on the console or asked for."""
    watched = Watched(browser, report.as_uri())
    watched.page.goto(report.as_uri())
    yield watched.page
    watched.close()
    assert watched.wrong == []


def rows(page: Page, list_id: str) -> Locator:
    return page.locator(f"#{list_id} [data-rows] > *:visible")


def numbers(page: Page, list_id: str, key: str) -> list[int]:
    return [int(row.get_attribute(f"data-{key}") or 0) for row in rows(page, list_id).all()]


def test_the_demo_leaves_a_page_that_stands_alone(report: Path) -> None:
    text = check_page(report.read_text("utf-8"))
    for expected in ("a newswire firehose", "120", "subscriptions matched", "to start", "building the index"):
        assert expected in text, expected
    assert sorted(path.name for path in report.parent.iterdir()) == ["report.html", "run.json", "subscriptions.parquet"]
    run = json.loads((report.parent / "run.json").read_text())
    assert (run["state"], run["documents"], run["subscriptions"]) == ("done", DOCUMENTS, SUBSCRIPTIONS)


def test_subscriptions_are_searched_and_sorted(page: Page) -> None:
    expect(rows(page, "subscriptions")).to_have_count(20)
    section = page.locator("#subscriptions")
    section.get_by_role("button", name="Show more").click()
    expect(rows(page, "subscriptions")).to_have_count(220)

    section.get_by_role("searchbox").fill("PERSON/ name")  # words, in any case
    expect(section.get_by_role("status")).to_contain_text("of")
    texts = rows(page, "subscriptions").all_inner_texts()
    assert texts
    assert all("person/" in text for text in texts)

    section.get_by_role("searchbox").fill("")
    section.get_by_role("combobox").select_option("unmatched")
    assert set(numbers(page, "subscriptions", "matches")) == {0}
    section.get_by_role("combobox").select_option("")
    matches = section.get_by_role("button", name="matches")
    matches.click()
    largest = numbers(page, "subscriptions", "matches")
    assert largest == sorted(largest, reverse=True)
    assert largest[0] > 0
    matches.click()
    assert set(numbers(page, "subscriptions", "matches")) == {0}
    expect(section.locator("[aria-sort]")).to_have_attribute("aria-sort", "ascending")


def test_a_document_is_looked_into(page: Page) -> None:
    documents = page.locator("#documents")
    documents.get_by_role("button", name="matches").click()
    counts = numbers(page, "documents", "matches")
    assert counts == sorted(counts, reverse=True)

    first = rows(page, "documents").first
    first.locator("summary").click()
    match = first.locator("[data-match]").first
    query = match.locator("code").inner_text()
    page.set_viewport_size({"width": 360, "height": 500})
    page.add_style_tag(content=".panel .text { max-height: 40px }")  # so that it has to be scrolled
    match.get_by_role("button").click()
    marks = first.locator("mark.on")
    assert marks.count() > 0
    name = "company" if "company" in query else "person" if "person" in query else "game" if "game" in query else ""
    assert name in "".join(marks.all_inner_texts())
    is_seen = "mark => { const box = mark.closest('.text').getBoundingClientRect(), own = mark.getBoundingClientRect();"
    is_seen += " return own.top >= box.top && own.bottom <= box.bottom && box.top < innerHeight; }"
    for number in range(first.locator("[data-match]").count()):
        other = first.locator("[data-match]").nth(number)
        if number:
            other.get_by_role("button").click()
        assert marks.count() == 0 or marks.first.evaluate(is_seen), other.inner_text()
    match.get_by_role("button").click()
    expect(match).to_contain_text("to be delivered")
    others = first.locator("mark:not(.on)")
    if others.count():
        expect(others.first).to_have_css("background-color", "rgba(0, 0, 0, 0)")
    match.get_by_role("button").click()  # again: all marks
    expect(first.locator("mark.on")).to_have_count(0)


def test_a_subscription_leads_to_its_documents(page: Page) -> None:
    finder = page.locator("#subscriptions [data-find]:visible").first
    wanted = finder.inner_text()
    finder.click()
    expect(page.locator("#documents").get_by_role("searchbox")).to_have_value(wanted)
    found = rows(page, "documents")
    assert 0 < found.count() < 40
    assert all(wanted in (text or "") for text in found.locator("ol").all_text_contents())


def test_it_fits_a_phone_and_is_dark_in_the_dark(browser: Browser, report: Path) -> None:
    colours = set()
    for options in ({"viewport": {"width": 360, "height": 740}}, {"color_scheme": "dark"}):
        watched = Watched(browser, report.as_uri(), **options)
        watched.page.goto(report.as_uri())
        watched.page.locator("#documents summary").first.click()
        widths = watched.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1]
        colours.add(watched.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        watched.close()
        assert watched.wrong == []
    assert len(colours) == 2


def test_everything_is_there_without_the_script(browser: Browser, report: Path) -> None:
    watched = Watched(browser, report.as_uri(), java_script_enabled=False)
    watched.page.goto(report.as_uri())
    expect(rows(watched.page, "subscriptions")).to_have_count(SUBSCRIPTIONS)
    expect(watched.page.locator("input:visible, select:visible")).to_have_count(0)
    watched.close()


def test_the_same_eyes_see_what_a_page_should_not_do(browser: Browser, report: Path, tmp_path: Path) -> None:
    """Its policy refuses what would run or be loaded, were there a way to get it into the page."""
    bad = tmp_path / "bad.html"
    added = '<script>alert("oh")</script><img src="http://127.0.0.1:9/x.png"></main>'
    bad.write_text(report.read_text("utf-8").replace("</main>", added), "utf-8")
    watched = Watched(browser, bad.as_uri())
    watched.page.goto(bad.as_uri())
    expect(rows(watched.page, "subscriptions")).to_have_count(20)
    assert len([line for line in watched.wrong if "Content Security Policy" in line]) == 2
    assert "request: http://127.0.0.1:9/x.png" in watched.wrong
    watched.close()
