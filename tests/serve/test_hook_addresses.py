"""Which URLs and addresses web hooks may have, and that no name and no proxy leads around that."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import trustme
from support.hook_receiver import HookReceiver, Response
from yarl import URL

from treecast.cli import main
from treecast.errors import AccessError
from treecast.serve.doors.problems import DoorError
from treecast.serve.hooks.addresses import AddressRules
from treecast.serve.hooks.sender import Outcome, Sender, check_url
from treecast.serve.hooks.settings import HookSettings

pytestmark = pytest.mark.house

PUBLIC = ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "::ffff:1.1.1.1", "2002:101:101::1", "64:ff9b::101:101"]
INTERNAL = [
    *("0.0.0.0", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1", "169.254.169.254"),
    *("172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.7"),
    *("203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.88.99.1"),
    *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::a00:1"),
    *("64:ff9b:1::1", "2002:7f00:1::1", "2002:a9fe:a9fe::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1"),
    *("fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "100::1", "3fff::1", "5f00::1", "4000::1"),
]


def test_only_public_addresses_are_allowed_by_default() -> None:
    rules = AddressRules([])
    assert [text for text in PUBLIC if not rules.is_allowed(text)] == []
    assert [text for text in (*INTERNAL, "", "example.com", "1.2.3") if rules.is_allowed(text)] == []


def test_networks_that_are_allowed_are_no_more_than_those() -> None:
    rules = AddressRules(["10.1.0.0/16", "fd00::/8"])
    assert all(map(rules.is_allowed, ("10.1.0.1", "::ffff:10.1.0.1", "fd12::1", "1.1.1.1")))
    assert not any(map(rules.is_allowed, ("10.2.0.1", "::ffff:10.2.0.1", "fc00::1", "127.0.0.1")))
    with pytest.raises(ValueError, match="has host bits set"):
        AddressRules(["10.1.0.1/16"])


@pytest.mark.parametrize(
    "text",
    [
        *("", "example.com", "ftp://example.com/", "file:///etc/passwd", "http://", "http:///path", "//example.com/"),
        *("http://user@example.com/", "http://user:secret@example.com/", "http://:secret@example.com/"),
        *("http://example.com:99999/", "http://exa mple.com/", "http://example.com/\r\nx: y", "javascript:alert(1)"),
        *("http://example.com/" + "x" * 2_000, "http://[::1/", "http://example.com:0/"),
    ],
)
def test_urls_that_cannot_be_used(text: str) -> None:
    with pytest.raises(DoorError) as caught:
        check_url(text, 2_000)
    assert caught.value.code == "TC441"


def test_urls_that_can_be_used() -> None:
    assert str(check_url("https://example.com:8443/a?b=c#d", 2_000)) == "https://example.com:8443/a?b=c"
    assert check_url("http://[2606:4700::1]/", 2_000).host == "2606:4700::1"


def send(url: str, allow: tuple[str, ...] = (), **settings: Any) -> Outcome:
    async def run() -> Outcome:
        sender = Sender(HookSettings(allow=list(allow), **settings))
        await sender.open()
        try:
            return await sender.send("POST", URL(url), {}, b"{}")
        finally:
            await sender.close()

    return asyncio.run(run())


def resolving(*answers: list[str]) -> Any:
    """Names mean these addresses, one list after the other."""
    rest = list(answers)

    def look_up(host: str, port: int, *_: Any) -> list[tuple[Any, ...]]:
        found = rest.pop(0) if len(rest) > 1 else rest[0]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in found
        ]

    return patch.object(socket, "getaddrinfo", look_up)


def test_requests_do_not_reach_internal_addresses() -> None:
    """By address in all its forms, and by name; and who asks cannot tell a name that exists from one that does not."""
    with HookReceiver() as receiver:
        port = receiver.port
        hosts = ("127.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f000001", "127.1", "localhost")
        for host in hosts:
            outcome = send(f"http://{host}:{port}/")
            assert outcome.status == 0 and outcome.error, host
        with resolving(["127.0.0.1"]):
            internal = send(f"http://inside.example:{port}/")
        with resolving([]):
            unknown = send(f"http://inside.example:{port}/")
        assert internal.error == unknown.error == "TC620 hooks cannot be sent to 'inside.example'"
        assert receiver.requests == []


def test_a_name_is_looked_up_once_and_its_address_is_what_is_connected_to() -> None:
    """A name that means a public address when it is checked, and an internal one a moment later, gains nothing."""
    with HookReceiver() as receiver:
        with resolving(["127.0.0.1"], ["127.0.0.2"]):
            outcome = send(f"http://changing.example:{receiver.port}/", allow=("127.0.0.1/32",))
        assert outcome.status == 204
        assert receiver.requests[0].headers["host"] == f"changing.example:{receiver.port}"


def test_of_several_addresses_only_those_that_are_allowed_are_tried() -> None:
    with HookReceiver(host="127.0.0.2") as internal, HookReceiver(port=internal.port) as allowed:
        with resolving(["127.0.0.2", "127.0.0.1"]):
            assert send(f"http://both.example:{allowed.port}/", allow=("127.0.0.1/32",)).status == 204
        assert (len(allowed.requests), internal.requests) == (1, [])


def test_the_socket_is_checked_whatever_came_before() -> None:
    sender = Sender(HookSettings())
    with pytest.raises(AccessError) as caught:
        sender._make_socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80)))
    assert caught.value.code == "TC620"


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    with HookReceiver() as proxy, HookReceiver() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert send(receiver.url, allow=("127.0.0.0/8",)).status == 204
        assert (len(receiver.requests), proxy.requests) == (1, [])


def test_a_lookup_has_a_deadline() -> None:
    with HookReceiver() as receiver:

        def wait(host: str, port: int, *_: Any) -> list[tuple[Any, ...]]:
            time.sleep(1)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        with patch.object(socket, "getaddrinfo", wait):
            outcome = send(f"http://slow.example:{receiver.port}/", allow=("127.0.0.0/8",), resolve_ms=20)
        assert "TC620" in outcome.error and receiver.requests == []


def test_little_of_an_answer_is_read() -> None:
    with HookReceiver(lambda request: Response(200, {}, b"x" * 50_000, is_endless=True)) as receiver:
        outcome = send(receiver.url, allow=("127.0.0.0/8",))
    assert (outcome.status, len(outcome.body)) == (200, HookSettings().response_bytes_max)


TRUSTING = """\
import asyncio, sys
from yarl import URL
from treecast.serve.hooks.sender import Sender
from treecast.serve.hooks.settings import HookSettings

async def run():
    sender = Sender(HookSettings(allow=["127.0.0.0/8"]))
    await sender.open()
    for url in sys.argv[1:]:
        print((await sender.send("POST", URL(url), {}, b"{}")).status)
    await sender.close()

asyncio.run(run())
"""


def test_certificates_have_to_be_those_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is looked up and checked, and the name is still what the certificate must say."""
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    receivers = [HookReceiver(), HookReceiver()]
    for receiver, issuer in zip(receivers, (authority, stranger), strict=True):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        issuer.issue_cert("localhost").configure_cert(context)
        receiver.encrypt(context)
    with receivers[0] as trusted, receivers[1] as unknown:
        urls = [f"https://{host}:{trusted.port}/" for host in ("localhost", "127.0.0.1")]
        command = [sys.executable, "-c", TRUSTING, *urls, f"https://localhost:{unknown.port}/"]
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["204", "0", "0"]
        assert (len(trusted.requests), unknown.requests) == (1, [])
        assert trusted.requests[0].headers["host"] == f"localhost:{trusted.port}"


def test_the_command_line_names_networks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--data", "d", "--check", "--hooks-allow", "10.1.0.0/16", "--hooks-allow", "fd00::/8"]) == 0
    assert 'allow = ["10.1.0.0/16", "fd00::/8"]' in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["up", "--data", "d", "--check", "--hooks-allow", "10.1.0.1/16"])
    assert "hooks.allow: 10.1.0.1/16 has host bits set" in capsys.readouterr().err
