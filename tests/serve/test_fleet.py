"""Workers of a fleet: any of them serves any request, and what one acknowledges all of them know."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.fleet import LEFT_OUT, SMALL, FleetWorker, NatsServer
from support.nats_server import program
from support.served_http import eventually

from treecast.serve.access.tokens import TokenLimits, TokenStore

pytestmark = pytest.mark.house
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "fleet.md"
SMALLER = "".join(f" --set worker.{name}={value}" for name, value in SMALL.items()) + " --log-level error"
READY = "for port in 8080 8081; do until curl -sf http://127.0.0.1:$port/readyz > /dev/null; do sleep 0.1; done; done"
Workers = tuple[FleetWorker, FleetWorker]


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers | None]:
    """Two of them; None where NATS is not installed."""
    if program() is None:
        yield None
        return
    with ExitStack() as stack:
        server = stack.enter_context(NatsServer(tmp_path_factory.mktemp("fleet")))
        settings = {"settle_ms": 1_000}
        one, two = (
            stack.enter_context(FleetWorker(server, "tests", settings, heartbeat_ms=300, stream_bytes_max=5_000))
            for _ in range(2)
        )
        yield one, two
        assert one.end() == (0, "")
        assert two.end() == (0, "")


@pytest.fixture
def pair(workers: Workers | None, leave_out: Callable[[str], None]) -> Workers:
    if workers is None:
        leave_out(LEFT_OUT)
        pytest.skip(LEFT_OUT)
    return workers


def test_what_one_worker_is_told_all_know(pair: Workers) -> None:
    one, two = pair
    one.subscribe("known/sport news", "//item[@topic='sport']", deliver="elements", attempts_max=3)
    answer = two.ask("GET", "/v1/subscriptions/known%2Fsport%20news").json
    assert (answer["query"], answer["deliver"], answer["attempts_max"]) == ("//item[@topic='sport']", "elements", 3)
    assert two.ask("PUT", "/v1/subscriptions/known%2Fsport%20news", {"query": "/other"}).status == 200
    assert one.ask("GET", "/v1/subscriptions/known%2Fsport%20news").json["query"] == "/other"
    listed = one.ask("GET", "/v1/subscriptions?after=known&count=1").json
    assert [row["id"] for row in listed["subscriptions"]] == ["known/sport news"]
    assert two.ask("DELETE", "/v1/subscriptions/known%2Fsport%20news").status == 204
    assert one.problem("GET", "/v1/subscriptions/known%2Fsport%20news") == (404, "TC412")
    assert one.problem("DELETE", "/v1/subscriptions/known%2Fsport%20news") == (404, "TC412")

    assert one.ask("PUT", "/v1/sources/wire", {"description": "news"}).status == 201
    assert two.ask("POST", "/v1/documents?source=wire", b"<a/>").status == 201
    assert two.ask("DELETE", "/v1/sources/wire").status == 204
    # Who publishes does not wait to hear that a source it knows is gone.
    eventually(lambda: one.ask("POST", "/v1/documents?source=wire", b"<a/>").status == 404)
    assert one.problem("POST", "/v1/documents?source=wire", b"<a/>") == (404, "TC410")


def test_a_document_that_follows_a_subscription_is_matched_by_it(pair: Workers) -> None:
    """Whichever workers both went through, and whichever one matches the document."""
    for round in range(20):
        publisher = pair[round % 2]
        pair[1 - round % 2].subscribe(f"after-{round}", f"/after-{round}")
        number = publisher.publish(f"<after-{round}/>")
        with pair[round // 2 % 2].events(f"after-{round}") as events:
            (event,) = events.take(1)
        assert event["document"] == number


def test_what_is_refused(pair: Workers) -> None:
    one, _ = pair
    assert one.problem("POST", "/v1/documents", b"<a>") == (422, "TC209")
    assert one.problem("PUT", "/v1/subscriptions/x", {"query": "/a[namespace::b]"}) == (422, "TC102")
    assert one.problem("PUT", "/v1/subscriptions/x", {"query": "/a", "expires_ms": 5}) == (501, "TC490")
    assert one.problem("GET", "/v1/letters") == (501, "TC490")
    assert one.problem("POST", "/v1/subscriptions:try", {"query": "/a"}) == (501, "TC490")
    assert one.problem("GET", "/v1/subscriptions?search=a") == (501, "TC490")
    assert one.problem("GET", "/v1/nothing") == (404, "TC430")
    assert one.problem("DELETE", "/v1/events") == (405, "TC431")
    assert one.problem("GET", "/v1/events?subscription=unknown") == (404, "TC412")
    assert one.problem("GET", "/v1/events?subscription=unknown", Last_Event_ID="x") == (400, "TC434")
    assert one.problem("POST", "/v1/subscriptions/unknown:pull") == (404, "TC412")
    described = one.ask("GET", "/openapi.json").json["paths"]
    assert "/v1/events" in described and "/v1/letters" not in described


def test_documents_are_published_once(pair: Workers) -> None:
    """By the publisher's id, at any worker; each source has its own."""
    one, two = pair
    one.ask("PUT", "/v1/sources/other", {})
    number = one.publish("<once/>", Treecast_Document_Id="one")
    again = two.ask("POST", "/v1/documents", b"<once/>", Treecast_Document_Id="one")
    assert (again.status, again.json) == (200, {"document": number})
    assert two.publish("<once/>", Treecast_Document_Id="one", Treecast_Source="other") > number
    lines = [{"document": "<a/>", "id": "one"}, {"document": "<a>"}, {"document": "<a/>", "id": "two"}, {"what": 1}]
    answer = two.ask("POST", "/v1/documents:batch", "\n".join(map(json.dumps, lines))).json["documents"]
    assert [item["status"] for item in answer] == [200, 422, 201, 400]
    assert answer[0]["document"] == number and answer[2]["document"] > number


def test_large_documents_travel_in_parts(pair: Workers) -> None:
    """NATS takes messages up to 1 MiB."""
    one, two = pair
    one.subscribe("large", "/large")
    body = "<large>" + "0123456789" * 250_000 + "</large>"
    number = one.publish(body)
    with two.events("large") as events:
        (event,) = events.take(1)
    assert (event["document"], event["payload"]) == (number, body)
    (pulled,) = one.ask("POST", "/v1/subscriptions/large:pull", {"wait_ms": 10_000}).json["deliveries"]
    assert pulled["payload"] == body and pulled["delivery"] == event["delivery"]


# --- event streams ----------------------------------------------------------------------------------------------------


def test_a_reader_may_come_back_to_another_worker(pair: Workers) -> None:
    one, two = pair
    one.subscribe("back", "/back")
    one.subscribe("back too", "//back")
    with one.events("back", "back too") as events:
        numbers = [two.publish("<back/>") for _ in range(10)]
        first = events.take(5)
        last = events.last
    numbers += [two.publish("<back/>") for _ in range(10)]
    with two.events("back", "back too", last=last) as events:
        rest = events.take(35)
        live = two.publish("<back/>")
        assert [event["document"] for event in events.take(2)] == [live, live]
    received = [(event["document"], event["subscription"]) for event in first + rest]
    assert sorted(received) == [(number, id) for number in numbers for id in ("back", "back too")]
    with one.events("back", last=f"00000000.{last.split('.')[1]}") as events:
        name, data = next(iter(events))
    assert (name, data) == ("gone", {"first": 0, "last": 0})


def test_a_slow_reader_gets_all_of_it_later(pair: Workers) -> None:
    """What waits for it is limited: it is read from NATS when the reader goes on."""
    one, two = pair
    one.subscribe("slow", "/slow")
    body = "<slow>" + "x" * 30_000 + "</slow>"
    with one.events("slow") as slow:
        numbers = [two.publish(body) for _ in range(150)]
        with two.events("slow") as quick:
            assert sorted(event["document"] for event in quick.take(150)) == numbers
        assert sorted(event["document"] for event in slow.take(150)) == numbers


# --- pulling ----------------------------------------------------------------------------------------------------------


def pull(worker: FleetWorker, id: str, **form: int) -> list[dict[str, int | str]]:
    answer = worker.ask("POST", f"/v1/subscriptions/{id}:pull", dict(form))
    assert answer.status == 200, answer
    deliveries: list[dict[str, int | str]] = answer.json["deliveries"]
    return deliveries


def pull_all(worker: FleetWorker, id: str, count: int) -> list[dict[str, int | str]]:
    """So many different ones. They are waited for longer than what failed takes to come again: where a message comes
    again in the moment in which a request ends, nats-server 2.9 brings the one before it, and this one far too late."""
    taken: dict[int | str, dict[str, int | str]] = {}

    def is_complete() -> bool:
        taken.update((one["delivery"], one) for one in pull(worker, id, max=count - len(taken), wait_ms=10_000))
        return len(taken) == count

    eventually(is_complete, seconds=60)
    return list(taken.values())


def test_pull_at_one_worker_and_acknowledge_at_another(pair: Workers) -> None:
    one, two = pair
    one.subscribe("pulled", "/pulled")
    numbers = [one.publish("<pulled/>") for _ in range(5)]
    taken = pull_all(two, "pulled", 5)
    assert sorted(delivery["document"] for delivery in taken) == numbers
    ids = [delivery["delivery"] for delivery in taken]
    assert one.ask("POST", "/v1/subscriptions/pulled:ack", {"deliveries": ids[:3]}).json == {
        "settled": 3,
        "unknown": [],
    }
    assert two.ask("POST", "/v1/subscriptions/pulled:fail", {"deliveries": ids[3:]}).json["settled"] == 2
    again = pull_all(one, "pulled", 2)
    assert {delivery["delivery"] for delivery in again} == set(ids[3:])
    assert min(int(delivery["attempt"]) for delivery in again) == 2
    # A stream that is opened now begins with what is not acknowledged.
    with two.events("pulled") as events:
        assert {event["delivery"] for event in events.take(2)} == set(ids[3:]) or taken[:3] != sorted(
            taken[:3], key=lambda delivery: delivery["document"]
        )


def test_what_nobody_holds_is_unknown(workers: Workers | None, pair: Workers) -> None:
    one, _ = pair
    one.subscribe("unheld", "/unheld")
    one.publish("<unheld/>")
    (delivery,) = pull(one, "unheld", wait_ms=10_000)
    form = {"deliveries": [delivery["delivery"], "unknown"]}
    answer = one.ask("POST", "/v1/subscriptions/unheld:ack", form).json
    assert answer == {"settled": 1, "unknown": ["unknown"]}


# --- tokens and settings ----------------------------------------------------------------------------------------------


def test_tokens_are_those_of_any_door(pair: Workers, tmp_path: Path) -> None:
    """For a token with a prefix, other subscriptions do not exist."""
    one, _ = pair
    one.subscribe("other.x", "/tokens")
    _, text = TokenStore(tmp_path).create(["subscribe:own."], limits=TokenLimits(subscriptions_max=1))
    guarded = FleetWorker(one.server, "tests")
    guarded.options["directory"] = str(tmp_path)
    with guarded:
        assert guarded.problem("GET", "/v1/subscriptions") == (401, "TC602")
        guarded.token = text
        guarded.subscribe("own.a", "/tokens")
        listed = guarded.ask("GET", "/v1/subscriptions").json["subscriptions"]
        assert [row["id"] for row in listed] == ["own.a"]
        assert guarded.problem("GET", "/v1/subscriptions/other.x") == (404, "TC412")
        assert guarded.problem("GET", "/v1/events?subscription=own.a&subscription=other.x") == (404, "TC412")
        assert guarded.problem("PUT", "/v1/subscriptions/own.b", {"query": "/b"}) == (403, "TC605")
        assert guarded.problem("POST", "/v1/documents", b"<tokens/>") == (403, "TC603")
        one.publish("<tokens/>")
        with guarded.events("own.a") as events:
            assert [event["subscription"] for event in events.take(1)] == ["own.a"]


def test_settings_of_a_worker_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    from treecast.cli import main

    options = ["--backbone", "http://127.0.0.1:1", "--fleet", "a b", "--peer-listen", "127.0.0.1:0", "--key", "k"]
    with pytest.raises(SystemExit) as ended:
        main(["up", *options])
    told = capsys.readouterr().err
    assert ended.value.code == 2 and "4 settings are wrong" in told
    for flag in ("--backbone", "--fleet", "--peer-listen", "--key"):
        assert f"\n  {flag}: " in told
    assert main(["up", "--backbone", "nats://127.0.0.1:1", "--set", "worker.connect_ms=200"]) == 1
    assert "TC491 no NATS server answers at nats://127.0.0.1:1" in capsys.readouterr().err


def test_the_guide(tmp_path_factory: pytest.TempPathFactory, leave_out: Callable[[str], None]) -> None:
    """Its commands, on ports that are free."""
    if program() is None:
        leave_out(LEFT_OUT)
        return
    first, second = re.findall(r"^```shell\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    script = "\n".join([first.partition("\n")[2], READY, second, "kill $(jobs -p); wait"])
    for port in ("4222", "8080", "8081"):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            script = script.replace(port, str(probe.getsockname()[1]))
    script = script.replace("nats-server -js", f"{program()} -l nats.log -js").replace(" --fleet", SMALLER + " --fleet")
    script = script.replace("treecast up", f"{sys.executable} -m treecast up")
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path_factory.mktemp("guide"), capture_output=True, text=True)
    printed = done.stdout
    assert '{"document":1}' in printed and '"payload":"<item topic=\\"sport\\">2:1</item>"' in printed
