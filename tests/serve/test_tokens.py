"""Tokens: the file that holds them, what scopes allow, and the gate that finds the token of a request."""

from __future__ import annotations

import json
import multiprocessing
import stat
from pathlib import Path
from unittest.mock import patch

import pytest

from treecast.cli import main
from treecast.serve.access.access import Access
from treecast.serve.access.bucket import Bucket
from treecast.serve.access.gate import Gate
from treecast.serve.access.refusals import AccessRefusedError
from treecast.serve.access.scopes import Scopes
from treecast.serve.access.settings import AccessSettings
from treecast.serve.access.tokens import TokenLimits, TokenStore, hash_secret
from treecast.serve.logs import make_log
from treecast.serve.store import Store

pytestmark = pytest.mark.house


def make_gate(directory: Path) -> Gate:
    gate = Gate(directory, make_log("json", "error"))
    gate.load()
    return gate


def code_of(gate: Gate, authorization: str) -> str:
    with pytest.raises(AccessRefusedError) as caught:
        gate.admit(authorization)
    return f"{caught.value.code} {caught.value.status} {caught.value} {caught.value.headers}"


# --- the file ---------------------------------------------------------------------------------------------------------


def test_a_token_is_made_listed_and_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data", str(tmp_path / "data")]
    scopes = ["--scope", "publish:wire", "--scope", "subscribe:desk."]
    limits = ["--documents-per-second", "5", "--document-bytes-max", "64K", "--expires", "2h"]
    assert main(["token", "create", *data, *scopes, *limits, "--description", "of the\x1b[1m wire"]) == 0
    printed = capsys.readouterr()
    assert "no service has used" in printed.err  # the name of the directory may be wrong
    text = printed.out.strip()
    _, id, secret = text.split("_")
    file = tmp_path / "data" / "tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret not in file.read_text()
    assert main(["token", "list", *data, "--format", "json"]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["id"], row["scopes"]) == (id, ["publish:wire", "subscribe:desk."])
    assert (row["documents_per_second"], row["document_bytes_max"]) == (5, 64 << 10)
    assert main(["token", "list", *data]) == 0
    shown = capsys.readouterr().out
    assert id in shown and secret not in shown and "\\x1b[1m wire" in shown
    assert main(["token", "revoke", *data, id]) == 0
    assert main(["token", "list", *data]) == 0
    assert capsys.readouterr().out == ""
    assert main(["token", "revoke", *data, id]) == 1
    assert f"TC607 there is no token '{id}'" in capsys.readouterr().err


def test_tokens_may_be_made_before_the_store(tmp_path: Path) -> None:
    TokenStore(tmp_path).create(["admin"])
    Store.open(str(tmp_path)).close()
    assert TokenStore(tmp_path).read()


def _create(directory: Path) -> None:
    for _ in range(5):
        TokenStore(directory).create(["admin"])


def test_no_token_is_lost_when_two_are_made_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_create, args=(tmp_path,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len(TokenStore(tmp_path).read() or {}) == 20


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    store = TokenStore(tmp_path, AccessSettings(tokens_bytes_max=2_000, tokens_max=2))
    assert store.read() is None
    store.create(["admin"])
    good = store.path.read_text()
    row = json.loads(good)["tokens"][0]
    for content, why in (
        ("", "truncated"),
        (good.replace("treecast tokens", "tokens"), "version 1"),
        (good.replace('"scopes"', '"scope"'), "scope"),
        (good.replace('"admin"', '"administrator"'), "not a scope"),
        (good.replace(row["hash"], "00"), "no proper id or hash"),
        (json.dumps({**json.loads(good), "tokens": [row, row]}), "twice"),
        (good + " " * 3_000, "2000 bytes"),
    ):
        store.path.write_text(content)
        with pytest.raises(AccessRefusedError, match=why) as caught:
            store.read()
        assert caught.value.code == "TC606"
        with pytest.raises(AccessRefusedError):  # and it is not written over
            store.create(["admin"])
        assert store.path.read_text() == content
    store.path.write_text(good)
    store.path.chmod(0o620)
    with pytest.raises(AccessRefusedError, match="others may write"):
        store.read()
    store.path.chmod(0o600)
    store.create(["admin"])
    with pytest.raises(AccessRefusedError, match="2 tokens already"):
        store.create(["admin"])


# --- scopes and limits ------------------------------------------------------------------------------------------------


def test_what_scopes_allow() -> None:
    desk = Access(scopes=Scopes.parse(["subscribe:desk.", "publish:wire", "publish:news.*"]))
    assert [desk.allows_subscription(id) for id in ("desk.", "desk.a", "desk", "other", "")] == [
        True,
        True,
        *[False] * 3,
    ]
    assert [desk.allows_source(name) for name in ("wire", "wires", "news.", "news.a", "news")] == [
        *(True, False, True, True, False)
    ]
    assert not desk.sees_subscription("other") and not desk.sees_source("other")
    reader = Access(scopes=Scopes.parse(["read"]))
    assert reader.sees_subscription("other") and not reader.allows_subscription("other")
    assert Access(scopes=Scopes.parse(["subscribe:*"])).allows_subscription("anything")
    assert not Access(scopes=Scopes.parse(["subscribe:*"])).allows_source("anything")
    assert Access().allows_subscription("anything") and Access().allows_source("anything")


@pytest.mark.parametrize("text", ["", "write", "publish", "publish:", "read:all", "subscribe:a*b", "publish:a\nb"])
def test_what_is_no_scope(text: str) -> None:
    with pytest.raises(AccessRefusedError) as caught:
        Scopes.parse([text])
    assert caught.value.code == "TC607"


def test_a_bucket_fills_with_time() -> None:
    bucket = Bucket(100, 0)
    assert bucket.take(250, 0) == 0  # more than a second's worth, from a full one
    assert bucket.take(1, 0) == 1_510
    assert bucket.take(1, 1_509) == 1
    assert bucket.take(1, 1_510) == 0
    assert bucket.take(100, 1_000_000) == 0 and bucket.take(1, 1_000_000) == 10


def test_nothing_is_taken_of_what_is_refused() -> None:
    access = Access(limits=TokenLimits(documents_per_second=10, bytes_per_second=100))
    with patch("treecast.serve.access.access.steady_ms", return_value=access.counted_ms):
        access.charge(1, 100)
        with pytest.raises(AccessRefusedError) as caught:
            access.charge(1, 1)
        assert (caught.value.code, caught.value.status) == ("TC604", 429)
        assert dict(caught.value.headers)["retry-after"] == "1"
        access.charge(9, 0)  # the documents of the refused one were not counted


# --- the gate ---------------------------------------------------------------------------------------------------------


def test_the_answer_is_the_same_whatever_is_wrong(tmp_path: Path) -> None:
    """Not only the answer: the way to it, too. One hash of a secret, and one comparison of two hashes."""
    store = TokenStore(tmp_path)
    token, good = store.create(["admin"])
    _, expired = store.create(["admin"], expires_ms=1)
    revoked, gone = store.create(["admin"])
    store.revoke([revoked.id])
    gate = make_gate(tmp_path)
    hashed: list[int] = []
    compared: list[tuple[int, int]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    def hash_it(secret: str) -> bytes:
        hashed.append(1)
        return hash_secret(secret)

    _, id, secret = good.split("_")
    wrong = ["", "Bearer", "Basic abc", f"Basic {good}", f"Bearer {good}x", f"Bearer tc_{'0' * 12}_{secret}"]
    wrong += [
        f"Bearer tc_{id}_{'0' * 48}",
        f"Bearer {expired}",
        f"Bearer {gone}",
        "Bearer \xff",
        f"Bearer {'a' * 9_999}",
    ]
    room = "treecast.serve.access.gate"
    with patch(f"{room}.hmac.compare_digest", compare), patch(f"{room}.hash_secret", hash_it):
        answers = {code_of(gate, text) for text in wrong}
        assert gate.admit(f"bearer {good}").id == token.id
    assert len(answers) == 1 and "TC602 401" in answers.pop()
    assert len(hashed) == len(wrong) + 1
    assert compared == [(32, 32)] * (len(wrong) + 1)


def test_a_gate_without_tokens_is_open_until_there_is_one(tmp_path: Path) -> None:
    gate = make_gate(tmp_path)
    everybody = gate.admit("")
    ended: list[str] = []
    with everybody.holding(lambda: ended.append("everybody")):
        _, text = TokenStore(tmp_path).create(["admin"])
        gate.look()
        assert ended == ["everybody"]
    code_of(gate, "")
    assert gate.admit(f"Bearer {text}").is_admin
    TokenStore(tmp_path).path.unlink()  # that opens nothing
    gate.look()
    code_of(gate, "")
    code_of(gate, f"Bearer {text}")


def test_a_change_ends_what_its_token_has_open(tmp_path: Path) -> None:
    store = TokenStore(tmp_path)
    _, kept_text = store.create(["subscribe:a"])
    revoked, revoked_text = store.create(["subscribe:b"])
    gate = make_gate(tmp_path)
    ended: list[str] = []
    with (
        gate.admit(f"Bearer {kept_text}").holding(lambda: ended.append("kept")),
        gate.admit(f"Bearer {revoked_text}").holding(lambda: ended.append("revoked")),
    ):
        gate.look()
        assert ended == []
        store.revoke([revoked.id])
        gate.look()
        assert ended == ["revoked"]
        changed = store.path.read_text().replace("subscribe:a", "subscribe:c")
        store.path.write_text(changed)
        gate.look()
    assert ended == ["revoked", "kept"]
    assert not gate.admit(f"Bearer {kept_text}").allows_subscription("a")


def test_a_token_that_expires_ends_what_it_has_open(tmp_path: Path) -> None:
    _, text = TokenStore(tmp_path).create(["admin"], expires_ms=1_000)
    gate = make_gate(tmp_path)
    ended: list[str] = []
    with patch("treecast.serve.access.access.now_ms", return_value=999) as clock:
        with gate.admit(f"Bearer {text}").holding(lambda: ended.append("expired")):
            gate.look()
            assert ended == []
            clock.return_value = 1_000
            gate.look()
            assert ended == ["expired"]
        code_of(gate, f"Bearer {text}")


def test_a_file_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    store = TokenStore(tmp_path)
    _, text = store.create(["admin"])
    gate = make_gate(tmp_path)
    store.path.write_text("{")
    with patch.object(gate, "_log") as log:
        gate.look()
        gate.look()
    assert log.error.call_count == 1
    assert gate.admit(f"Bearer {text}").is_admin
    with pytest.raises(AccessRefusedError):  # at the start it is an error
        make_gate(tmp_path)


def test_streams_are_counted() -> None:
    access = Access(limits=TokenLimits(streams_max=1))
    with access.holding(lambda: None):
        with pytest.raises(AccessRefusedError) as caught, access.holding(lambda: None):
            pass
        assert (caught.value.code, caught.value.status) == ("TC605", 403)
    with access.holding(lambda: None):
        pass
