"""Views that are sealed and signed: what members get, what nobody can change, what nobody can observe."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from oracles import view_verifier
from support.selective_trial import (
    SIGNER,
    Trial,
    draw_document,
    draw_policies,
    trial_round,
    update_share,
)  # fmt: skip

from treecast.errors import AccessError, PeerError, QueryError
from treecast.selective.digests import element_digest
from treecast.selective.keys import Keys, join, open_envelope, seal, unseal
from treecast.selective.labelled import LabelledDocument
from treecast.selective.package import Entry, Manifest, decode_package, element_about, encode
from treecast.selective.policies import Policies
from treecast.selective.publisher import Publisher
from treecast.selective.subscriber import Subscriber

pytestmark = pytest.mark.house

FIRST = b"<firm><staff><name>Ida</name><pay>9</pay><note/></staff><staff><name>Bo</name></staff></firm>"
SECOND = FIRST.replace(b"Ida", b"Eva")
POLICIES = {"desk": (["//staff"], ["//pay"]), "pay": (["//pay"], [])}


def test_members_get_what_lxml_extracts() -> None:
    assert sum(trial_round(seed) for seed in range(30)) > 80


def test_keys_are_those_of_the_guide() -> None:
    keys, derive, secret = Keys(b"s" * 32), view_verifier.derive, b"s" * 32
    token = keys.token("doc", "desk", 3)
    assert token == derive(secret, 16, "token", "doc", "desk", 3)
    assert keys.member("ann") == derive(secret, 32, "member", "ann")
    assert keys.group("doc", "desk", 2) == derive(secret, 32, "group", "doc", "desk", 2)
    assert keys.element("doc", token, 5) == derive(secret, 32, "element", "doc", token, 5)


def test_the_example_of_the_guide_can_be_verified() -> None:
    """Its bytes as they are printed on the page, and nothing else."""
    page = (Path(__file__).parents[1] / "docs" / "guide" / "selective-security.md").read_text("utf-8")
    printed = page[page.index("\npublic key ") : page.index("```\n\nIt holds one fragment")]
    lines = [line.split()[-1] for line in printed.split("\n") if line]
    public_key, key, envelope, package = (
        bytes.fromhex(text) for text in (lines[0], lines[1], "".join(lines[2:4]), "".join(lines[4:]))
    )
    view = view_verifier.View("ann", key, "doc", "desk", public_key)
    view.take_envelope(1, envelope)
    assert view.take_package(package)
    assert view.fragments() == [b"<b>text</b>"]


# -- attacks


@pytest.fixture
def trial() -> Trial:
    found = Trial(POLICIES)
    found.publish(FIRST)
    return found


def refused(member: Subscriber, data: bytes) -> str:
    """The code of the refusal; nothing may have changed."""
    before = member.version, member.fragments()
    with pytest.raises(PeerError) as caught:
        member.receive(data)
    assert (member.version, member.fragments()) == before
    return caught.value.code


def test_every_altered_field_is_found(trial: Trial) -> None:
    member = trial.members["desk"]
    trial.publisher.publish(SECOND)
    good = trial.publisher.package("desk", since=1)
    package = decode_package(good)

    def flip(data: bytes) -> bytes:
        return data[:-1] + bytes([data[-1] ^ 1])

    changes = {
        "document": "other",
        "group": "pay",
        "version": 3,
        "base": 0,
        "manifest": flip(package.manifest),
        "elements": [*package.elements[:-1], flip(package.elements[-1])],
    }
    for name, value in changes.items():
        assert refused(member, encode(msgspec.structs.replace(package, **{name: value}))) == "TC492", name
    *fields, elements = msgspec.to_builtins(package, builtin_types=[bytes])
    assert refused(member, msgspec.msgpack.encode([*fields, elements, "more"])) == "TC492"
    assert refused(member, encode(msgspec.structs.replace(package, epoch=2))) == "TC496"
    assert refused(member, encode(msgspec.structs.replace(package, elements=[]))) == "TC492"
    assert refused(member, good[:-1]) == "TC492"
    assert refused(member, good.replace(b"desk", b"des\xff", 1)) == "TC492", "no UTF-8"
    assert member.receive(good), "and the true one is accepted after all of that"
    assert b"Eva" in member.fragments()[0]


Forgery = Callable[[Manifest, dict[bytes, bytes]], Manifest]


def forge(trial: Trial, package: bytes, change: Forgery) -> bytes:
    """A package that a member and a broker make together: they have the key of the group, not that of the publisher."""
    found = decode_package(package)
    key = trial.publisher.keys.group("doc", "desk", found.epoch)
    member = trial.members["desk"]
    true, opened = member._open(found)
    records = {token: held.record for token, held in opened.items()}
    manifest = change(true, records)
    sealed = seal(key, encode(manifest), found.about())
    elements = [seal(one.key, records[one.token], element_about("doc", one.token)) for one in manifest.entries]
    return encode(msgspec.structs.replace(found, manifest=sealed, elements=elements))


def root_of(manifest: Manifest) -> Entry:
    return next(one for one in manifest.entries if one.token == manifest.fragments[0])


def with_children(manifest: Manifest, children: list[bytes]) -> Manifest:
    root = root_of(manifest)
    changed = [msgspec.structs.replace(one, children=children) if one is root else one for one in manifest.entries]
    return msgspec.structs.replace(manifest, entries=changed)


def alter(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    token = root_of(manifest).children[0]
    records[token] = records[token].replace(b"Eva", b"Udo")
    return manifest


def drop(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    return with_children(manifest, root_of(manifest).children[1:])


def reorder(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    return with_children(manifest, root_of(manifest).children[::-1])


def repeat(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    return with_children(manifest, root_of(manifest).children[:1] * 2)


def move(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    """The first child of the first fragment goes to the second fragment."""
    _, second = manifest.fragments
    token = root_of(manifest).children[0]
    by_token = {one.token: one for one in with_children(manifest, root_of(manifest).children[1:]).entries}
    by_token[second] = msgspec.structs.replace(by_token[second], children=[*by_token[second].children, token])
    by_token[token] = msgspec.structs.replace(by_token[token], parent=second)
    return msgspec.structs.replace(manifest, entries=list(by_token.values()))


def drop_fragment(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    return msgspec.structs.replace(manifest, fragments=manifest.fragments[:1])


def reorder_fragments(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    return msgspec.structs.replace(manifest, fragments=manifest.fragments[::-1])


def sign_otherwise(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    return msgspec.structs.replace(manifest, signature=manifest.signature[::-1])


def replay(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    """The record that the element had in the version before, with the number of that version."""
    token = root_of(manifest).children[0]
    records[token] = records[token].replace(b"Eva", b"Ida")
    old = [msgspec.structs.replace(one, version=1) if one.token == token else one for one in manifest.entries]
    return msgspec.structs.replace(manifest, entries=old)


def renumber(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    """The right content, said to have changed in another version."""
    later = [msgspec.structs.replace(one, version=one.version + 1) for one in manifest.entries]
    return msgspec.structs.replace(manifest, entries=later)


def lie_about_the_parent(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    """Everything is where it was. But whoever believed it would look in the wrong place when the element changes."""
    token = root_of(manifest).children[0]
    lies = [msgspec.structs.replace(one, parent=b"?" * 16) if one.token == token else one for one in manifest.entries]
    return msgspec.structs.replace(manifest, entries=lies)


def circle(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    return with_children(manifest, [root_of(manifest).token])


FORGERIES = [
    alter, drop, reorder, repeat, move, drop_fragment, reorder_fragments, lie_about_the_parent, sign_otherwise, replay,
    renumber, circle,
]  # fmt: skip


@pytest.mark.parametrize("change", FORGERIES)
def test_members_and_brokers_together_cannot_forge(trial: Trial, change: Forgery) -> None:
    member = trial.members["desk"]
    trial.publisher.publish(SECOND)
    good = trial.publisher.package("desk")
    assert refused(member, forge(trial, good, change)) == "TC493"
    assert forge(trial, good, lambda manifest, records: manifest) == good
    assert member.receive(good)


@pytest.mark.parametrize("parent", ["true", "none", "unknown", "itself", "another"])
def test_what_an_update_does_not_mention_cannot_be_replaced(trial: Trial, parent: str) -> None:
    """A member adds an entry for an element that has not changed, and says that it hangs elsewhere."""
    member = trial.members["desk"]
    first, second = member._fragments
    (target,) = member._elements[second].entry.children  # Bo's name; Ida's is what changes
    above = {"true": second, "none": b"", "unknown": b"?" * 16, "itself": target, "another": first}[parent]

    def smuggle(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
        records[target] = member._elements[target].record.replace(b"Bo", b"Al")
        forged = msgspec.structs.replace(member._elements[target].entry, parent=above)
        return msgspec.structs.replace(manifest, entries=[*manifest.entries, forged])

    trial.publisher.publish(SECOND)
    good = trial.publisher.package("desk", since=1)
    assert refused(member, forge(trial, good, smuggle)) == "TC493"
    assert member.receive(good)
    assert member.fragments()[1] == b"<staff><name>Bo</name></staff>"


def test_what_is_seen_on_the_way_confirms_no_guess(trial: Trial) -> None:
    """Somebody who was a member knows tokens, versions and the rest of the view; only the new content is unknown."""
    member = trial.members["desk"]
    trial.publisher.publish(SECOND)
    data = trial.publisher.package("desk", since=1)
    package = decode_package(data)
    manifest, opened = member._open(package)
    # Neither the signature, which could be verified with a guess, nor any hash of the content alone is in clear.
    assert manifest.signature not in data
    for held in opened.values():
        about = element_about("doc", held.entry.token)
        guess = sha256(join((about, held.record))).digest()
        assert not any(guess[:length] in data for length in (8, 12, 32))
        assert not any(element_digest("doc", held.entry.token, b"", 2, held.record, [])[:8] in box for box in [data])
        assert seal(bytes(32), held.record, about)[:12] != seal(b"k" * 32, held.record, about)[:12]


def test_groups_share_neither_tokens_nor_keys() -> None:
    """What one group has opens nothing of another, not even the same element, and does not tell that it is the same."""
    trial = Trial({"desk": (["//staff"], []), "pay": (["//staff"], [])})
    sent = trial.publish(FIRST)
    held = {group: member._elements for group, member in trial.members.items()}
    assert not held["desk"].keys() & held["pay"].keys()
    for token, one in held["pay"].items():
        for box in decode_package(sent["desk"]).elements:
            assert all(
                unseal(one.entry.key, box, element_about("doc", name)) is None for name in (token, *held["desk"])
            )


def test_groups_of_one_name_in_two_documents_are_strangers() -> None:
    """One publisher, one secret, two documents: a member of a group of one cannot open the other."""
    worlds = {}
    for name in ("open", "closed"):
        policies = Policies()
        policies.grant("desk", include=["//b"])
        policies.join("desk", "ann" if name == "open" else "bob")
        worlds[name] = Publisher(name, policies, secret=b"s" * 32, signer=SIGNER)
        worlds[name].publish(b"<a><b>secret</b></a>")
    key = worlds["open"].keys.member("ann")
    ann = Subscriber("ann", key, "closed", "desk", worlds["open"].public_key)
    epoch, envelope = worlds["open"].envelope("desk", "ann")
    with pytest.raises(PeerError, match="TC492"):
        ann.admit(epoch, envelope)
    group_key, _ = open_envelope(key, "open", "desk", epoch, "ann", envelope)
    package = decode_package(worlds["closed"].package("desk"))
    assert unseal(group_key, package.manifest, package.about()) is None


def test_a_new_member_notices_an_old_view(trial: Trial) -> None:
    old = trial.publisher.package("desk")
    trial.publish(SECOND)
    late = trial.member("desk")
    assert late.receive(old) and late.is_behind
    assert late.receive(trial.publisher.package("desk", since=1)) and not late.is_behind


def test_old_versions_are_found(trial: Trial) -> None:
    member = trial.members["desk"]
    old = trial.publisher.package("desk")
    trial.publish(SECOND)
    assert refused(member, old) == "TC494"
    assert not member.receive(trial.publisher.package("desk")), "the same again changes nothing"


def test_who_was_away_catches_up(trial: Trial) -> None:
    member = trial.members["desk"]
    for number in range(3):
        trial.publisher.publish(FIRST.replace(b"Ida", f"Ida{number}".encode()))
    assert refused(member, trial.publisher.package("desk", since=3)) == "TC495"
    update = trial.publisher.package("desk", since=member.version)
    assert len(decode_package(update).elements) == 1, "what has changed since, once"
    assert member.receive(update)
    assert b"Ida2" in member.fragments()[0]


def test_revocation_takes_effect_with_the_next_update(trial: Trial) -> None:
    trial.policies.join("desk", "eve")
    eve = Subscriber("eve", trial.publisher.keys.member("eve"), "doc", "desk", trial.publisher.public_key)
    eve.admit(*trial.publisher.envelope("desk", "eve"))
    assert eve.receive(trial.publisher.package("desk"))
    trial.policies.revoke("desk", "eve")
    trial.members["desk"].admit(*trial.publisher.envelope("desk", "m-desk"))
    (package,) = trial.publish(SECOND).values()
    assert refused(eve, package) == "TC496"
    with pytest.raises(AccessError, match="TC630"):
        trial.publisher.envelope("desk", "eve")
    epoch, envelope = trial.publisher.envelope("desk", "m-desk")
    with pytest.raises(PeerError, match="TC492"):
        eve.admit(epoch, envelope)
    # No key that she has opens anything of it.
    secrets = [eve._key, *eve._group_keys.values(), *(element.entry.key for element in eve._elements.values())]
    content = decode_package(package)
    for key in secrets:
        assert unseal(key, content.manifest, content.about()) is None
        assert all(
            unseal(key, box, element_about("doc", token)) is None for box in content.elements for token in eve._elements
        )


def test_a_group_that_loses_a_right_loses_the_elements(trial: Trial) -> None:
    trial.grant("desk", ["//name"], [])
    assert trial.publisher.refresh() == ["desk"]
    member = trial.members["desk"]
    member.receive(trial.publisher.package("desk", since=1))
    assert member.fragments() == [b"<name>Ida</name>", b"<name>Bo</name>"]
    assert not any(b"staff" in held.record for held in member._elements.values())


def test_a_policy_that_cannot_be_evaluated_changes_nothing(trial: Trial) -> None:
    """One group's mistake must not swallow what others are to get."""
    state = trial.publisher.save()
    trial.grant("wrong", ["//name/node()"], [])
    with pytest.raises(QueryError, match=r"TC163 .* of the group wrong selects attributes or text"):
        trial.publisher.publish(SECOND)
    assert trial.publisher.version("desk") == 1
    assert trial.publisher.save() == state
    trial.policies.remove("wrong")
    assert trial.publisher.publish(SECOND) == ["desk", "wrong"]


# -- policies that hide nothing

FIRM = b"<firm><staff><name>Ida</name></staff><billing>1200</billing><salary>9</salary></firm>"
NAMESPACED = FIRM.replace(b"<firm>", b'<firm xmlns="urn:firm">')


def make_publisher(include: list[str], exclude: list[str], **options: Any) -> Publisher:
    policies = Policies()
    policies.grant("desk", include=include, exclude=exclude, **options)
    return Publisher("firm", policies, secret=bytes(32), signer=SIGNER)


@pytest.mark.parametrize(
    ("data", "include", "exclude", "words"),
    [
        (NAMESPACED, ["/*"], ["//billing"], "billing is in the namespace urn:firm here: bind a prefix to it"),
        (FIRM, ["/*"], ["//billing", "//salery"], "the document has salary, not salery"),
        (FIRM, ["/*"], ["//f:billing"], "billing is in no namespace here: write it without a prefix"),
        (FIRM, ["/*"], ["//staff[name = 'billing']/nothing"], "treecast explain says"),
        (FIRM, ["//stuff"], [], "the document has staff, not stuff"),
    ],
)
def test_a_path_that_selects_nothing_is_refused(
    data: bytes, include: list[str], exclude: list[str], words: str
) -> None:
    """Nobody may see what a slip of a name or of a namespace was to hide."""
    publisher = make_publisher(include, exclude, namespaces={"f": "urn:f"})
    for _ in range(2):
        with pytest.raises(QueryError) as refused:
            publisher.publish(data)
        assert refused.value.code == "TC163"
        assert "of the group desk selects no element" in str(refused.value)
        assert words in refused.value.hint and "allow_empty" in refused.value.hint
        assert publisher.document is None and not publisher.has_view("desk")
    with pytest.raises(QueryError, match="selects no element"):
        LabelledDocument.read(data).choose(include, exclude=exclude, namespaces={"f": "urn:f"})
    allowed = make_publisher(include, exclude, namespaces={"f": "urn:f"}, allow_empty=True)
    assert allowed.publish(data) == ["desk"]


@pytest.mark.parametrize("path", ["//staff or //billing", "count(//billing) > 0", "//billing/text()", "//staff/@id"])
def test_what_selects_no_elements_is_no_policy(path: str) -> None:
    """A condition would stand for the whole document."""
    for include, exclude in (([path], []), (["/*"], [path])):
        with pytest.raises(QueryError, match="TC163 subtrees begin with elements"):
            make_publisher(include, exclude, allow_empty=True)


def test_a_version_without_what_was_hidden_is_refused() -> None:
    """It may be there under another name. The last version stays as it is, and so does what members get."""
    publisher = make_publisher(["/*"], ["//billing"])
    publisher.publish(FIRM)
    state, package = publisher.save(), publisher.package("desk")
    for data in (FIRM.replace(b"billing", b"invoices"), NAMESPACED):
        with pytest.raises(QueryError, match="it would hide nothing"):
            publisher.publish(data)
        assert (publisher.save(), publisher.package("desk")) == (state, package)
    publisher.policies.grant("desk", include=["/*"], exclude=["//billing", "//invoices"], allow_empty=True)
    assert publisher.publish(FIRM.replace(b"billing", b"invoices")) == []
    assert publisher.view("desk").texts() == [b"<firm><staff><name>Ida</name></staff><salary>9</salary></firm>"]


def test_a_version_without_what_was_seen_shows_less() -> None:
    publisher = make_publisher(["//staff", "//billing"], ["//name"])
    publisher.publish(FIRM)
    assert publisher.publish(FIRM.replace(b"billing", b"invoices")) == ["desk"]
    assert publisher.view("desk").texts() == [b"<staff></staff>"]
    publisher.policies.grant("desk", include=["//billing"], exclude=[])
    with pytest.raises(QueryError, match="the inclusion of the group desk"):
        publisher.refresh()
    assert publisher.view("desk").texts() == [b"<staff></staff>"]


def test_policies_of_an_older_version_are_read() -> None:
    fields = Policies.from_fields(
        {"desk": {"include": ["/*"], "exclude": ["//pay"], "namespaces": {}, "members": ["ann"], "epoch": 2}}
    )
    assert not fields.policy("desk").allow_empty
    assert Policies.from_fields(fields.to_fields()).to_fields() == fields.to_fields()


def test_effects_are_what_is_seen() -> None:
    """The numbers of a status are those of the views, for drawn documents and policies."""
    random = Random(5)
    for _ in range(60):
        document = LabelledDocument.read(draw_document(random, "SECRET").encode())
        policies = Policies()
        include, exclude = draw_policies(random)["g0"]
        policies.grant("g0", include=include, exclude=exclude, namespaces={"n": "urn:n"}, allow_empty=True)
        effect = policies.effect("g0", document)
        seen = set(policies.subtrees("g0", document).elements(document.outline))
        assert effect.seen == len(seen)
        for path, hidden in effect.hidden.items():
            policies.grant("g0", include=include, namespaces={"n": "urn:n"}, allow_empty=True)
            included = set(policies.subtrees("g0", document).elements(document.outline))
            roots = document.select(path, {"n": "urn:n"})
            inside = {one for root in roots for one in document.outline.subtree(root)}
            assert hidden == len(included & inside)


def test_sizes_of_seals_tell_little() -> None:
    key = bytes(32)
    assert len({len(seal(key, b"x" * size, b"")) for size in range(31)}) == 1


# -- filters and requests


def test_filters_see_only_the_view() -> None:
    answers = []
    for hidden in (b"", b"<pay>9</pay>", b"<pay>9</pay><pay/>"):
        trial = Trial({"desk": (["//staff"], ["//pay"])})
        trial.publish(b"<firm><staff><name>Ida</name>" + hidden + b"</staff></firm>")
        member = trial.members["desk"]
        queries = ("//pay", "/staff[not(pay)]", "/staff/*[2]", "/firm", "/staff[name = 'Ida']")
        answers.append([member.matches(query) for query in queries])
    assert answers == [[[False], [True], [False], [False], [True]]] * 3


def test_requests_beyond_rights_get_one_answer() -> None:
    policies = Policies()
    policies.grant("desk", include=["//staff[name = 'Ida']"], exclude=["//pay"])
    policies.join("desk", "ann")
    labels = [(pon, low) for pon in range(1, 12) for low in range(1, pon + 1)]
    texts = [f"{{{one}}}" for one in labels] + [f"{{{one}-{other}}}" for one in labels[:12] for other in labels[:12]]
    texts += [f"{{(3,1), {one}-{one}}}" for one in labels]

    def answers(data: bytes) -> list[str]:
        document = LabelledDocument.read(data, spacing=1)
        found = []
        for text in texts:
            try:
                wanted = policies.request("desk", "ann", text, document)
                found.append(str(document.preview(wanted)))
            except (AccessError, QueryError) as error:
                found.append(str(error))
        return found

    # The view is 3{1,2}, whatever is hidden in it and around it: the answers to all requests are the same.
    assert answers(FIRST) == answers(FIRST.replace(b"<pay>9</pay>", b""))
    assert answers(FIRST) == answers(b"<x><pay/>" + FIRST.replace(b"<pay>", b"<pay><pay/>") + b"<staff/></x>")
    document = LabelledDocument.read(FIRST, spacing=1)  # 7{4{1,2,3},6{5}}
    assert policies.request("desk", "ann", "{(3,1)-(1,1)}", document).to_text(document.outline) == "{(4,1)-(1,1)-(2,2)}"
    assert policies.request("desk", "ann", "{(2,2)}", document).to_text(document.outline) == "{(3,3)}"
    beyond = {text: one for text, one in zip(texts, answers(FIRST), strict=True) if "TC631" in one}
    assert len(set(beyond.values())) == 1
    assert {"{(4, 1)}", "{(3, 2)}", "{(7, 1)}"} <= beyond.keys()
    with pytest.raises(QueryError, match="TC160"):
        policies.request("desk", "ann", "{(3,1)", document)
    for member, group in (("bob", "desk"), ("ann", "nothing")):
        with pytest.raises(AccessError, match="TC630"):
            policies.request(group, member, "{(1,1)}", document)


def test_members_write_requests_by_paths() -> None:
    for seed in range(20):
        random = Random(seed)
        trial = Trial(draw_policies(random))
        text = draw_document(random, "SECRET")
        trial.publish(text.encode())
        document = trial.publisher.document
        assert document is not None
        for group, member in trial.members.items():
            if not (fragments := member.fragments()):
                continue
            everything = trial.policies.request(group, f"m-{group}", member.request(["/*"]), document)
            assert document.preview(everything) == fragments
            seen = member.outline()
            for id in list(seen)[1:]:
                part = f"{{({seen.label(id)[0]},{seen.label(id)[1]})}}"
                (found,) = document.preview(trial.policies.request(group, f"m-{group}", part, document))
                assert any(found.split(b" xmlns")[0].split(b">")[0] in one for one in fragments)
    with pytest.raises(QueryError, match="TC163"):
        member.request(["/nothing"])


# -- updates


def test_an_update_moves_what_has_changed() -> None:
    share, sent = update_share(300_000)
    assert sent.keys() == {"all"}, "and nothing to others"
    assert share < 0.01
    assert len(decode_package(sent["all"]).elements) == 1
