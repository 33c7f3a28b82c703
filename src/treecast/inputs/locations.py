"""Files wherever they lie: this machine, S3, Google's and Azure's stores, HDFS. The only file that knows their schemes.

    with open_file("s3a://bucket/dblp.xml", Storage({"fs.s3a.endpoint": "http://127.0.0.1:9000"})) as file:
        file.seek(1 << 30)

A path without a scheme, and `file:`, is of this machine; `dbfs:/x` is what Databricks mounts as `/dbfs/x`. The others
are read by `pyarrow.fs`, HDFS by the package hdfs-native, in ranges of 8 MiB.

Spark's Python workers cannot ask the JVM for ranges of a file, nor for the credentials that it found. So settings
travel under the names that Hadoop gives them, and become those of `pyarrow.fs` here. What is not set is found as the
vendor's own tools find it: environment, profile, web identity, the instance. A setting that only Java can follow is
refused (TC711): ignoring it would read as somebody else.

Codes: TC710 a scheme that is not read, TC711 a setting that cannot be followed.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from treecast.errors import PipelineError
from treecast.extras import install_command

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

READ_AHEAD_BYTES = 8 << 20
SCHEMES = ("s3a", "s3", "s3n", "gs", "abfss", "abfs", "hdfs")
PREFIXES = ("fs.s3a.", "fs.gs.", "fs.azure.", "dfs.", "fs.defaultFS", "hadoop.security.")
"""Of the settings that decide how these are read."""

KEYS = ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token")
"""Those that may lie in a key store in place of a setting."""

_PROVIDERS_FOLLOWED = re.compile(
    r"(Simple|Temporary)AWSCredentialsProvider$|EnvironmentVariableCredentialsProvider$|ProfileCredentialsProvider$"
    r"|(IAM)?InstanceCredentialsProvider$|InstanceProfileCredentialsProvider$|WebIdentityTokenFileCredentialsProvider$"
    r"|AssumedRoleCredentialProvider$|DefaultCredentialsProvider$|DefaultAWSCredentialsProviderChain$"
)
_ANONYMOUS = re.compile(r"AnonymousAWSCredentialsProvider$")


@dataclass(frozen=True, repr=False)
class Storage:
    """Settings of file systems, under Hadoop's names. They hold keys, so `repr` shows the names alone."""

    pairs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Storage:
        """Those of the settings that say how files are reached."""
        return cls(tuple(sorted((name, text) for name, text in settings.items() if name.startswith(PREFIXES))))

    def __repr__(self) -> str:
        return f"Storage({', '.join(name for name, _ in self.pairs)})"


LOCAL = Storage()


Listed = tuple[str, int, int]
"""Path, bytes and time of the last change, in nanoseconds, of a file elsewhere."""


def is_remote(path: str) -> bool:
    """Whether the path is one of a file system that this module reaches over a network."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.lower() in SCHEMES


def local_name(path: str) -> str:
    """The path as this machine names it; of a URL of a file, what it names. Raises PipelineError (TC710) for others."""
    if not path:
        raise PipelineError("a path is empty", code="TC710", hint="name a file, a directory or a pattern")
    scheme, _, rest = path.partition(":")
    if rest.startswith("/") and scheme.lower() == "file":
        return unquote(urlsplit(path).path)
    if rest.startswith("/") and scheme.lower() == "dbfs":
        return "/dbfs/" + unquote(rest).lstrip("/")
    if rest.startswith("//"):
        hint = f"the schemes that are read: file, dbfs, {', '.join(SCHEMES)}; any other has to be copied or mounted"
        raise PipelineError(f"{path} is on no file system that treecast reads", code="TC710", hint=hint)
    return path


def open_file(path: str, storage: Storage = LOCAL) -> BinaryIO:
    """The file, open for reading and seeking. Raises OSError where it cannot be opened."""
    if not is_remote(path):
        return Path(path).open("rb")
    system, name = filesystem(path, storage)
    # It lacks lines and the like, which no reader of documents asks for.
    return cast("BinaryIO", _ReadAhead(system.open_input_file(name)))


class _ReadAhead:
    """A file that is read in large ranges: each costs a request."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._size = int(file.size())
        self._buffer = b""
        self._at = 0
        """Where in the buffer the next byte is."""
        self._end = 0
        """Where in the file the buffer ends."""

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            size = max(0, self._size - self.tell())
        pieces: list[bytes] = []
        while size > 0:
            if self._at == len(self._buffer):
                if self._end >= self._size:
                    break
                self._buffer, self._at = self._file.read_at(max(READ_AHEAD_BYTES, size), self._end), 0
                if not self._buffer:
                    raise OSError(errno.EIO, "it ends before the size that the store says")
                self._end += len(self._buffer)
            piece = self._buffer[self._at : self._at + size]
            pieces.append(piece)
            self._at += len(piece)
            size -= len(piece)
        return b"".join(pieces)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        base = (0, self.tell(), self._size)[whence]
        begin = self._end - len(self._buffer)
        target = base + offset
        if target < 0:
            raise OSError(errno.EINVAL, "a place before the beginning of the file")
        if begin <= target <= self._end:
            self._at = target - begin
        else:
            self._buffer, self._at, self._end = b"", 0, target
        return target

    def tell(self) -> int:
        return self._end - len(self._buffer) + self._at

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> _ReadAhead:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def look(path: str, storage: Storage = LOCAL) -> Listed | None:
    """The remote file as it is now; None where there is none."""
    from pyarrow.fs import FileType

    system, name = filesystem(path, storage)
    (info,) = system.get_file_info([name])
    return _file_of(_base(path), info) if info.type == FileType.File else None


def walk(path: str, storage: Storage = LOCAL) -> Iterator[Listed]:
    """The files below a directory elsewhere, in no order."""
    from pyarrow.fs import FileSelector, FileType

    system, name = filesystem(path, storage)
    for info in system.get_file_info(FileSelector(name, recursive=True, allow_not_found=True)):
        if info.type == FileType.File:
            yield _file_of(_base(path), info)


def _file_of(base: str, info: FileInfo) -> Listed:
    return f"{base}{info.path}", info.size, info.mtime_ns or 0


def _base(path: str) -> str:
    """What stands before the name that `filesystem` gives, in the paths of what is listed."""
    parts = urlsplit(path)
    return (
        f"{parts.scheme}://"
        if parts.scheme.lower() in ("s3a", "s3", "s3n", "gs")
        else f"{parts.scheme}://{parts.netloc}"
    )


def filesystem(path: str, storage: Storage = LOCAL) -> tuple[FileSystem, str]:
    """The file system of a remote path, and its name there. Names are taken literally: no `%20` means a space."""
    scheme, _, rest = path.partition("://")
    authority, _, name = rest.partition("/")
    scheme = scheme.lower()
    system = _open(scheme, authority, storage)
    if scheme in ("s3a", "s3", "s3n", "gs"):
        return system, f"{authority}/{name}".rstrip("/")
    if scheme.startswith("abfs"):
        return system, f"{authority.partition('@')[0]}/{name}".rstrip("/")
    return system, f"/{name}"


@lru_cache(maxsize=32)
def _open(scheme: str, authority: str, storage: Storage) -> FileSystem:
    settings = dict(storage.pairs)
    if scheme in ("s3a", "s3", "s3n"):
        return _s3(authority, settings)
    if scheme == "gs":
        return _gs(settings)
    if scheme == "hdfs":
        return _hdfs(authority, settings)
    return _azure(authority, settings)


def _unfollowed(name: str, hint: str) -> PipelineError:
    return PipelineError(f"the setting {name} cannot be followed outside Java", code="TC711", hint=hint)


def _s3(bucket: str, settings: Mapping[str, str]) -> FileSystem:
    from pyarrow.fs import S3FileSystem

    def setting(name: str) -> str | None:
        return settings.get(f"fs.s3a.bucket.{bucket}.{name}") or settings.get(f"fs.s3a.{name}") or None

    algorithm = (setting("encryption.algorithm") or setting("server-side-encryption-algorithm") or "").upper()
    if algorithm == "SSE-C" or algorithm.startswith("CSE"):
        raise _unfollowed(
            "fs.s3a.encryption.algorithm", "objects that the client decrypts are read by Spark's own formats"
        )
    providers = [name.strip() for name in (setting("aws.credentials.provider") or "").split(",") if name.strip()]
    is_anonymous = bool(providers) and _ANONYMOUS.search(providers[0]) is not None
    # The default list of Hadoop names providers that are followed; one that is not is somebody's own class.
    for provider in providers:
        if not _PROVIDERS_FOLLOWED.search(provider) and not _ANONYMOUS.search(provider):
            hint = (
                f"{provider} is a class of Java: give fs.s3a.access.key and fs.s3a.secret.key, or use the environment"
            )
            raise _unfollowed("fs.s3a.aws.credentials.provider", hint)
    # pyarrow looks for keys in the environment, but not for this.
    endpoint = setting("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    scheme = "http" if (setting("connection.ssl.enabled") or "true").lower() == "false" else "https"
    if endpoint and "://" in endpoint:
        scheme, _, endpoint = endpoint.partition("://")
    keys: dict[str, Any] = {}
    if not is_anonymous and setting("access.key"):
        keys = {"access_key": setting("access.key"), "secret_key": setting("secret.key")}
        if setting("session.token"):
            keys["session_token"] = setting("session.token")
    elif not is_anonymous and setting("assumed.role.arn"):
        keys = {"role_arn": setting("assumed.role.arn")}
    return S3FileSystem(
        anonymous=is_anonymous,
        region=setting("endpoint.region"),
        endpoint_override=endpoint and endpoint.rstrip("/"),
        scheme=scheme,
        **keys,
    )


def _gs(settings: Mapping[str, str]) -> FileSystem:
    from pyarrow.fs import GcsFileSystem

    for name in ("fs.gs.auth.service.account.json.keyfile", "google.cloud.auth.service.account.json.keyfile"):
        if settings.get(name):
            raise _unfollowed(name, "let GOOGLE_APPLICATION_CREDENTIALS name that file, on all machines")
    options: dict[str, Any] = {"anonymous": settings.get("fs.gs.auth.type", "").upper() == "UNAUTHENTICATED"}
    root = settings.get("fs.gs.storage.root.url")
    if root:
        options["scheme"], _, host = root.rstrip("/").partition("://")
        options["endpoint_override"] = host
    return GcsFileSystem(**options)


def _azure(authority: str, settings: Mapping[str, str]) -> FileSystem:
    from pyarrow.fs import AzureFileSystem

    host = authority.rpartition("@")[2]
    account = host.partition(".")[0]

    def setting(name: str) -> str | None:
        return settings.get(f"{name}.{host}") or settings.get(name) or None

    kind = (setting("fs.azure.account.auth.type") or "SharedKey").lower()
    if kind == "oauth" and not (setting("fs.azure.account.oauth.provider.type") or "").endswith("MsiTokenProvider"):
        raise _unfollowed("fs.azure.account.oauth.provider.type", "give an account key or a fixed SAS token instead")
    if kind == "sas" or setting("fs.azure.sas.fixed.token"):
        return AzureFileSystem(account, sas_token=setting("fs.azure.sas.fixed.token"))
    key = setting("fs.azure.account.key")
    return AzureFileSystem(account, account_key=key) if key else AzureFileSystem(account)


def _hdfs(authority: str, settings: Mapping[str, str]) -> FileSystem:
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        from hdfs_native.fsspec import HdfsFileSystem
    except ImportError:
        message, hint = "HDFS is read by the package hdfs-native", f"{install_command('hdfs')}, on all machines"
        raise PipelineError(message, code="TC701", hint=hint) from None
    url = f"hdfs://{authority}" if authority else settings.get("fs.defaultFS", "hdfs://")
    host, _, port = url.removeprefix("hdfs://").partition(":")

    class TimedHdfs(HdfsFileSystem):
        """With the time of the last change under the name that pyarrow looks for, in seconds."""

        def _convert_file_status(self, file_status: Any) -> dict[str, Any]:
            row: dict[str, Any] = super()._convert_file_status(file_status)
            return {**row, "mtime": row["modification_time"] / 1_000}

    options = {name: text for name, text in settings.items() if name.startswith(("dfs.", "fs.", "hadoop."))}
    return PyFileSystem(FSSpecHandler(TimedHdfs(host or None, int(port) if port else None, **options)))
