"""Secrets and signatures of Standard Webhooks: HMAC-SHA256 over id, time and body, one for each secret.

>>> secret = parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
>>> sign([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable

from treecast.serve.doors.problems import DoorError

PREFIX = "whsec_"
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64
SECRET_CHARS_MAX = 200
_MADE_BYTES = 32


def make_secret() -> bytes:
    return secrets.token_bytes(_MADE_BYTES)


def format_secret(secret: bytes) -> str:
    return PREFIX + base64.b64encode(secret).decode()


def parse_secret(text: str) -> bytes:
    """The bytes of a secret as people hand it around. Raises DoorError TC442, which does not repeat it."""
    hint = f"{PREFIX} and the base64 of {SECRET_BYTES_MIN}-{SECRET_BYTES_MAX} random bytes; or leave it out"
    wrong = DoorError("the secret cannot be used", code="TC442", hint=hint)
    if not text.startswith(PREFIX) or len(text) > SECRET_CHARS_MAX:
        raise wrong
    try:
        secret = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise wrong from None
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise wrong
    return secret


def sign(keys: Iterable[bytes], id: str, timestamp_s: int, body: bytes) -> str:
    """The header `webhook-signature`: whoever knows one of the secrets finds its signature in it."""
    content = b"%s.%d.%s" % (id.encode(), timestamp_s, body)
    digests = (hmac.new(key, content, hashlib.sha256).digest() for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
