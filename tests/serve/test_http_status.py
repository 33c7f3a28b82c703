"""What the HTTP door shows to those who watch: the status, documents that are kept, who got them, what was refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.served_http import Service, eventually

from treecast.serve.doors.meter import Meter
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.status import DiskLook, QueueLook

pytestmark = pytest.mark.house


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that answers anew each time, and has small limits."""
    settings = {"status_ms": 0, "status_rest": 0, "disk_ms": 0, "explain_bytes_max": 5_000, "excerpt_bytes_max": 1_000}
    limits = {"refusals_max": 5, "search_rows_max": 4, "explained_max": 3}
    place = tmp_path_factory.mktemp("status") / "data"
    with Service(place, broker={"queue_memory_max": 5}, **settings, **limits) as running:
        yield running
        assert running.end() == (0, "")


def status(service: Service) -> Any:
    answer = service.ask("GET", "/v1/status")
    assert answer.status == 200, answer
    return answer.json


def queue(service: Service, id: str) -> Any:
    return next((row for row in status(service)["queues"] if row["subscription"] == id), None)


# --- the status -------------------------------------------------------------------------------------------------------


def test_the_status_counts(watched: Service) -> None:
    before = status(watched)
    watched.subscribe("counted", "/counted")
    for _ in range(3):
        watched.publish("<counted/>")
    watched.problem("POST", "/v1/documents", b"<counted>")
    with watched.events("counted") as reader:
        assert len(reader.take(3)) == 3
    eventually(lambda: status(watched)["totals"]["delivered"] == before["totals"]["delivered"] + 3)
    after = status(watched)
    grown = {name: after["totals"][name] - before["totals"][name] for name in after["totals"]}
    assert grown == {"published": 3, "matched": 3, "delivered": 3, "refused": 1}
    assert after["last_document"] == before["last_document"] + 3
    assert after["broker"] == "broker" and len(after["store"]) == 32 and after["uptime_ms"] > 0
    assert after["sizes"]["subscriptions"] == before["sizes"]["subscriptions"] + 1
    assert after["sizes"]["store_bytes"] > after["sizes"]["document_bytes"] > 0 and after["sizes"]["free_bytes"] > 0
    assert {len(row) for row in after["history"].values()} == {60}
    eventually(lambda: sum(status(watched)["history"]["refused"]) > 0)
    assert status(watched)["rates"]["last_60_s"]["refused"] > 0


def test_a_pull_that_is_not_acknowledged_is_lag(watched: Service) -> None:
    assert status(watched)["lag"]["receivers_ms"] == 0
    watched.subscribe("pulled", "/pulled")
    number = watched.publish("<pulled/>")
    (envelope,) = watched.ask("POST", "/v1/subscriptions/pulled:pull", {"wait_ms": 10_000}).json["deliveries"]
    depth = queue(watched, "pulled")
    assert (depth["waiting"], depth["sent"], depth["receivers"]) == (0, 1, 1)
    assert depth["oldest_document"] == number and depth["oldest_ms"] > 0
    assert status(watched)["lag"]["receivers_ms"] > 0
    watched.ask("POST", "/v1/subscriptions/pulled:ack", {"deliveries": [envelope["delivery"]]})
    eventually(lambda: queue(watched, "pulled") is None and status(watched)["lag"]["receivers_ms"] == 0)


def test_parked_queues_come_first(watched: Service) -> None:
    watched.subscribe("few", "/few")
    watched.subscribe("many", "/many")
    numbers = [watched.publish(f"<{name}/>") for name in ("few", *["many"] * 8)]
    rows = status(watched)["queues"]
    assert rows[0]["subscription"] == "many" and rows[0]["is_parked"] and not rows[0]["receivers"]
    assert rows[0]["oldest_document"] == numbers[1]
    few = queue(watched, "few")
    assert (few["waiting"], few["is_parked"]) == (1, False)
    lag = status(watched)["lag"]
    assert lag["oldest_ms"] >= few["oldest_ms"] and lag["oldest_document"] <= numbers[0]
    watched.ask("POST", "/v1/subscriptions/few:pause")
    assert queue(watched, "few")["is_paused"]
    for id in ("few", "many"):
        watched.ask("DELETE", f"/v1/subscriptions/{id}")
    assert queue(watched, "few") is None and queue(watched, "many") is None


def test_letters_are_counted(watched: Service) -> None:
    before = status(watched)["sizes"]["letters"]
    watched.subscribe("letter", "/letter", attempts_max=1)
    watched.publish("<letter/>")
    (envelope,) = watched.ask("POST", "/v1/subscriptions/letter:pull", {"wait_ms": 10_000}).json["deliveries"]
    watched.ask("POST", "/v1/subscriptions/letter:fail", {"deliveries": [envelope["delivery"]]})
    eventually(lambda: status(watched)["sizes"]["letters"] == before + 1)
    (letter,) = [row for row in watched.ask("GET", "/v1/letters").json["letters"] if row["subscription"] == "letter"]
    watched.ask("POST", "/v1/letters:redeliver", {"letters": [letter["letter"]]})
    (envelope,) = watched.ask("POST", "/v1/subscriptions/letter:pull", {"wait_ms": 10_000}).json["deliveries"]
    watched.ask("POST", "/v1/subscriptions/letter:ack", {"deliveries": [envelope["delivery"]]})
    eventually(lambda: status(watched)["sizes"]["letters"] == before)


def test_answers_are_shared(service: Service) -> None:
    """However many watch, the broker is looked at now and then."""
    eventually(lambda: service.ask("GET", "/v1/status").body == service.ask("GET", "/v1/status").body)


def test_a_meter_goes_on_when_counts_begin_anew() -> None:
    meter = Meter(("a", "b"), 3)
    for second, counts in enumerate([(0, 0), (10, 1), (4, 2), (4, 2), (6, 2)]):
        meter.sample(second * 2_000, counts)
    assert meter.totals((8, 3)) == (18, 3)
    assert meter.history(3) == [[2.0, 0.0, 1.0], [0.5, 0.0, 0.0]]
    assert meter.rates(2) == [0.5, 0.0] and meter.rates(60) == [1.0, 0.17]
    assert not meter.is_due(8_999) and meter.is_due(9_000)


def test_looking_at_all_queues_and_files_has_its_rests(tmp_path: Path) -> None:
    class Tail:
        looked = 0

        def longest(self, count: int) -> list[Any]:
            self.looked += 1
            return []

        def waiting_from(self) -> int:
            return 1

    for rest, looks in ((1 << 40, 1), (0, 3)):
        tail = Tail()
        look = QueueLook(DoorSettings(status_rest=rest))
        for _ in range(3):
            look.longest(SimpleNamespace(tail=tail))  # type: ignore[arg-type]
        assert tail.looked == looks

    async def sizes(every_ms: int) -> list[int]:
        disk, found = DiskLook(str(tmp_path), every_ms), []
        for number in range(3):
            (tmp_path / f"{every_ms} {number}").write_bytes(bytes(100))
            await disk.look()
            found.append(disk.store_bytes)
        return found

    assert asyncio.run(sizes(1 << 40)) == [100, 100, 100]
    assert asyncio.run(sizes(0)) == [400, 500, 600]


# --- documents --------------------------------------------------------------------------------------------------------


def test_the_last_documents(watched: Service) -> None:
    watched.subscribe("listed", "/listed")
    first = watched.publish("<listed>ä</listed>", Treecast_Document_Id="mine")
    second = watched.publish(f"<large>{' ' * 2_000}</large>")
    page = watched.ask("GET", "/v1/documents?count=1").json
    assert [row["document"] for row in page["documents"]] == [second] and page["next"] == second
    assert "excerpt" not in page["documents"][0] and page["documents"][0]["matches"] == 0
    (row,) = watched.ask("GET", f"/v1/documents?count=1&before={page['next']}").json["documents"]
    assert (row["document"], row["id"], row["source"], row["bytes"]) == (first, "mine", "default", 19)
    assert (row["matches"], row["subscriptions"], row["excerpt"]) == (1, ["listed"], "<listed>ä</listed>")
    every = watched.ask("GET", "/v1/documents?count=1000").json
    assert [row["document"] for row in every["documents"]] == list(range(second, 0, -1)) and "next" not in every
    assert watched.problem("GET", "/v1/documents?before=x") == (400, "TC434")


def test_the_bytes_of_a_document(watched: Service) -> None:
    text = "<text>0123456789</text>"
    path = f"/v1/documents/{watched.publish(text)}"
    whole = watched.ask("GET", path)
    assert (whole.status, whole.body) == (200, text.encode())
    assert whole.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert whole.headers["x-content-type-options"] == "nosniff"
    part = watched.ask("GET", path, Range="bytes=6-8")
    assert (part.status, part.body, part.headers["content-range"]) == (206, b"012", f"bytes 6-8/{len(text)}")
    assert watched.ask("GET", path, Range="bytes=16-").body == b"</text>"
    assert watched.ask("GET", path, Range="bytes=16-999").body == b"</text>"
    assert watched.ask("GET", path, Range="bytes=-5").body == text.encode()
    assert watched.problem("GET", path, Range="bytes=23-") == (416, "TC434")
    assert watched.problem("GET", "/v1/documents/999999") == (404, "TC424")
    assert watched.problem("GET", "/v1/documents/none") == (400, "TC434")
    assert watched.problem("GET", "/v1/documents/0/matches") == (404, "TC424")


def test_what_retention_dropped_is_gone(tmp_path: Path) -> None:
    broker = {"keep_ms": 1, "retention_step_ms": 50}
    with Service(tmp_path / "data", broker=broker) as service:
        number = service.publish("<a/>")
        service.publish("<b/>")
        eventually(lambda: service.ask("GET", f"/v1/documents/{number}").status == 410)
        assert service.problem("GET", f"/v1/documents/{number}/matches") == (410, "TC424")


# --- matches ----------------------------------------------------------------------------------------------------------


def test_matches_have_reasons_and_spans(watched: Service) -> None:
    watched.subscribe("spans", '/spans/item[@a="1"][b or c]/d', deliver="elements")
    text = '<spans><item a="1"><c/><d>ü</d></item></spans>'
    body = text.encode()
    number = watched.publish(text)
    answer = watched.ask("GET", f"/v1/documents/{number}/matches").json
    assert (answer["document"], answer["encoding"], answer["bytes"], answer["total"]) == (number, "utf-8", len(body), 1)
    (match,) = answer["matches"]
    assert (match["subscription"], match["state"], match["payload"]) == ("spans", "waiting", "<d>ü</d>")
    found = [(span["kind"], body[span["start"] : span["end"]].decode()) for span in match["spans"]]
    assert found == [("result", "<d>ü</d>"), ("evidence", 'a="1"'), ("evidence", "<c/>")]
    steps = [(step["step"], step["path"]) for step in match["steps"]]
    assert steps[1:] == [("/item", "/spans[1]/item[1]"), ("/d", "/spans[1]/item[1]/d[1]")]
    assert match["steps"][1]["conditions"][0].startswith('[@a="1"] is true: ')


def test_a_condition_of_the_document_names_its_values(watched: Service) -> None:
    watched.subscribe("more than one", "count(/tally/item) > 1")
    number = watched.publish("<tally><item/><item/></tally>")
    (match,) = watched.ask("GET", f"/v1/documents/{number}/matches").json["matches"]
    assert match["steps"][0]["conditions"] == [
        "count(/tally/item) > 1 is true: count(/tally/item) is 2; /tally/item selects /tally[1]/item[1] and 1 more"
    ]


def test_subscriptions_that_changed_or_went_say_so(watched: Service) -> None:
    for id in ("stays", "changes", "goes"):
        watched.subscribe(id, "/then")
    number = watched.publish("<then/>")
    watched.ask("PUT", "/v1/subscriptions/changes", {"query": "/now"})
    watched.ask("DELETE", "/v1/subscriptions/goes")
    rows = watched.ask("GET", f"/v1/documents/{number}/matches").json["matches"]
    matches = {row["subscription"]: row for row in rows}
    assert "note" not in matches["stays"] and matches["stays"]["spans"]
    assert "changed since" in matches["changes"]["note"] and "spans" not in matches["changes"]
    assert matches["goes"]["state"] == "gone" and "removed since" in matches["goes"]["note"]


def test_matches_come_in_pages_and_within_a_budget(watched: Service) -> None:
    for number in range(5):
        watched.subscribe(f"budget {number}", "/budget/text()" if number else "/budget")
    document = watched.publish(f"<budget>{'x' * 2_000}</budget>")
    path = f"/v1/documents/{document}/matches"
    first = watched.ask("GET", path).json
    second = watched.ask("GET", f"{path}?after={first['next'].replace(' ', '%20')}").json
    ids = [row["subscription"] for row in (*first["matches"], *second["matches"])]
    assert ids == [f"budget {number}" for number in range(5)] and first["total"] == 5 and "next" not in second
    assert ["note" in row for row in first["matches"]] == [False, False, True]  # 5,000 bytes are two and a half
    assert watched.problem("GET", f"{path}?count=4") == (400, "TC434")


# --- refusals and searches --------------------------------------------------------------------------------------------


def test_the_last_refusals_are_remembered(watched: Service) -> None:
    total = watched.ask("GET", "/v1/refusals").json["total"]
    watched.problem("POST", "/v1/documents", b"<a>", Treecast_Document_Id="unfinished")
    watched.problem("POST", "/v1/documents?source=nobody", b"<a/>")
    watched.problem("POST", "/v1/documents", b"<a/>", Content_Encoding="br")
    lines = [{"document": "<a></b>"}, {"document": 1}, {"document": "<a/>"}]
    watched.ask("POST", "/v1/documents:batch", "\n".join(map(json.dumps, lines)))
    page = watched.ask("GET", "/v1/refusals").json
    assert page["total"] == total + 5
    rows = page["refusals"]
    assert [row["number"] for row in rows] == list(range(total + 5, total, -1))
    assert sorted(row["code"] for row in rows) == ["TC202", "TC209", "TC410", "TC434", "TC435"]
    oldest = rows[-1]
    assert (oldest["code"], oldest["id"], oldest["excerpt"], oldest["bytes"]) == ("TC209", "unfinished", "<a>", 3)
    assert "ends before the end tag" in oldest["detail"] and oldest["source"] == "default"
    assert next(row for row in rows if row["code"] == "TC410")["source"] == "nobody"
    watched.problem("POST", "/v1/documents", b"x" * 5_000)
    rows = watched.ask("GET", "/v1/refusals").json["refusals"]
    assert len(rows) == 5 and oldest not in rows
    assert len(rows[0]["excerpt"]) == 1_000 and rows[0]["bytes"] == 5_000
    page = watched.ask("GET", f"/v1/refusals?count=2&before={rows[0]['number']}").json
    assert page["refusals"] == rows[1:3] and page["next"] == rows[2]["number"]


def test_a_search_goes_on_where_it_ended(watched: Service) -> None:
    for number in range(6):
        watched.subscribe(f"~{number}", f"/search/Step{number % 2}")
    found, after, asked = [], "", 0
    while True:
        page = watched.ask("GET", f"/v1/subscriptions?search=STEP1&after={after}").json
        found += [row["id"] for row in page["subscriptions"]]
        asked += 1
        after = page.get("next", "").replace(" ", "%20")
        if not after:
            break
    assert found == ["~1", "~3", "~5"] and asked > 2
    assert [row["id"] for row in watched.ask("GET", "/v1/subscriptions?search=~&after=~3").json["subscriptions"]] == [
        "~4",
        "~5",
    ]
    one = watched.ask("GET", "/v1/subscriptions?search=~&after=~3&count=1").json
    assert ([row["id"] for row in one["subscriptions"]], one["next"]) == (["~4"], "~4")


# --- the files of the console -----------------------------------------------------------------------------------------


def test_the_console_is_served_with_a_strict_policy(service: Service) -> None:
    page = service.ask("GET", "/")
    assert page.status == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert "require-trusted-types-for 'script'" in policy
    for name, kind in {"app.js": "text/javascript", "console.css": "text/css", "icon.svg": "image/svg+xml"}.items():
        answer = service.ask("GET", f"/console/{name}")
        assert answer.status == 200 and answer.headers["content-type"].startswith(kind) and answer.body
        assert answer.headers["x-content-type-options"] == "nosniff"
    for name in ("__init__.py", "../console.html", "nothing.js"):
        assert service.problem("GET", f"/console/{name}") == (404, "TC430")


def test_the_console_is_small(service: Service) -> None:
    folder = Path(__file__).resolve().parents[2] / "src" / "treecast" / "serve" / "console"
    assert sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) < 100_000
    texts = [path.read_text() for path in folder.iterdir() if path.suffix in (".html", ".js", ".css")]
    assert not any(word in text for text in texts for word in ("innerHTML", "insertAdjacentHTML", "eval(", "https://"))
