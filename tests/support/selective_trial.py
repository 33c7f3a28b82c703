"""A publisher, its subscribers, and documents with secrets in every corner; lxml says what each may see."""

from __future__ import annotations

from random import Random
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from lxml import etree
from oracles import subtree_views
from oracles.view_verifier import RefusalError, View

from treecast.errors import PeerError
from treecast.selective.policies import Policies
from treecast.selective.publisher import Publisher
from treecast.selective.subscriber import Subscriber

SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
NAMES = ("a", "b", "c", "n:d", "e")
SPACES = ("", "", "\n  ", " text ", "<!--note-->", "<?note it?>")


class JudgedSubscriber(Subscriber):
    """A subscriber beside the verifier that was written from the guide: they accept, refuse and see the same."""

    def __init__(self, member: str, key: bytes, document: str, group: str, public_key: bytes) -> None:
        super().__init__(member, key, document, group, public_key)
        self.verifier = View(member, key, document, group, public_key)

    def admit(self, epoch: int, envelope: bytes) -> None:
        super().admit(epoch, envelope)
        self.verifier.take_envelope(epoch, envelope)

    def receive(self, data: bytes) -> bool:
        try:
            is_new: bool | None = self.verifier.take_package(data)
        except RefusalError:
            is_new = None
        try:
            assert super().receive(data) == is_new
        except PeerError:
            assert is_new is None  # the guide leaves open which of several reasons is given
            raise
        assert self.version == self.verifier.version
        assert self.is_behind == (self.verifier.version < self.verifier.newest)
        assert self.fragments() == self.verifier.fragments()
        return is_new is True


class Trial:
    """One document with groups; each group has one member, who holds a view."""

    def __init__(self, policies: dict[str, tuple[list[str], list[str]]]) -> None:
        self.policies = Policies()
        for group, (include, exclude) in policies.items():
            self.grant(group, include, exclude)
        self.publisher = Publisher("doc", self.policies, secret=b"s" * 32, signer=SIGNER)
        self.members = {group: self.member(group) for group in policies}

    def grant(self, group: str, include: list[str], exclude: list[str]) -> None:
        self.policies.grant(group, include=include, exclude=exclude, namespaces={"n": "urn:n"}, allow_empty=True)
        self.policies.join(group, f"m-{group}")

    def member(self, group: str) -> JudgedSubscriber:
        key = self.publisher.keys.member(f"m-{group}")
        subscriber = JudgedSubscriber(f"m-{group}", key, "doc", group, self.publisher.public_key)
        subscriber.admit(*self.publisher.envelope(group, f"m-{group}"))
        return subscriber

    def publish(self, data: bytes) -> dict[str, bytes]:
        """Publish a version, and let the members have what is for them. Returns the packages."""
        package_by_group = {}
        for group in self.publisher.publish(data):
            package_by_group[group] = self.publisher.package(group, since=self.members[group].version)
            assert self.members[group].receive(package_by_group[group])
        return package_by_group

    def restart(self) -> None:
        """The publisher goes on from what it has saved."""
        state = self.publisher.save()
        self.publisher = Publisher("doc", self.policies, secret=b"s" * 32, signer=SIGNER)
        self.publisher.restore(state)
        assert self.publisher.save() == state

    def check(self, data: bytes) -> None:
        """Every member has what lxml extracts for their group, and a new one gets the same at once."""
        for group, member in self.members.items():
            policy = self.policies.policy(group)
            expected = extract(data, list(policy.include), list(policy.exclude))
            assert [canonical(one) for one in member.fragments()] == expected
            assert member.version == self.publisher.version(group)
            late = self.member(group)
            late.receive(self.publisher.package(group))
            assert late.fragments() == member.fragments()


def canonical(fragment: bytes) -> bytes:
    return bytes(etree.tostring(subtree_views.read(fragment), method="c14n", exclusive=True, with_comments=True))


def extract(data: bytes, include: list[str], exclude: list[str]) -> list[bytes]:
    """What a group may see: by XPath of libxml2 and the oracle of views."""
    return subtree_views.view(data, visible_places(subtree_views.read(data), include, exclude))


def visible_places(root: Any, include: list[str], exclude: list[str]) -> set[int]:
    """The positions in document order of the elements that a group may see."""
    places = {one: place for place, one in enumerate(subtree_views.elements(root))}

    def inside(paths: list[str]) -> set[int]:
        tops = [one for path in paths for one in root.xpath(path, namespaces={"n": "urn:n"})]
        return {places[one] for top in tops for one in subtree_views.elements(top)}

    return inside(include) - inside(exclude)


def draw_document(random: Random, mark: str) -> str:
    """A document with secrets: `s` and what is in it, ancestors; the mark is in names, attributes, text, comments."""

    def element(depth: int) -> str:
        if random.random() < 0.2:
            return f"<s x='{mark}'><s-{mark}/>{mark}<!--{mark}--><?p {mark}?></s>"
        name = random.choice(NAMES)
        spaces = " xmlns:n='urn:n'" if random.random() < 0.1 else ""
        attribute = f" k='{random.randrange(3)}'" if random.random() < 0.3 else ""
        below = [element(depth + 1) for _ in range(random.randint(0, 4 if depth < 3 else 0))]
        inner = "".join(random.choice(SPACES) + one for one in below) + random.choice(SPACES)
        return f"<{name}{spaces}{attribute}>{inner}</{name}>"

    def hidden_parent(inner: str) -> str:
        """Nobody may see it, but maybe what is in it: its name and attributes must not come along."""
        return f"<w-{mark} k='{mark}' xmlns:w='urn:{mark}'><!--{mark}-->{mark}{inner}{mark}<?p {mark}?></w-{mark}>"

    parts = [element(0) for _ in range(4)]
    inner = "".join(hidden_parent(one) if random.random() < 0.3 else one for one in parts)
    top = f"<top secret='{mark}' xmlns:n='urn:n' xmlns:hidden='urn:{mark}'>{inner}</top>"
    return f"<!--{mark}--><?p {mark}?>{top}<!--{mark}-->"


PATHS = ("//a", "//b", "//c", "/top/e", "/top/a", "//n:d", "//e/a", "/top/b//c")


def draw_policies(random: Random) -> dict[str, tuple[list[str], list[str]]]:
    groups = {}
    for number in range(random.randint(1, 3)):
        include = random.sample(PATHS, random.randint(1, 3))
        exclude = ["//s", *random.sample(PATHS, random.choice([0, 0, 1, 2]))]
        groups[f"g{number}"] = (include, exclude)
    return groups


def trial_round(seed: int) -> int:
    """Versions and changes of policies, with everything checked after each. Returns how many packages were sent."""
    random = Random(seed)
    trial = Trial(draw_policies(random))
    package_count = 0
    text = draw_document(random, "SECRET")
    for _ in range(4):
        data = text.encode()
        packages = trial.publish(data)
        package_count += len(packages)
        trial.check(data)
        for group, member in trial.members.items():
            visible_bytes = b"".join(member.fragments()) + b"".join(one.record for one in member._elements.values())
            assert b"SECRET" not in visible_bytes and b"secret" not in visible_bytes, group
        # What only the hidden part has changes: nobody gets anything.
        assert trial.publish(data.replace(b"SECRET", random.choice([b"OTHER", b"SECRETSECRET"]))) == {}
        assert trial.publish(hide_more(random, text).encode()) == {}
        trial.check(data)
        text = mutate(random, text)
        if random.random() < 0.3:
            trial.restart()
        if random.random() < 0.3:
            group = random.choice(list(trial.members))
            trial.grant(group, *draw_policies(random)["g0"])
    return package_count


def hide_more(random: Random, text: str) -> str:
    """The same with more hidden subtrees, in other ones or beside them, some with white space of their own."""
    root = etree.fromstring(text)
    for _ in range(random.randint(1, 3)):
        one = random.choice([one for one in root.iter() if isinstance(one.tag, str)])
        before = random.choice([child for child in one if isinstance(child.tag, str)] or [None])
        new = etree.fromstring("<s x='SECRET'>SECRET<s/></s>")
        if before is None:
            continue
        before.addprevious(new)  # behind the text before it
    return str(etree.tostring(root, encoding="unicode"))


def mutate(random: Random, text: str) -> str:
    """Another version: something visible is inserted, removed or changed."""
    root = etree.fromstring(text)
    elements = [one for one in root.iter() if isinstance(one.tag, str)]
    one = random.choice(elements)
    chance = random.random()
    if chance < 0.4:
        one.insert(random.randint(0, len(one)), etree.Element(random.choice("abcs")))
    elif chance < 0.6 and one is not root:
        one.getparent().remove(one)
    else:
        one.set("k", str(random.randrange(9)))
    return str(etree.tostring(root, encoding="unicode"))


def feed(bytes_wanted: int, changed_item: int = -1) -> bytes:
    """A document of about this size; one item may have another body."""
    words = "words of a body that is about as long as a sentence or two of it, so that it is two hundred bytes " * 2
    rows = (
        f"<item id='{number}'><title>Title {number}</title><body>{words}{'!' * (number == changed_item)}</body></item>"
        for number in range(bytes_wanted // 260)
    )
    return f"<feed><section>{''.join(rows)}</section><other/></feed>".encode()


def update_share(bytes_wanted: int) -> tuple[float, dict[str, bytes]]:
    """Change one element: the share of the document that is sent, and all that is sent."""
    trial = Trial({"all": (["/feed"], []), "titles": (["//title"], []), "rest": (["//other"], [])})
    trial.publish(feed(bytes_wanted))
    new_version = feed(bytes_wanted, changed_item=17)
    package_by_group = trial.publish(new_version)
    assert b"!</body>" in trial.members["all"].fragments()[0]
    return len(package_by_group["all"]) / len(new_version), package_by_group
