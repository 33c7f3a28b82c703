"""Pages of other web sites, in a browser on this machine, get nothing from a service that needs no token."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support.chromium import LEFT_OUT, Watched, chromium
from support.served_http import Service, read_all

from treecast.serve.access.refusals import AccessRefusedError
from treecast.serve.access.sites import check_site
from treecast.serve.access.tokens import TokenStore

pytestmark = pytest.mark.house

DOCUMENT = "<news/>"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("sites")) as service:
        yield service


def code(service: Service, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
    answer = service.ask(method, path, body, **headers)
    return answer.status, answer.json.get("code", "")


def test_a_page_of_another_site_changes_nothing(service: Service) -> None:
    for headers in ({"Origin": "https://shop.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert code(service, "POST", "/v1/documents", DOCUMENT, **headers) == (403, "TC609")
        assert code(service, "POST", "/v1/documents:batch", "{}", **headers) == (403, "TC609")
        assert code(service, "DELETE", "/v1/subscriptions/a", **headers) == (403, "TC609")
    assert service.ask("GET", "/v1/status").json["last_document"] == 0


# What browsers send with an EventSource of another site, a fetch without CORS, an image, a link that is followed.
FOREIGN = (
    {"Origin": "https://shop.example", "Sec-Fetch-Site": "cross-site", "Accept": "text/event-stream"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    {"Origin": "null"},
)


def test_a_page_of_another_site_settles_nothing(service: Service) -> None:
    """What an event stream has sent is delivered: nobody else gets it."""
    service.subscribe("settled", "/settled")
    number = service.publish("<settled/>")
    for headers in FOREIGN:
        for path in ("/v1/events?subscription=settled", "/v1/events?subscription=settled&ticket=tt_none"):
            request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nConnection: close\r\n"
            fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            with service.socket() as connection:
                connection.sendall(f"{request}{fields}\r\n".encode())
                assert connection.recv(12) == b"HTTP/1.1 403", headers
                assert b"TC609" in read_all(connection)
    pulled = service.ask("POST", "/v1/subscriptions/settled:pull", {"max": 10}).json["deliveries"]
    assert [each["document"] for each in pulled] == [number]


def test_our_own_page_reads_events(service: Service) -> None:
    service.subscribe("own", "/own")
    for own in ({}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}):
        assert service.ask("HEAD", "/v1/events?subscription=own", **own).status == 200


def test_a_page_of_another_site_that_was_given_a_ticket(tmp_path: Path) -> None:
    """It reads what its own server has a token for."""
    _, token = TokenStore(tmp_path).create(["subscribe:desk."])
    with Service(tmp_path) as service:
        service.token = token
        service.subscribe("desk.a", "/a")
        ticket = service.ask("POST", "/v1/tickets").json["ticket"]
        service.token = ""
        path = "/v1/events?subscription=desk.a"
        assert service.ask("HEAD", f"{path}&ticket={ticket}", **FOREIGN[0]).status == 200
        assert service.ask("HEAD", path, **FOREIGN[0]).status == 401


IN_A_FOREIGN_PAGE = """
async (address) => {
  const url = `${address}v1/events?subscription=browsed`;
  const succeeds = (one, success) => new Promise((resolve) => {
    one[success] = () => resolve(true);
    one.onerror = () => resolve(false);
  });
  const opened = succeeds(new EventSource(url), "onopen");
  const blind = await fetch(url, { mode: "no-cors" }).then((answer) => answer.type);
  const seen = await fetch(url).then(() => true, () => false);
  const image = new Image();
  const loaded = succeeds(image, "onload");
  image.src = url;
  const joined = succeeds(new WebSocket(`${url.replace("http", "ws").replace("events", "socket")}`), "onopen");
  return [await opened, blind, seen, await loaded, await joined];
}
"""


class ForeignPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_a_browser_that_shows_another_site(service: Service, leave_out: Callable[[str], None]) -> None:
    service.subscribe("browsed", "/browsed")
    number = service.publish("<browsed/>")
    with chromium() as browser:
        if browser is None:
            leave_out(LEFT_OUT)
            pytest.skip(LEFT_OUT)
        foreign = HTTPServer(("127.0.0.1", 0), ForeignPage)
        threading.Thread(target=foreign.serve_forever, daemon=True).start()
        try:
            for name in ("127.0.0.1", "localhost"):
                watched = Watched(browser, f"http://{name}:{foreign.server_port}/")
                watched.page.goto(watched.address)
                outcome = watched.page.evaluate(IN_A_FOREIGN_PAGE, f"http://127.0.0.1:{service.port}/")
                assert outcome == [False, "opaque", False, False, False]
                watched.close()
        finally:
            foreign.shutdown()
            foreign.server_close()
    pulled = service.ask("POST", "/v1/subscriptions/browsed:pull", {"max": 10}).json["deliveries"]
    assert [each["document"] for each in pulled] == [number]


def test_our_own_page_and_programs_may(service: Service) -> None:
    own = {"Origin": f"http://127.0.0.1:{service.port}", "Sec-Fetch-Site": "same-origin"}
    assert code(service, "POST", "/v1/documents", DOCUMENT, **own)[0] == 201
    assert code(service, "POST", "/v1/documents", DOCUMENT)[0] == 201


def test_a_site_that_takes_our_address_is_not_answered(service: Service) -> None:
    """Its name leads to 127.0.0.1, so that its pages would count as ours."""
    assert code(service, "GET", "/v1/subscriptions", Host="shop.example:8080") == (403, "TC609")
    assert code(service, "POST", "/v1/documents", DOCUMENT, Host="shop.example:8080") == (403, "TC609")
    for host in (f"localhost:{service.port}", "127.0.0.1", "[::1]:80"):
        assert code(service, "GET", "/v1/subscriptions", Host=host)[0] == 200
    assert service.ask("GET", "/readyz", Host="shop.example").status == 200


@pytest.mark.parametrize("is_change", [False, True])
def test_with_tokens_any_name_will_do(is_change: bool) -> None:
    own, foreign = (b"origin", b"https://news.example"), (b"origin", b"https://x.example")
    check_site([(b"host", b"news.example"), own], is_change=is_change, is_open=False)
    for origins in ([foreign], [foreign, own], [own, foreign]):
        with pytest.raises(AccessRefusedError):
            check_site([(b"host", b"news.example"), *origins], is_change=True, is_open=False)
