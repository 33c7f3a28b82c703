"""Which files a path means: files, directories, globs, and what is in them by their names.

    found = find(["/data/in"], pattern="*.xml")      # sorted by path, each with its size and time of change

Files whose names begin with "." or "_" are left out of directories, as Spark does. The pattern is about the names of
documents: `a.xml.gz` is taken for `a.xml`, and archives are always looked into.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote, urlsplit

from treecast.errors import PipelineError

ARCHIVES = {
    ".zip": "zip",
    ".tar": "tar",
    ".tar.gz": "tar.gz",
    ".tgz": "tar.gz",
    ".tar.bz2": "tar.bz2",
    ".tbz2": "tar.bz2",
    ".tar.xz": "tar.xz",
    ".txz": "tar.xz",
}
_MAGIC = frozenset("*?[")


@dataclass(frozen=True, order=True)
class Found:
    """A file as it was when it was listed."""

    path: str
    bytes: int
    mtime_ns: int


def kind_of(name: str) -> str:
    """ "zip", "tar" and its compressed forms, "gz", or "plain", told by the name alone."""
    lower = name.lower()
    for suffix, kind in ARCHIVES.items():
        if lower.endswith(suffix):
            return kind
    return "gz" if lower.endswith(".gz") else "plain"


def fits(name: str, pattern: str) -> bool:
    """Whether the name of a document, compressed or not, fits the pattern."""
    base = name.rsplit("/", 1)[-1]
    return fnmatchcase(base, pattern) or (kind_of(base) == "gz" and fnmatchcase(base[:-3], pattern))


def find(paths: Sequence[str], pattern: str = "*") -> list[Found]:
    """All files, each once, sorted. Raises PipelineError (TC710) where a path is nothing or nowhere."""
    found: dict[str, Found] = {}
    for path in paths:
        for file in walk(path, pattern):
            found[file.path] = file
    return [found[path] for path in sorted(found)]


def walk(path: str, pattern: str = "*", *, empty_glob: bool = False) -> Iterator[Found]:
    """The files that one path means, in no order. A path that is there is taken literally, stars and all."""
    for start in _starts(path, empty_glob):
        if Path(start).is_dir():
            yield from _walk_directory(start, pattern)
        elif (file := look(start)) is not None:
            yield file


def check_there(path: str, *, empty_glob: bool) -> None:
    """Raise PipelineError (TC710) unless there is such a path; a glob may be one that nothing fits yet."""
    for _ in _starts(path, empty_glob):
        return


def _starts(path: str, empty_glob: bool) -> Iterator[str]:
    local = local_path(path)
    if Path(local).exists():
        yield local
    elif not _MAGIC & set(local):
        raise PipelineError(f"there is no file or directory {path}", code="TC710", hint="check the spelling")
    else:
        fitting = False
        for start in glob.iglob(local, recursive=True):  # noqa: PTH207 - Path.glob finds no files by **
            fitting = True
            yield start
        if not fitting and not empty_glob:
            raise PipelineError(f"nothing fits {path}", code="TC710", hint="check the directory and the pattern")


def glob_base(path: str) -> str:
    """The directory that a path is in, or begins with where it is a glob."""
    local = Path(local_path(path))
    if local.exists():
        return str(local if local.is_dir() else local.parent)
    while _MAGIC & set(str(local)):
        local = local.parent
    return str(local)


def local_path(path: str) -> str:
    """An absolute path of the local file system. Raises PipelineError for any other."""
    if not path:
        raise PipelineError("a path is empty", code="TC710")
    scheme, _, rest = path.partition(":")
    if rest.startswith("/") and scheme.lower() == "file":
        return unquote(urlsplit(path).path)
    if rest.startswith("//"):
        raise PipelineError(
            f"{path} is not on a local or mounted file system",
            code="TC710",
            hint='read it with spark.read.format("binaryFile"), and rename content to document and path to file',
        )
    return str(Path(path).expanduser().absolute())


def look(path: str) -> Found | None:
    """The file as it is now; None where it is none, or has gone."""
    try:
        about = Path(path).stat()
    except OSError:
        return None
    return Found(path, about.st_size, about.st_mtime_ns) if stat.S_ISREG(about.st_mode) else None


def _walk_directory(directory: str, pattern: str) -> Iterator[Found]:
    seen: set[tuple[int, int]] = set()  # directories, so that links in a circle end
    for parent, names, files in os.walk(directory, followlinks=True):
        about = Path(parent).stat()
        if (about.st_dev, about.st_ino) in seen:
            names.clear()
            continue
        seen.add((about.st_dev, about.st_ino))
        names[:] = [name for name in names if not name.startswith((".", "_"))]
        for name in files:
            if name.startswith((".", "_")) or not (kind_of(name) in ARCHIVES.values() or fits(name, pattern)):
                continue
            file = look(f"{parent}/{name}")
            if file is not None:
                yield file
