"""Names that strangers chose: safe to show, storable whatever their bytes, and different for different ids."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from treecast.names import file_name, hashed, printable, printable_lines, subject_token, text_of

HOSTILE = [
    *(".", "..", "a.", "a ", " ", "%2E", "a/b", "a%2Fb", "a\0b", "a\n", "a", "../a", "-", "*", ">", "a.b", "CON", "A"),
    *("x" * 200, "x" * 201, "ü" * 100, "ü" * 101, "x" * 128, "x" * 129, "sha256-", "sha256-a", hashed("x" * 201)),
    *(hashed("a.b"), hashed(hashed("a.b")), "a\r", "a\x85", "a\u2028", "\u202e", "\x1b[2J"),
]
IDS = st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=300), st.text("sha256-0a./%\n", min_size=1))


def test_hostile_ids_have_names_of_their_own() -> None:
    for name_of in (file_name, subject_token):
        names = [name_of(id) for id in HOSTILE]
        assert len(set(names)) == len(HOSTILE)
    folded = {file_name(id).casefold() for id in HOSTILE if id != "A"}
    assert len(folded) == len(HOSTILE) - 1


@given(IDS, IDS)
@example("a.b", hashed("a.b"))
@example("a", "a\n")
def test_names_are_one_to_one(one: str, other: str) -> None:
    for name_of in (file_name, subject_token):
        assert (name_of(one) == name_of(other)) == (one == other)


@given(IDS)
def test_names_can_be_used(id: str) -> None:
    name, token = file_name(id), subject_token(id)
    assert 1 <= len(name.encode()) <= 255 and not set(name) & set('/\0\n\r\\:*?"<>|') and name not in (".", "..")
    assert name[0] != "." and name[-1] not in ". "
    assert token.isascii() and token.replace("-", "a").replace("_", "a").isalnum() and len(token) <= 128
    for text in (name, token):
        assert text in (id, hashed(id)) or "%" in text


def test_a_file_name_can_be_made(tmp_path: Path) -> None:
    for number, id in enumerate(HOSTILE):
        (tmp_path / file_name(id)).write_text(str(number))
    assert len(list(tmp_path.iterdir())) == len(HOSTILE)


def test_output_cannot_move_the_cursor() -> None:
    assert printable("a\x1b[31m\x9b2J\u202eb\x07\t\n\x7f") == r"a\x1b[31m\x9b2J\u202eb\x07\t\n\x7f"
    assert printable_lines("a\x1b\n  ^\r") == "a\\x1b\n  ^\\r"
    assert printable("Jürgen ✓ 東京") == "Jürgen ✓ 東京"


@given(st.binary(max_size=40))
def test_any_file_name_becomes_text(data: bytes) -> None:
    text = text_of(os.fsdecode(data))
    text.encode()
    try:
        assert text == data.decode()
    except UnicodeDecodeError:
        assert "\\x" in text
    assert text_of("\ud800a") == "\\ud800a"
