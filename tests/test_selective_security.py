"""Views that are sealed and signed: what members get, what nobody can change, what nobody can observe."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
import pytest
from oracles import view_verifier
from support.selective_trial import Trial, draw_document, draw_policies, hide_more, mutate, trial_round, update_share

from treecast.errors import AccessError, PeerError, QueryError
from treecast.selective.keys import seal, unseal
from treecast.selective.labelled import LabelledDocument
from treecast.selective.package import Entry, Manifest, decode_package, element_about, encode
from treecast.selective.policies import Policies
from treecast.selective.subscriber import Subscriber

pytestmark = pytest.mark.house

FIRST = b"<firm><staff><name>Ida</name><pay>9</pay><note/></staff><staff><name>Bo</name></staff></firm>"
SECOND = FIRST.replace(b"Ida", b"Eva")
POLICIES = {"desk": (["//staff"], ["//pay"]), "pay": (["//pay"], [])}


def test_members_get_what_lxml_extracts() -> None:
    assert sum(trial_round(seed) for seed in range(30)) > 80


def test_what_is_hidden_changes_nothing_that_is_sent() -> None:
    """Two worlds that differ only in what is hidden, its amount included: every package is the same, byte by byte."""
    for seed in range(30):
        random = Random(seed)
        policies = draw_policies(random)
        worlds = Trial(policies), Trial(policies)
        text = draw_document(random, "SECRET")
        for _ in range(4):
            other = hide_more(random, text).replace("SECRET", random.choice(["X", "LONGER-SECRET"]))
            assert worlds[0].publish(text.encode()) == worlds[1].publish(other.encode())
            text = mutate(random, text)


def test_a_verifier_written_from_the_guide_accepts_a_view() -> None:
    trial = Trial(POLICIES)
    trial.publish(FIRST)
    trial.publish(SECOND)
    keys = trial.publisher.keys
    _, envelope = trial.publisher.envelope("desk", "m-desk")
    package = trial.publisher.package("desk")
    records = view_verifier.verify(package, "m-desk", keys.member("m-desk"), envelope, trial.publisher.public_key)
    assert ["name", [], [["", ""]], ["Eva"]] in records.values()
    assert len(records) == 5


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
        "signature": flip(package.signature),
        "manifest": flip(package.manifest),
        "elements": [*package.elements[:-1], flip(package.elements[-1])],
    }
    for name, value in changes.items():
        code = refused(member, encode(msgspec.structs.replace(package, **{name: value})))
        assert code == ("TC493" if name == "signature" else "TC492"), name
    assert refused(member, encode(msgspec.structs.replace(package, epoch=2))) == "TC496"
    assert refused(member, encode(msgspec.structs.replace(package, elements=[]))) == "TC492"
    assert refused(member, good[:-1]) == "TC492"
    assert member.receive(good), "and the true one is accepted after all of that"
    assert b"Eva" in member.fragments()[0]


Forgery = Callable[[Manifest, dict[bytes, bytes]], Manifest]


def forge(trial: Trial, package: bytes, change: Forgery) -> bytes:
    """A package that a member and a broker make together: they have the key of the group, not that of the publisher."""
    found = decode_package(package)
    key = trial.publisher.keys.group("desk", found.epoch)
    member = trial.members["desk"]
    fragments, opened = member._open(found)
    records = {token: held.record for token, held in opened.items()}
    manifest = change(Manifest(fragments, [held.entry for held in opened.values()]), records)
    sealed = seal(key, encode(manifest), found.about())
    elements = [seal(one.key, records[one.token], element_about("doc", one.token)) for one in manifest.entries]
    return encode(msgspec.structs.replace(found, manifest=sealed, elements=elements))


def root_of(manifest: Manifest) -> Entry:
    return next(one for one in manifest.entries if one.token == manifest.fragments[0])


def with_children(manifest: Manifest, children: list[bytes]) -> Manifest:
    root = root_of(manifest)
    changed = [msgspec.structs.replace(one, children=children) if one is root else one for one in manifest.entries]
    return Manifest(manifest.fragments, changed)


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
    first, second = manifest.fragments
    token = root_of(manifest).children[0]
    by_token = {one.token: one for one in with_children(manifest, root_of(manifest).children[1:]).entries}
    by_token[second] = msgspec.structs.replace(by_token[second], children=[*by_token[second].children, token])
    by_token[token] = msgspec.structs.replace(by_token[token], parent=second)
    return Manifest([first, second], list(by_token.values()))


def drop_fragment(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    return Manifest(manifest.fragments[:1], manifest.entries)


def replay(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    """The record that the element had in the version before, with the number of that version."""
    token = root_of(manifest).children[0]
    records[token] = records[token].replace(b"Eva", b"Ida")
    old = [msgspec.structs.replace(one, version=1) if one.token == token else one for one in manifest.entries]
    return Manifest(manifest.fragments, old)


def renumber(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    """The right content, said to have changed in another version."""
    return Manifest(
        manifest.fragments, [msgspec.structs.replace(one, version=one.version + 1) for one in manifest.entries]
    )


def circle(manifest: Manifest, records: dict[bytes, bytes]) -> Manifest:
    return with_children(manifest, [root_of(manifest).token])


@pytest.mark.parametrize("change", [alter, drop, reorder, repeat, move, drop_fragment, replay, renumber, circle])
def test_members_and_brokers_together_cannot_forge(trial: Trial, change: Forgery) -> None:
    member = trial.members["desk"]
    trial.publisher.publish(SECOND)
    good = trial.publisher.package("desk")
    assert refused(member, forge(trial, good, change)) == "TC493"
    assert forge(trial, good, lambda manifest, records: manifest) == good
    assert member.receive(good)


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
    secrets = [eve._key, *eve._group_keys.values(), *(held.entry.key for held in eve._held.values())]
    found = decode_package(package)
    for key in secrets:
        assert unseal(key, found.manifest, found.about()) is None
        assert all(unseal(key, box, element_about("doc", held)) is None for box in found.elements for held in eve._held)


def test_a_group_that_loses_a_right_loses_the_elements(trial: Trial) -> None:
    trial.grant("desk", ["//name"], [])
    assert trial.publisher.refresh() == ["desk"]
    member = trial.members["desk"]
    member.receive(trial.publisher.package("desk", since=1))
    assert member.fragments() == [b"<name>Ida</name>", b"<name>Bo</name>"]
    assert not any(b"staff" in held.record for held in member._held.values())


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
    document = LabelledDocument.read(FIRST, spacing=1)  # 7{4{1,2,3},6{5}}
    policies = Policies()
    policies.grant("desk", include=["//staff[1]"], exclude=["//pay"])
    policies.join("desk", "ann")

    def answer(text: str) -> str:
        with pytest.raises((AccessError, QueryError)) as caught:
            policies.request("desk", "ann", text, document)
        return str(caught.value)

    assert policies.request("desk", "ann", "{(4,1)-(2,2)}", document).to_text(document.outline) == "{(4,1)-(2,2)}"
    assert policies.request("desk", "ann", "{(1,1)}", document).parts
    # Hidden, beyond, above, and not there at all: nobody can tell which.
    assert (
        len({answer(text) for text in ("{(2,2)}", "{(4,1)}", "{(7,1)}", "{(99,1)}", "{(4,2)}", "{(4,1)-(6,5)}")}) == 1
    )
    assert answer("{(4,1)").startswith("TC160")
    for member, group in (("bob", "desk"), ("ann", "nothing")):
        with pytest.raises(AccessError, match="TC630"):
            policies.request(group, member, "{(1,1)}", document)


# -- updates


def test_an_update_moves_what_has_changed() -> None:
    share, sent = update_share(300_000)
    assert sent.keys() == {"all"}, "and nothing to others"
    assert share < 0.01
    assert len(decode_package(sent["all"]).elements) == 1
