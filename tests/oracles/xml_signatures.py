"""XML signatures around documents, for verifiers that are not ours: signxml, and xmlsec1 where it is installed.

A signature's references name parts of a document *where they stand*, below ancestors that a subscriber does not see.
Their digests are those of the bytes that a subscriber has, so a verifier accepts the signature only if these bytes are
what it gets itself: by Exclusive C14N, and, where subtrees are excluded, by a filter that subtracts them.
"""

from __future__ import annotations

import hmac
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

from signxml.algorithms import SignatureMethod
from signxml.exceptions import SignXMLException
from signxml.verifier import SignatureConfiguration, XMLVerifier

KEY = b"a key for tests"
LEFT_OUT = "signatures by xmlsec1: it is not installed (Debian: xmlsec1)"
DS = "http://www.w3.org/2000/09/xmldsig#"
EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#"
FILTER = "http://www.w3.org/2002/06/xmldsig-filter2"


def sign(
    document: str, parts: Mapping[str, bytes], canonical: Callable[[bytes], bytes], *, subtract: str = ""
) -> bytes:
    """A signature that contains a document and covers parts of it, by their xml:id. Comments count if they are there.

    `canonical` makes the bytes of SignedInfo, which are signed: that form is judged as well.
    """
    references = "".join(_reference(name, data, subtract) for name, data in parts.items())
    whole = (
        f"<ds:Signature xmlns:ds='{DS}'><ds:SignedInfo><ds:CanonicalizationMethod Algorithm='{EXCLUSIVE}'/>"
        f"<ds:SignatureMethod Algorithm='http://www.w3.org/2001/04/xmldsig-more#hmac-sha256'/>{references}</ds:SignedInfo>"
        f"<ds:SignatureValue>VALUE</ds:SignatureValue><ds:Object>{document}</ds:Object></ds:Signature>"
    )
    value = b64encode(hmac.digest(KEY, canonical(whole.encode()), "sha256"))
    return whole.encode().replace(b"VALUE", value, 1)


def _reference(name: str, data: bytes, subtract: str) -> str:
    xpath = f"<XPath xmlns='{FILTER}' Filter='subtract'>{subtract}</XPath>"
    filters = f"<ds:Transform Algorithm='{FILTER}'>{xpath}</ds:Transform>"
    pointer = f"#xpointer(id('{name}'))" if b"<!--" in data else f"#{name}"
    form = EXCLUSIVE + "WithComments" * (b"<!--" in data)
    return (
        f'<ds:Reference URI="{pointer}"><ds:Transforms>{filters if subtract else ""}<ds:Transform Algorithm="{form}"/>'
        "</ds:Transforms><ds:DigestMethod Algorithm='http://www.w3.org/2001/04/xmlenc#sha256'/>"
        f"<ds:DigestValue>{b64encode(sha256(data).digest()).decode()}</ds:DigestValue></ds:Reference>"
    )


def is_valid_to_signxml(signature: bytes, references: int) -> bool:
    configuration = SignatureConfiguration(
        require_x509=False, expect_references=references, signature_methods=frozenset({SignatureMethod.HMAC_SHA256})
    )
    try:
        XMLVerifier().verify(signature, hmac_key=KEY, expect_config=configuration)
    except SignXMLException:
        return False
    return True


def has_xmlsec1() -> bool:
    return shutil.which("xmlsec1") is not None


def is_valid_to_xmlsec1(signature: bytes, directory: Path) -> bool:
    (directory / "signature.xml").write_bytes(signature)
    (directory / "key").write_bytes(KEY)
    process = subprocess.run(
        ["xmlsec1", "verify", "--hmackey", str(directory / "key"), str(directory / "signature.xml")],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert process.returncode in (0, 1), process.stderr
    return process.returncode == 0
