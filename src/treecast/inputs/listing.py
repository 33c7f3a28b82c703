"""Which files a path means: a file, a directory with all below it, or a pattern.

    for file in list_files(["docs", "more/*.xml"]):
        print(file.path, file.bytes)

This is the one place that decides what of a directory is read, for the command line and for Spark:

- every file, unless its name begins with "." or "_", as Spark does; directories of such names are not entered;
- `pattern` chooses by name: it is about the names of documents, so `a.xml.gz` is taken for `a.xml`, and archives are
  always looked into;
- the files of a directory come before its sub-directories, both sorted by name;
- links are followed, and each directory is entered once, so that links in a circle end;
- paths elsewhere (`s3a://bucket/docs/*.xml`, `treecast.inputs.locations`) mean the same;
- what cannot be listed, or is a link to nothing, is listed with an unknown size: opening it says what is wrong.

A file given by its path is read whatever its name is. One that several paths name is read once.

Codes: TC710 a path that means nothing.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from treecast.errors import PipelineError
from treecast.inputs import locations
from treecast.inputs.locations import LOCAL, Storage, is_remote

EVERY_FILE = "*"
"""The pattern that all names fit."""
SIZE_UNKNOWN = -1
HIDDEN = (".", "_")
COMPRESSIONS = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst"}
ARCHIVES = {
    ".zip": "zip",
    ".tar": "tar",
    ".tgz": "tar.gz",
    ".tbz2": "tar.bz2",
    ".txz": "tar.xz",
    ".tzst": "tar.zst",
    **{f".tar{suffix}": f"tar.{kind}" for suffix, kind in COMPRESSIONS.items()},
}
_MAGIC = frozenset("*?[")
_GLOBS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}

Report = Callable[[str, PipelineError], None]
"""Takes a path that names no file, and why."""


@dataclass(frozen=True, order=True)
class ListedFile:
    """A file as it was when it was listed. `bytes` is SIZE_UNKNOWN for pipes, and for what could not be looked at."""

    path: str
    bytes: int
    mtime_ns: int


def kind_of(name: str) -> str:
    """What the name says is in a file: "zip", "tar", "tar.gz" and its like, "gz" and its like, or "plain"."""
    lower = name.lower()
    for suffix, kind in (ARCHIVES | COMPRESSIONS).items():
        if lower.endswith(suffix):
            return kind
    return "plain"


def is_archive(name: str) -> bool:
    """Whether the name is that of a file with members."""
    return kind_of(name).partition(".")[0] in ("zip", "tar")


def fits(name: str, pattern: str) -> bool:
    """Whether the name of a document, compressed or not, fits the pattern."""
    base = name.rsplit("/", 1)[-1]
    if fnmatchcase(base, pattern):
        return True
    return kind_of(base) in COMPRESSIONS.values() and fnmatchcase(base.rpartition(".")[0], pattern)


def list_files(
    paths: Sequence[str],
    pattern: str = EVERY_FILE,
    report: Report | None = None,
    seen: set[str] | None = None,
    storage: Storage = LOCAL,
) -> Iterator[ListedFile]:
    """The files that the paths mean, in order, each once; none of those in `seen`, which grows.

    A path that means nothing, and a directory without a document, go to `report`, and the others are listed. Without
    it, PipelineError (TC710) is raised for the former, and the latter is just empty. Of a single directory no list is
    kept, unless `seen` is given: it may hold any number of files.
    """
    if seen is None and len(paths) > 1:
        seen = set()
    for path in paths:
        try:
            is_empty = True
            for file in walk(path, pattern, storage=storage):
                is_empty = False
                if seen is not None:
                    # Path.absolute keeps ".."
                    place = file.path if is_remote(path) else os.path.abspath(file.path)  # noqa: PTH100
                    if place in seen:
                        continue
                    seen.add(place)
                yield file
            if is_empty and report is not None:
                hint = "files with names that begin with . or _ are left out; name them, or give another pattern"
                raise PipelineError("no document in this directory", code="TC710", hint=hint)
        except PipelineError as error:
            if report is None:
                raise
            report(path, error)


def walk(
    path: str, pattern: str = EVERY_FILE, *, may_be_empty: bool = False, storage: Storage = LOCAL
) -> Iterator[ListedFile]:
    """The files that one path means. A path that is there is taken literally, stars and all.

    Raises PipelineError (TC710) where it means nothing, unless it is a pattern that nothing fits yet and `may_be_empty`
    is set.
    """
    if is_remote(path):
        files = _walk_remote(path, pattern, storage)
        if not files and not may_be_empty:
            raise PipelineError(f"there is no file {path}", code="TC710", hint="check the spelling, and the pattern")
        yield from files
        return
    starts, is_pattern = _starts(path, may_be_empty=may_be_empty)
    yielded_paths: set[str] = set()  # "docs/**" gives a directory, and what is in it
    for start in starts:
        for file in _files_at(start, pattern, is_pattern=is_pattern):
            if not is_pattern:
                yield file
            elif file.path not in yielded_paths:
                yielded_paths.add(file.path)
                yield file


def check_exists(path: str, *, may_be_empty: bool) -> None:
    """Raise PipelineError (TC710) unless there is such a path; a pattern may be one that nothing fits yet.

    Elsewhere nothing is asked: the settings that it takes are those of the job.
    """
    if not is_remote(path):
        _starts(path, may_be_empty=may_be_empty)


def look(path: str, storage: Storage = LOCAL) -> ListedFile | None:
    """The file as it is now; None where it is gone, or no plain file."""
    if is_remote(path):
        with _named(path):
            listed = locations.look(path, storage)
        return None if listed is None else ListedFile(*listed)
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return ListedFile(path, status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def pattern_base(path: str) -> str:
    """The directory that a path is in, or begins with where it is a pattern."""
    if is_remote(path):
        raise PipelineError(
            f"{path} is not on this machine: a stream of it needs log=, a directory for what it has read", code="TC711"
        )
    local = Path(local_path(path))
    if local.exists():
        return str(local if local.is_dir() else local.parent)
    while _MAGIC & set(str(local)):
        local = local.parent
    return str(local)


def local_path(path: str) -> str:
    """An absolute path of the local file system; of one elsewhere, the path itself. Raises PipelineError (TC710)."""
    return path if is_remote(path) else str(Path(locations.local_name(path)).expanduser().absolute())


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Say which path it is that cannot be listed."""
    try:
        yield
    except OSError as error:
        message = f"{path} cannot be listed: {error.strerror or error}"
        raise PipelineError(message, code="TC712", hint="check the address, the credentials and the network") from None


def _walk_remote(path: str, pattern: str, storage: Storage) -> list[ListedFile]:
    """The files that a path elsewhere means, in the order of a directory here; a path that is there is literal."""
    with _named(path):
        listed = locations.look(path, storage)
        if listed is not None:
            return [ListedFile(*listed)]
        magic = _MAGIC & set(path)
        first_magic = re.search(r"[^/]*[*?\[]", path)
        base = f"{path.rstrip('/')}/" if first_magic is None else path[: first_magic.start()]
        files = [ListedFile(*row) for row in locations.walk(base, storage)]
    glob_fits = re.compile(f"{_glob_expression(path)}(?P<inside>/.*)?" if magic else ".*(?P<inside>/.*)")
    chosen = []
    for file in files:
        fit = glob_fits.fullmatch(file.path)
        is_hidden = any(part.startswith(HIDDEN) for part in file.path[len(base) :].split("/"))
        # What a pattern of paths names is taken; of a directory that it names, what has such a name.
        if fit and not is_hidden and (not fit["inside"] or is_archive(file.path) or fits(file.path, pattern)):
            chosen.append(file)
    return sorted(chosen, key=_place_in_order)


def _place_in_order(file: ListedFile) -> list[tuple[bool, str]]:
    """The files of a directory before those of its sub-directories, by name."""
    *directories, name = file.path.split("/")
    return [*((True, directory) for directory in directories), (False, name)]


def _glob_expression(path: str) -> str:
    """A regular expression for a pattern of paths: `**` is any number of directories."""
    expression = ""
    for piece in re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]/]+\])", path):
        if len(piece) > 2 and piece[0] == "[" and piece[-1] == "]":
            expression += piece.replace("[!", "[^", 1).replace("\\", "\\\\")
        else:
            expression += _GLOBS.get(piece) or re.escape(piece)
    return expression


def _starts(path: str, *, may_be_empty: bool) -> tuple[list[str], bool]:
    """The files and directories that a path names, and whether it is a pattern."""
    local = locations.local_name(path)
    if _is_there(local):
        return [local], False
    if not _MAGIC & set(local):
        raise PipelineError(f"there is no file or directory {path}", code="TC710", hint="check the spelling")
    starts = sorted(glob.iglob(local, recursive=True))  # noqa: PTH207 - Path.glob finds no files by **
    if not starts and not may_be_empty:
        raise PipelineError(f"nothing fits {path}", code="TC710", hint="check the directory and the pattern")
    return starts, True


def _is_there(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True  # unknown; opening it says why
    return True


def _files_at(start: str, pattern: str, *, is_pattern: bool) -> Iterator[ListedFile]:
    if os.path.isdir(start):  # noqa: PTH112 - names are kept as given: Path would drop a leading ./
        yield from _walk_directory(start, pattern)
    elif (file := look(start)) is not None:
        yield file
    elif not is_pattern or not os.path.exists(start):  # noqa: PTH110
        # A pipe that is named, or what cannot be looked at. A pipe that a pattern happens to fit would block.
        yield ListedFile(start, SIZE_UNKNOWN, 0)


def _walk_directory(directory: str, pattern: str) -> Iterator[ListedFile]:
    visited: set[tuple[int, int]] = set()
    waiting = [directory]
    while waiting:
        here = waiting.pop()
        try:
            status = os.stat(here)  # noqa: PTH116
            if (status.st_dev, status.st_ino) in visited:
                continue
            visited.add((status.st_dev, status.st_ino))
            with os.scandir(here) as entries:
                visible_entries = sorted(
                    (e for e in entries if not e.name.startswith(HIDDEN)), key=lambda entry: entry.name
                )
        except FileNotFoundError:
            continue  # gone since its parent was listed
        except OSError:
            yield ListedFile(here, SIZE_UNKNOWN, 0)
            continue
        below: list[os.DirEntry[str]] = []
        for entry in visible_entries:
            if _is_directory(entry):
                below.append(entry)
            elif is_archive(entry.name) or fits(entry.name, pattern):
                yield from _listed_entry(entry)
        # Real ones first: what is also reached by a link goes by its own name.
        below.sort(key=lambda entry: entry.is_symlink())
        waiting += [entry.path for entry in reversed(below)]


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _listed_entry(entry: os.DirEntry[str]) -> Iterator[ListedFile]:
    file = look(entry.path)
    if file is not None:
        yield file
    elif entry.is_symlink() and not os.path.exists(entry.path):  # noqa: PTH110
        yield ListedFile(entry.path, SIZE_UNKNOWN, 0)
