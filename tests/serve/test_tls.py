"""TLS: both sides show certificates, and a client's name is that of its certificate."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme
from support.served_broker import served, stranger

from treecast.serve.client import Connection
from treecast.serve.settings import RuntimeSettings
from treecast.serve.tls import TlsFiles, certificate_names, client_context, own_name, server_context
from treecast.serve.transport_error import TransportError

pytestmark = pytest.mark.house


class Certificates:
    """A CA, and what it has signed, as files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = trustme.CA()
        self.ca = str(directory / f"{id(self)}-ca.pem")
        self._authority.cert_pem.write_to_path(self.ca)

    def files(self, name: str) -> TlsFiles:
        path = self._directory / f"{id(self)}-{name}.pem"
        self._authority.issue_cert(name, common_name=name).private_key_and_cert_chain_pem.write_to_path(path)
        return TlsFiles(certificate=str(path), ca=self.ca)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("theirs"))


def test_both_sides_know_each_other(tmp_path: Path, ours: Certificates) -> None:
    async def run() -> None:
        async with (
            served(tmp_path, tls=ours.files("localhost")) as box,
            box.connect("alice", tls=ours.files("alice")) as alice,
        ):
            await alice.register_source("s")
            assert await alice.publish("s", [b"<a/>"]) == [1]

    asyncio.run(run())


def test_who_has_the_wrong_certificate_or_none_is_refused(
    tmp_path: Path, ours: Certificates, theirs: Certificates
) -> None:
    async def refused(address: str, name: str, tls: TlsFiles | None, why: str, hint: str = "") -> None:
        with pytest.raises(TransportError, match=why) as caught:
            async with Connection(address, name, tls=tls, connect_s=0.7):
                pass
        assert caught.value.code == "TC407"
        assert str(caught.value).count("hint: ") == 1 and hint in caught.value.hint

    async def run() -> None:
        async with served(tmp_path, RuntimeSettings(handshake_ms=500), tls=ours.files("localhost")) as box:
            alice = ours.files("alice")
            await refused(box.address, "alice", TlsFiles(ca=ours.ca), "certificate required")  # none
            stolen = TlsFiles(certificate=theirs.files("alice").certificate, ca=ours.ca)
            await refused(box.address, "alice", stolen, "certificates of both sides")  # of another CA
            mistaken = "TC601 this client may not call itself 'bob'"
            await refused(box.address, "bob", alice, mistaken, hint="its certificate is for alice")
            await refused(
                box.address, "alice", TlsFiles(certificate=alice.certificate, ca=theirs.ca), "CERTIFICATE_VERIFY"
            )
            await refused(box.address, "alice", None, "no connection")  # no TLS at all
            assert box.metric("connections") == 0
            async with box.connect("alice", tls=alice):
                pass

    asyncio.run(run())


def test_a_server_with_another_name_is_refused(tmp_path: Path, ours: Certificates) -> None:
    async def run() -> None:
        async with served(tmp_path, tls=ours.files("elsewhere")) as box:
            with pytest.raises(TransportError, match="CERTIFICATE_VERIFY"):
                async with box.connect("alice", tls=ours.files("alice")):
                    pass

    asyncio.run(run())


def test_old_versions_of_tls_are_refused(tmp_path: Path, ours: Certificates) -> None:
    async def run() -> None:
        async with served(tmp_path, tls=ours.files("localhost")) as box:
            context = client_context(ours.files("alice"))
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await stranger(box.address, ssl=context)

    asyncio.run(run())


def test_files_that_cannot_be_used_are_named(tmp_path: Path, ours: Certificates) -> None:
    (tmp_path / "text.pem").write_text("no certificate")
    alice, bob = ours.files("alice").certificate, ours.files("bob").certificate
    for files, why in (
        (TlsFiles(), "needs a certificate"),
        (TlsFiles(certificate=str(tmp_path / "missing.pem")), "missing.pem: there is no such file"),
        (TlsFiles(certificate=str(tmp_path / "text.pem")), "text.pem: a certificate or its key is missing there"),
        (TlsFiles(certificate=alice, key=bob), "the key does not belong to the certificate"),
        (TlsFiles(certificate=alice, ca=str(tmp_path / "text.pem")), "text.pem: there is no certificate in it"),
    ):
        with pytest.raises(TransportError, match=why) as caught:
            server_context(files)
        assert caught.value.code == "TC409"


def test_names_of_a_certificate() -> None:
    certificate = {
        "subject": ((("commonName", "alice"),),),
        "subjectAltName": (("DNS", "alice"), ("DNS", "a.example"), ("IP Address", "0:0:0:0:0:0:0:1")),
    }
    assert certificate_names(certificate) == ["alice", "a.example", "::1"]
    assert certificate_names(None) == []


def test_the_own_name_of_a_client(tmp_path: Path, ours: Certificates) -> None:
    assert own_name(ours.files("alice").certificate) == "alice"
    unnamed, text = tmp_path / "unnamed.pem", tmp_path / "text.pem"
    trustme.CA().issue_cert("a.example", "b.example").private_key_and_cert_chain_pem.write_to_path(str(unnamed))
    text.write_text("no certificate")
    assert own_name(str(unnamed)) == "a.example", "without a common name"
    assert own_name(str(text)) == own_name(str(tmp_path / "missing.pem")) == ""
