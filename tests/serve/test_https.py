"""HTTP with TLS: deadlines and limits hold during handshakes and after them, and certificates may be renewed."""

from __future__ import annotations

import asyncio
import http.client
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from support.served_http import Service, eventually, read_all

from treecast.serve.client import Connection
from treecast.serve.tls import TlsFiles, https_context
from treecast.serve.transport_error import TransportError

pytestmark = pytest.mark.house

HEAD = b"POST /v1/documents HTTP/1.1\r\nHost: here\r\n"


class Secure:
    """A service with a certificate, and clients that know who signed it."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self.authority = trustme.CA()
        self.ca = directory / "ca.pem"
        self.certificate, self.key = directory / "server.pem", directory / "server.key"
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.renew()
        tls = {"certificate": str(self.certificate), "key": str(self.key), "ca": str(self.ca)}
        self.service = Service(directory / "data", tls=tls, peer_listen=("127.0.0.1", 0), **settings)

    def renew(self) -> None:
        issued = self.authority.issue_cert("127.0.0.1", "localhost", common_name="localhost")
        issued.private_key_pem.write_to_path(str(self.key))
        issued.cert_chain_pems[0].write_to_path(str(self.certificate))

    def files(self, name: str) -> TlsFiles:
        path = self.ca.parent / f"{name}.pem"
        self.authority.issue_cert(name, common_name=name).private_key_and_cert_chain_pem.write_to_path(str(path))
        return TlsFiles(certificate=str(path), ca=str(self.ca))

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))

    def plain(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.service.port), timeout=30)

    def connect(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        return (context or self.context()).wrap_socket(self.plain(), server_hostname="localhost")

    def raw(self, data: bytes) -> bytes:
        with self.connect() as connection:
            connection.sendall(data)
            return read_all(connection)

    def serial(self) -> object:
        """Of the certificate that a new connection is shown."""
        with self.connect() as connection:
            certificate = connection.getpeercert()
            assert certificate is not None
            return certificate["serialNumber"]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    times = {"handshake_ms": 300, "header_ms": 300, "body_ms": 300, "stalled_ms": 300}
    made = Secure(tmp_path_factory.mktemp("secure"), access={"look_ms": 50}, **times)
    with made.service:
        yield made


def test_requests_and_versions(secure: Secure) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = secure.context()
        context.minimum_version = context.maximum_version = version
        connection = http.client.HTTPSConnection("localhost", secure.service.port, timeout=30, context=context)
        for _ in range(2):  # on one connection
            connection.request("POST", "/v1/documents", b"<a/>")
            response = connection.getresponse()
            assert response.status == 201 and response.read()
        connection.close()
    files = TlsFiles(certificate=str(secure.certificate), key=str(secure.key))
    assert https_context(files).minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_handshake_that_never_ends(secure: Secure) -> None:
    """Without a deadline of ours it would have a minute, twice as long as this test waits."""
    for beginning in (b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"):
        with secure.plain() as connection:
            connection.sendall(beginning)
            assert read_all(connection) == b""


def test_no_tls_at_all(secure: Secure) -> None:
    with secure.plain() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n")
        assert b"HTTP" not in read_all(connection)


def test_deadlines_after_the_handshake(secure: Secure) -> None:
    assert secure.raw(HEAD + b"Slow: ").startswith(b"HTTP/1.1 408")
    assert secure.raw(HEAD + b"Content-Length: 100\r\n\r\n<a>").startswith(b"HTTP/1.1 408")
    assert secure.raw(b"") == b""
    assert secure.raw(b"no HTTP\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_a_reader_that_does_not_read(secure: Secure) -> None:
    def ask(method: str, path: str, body: bytes = b"") -> bytes:
        connection = http.client.HTTPSConnection("localhost", secure.service.port, timeout=30, context=secure.context())
        connection.request(method, path, body)
        answer = connection.getresponse().read()
        connection.close()
        return answer

    ask("PUT", "/v1/subscriptions/stalled", b'{"query": "/stalled"}')
    with secure.plain() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        with secure.context().wrap_socket(plain, server_hostname="localhost") as reader:
            reader.sendall(b"GET /v1/events?subscription=stalled HTTP/1.1\r\n\r\n")
            eventually(lambda: b"treecast_http_streams 1.0" in ask("GET", "/metrics"))
            body = b"<stalled>" + b"x" * 900_000 + b"</stalled>"
            while b"treecast_http_streams 1.0" in ask("GET", "/metrics"):
                ask("POST", "/v1/documents", body)


def test_connections_count_from_their_first_moment(tmp_path: Path) -> None:
    """Also those whose handshake has not begun."""
    made = Secure(tmp_path, connections_max=5, handshake_ms=25_000)
    with made.service:
        connections = [made.plain() for _ in range(8)]
        assert [read_all(connection) for connection in connections[5:]] == [b""] * 3
        for connection in connections[:5]:
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)
            connection.close()
        eventually(lambda: _is_served(made))
        assert made.service.end()[0] == 0


def _is_served(made: Secure) -> bool:
    try:
        return made.raw(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def test_a_certificate_is_renewed(secure: Secure) -> None:
    """Connections that are open stay open."""
    before = secure.serial()
    with secure.connect() as connection:
        secure.renew()
        eventually(lambda: secure.serial() != before)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 200")


def test_a_certificate_is_renewed_when_asked(tmp_path: Path) -> None:
    made = Secure(tmp_path, access={"look_ms": 3_600_000})
    with made.service:
        before = made.serial()
        made.key.write_text("no key")  # half of it: the old one stays
        made.service.tell(signal.SIGHUP)
        assert made.serial() == before
        made.renew()
        assert made.serial() == before
        made.service.tell(signal.SIGHUP)
        eventually(lambda: made.serial() != before)
        status, logs = made.service.end()
        assert status == 0 and logs.count("the certificate is as before") == 1 and "TC409" in logs


def test_peers_show_certificates(secure: Secure) -> None:
    address = ":".join(secure.service.peers)

    async def run() -> None:
        tls = secure.files("alice")
        async with Connection(address.replace("127.0.0.1", "localhost"), "alice", tls=tls) as alice:
            assert await alice.publish("default", [b"<a/>"])
        with pytest.raises(TransportError):
            async with Connection(address, "alice", tls=TlsFiles(ca=str(secure.ca)), connect_s=0.7):
                pass

    asyncio.run(run())


def test_it_stops(secure: Secure) -> None:
    with secure.plain():  # in its handshake
        status, logs = secure.service.end()
    # A look between the new key and its certificate, above, finds two that do not fit, and says so.
    assert status == 0 and [line for line in logs.splitlines() if "the certificate is as before" not in line] == []
