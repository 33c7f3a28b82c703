"""The HTTP door of selective publishing: publish, grant, revoke, subscribe, views, updates, tokens, hostile input."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from support.served_http import Service

from treecast.cli import main
from treecast.selective.subscriber import Subscriber
from treecast.serve.access.tokens import TokenStore

pytestmark = pytest.mark.house

FIRST = "<firm><staff><name>Ida</name><pay>9</pay></staff></firm>"
FIRM = "/v1/selective/firm"
SHOP = "/v1/selective/shop"


def prepare(service: Service, path: str = FIRM) -> None:
    assert service.ask("PUT", path, FIRST.encode()).status == 201
    form = {"group": "desk", "include": ["//staff"], "exclude": ["//pay"], "members": ["ann", "bob"]}
    answer = service.ask("POST", f"{path}:grant", form)
    assert (answer.status, answer.json["changed"]) == (200, ["desk"])


def test_from_a_document_to_views_and_updates(service: Service) -> None:
    prepare(service)
    (delivery,) = service.ask("GET", f"{FIRM}/view?group=desk&member=ann").json["deliveries"]
    assert delivery["payload"] == "<staff><name>Ida</name></staff>"
    assert set(delivery) == {"delivery", "document", "subscription", "content_type", "payload", "published"}

    keys = service.ask("POST", f"{FIRM}:subscribe", {"group": "desk", "member": "ann", "paths": ["//name"]}).json
    key, public_key = bytes.fromhex(keys["key"]), bytes.fromhex(keys["public_key"])
    ann = Subscriber("ann", key, "firm", "desk", public_key)
    ann.admit(keys["epoch"], bytes.fromhex(keys["envelope"]))
    updates = f"{FIRM}/updates?group=desk&member=ann&since="
    (update,) = service.ask("GET", f"{updates}0").json["deliveries"]
    ann.receive(base64.b64decode(update["payload"]))
    assert (ann.fragments(), update["payload_encoding"]) == ([b"<staff><name>Ida</name></staff>"], "base64")

    hidden = service.ask("PUT", FIRM, FIRST.replace("9", "10").encode())
    assert (hidden.status, hidden.json["changed"]) == (200, [])
    assert service.ask("GET", f"{updates}1").json == {"version": 1, "deliveries": []}
    service.ask("PUT", FIRM, FIRST.replace("Ida", "Eva").encode())
    (update,) = service.ask("GET", f"{updates}1").json["deliveries"]
    ann.receive(base64.b64decode(update["payload"]))
    assert ann.fragments() == [b"<staff><name>Eva</name></staff>"]

    (group,) = service.ask("GET", FIRM).json["groups"]
    assert (group["version"], group["members"], group["bytes"]) == (2, ["ann", "bob"], len(ann.fragments()[0]))
    shapes = service.ask("GET", f"{FIRM}/shapes").json["elements"]
    assert [(one["tag"], one["groups"]) for one in shapes] == [
        ("<firm>", []), ("<staff>", ["desk"]), ("<name>", ["desk"]), ("<pay>", []),
    ]  # fmt: skip
    assert service.ask("POST", f"{FIRM}:revoke", {"group": "desk", "members": ["ann"]}).status == 200
    assert service.ask("GET", f"{FIRM}/view?group=desk&member=ann").json["code"] == "TC630"
    service.ask("PUT", FIRM, FIRST.replace("Ida", "Eve").encode())
    (update,) = service.ask("GET", f"{FIRM}/updates?group=desk&member=bob&since=2").json["deliveries"]
    with pytest.raises(Exception, match="TC496"):
        ann.receive(base64.b64decode(update["payload"]))


def test_what_is_refused(service: Service) -> None:
    prepare(service, SHOP)
    grant = {"group": "desk", "include": ["//staff"]}
    for method, path, body, code in (
        ("PUT", SHOP, b"<firm>", "TC20"),
        ("PUT", SHOP, b"\x00" * 100, "TC20"),
        ("GET", "/v1/selective/other", None, "TC634"),
        ("GET", "/v1/selective/other/shapes", None, "TC634"),
        ("POST", "/v1/selective/other:revoke", {"group": "desk"}, "TC634"),
        ("POST", f"{SHOP}:grant", {**grant, "include": ["staff"]}, "TC10"),
        ("POST", f"{SHOP}:grant", {**grant, "include": ["//staff"] * 1_001}, "TC434"),
        ("POST", f"{SHOP}:grant", {**grant, "includes": []}, "TC434"),
        ("POST", f"{SHOP}:grant", {"group": "new"}, "TC630"),
        ("POST", f"{SHOP}:grant", {"group": ""}, "TC434"),
        ("POST", f"{SHOP}:grant", b"[" * 10_000, "TC434"),
        ("POST", f"{SHOP}:revoke", {"group": "desk", "members": ["eve"]}, "TC630"),
        ("POST", f"{SHOP}:subscribe", {"group": "desk", "member": "eve"}, "TC630"),
        ("POST", "/v1/selective/other:subscribe", {"group": "desk", "member": "ann"}, "TC630"),
        ("POST", f"{SHOP}:subscribe", {"group": "desk", "member": "ann", "paths": ["//pay"]}, "TC631"),
        ("POST", f"{SHOP}:subscribe", {"group": "desk", "member": "ann", "paths": ["/firm"]}, "TC631"),
        ("POST", f"{SHOP}:subscribe", {"group": "desk", "member": "ann", "paths": ["//nothing"]}, "TC631"),
        ("GET", f"{SHOP}/view?group=desk", None, "TC434"),
        ("GET", f"{SHOP}/view?group=other&member=ann", None, "TC630"),
        ("GET", f"{SHOP}/updates?group=desk&member=ann&since=-1", None, "TC434"),
        ("PUT", f"/v1/selective/{'x' * 201}", FIRST.encode(), "TC635"),
        ("DELETE", SHOP, None, "TC431"),
    ):
        answer = service.ask(method, path, body)
        assert answer.json["code"].startswith(code), (method, path, answer.json)
        assert answer.headers["content-type"] == "application/problem+json"
    # Nothing of that has changed anything.
    assert service.ask("GET", f"{SHOP}/view?group=desk&member=ann").json["version"] == 1


REFUSED_GRANTS: list[dict[str, Any]] = [
    {"group": "desk", "include": ["//staff/@id"]},
    {"group": "desk", "include": ["//name/node()"], "members": ["eve"]},
    {"group": "desk", "include": ["//staff or //pay"]},
    {"group": "desk", "include": ["/*"], "exclude": ["//pya"]},
    {"group": "desk", "include": ["/*"], "exclude": ["//p:pay"], "namespaces": {"p": "urn:p"}},
    {"group": "desk", "include": ["//nobody"]},
    {"group": "desk", "exclude": ["//name"]},
    {"group": "new", "include": ["//staff/@id"]},
    {"group": "new", "include": ["/*"], "exclude": ["//pya"], "members": ["eve"]},
    {"group": "new", "members": ["eve"]},
]


def state_of(service: Service, path: str) -> list[Any]:
    pages = ("", "/shapes", "/view?group=desk&member=ann", "/updates?group=desk&member=ann&since=0")
    answers = [service.ask("GET", path + page).json for page in pages]
    for delivery in (delivery for answer in answers for delivery in answer.get("deliveries", ())):
        del delivery["published"]
    return answers


def test_a_refused_grant_changes_nothing(tmp_path: Path) -> None:
    """Neither at once, nor for the next version, nor after a restart."""
    with Service(tmp_path / "data") as service:
        prepare(service)
        before = state_of(service, FIRM)
        for form in REFUSED_GRANTS:
            answer = service.ask("POST", f"{FIRM}:grant", form)
            assert answer.status in (403, 422), (form, answer.json)
            assert state_of(service, FIRM) == before
            assert service.ask("PUT", FIRM, FIRST.encode()).status == 200
        # Nor does a version that is refused, which has no element for the group to be kept from.
        for data in (FIRST.replace("pay", "wage"), FIRST.replace("<firm>", "<firm xmlns='urn:f'>")):
            answer = service.ask("PUT", FIRM, data.encode())
            assert (answer.status, answer.json["code"]) == (422, "TC163")
            assert state_of(service, FIRM) == before
        service.end()
    with Service(tmp_path / "data") as service:
        assert state_of(service, FIRM) == before
        answer = service.ask("PUT", FIRM, FIRST.replace("Ida", "Eva").encode())
        assert (answer.status, answer.json["changed"]) == (200, ["desk"])
        form = {"group": "desk", "include": ["/*"], "exclude": ["//pay", "//wage"], "allow_empty": True}
        assert service.ask("POST", f"{FIRM}:grant", form).status == 200
        answer = service.ask("PUT", FIRM, FIRST.replace("pay", "wage").encode())
        assert answer.status == 200
        (group,) = answer.json["groups"]
        assert (group["hidden"], group["elements"], answer.json["elements"]) == ({"//pay": 0, "//wage": 1}, 3, 4)


def test_what_is_refused_at_first_leaves_no_document(service: Service, tmp_path: Path) -> None:
    path = "/v1/selective/none"
    for form in REFUSED_GRANTS[:1] + REFUSED_GRANTS[-1:]:
        assert service.ask("POST", f"{path}:grant", form).status in (403, 422)
    assert service.ask("PUT", path, b"<firm>").status == 422
    assert "none" not in service.ask("GET", "/v1/selective").json["documents"]
    assert service.ask("GET", path).status == 404
    assert service.ask("POST", f"{path}:grant", {"group": "desk", "include": ["//staff"]}).status == 200
    assert service.ask("PUT", path, b"<firm/>").json["code"] == "TC163"
    assert service.ask("PUT", path, FIRST.encode()).status == 201


def test_a_policy_that_was_saved_wrongly_is_named_and_keeps_nobody(tmp_path: Path) -> None:
    """A group of an older service may have one: others are granted and revoked, and it can be granted again."""
    with Service(tmp_path / "data") as service:
        prepare(service)
        service.end()
    (path,) = (tmp_path / "data").rglob("policies.json")
    fields = json.loads(path.read_text())
    fields["old"] = {**fields["desk"], "include": ["//staff/@id"], "exclude": []}
    del fields["old"]["allow_empty"]
    path.write_text(json.dumps(fields))
    with Service(tmp_path / "data") as service:
        answer = service.ask("PUT", FIRM, FIRST.encode())
        assert (answer.status, answer.json["code"]) == (422, "TC163")
        assert service.ask("POST", f"{FIRM}:revoke", {"group": "old", "members": ["ann"]}).status == 200
        assert service.ask("POST", f"{FIRM}:grant", {"group": "desk", "include": ["//name"]}).status == 200
        assert service.ask("POST", f"{FIRM}:grant", {"group": "old", "include": ["//staff"]}).status == 200
        assert service.ask("PUT", FIRM, FIRST.encode()).status == 200


def test_commands(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def run(line: str, status: int = 0) -> str:
        capsys.readouterr()
        assert main(["selective", *line.split(), "--url", f"http://127.0.0.1:{service.port}"]) == status
        written = capsys.readouterr()
        return written.out if status == 0 else written.err

    Path("plant.xml").write_text(FIRST)
    run("publish plant plant.xml")
    run("grant plant desk --include //staff --exclude //pay --member ann --member bob")
    run("subscribe plant desk ann ann-home")
    assert run("update ann-home") == "<staff><name>Ida</name></staff>\n"
    Path("plant.xml").write_text(FIRST.replace("Ida", "Eva"))
    assert run("publish plant plant.xml") == "desk sees a change\n"
    assert run("update ann-home") == "<staff><name>Eva</name></staff>\n"
    assert run("status plant").startswith("desk\tversion 2\tepoch 1\t31 bytes\n  sees 2 of 4 elements\n")
    assert "excludes //pay: hides 1 element\n" in run("status plant")
    assert "the document has pay, not pya, or add --allow-empty" in run(
        "grant plant all --include /* --exclude //pya", status=1
    )
    run("grant plant all --include /* --exclude //pya --allow-empty")
    assert "excludes //pya: hides nothing\n" in run("status plant")
    run("revoke plant desk ann")
    assert "TC630" in run("update ann-home", status=1)
    assert "TC631" in run("subscribe plant desk bob bob-home --path //pay", status=1)
    assert not Path("bob-home").exists()


def test_tokens(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "data")
    made = {
        name: store.create([scope])[1]
        for name, scope in {
            "publisher": "publish:firm",
            "other": "publish:other",
            "ann": "subscribe:firm/desk/ann/",
            "reader": "read",
            "admin": "admin",
        }.items()
    }
    ask = {"group": "desk", "member": "ann"}
    with Service(tmp_path / "data") as service:
        service.token = made["publisher"]
        prepare(service)
        for name, statuses in {
            "publisher": (200, 200, 403, 403, 200),
            "other": (403, 404, 403, 403, 404),
            "ann": (403, 403, 200, 200, 403),
            "reader": (403, 200, 403, 403, 200),
            "admin": (200, 200, 200, 200, 200),
        }.items():
            service.token = made[name]
            got = (
                service.ask("PUT", FIRM, FIRST.encode()).status,
                service.ask("GET", FIRM).status,
                service.ask("POST", f"{FIRM}:subscribe", ask).status,
                service.ask("GET", f"{FIRM}/view?group=desk&member=ann").status,
                service.ask("GET", f"{FIRM}/shapes").status,
            )
            assert got == statuses, name
        service.token = made["ann"]
        assert service.ask("GET", f"{FIRM}/view?group=desk&member=bob").json["code"] == "TC603"
        service.token = made["other"]
        assert service.ask("GET", "/v1/selective").json["documents"] == []
        service.token = ""
        assert service.ask("GET", FIRM).json["code"] == "TC602"


def test_documents_survive_a_restart(tmp_path: Path) -> None:
    with Service(tmp_path / "data") as service:
        prepare(service)
    with Service(tmp_path / "data") as service:
        service.ask("PUT", FIRM, FIRST.replace("Ida", "Eva").encode())
        answer = service.ask("GET", f"{FIRM}/view?group=desk&member=bob").json
        assert (answer["version"], answer["deliveries"][0]["payload"]) == (2, "<staff><name>Eva</name></staff>")
