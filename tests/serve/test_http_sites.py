"""Pages of other web sites, in a browser on this machine, get nothing from a service that needs no token."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.served_http import Service

from treecast.serve.access.refusals import AccessRefusedError
from treecast.serve.access.sites import check_site

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
    check_site([(b"host", b"news.example")], is_change=is_change, is_open=False)
    with pytest.raises(AccessRefusedError):
        check_site([(b"host", b"news.example"), (b"origin", b"https://x.example")], is_change=True, is_open=False)
