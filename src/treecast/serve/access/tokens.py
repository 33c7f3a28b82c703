"""The file of tokens: made, listed and revoked here, by the command line, whether the service runs or not.

    store = TokenStore(Path("news-data"))
    token, text = store.create(["publish:news"], description="the wire")    # text is shown once, and never stored
    store.revoke([token.id])

A token reads `tc_<id>_<secret>`. The file has the SHA-256 of the secret; that is enough, because secrets are drawn, and
far too many to be tried. Whoever changes the file holds a lock on its directory, so no change is lost.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from treecast import durable
from treecast.serve.access.refusals import AccessRefusedError
from treecast.serve.access.scopes import Scopes
from treecast.serve.access.settings import AccessSettings
from treecast.serve.connection import now_ms

FILE = "tokens.json"
FORMAT, VERSION = "treecast tokens", 1
ID_BYTES, SECRET_BYTES = 6, 24
TEXT = re.compile(rf"tc_([0-9a-f]{{{2 * ID_BYTES}}})_([0-9a-f]{{{2 * SECRET_BYTES}}})")
ID = re.compile(rf"[0-9a-f]{{{2 * ID_BYTES}}}")
HASH = re.compile(r"[0-9a-f]{64}")
DESCRIPTION_CHARS_MAX = 500


class TokenLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """0 is no limit beyond those of the service."""

    documents_per_second: int = 0
    bytes_per_second: int = 0
    document_bytes_max: int = 0
    subscriptions_max: int = 0
    streams_max: int = 0


class Token(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One token. `hash` is the SHA-256 of its secret; `expires_ms` 0 is never."""

    id: str
    hash: str
    scopes: tuple[str, ...]
    created_ms: int
    expires_ms: int = 0
    limits: TokenLimits = TokenLimits()
    description: str = ""


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    version: int
    tokens: list[Token]


def hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


class TokenStore:
    """The tokens of one data directory."""

    def __init__(self, directory: Path, settings: AccessSettings | None = None) -> None:
        self.path = directory / FILE
        self._settings = settings or AccessSettings()

    # --- reading ------------------------------------------------------------------------------------------------------

    def signature(self) -> tuple[int, int, int] | None:
        """Differs when the file has changed; None if there is none."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def read(self) -> dict[str, Token] | None:
        """By their ids; None if there is no file. Raises AccessRefusedError TC606."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    raise self._unusable("others may write to it", f"chmod 600 {self.path}")
                if status.st_mode & (stat.S_IRGRP | stat.S_IROTH) and os.geteuid() in (0, status.st_uid):
                    with suppress(OSError):  # where nothing can be written, it stays as it is
                        os.fchmod(file.fileno(), 0o600)
                data = file.read(self._settings.tokens_bytes_max + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error.strerror or str(error), "check its permissions") from None
        if len(data) > self._settings.tokens_bytes_max:
            raise self._unusable(f"it has more than {self._settings.tokens_bytes_max} bytes")
        try:
            content = msgspec.json.decode(data, type=_Content)
        except (msgspec.MsgspecError, ValueError) as error:
            raise self._unusable(str(error)) from None
        if (content.format, content.version) != (FORMAT, VERSION):
            raise self._unusable(f"it is {content.format!r}, version {content.version}")
        tokens = {token.id: token for token in content.tokens}
        if len(tokens) != len(content.tokens):
            raise self._unusable("an id is there twice")
        for token in content.tokens:
            self._check(token)
        return tokens

    def _check(self, token: Token) -> None:
        if not ID.fullmatch(token.id) or not HASH.fullmatch(token.hash):
            raise self._unusable(f"the token {token.id[:50]!r} has no proper id or hash")
        try:
            check(token, self._settings)
        except AccessRefusedError as error:
            reason = str(error).partition("\n")[0].removeprefix(f"{error.code} ")
            raise self._unusable(f"the token {token.id}: {reason}") from None

    def _unusable(self, why: str, hint: str = "restore it, or remove it and make new tokens") -> AccessRefusedError:
        return AccessRefusedError(f"{self.path.name} cannot be used: {why}", code="TC606", hint=hint)

    # --- changing -----------------------------------------------------------------------------------------------------

    def create(
        self,
        scopes: Sequence[str],
        *,
        limits: TokenLimits | None = None,
        expires_ms: int = 0,
        description: str = "",
    ) -> tuple[Token, str]:
        """A new token, and the text that its holder sends. Raises AccessRefusedError TC606 or TC607."""
        secret = secrets.token_hex(SECRET_BYTES)
        token = Token(
            id=secrets.token_hex(ID_BYTES),
            hash=hash_secret(secret).hex(),
            scopes=tuple(scopes),
            created_ms=now_ms(),
            expires_ms=expires_ms,
            limits=limits or TokenLimits(),
            description=description,
        )
        check(token, self._settings)
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._changing() as tokens:
            if len(tokens) >= self._settings.tokens_max:
                raise _wrong(f"there are {len(tokens)} tokens already", "revoke those that are not used")
            tokens[token.id] = token
        return token, f"tc_{token.id}_{secret}"

    def revoke(self, ids: Sequence[str]) -> None:
        """All of them, or none. Raises AccessRefusedError TC606 or TC607."""
        if not self.path.parent.is_dir():
            raise _wrong(f"there is no directory {self.path.parent}", "name the directory of the service")
        with self._changing() as tokens:
            for id in ids:
                # Who still has the text of a token may give that.
                text = TEXT.fullmatch(id)
                if tokens.pop(text[1] if text else id, None) is None:
                    raise _wrong(f"there is no token {id[:50]!r}", "treecast token list shows those that there are")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        """The tokens, to be changed; written at the end. One process at a time."""
        descriptor = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            tokens = self.read() or {}
            yield tokens
            content = _Content(FORMAT, VERSION, list(tokens.values()))
            text = msgspec.json.format(msgspec.json.encode(content), indent=1)
            with durable.replacing(self.path, mode=0o600) as file:
                if os.geteuid() == 0:  # the service is somebody else, and has to read it
                    owner = os.fstat(descriptor)
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
                file.write(text + b"\n")
        finally:
            os.close(descriptor)


def check(token: Token, settings: AccessSettings) -> None:
    """Raises AccessRefusedError TC607."""
    if not 1 <= len(token.scopes) <= settings.scopes_per_token_max:
        raise _wrong(f"a token has 1 to {settings.scopes_per_token_max} scopes", "for example publish:news")
    Scopes.parse(token.scopes)
    for name in TokenLimits.__struct_fields__:
        if getattr(token.limits, name) < 0:
            raise _wrong(f"the limit {name} is negative", "0 is no limit")
    if len(token.description) > DESCRIPTION_CHARS_MAX:
        raise _wrong(f"a description has at most {DESCRIPTION_CHARS_MAX} characters", "")


def _wrong(message: str, hint: str) -> AccessRefusedError:
    return AccessRefusedError(message, code="TC607", hint=hint)
