"""TLS between peers: contexts from files.

A broker has a certificate and a key. If it has a CA for clients too, each client must show a certificate of that CA,
and its name must be in it: then nobody can act as somebody else.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec

from treecast.serve.transport_error import TransportError, reason_of


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of PEM files. A server needs `certificate`; a client needs `ca`, unless the system knows the server's."""

    certificate: str = ""
    key: str = ""
    """Empty: the key is in the file of the certificate."""
    ca: str = ""
    """Who signs the certificates of the other side."""


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """For a broker. With a CA, clients have to show a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if not files.certificate:
        raise TransportError("a broker with TLS needs a certificate", code="TC409", hint="name its PEM file")
    _load(context, files)
    if files.ca:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def https_context(files: TlsFiles) -> ssl.SSLContext:
    """For HTTP, where clients have tokens instead of certificates. TLS 1.2 is for those that nobody here wrote."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(context, TlsFiles(certificate=files.certificate, key=files.key))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """For a client: it checks the server's certificate and name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not files.ca:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    _load(context, files)
    return context


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    names = [name for name in (files.certificate, files.key, files.ca) if name]
    if missing := [name for name in names if not Path(name).is_file()]:
        raise _unusable(missing, "there is no such file")
    if files.certificate:
        own = [name for name in (files.certificate, files.key) if name]
        try:
            context.load_cert_chain(files.certificate, files.key or None)
        except (OSError, ssl.SSLError) as error:  # SSLError is an OSError, but names no file
            raise _unusable(own, _reason(error, "a certificate or its key is missing there")) from None
    if files.ca:
        try:
            context.load_verify_locations(files.ca)
        except (OSError, ssl.SSLError) as error:
            raise _unusable([files.ca], _reason(error, "there is no certificate in it")) from None


def _reason(error: OSError, otherwise: str) -> str:
    """OpenSSL's own words are for those who know it."""
    if not isinstance(error, ssl.SSLError):
        return reason_of(error)
    return "the key does not belong to the certificate" if error.reason == "KEY_VALUES_MISMATCH" else otherwise


def _unusable(names: list[str], what: str) -> TransportError:
    hint = "PEM files are wanted: certificate, key, CA"
    return TransportError(f"TLS cannot be used with {', '.join(names)}: {what}", code="TC409", hint=hint)


def certificate_names(certificate: dict[str, Any] | None) -> list[str]:
    """The names that a certificate is for: common names, DNS names and IP addresses."""
    if not certificate:
        return []
    subject: Iterable[Any] = certificate.get("subject", ())
    common = [value for part in subject for field, value in part if field == "commonName"]
    alternatives: Iterable[Any] = certificate.get("subjectAltName", ())
    other = [value for kind, value in alternatives if kind == "DNS"]
    # A peer of a ring is named after its host, which mostly has an address only.
    hosts = [_host(value) for kind, value in alternatives if kind == "IP Address"]
    return list(dict.fromkeys([*common, *other, *hosts]))


def own_name(path: str) -> str:
    """The first name in a certificate (a PEM file), which its client may use. Empty if it has none, or if it cannot be
    read: whoever connects with it gets to know why."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        certificate = x509.load_pem_x509_certificate(Path(path).read_bytes())
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        if common:
            return str(common[0].value)
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return next(iter(alternatives.get_values_for_type(x509.DNSName)), "")
    except (OSError, ValueError, x509.InvalidVersion, x509.ExtensionNotFound, x509.DuplicateExtension):
        return ""


def _host(text: str) -> str:
    """An address as people write it: Python gives those of IPv6 in full."""
    try:
        return str(ip_address(text.strip()))
    except ValueError:
        return text
