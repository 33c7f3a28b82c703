"""Untrusted archives: bounded memory, one row for each bad member, and all the good ones.

None of these tests starts Spark: they read what a task of Spark reads.
"""

from __future__ import annotations

import gzip
import io
import os
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from treecast.inputs.inflate import TAR_HEADER_BYTES_MAX
from treecast.inputs.listing import list_files
from treecast.spark.sources.source_options import Options, to_strings
from treecast.spark.sources.source_tasks import make, read

# getrusage() would begin with the peak of whoever started the process.
MEMORY = """
import re, sys
from treecast.inputs.listing import list_files
from treecast.spark.sources.source_options import Options, to_strings
from treecast.spark.sources.source_tasks import make, read

sizes = {"document_bytes_max": 1 << 20, "record_bytes_max": 1 << 20, "ratio_max": sys.argv[3]}
options = Options.parse(to_strings({"paths": [sys.argv[1]], "record": sys.argv[2] or None, **sizes}))
def peak_kb():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])

before = peak_kb()
for task in make(list_files(options.paths), options):
    for batch in read(task, options):
        for row in batch.to_pylist():
            print(row["file"].rpartition("!/")[2], row["error"] and row["error"]["code"])
grown = peak_kb() - before
print("MiB", grown >> 10, file=sys.stderr)
"""


def rows_of(path: Path, **settings: object) -> list[tuple[str, str | None]]:
    """The name of each member, and the code of its error."""
    options = Options.parse(to_strings({"paths": [path], **settings}))
    return [
        (row["file"].rpartition("!/")[2], row["error"] and row["error"]["code"])
        for task in make(list_files(options.paths), options)
        for batch in read(task, options)
        for row in batch.to_pylist()
    ]


def memory_of(path: Path, record: str = "", ratio_max: int = 250) -> tuple[list[str], int]:
    """What a separate process says of each member, and by how many MiB it grew."""
    command = [sys.executable, "-c", MEMORY, str(path), record, str(ratio_max)]
    process = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return process.stdout.splitlines(), int(process.stderr.split()[-1])


def bomb_of(method: int, *, mebibytes: int) -> bytes:
    """A zip archive with a small member, one that inflates to so much, and a small one after it."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        archive.writestr("1.xml", b"<b/>")
        with archive.open("2.xml", "w", force_zip64=True) as member:
            for _ in range(mebibytes):
                member.write(b"<b>".ljust(1 << 20))
        archive.writestr("3.xml", b"<b/>")
    return data.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_bomb_in_a_zip_costs_little_memory_and_one_row(tmp_path: Path, method: int) -> None:
    path = tmp_path / "bomb.zip"
    path.write_bytes(bomb_of(method, mebibytes=120))
    members, mebibytes = memory_of(path)
    assert members == ["1.xml None", "2.xml TC301", "3.xml None"] and mebibytes < 80
    if method == zipfile.ZIP_LZMA:
        return
    members, mebibytes = memory_of(path, record="b")
    assert members == ["1.xml None", "2.xml TC715", "3.xml None"] and mebibytes < 80


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_every_method_of_zip_is_read(tmp_path: Path, method: int) -> None:
    path = tmp_path / "a.zip"
    long = b"<a>" + b"text " * 100_000 + b"</a>"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("empty.xml", b"")
        archive.writestr("long.xml", long)
        archive.writestr("packed.xml.gz", gzip.compress(long))
    options = Options.parse({"path": str(path)})
    (task,) = make(list_files(options.paths), options)
    documents = [row["document"] for batch in read(task, options) for row in batch.to_pylist()]
    assert documents == [b"", long, long]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("delta", [-1, 1, 1000])
def test_a_size_that_is_not_true_is_a_row(tmp_path: Path, method: int, delta: int) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        archive.writestr("1.xml", b"<a>one</a>")
        archive.writestr("2.xml", b"<a>two</a>")
    archive_bytes = bytearray(data.getvalue())
    at = archive_bytes.index(b"PK\x01\x02") + 24
    (size,) = struct.unpack_from("<I", archive_bytes, at)
    struct.pack_into("<I", archive_bytes, at, size + delta)
    path = tmp_path / "a.zip"
    path.write_bytes(archive_bytes)
    assert rows_of(path) == [("1.xml", "TC714"), ("2.xml", None)]


def test_lzma_with_a_dictionary_of_gigabytes_is_a_row(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("1.xml", b"<a/>")
        archive.writestr("2.xml", b"<b/>")
    archive_bytes = bytearray(data.getvalue())
    at = 30 + len("1.xml")
    assert archive_bytes[at + 2 : at + 4] == b"\x05\x00"
    struct.pack_into("<I", archive_bytes, at + 5, 0xF000_0000)
    path = tmp_path / "a.zip"
    path.write_bytes(archive_bytes)
    members, mebibytes = memory_of(path)
    assert members == ["1.xml TC715", "2.xml None"] and mebibytes < 80


def tar_with(kind: bytes, mebibytes: int) -> bytes:
    """A tar archive, packed by gzip, with a member, a header of so many MiB, and a member after it."""
    data = io.BytesIO()
    with gzip.GzipFile(fileobj=data, mode="wb") as file:

        def member(name: str, kind: bytes, size: int) -> None:
            header = tarfile.TarInfo(name)
            header.type, header.size = kind, size
            file.write(header.tobuf())

        member("1.xml", tarfile.REGTYPE, 4)
        file.write(b"<a/>".ljust(512, b"\0"))
        member("long", kind, mebibytes << 20)
        for _ in range(mebibytes):
            file.write(b"x" * (1 << 20))
        member("2.xml", tarfile.REGTYPE, 4)
        file.write(b"<b/>".ljust(512, b"\0") + bytes(1024))
    return data.getvalue()


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_headers_of_tar_are_bounded(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(tar_with(kind, 150))
    members, mebibytes = memory_of(path, ratio_max=10_000)
    assert members == ["1.xml None", f"{path} TC715"] and mebibytes < 80


def test_headers_for_a_whole_tar_archive_do_not_pile_up(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    part = TAR_HEADER_BYTES_MAX // 4
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(8):
            header = {f"comment{number}": "x" * part}
            archive.fileobj.write(tarfile.TarInfo.create_pax_global_header(header))
            info = tarfile.TarInfo(f"{number}.xml")
            info.size = 4
            archive.addfile(info, io.BytesIO(b"<a/>"))
    rows = rows_of(path)
    assert rows[:4] == [(f"{number}.xml", None) for number in range(4)] and rows[-1] == (str(path), "TC715")


def test_long_names_of_tar_are_read(tmp_path: Path) -> None:
    names = ["d/" * 100 + "pax.xml", "é" * 90 + ".xml"]
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        path = tmp_path / "a.tar"
        with tarfile.open(path, "w", format=form) as archive:
            for name in names:
                info = tarfile.TarInfo(name)
                info.size = 4
                archive.addfile(info, io.BytesIO(b"<a/>"))
        assert rows_of(path) == [(name, None) for name in names]


def test_a_size_that_a_tar_archive_does_not_hold_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    info = tarfile.TarInfo("skipped.txt")
    info.size = 1 << 60
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    assert rows_of(path, pattern="*.xml") == [(str(path), "TC714")]


def test_bad_gzip_in_a_tar_costs_the_other_members_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treecast.inputs.inflate.RATIO_FREE_BYTES", 1 << 16)
    good, path = gzip.compress(b"<a/>"), tmp_path / "a.tar"
    members = {"1.xml.gz": good, "2.xml.gz": good[:-6], "3.xml.gz": gzip.compress(bytes(20 << 20)), "4.xml.gz": good}
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    rows = [("1.xml.gz", None), ("2.xml.gz", "TC714"), ("3.xml.gz", "TC715"), ("4.xml.gz", None)]
    assert rows_of(path) == rows


def test_holes_count_as_what_they_unpack_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treecast.inputs.inflate.RATIO_FREE_BYTES", 1 << 16)
    info = tarfile.TarInfo("holes.xml")
    info.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"%011o\0" % (1 << 30)  # the size with its holes; there is no piece between them
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path = tmp_path / "a.tar"
    path.write_bytes(bytes(header) + bytes(1024))
    assert rows_of(path) == [("holes.xml", "TC715")]


def test_many_bombs_cost_no_more_than_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treecast.inputs.inflate.RATIO_FREE_BYTES", 1 << 16)
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(40):
            archive.writestr(f"{number}.xml", bytes(1 << 20))
    sizes: list[int] = []
    monkeypatch.setattr("treecast.inputs.inflate.Budget.take", _counting(sizes))
    codes = [code for _, code in rows_of(path, ratio_max=100)]
    assert set(codes) <= {None, "TC715"} and "TC715" in codes
    assert sum(sizes) <= 2 * 100 * path.stat().st_size + (2 << 20)


def _counting(sizes: list[int]) -> object:
    from treecast.inputs.inflate import Budget

    take = Budget.take

    def take_counting(budget: Budget, count: int) -> None:
        sizes.append(count)
        take(budget, count)

    return take_counting


def test_xz_that_needs_too_much_memory_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.xz"
    path.write_bytes(b"\x5d" + struct.pack("<I", 1 << 31) + b"\xff" * 8 + bytes(8))
    assert rows_of(path) == [(str(path), "TC715")]


def test_names_that_are_not_utf8_are_escaped(tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9.xml")
    (tmp_path / odd).write_bytes(b"<a/>")
    with tarfile.open(tmp_path / "b.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        info = tarfile.TarInfo(odd)
        info.size = 4
        archive.addfile(info, io.BytesIO(b"<b/>"))
    (tmp_path / f"{odd}.gz").write_bytes(b"no gzip")
    for settings in ({}, {"record": "*"}):
        names = [(name.rpartition("/")[2], code) for name, code in rows_of(tmp_path, **settings)]
        assert names[-2:] == [("caf\\xe9.xml", None), ("caf\\xe9.xml.gz", "TC714")] or settings
        assert {name for name, _ in names} <= {"caf\\xe9.xml", "caf\\xe9.xml.gz"}
