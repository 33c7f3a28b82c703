"""Two worlds that differ only in what one group does not see: nothing that the group can observe may differ.

What is hidden from the group is changed in every way that comes to mind, whether other groups see it or not: names,
attributes, texts, comments, instructions, numbers and sizes of subtrees, what stands around the root, white space
around hidden subtrees. lxml decides whether the two documents look the same to the group; what a change did to the
answers of its policy is thus noticed, and such a change is taken back.
"""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

from lxml import etree
from oracles import subtree_views

from support.selective_trial import Trial, draw_document, draw_policies, extract, mutate, visible_places
from treecast.errors import AccessError, QueryError

FILTERS = ("//s", "/*[not(s)]", "/*/*[2]", "//*[not(*)]", "/*[@k = '1' or not(b)]", "//text()", "/top")


def interference_round(seed: int, versions: int = 3) -> int:
    """Publish versions in both worlds and compare what the group can observe. Returns how often they differed."""
    random = Random(seed)
    policies = draw_policies(random)
    group = random.choice(list(policies))
    worlds = Trial(policies), Trial(policies)
    text = draw_document(random, "SECRET")
    differences = 0
    for _ in range(versions):
        data = text.encode()
        other = change_hidden(random, data, *policies[group])
        differences += other != data
        observations = [observe(world, one, group, seed) for world, one in zip(worlds, (data, other), strict=True)]
        assert observations[0] == observations[1], (seed, data, other)
        text = mutate(random, text)
    return differences


def observe(world: Trial, data: bytes, group: str, seed: int) -> list[object]:
    """Everything that a member of the group, and a broker that carries its packages, can observe of one version."""
    package = world.publish(data).get(group)  # None: there was no message at all
    member = world.members[group]
    document = world.publisher.document
    assert document is not None
    answers: list[object] = []
    random = Random(seed)
    for _ in range(6):
        labels = [f"({random.randint(1, 9)},{random.randint(1, 9)})" for _ in range(random.randint(1, 3))]
        for member_name in (f"m-{group}", "stranger"):
            try:
                subtrees = world.policies.request(group, member_name, "{" + "-".join(labels) + "}", document)
                answers.append(document.preview(subtrees))
            except (AccessError, QueryError) as error:
                answers.append(str(error))
    return [
        package,
        world.publisher.package(group),
        world.publisher.envelope(group, f"m-{group}"),
        member.version,
        member.fragments(),
        [member.matches(query) for query in FILTERS],
        answers,
    ]


def change_hidden(random: Random, data: bytes, include: list[str], exclude: list[str]) -> bytes:
    """The same document to those who see only this, and as different as possible to others."""
    visible_fragments = extract(data, include, exclude)
    root = subtree_views.read(data)
    for _ in range(random.randint(3, 8)):
        changed_root = deepcopy(root)
        _change_once(random, changed_root, visible_places(changed_root, include, exclude))
        if extract(etree.tostring(changed_root), include, exclude) == visible_fragments:
            root = changed_root
    return bytes(etree.tostring(root.getroottree()))


def _change_once(random: Random, root: Any, visible: set[int]) -> None:
    elements = subtree_views.elements(root)
    hidden_elements = [one for place, one in enumerate(elements) if place not in visible]
    kind = random.randrange(9)
    if kind <= 2 or not hidden_elements:
        # A hidden subtree anywhere, with white space around it or not.
        parent = random.choice(elements)
        size = random.randint(0, 5)
        new = etree.fromstring(f"<s x='{'y' * size}'><!--{size}--><?p {size}?>{'<s>text</s>' * size}</s>")
        _insert(parent, random.randint(0, len(parent)), new)
        return
    one = random.choice(hidden_elements)
    if kind == 3:
        one.tag = random.choice("abcest")
    elif kind == 4:
        one.set(random.choice("kxy"), "z" * random.randint(0, 99))
    elif kind == 5:
        one.text = (one.text or "") + "hidden" * random.randint(1, 20)
    elif kind == 6:
        one.insert(random.randint(0, len(one)), random.choice([etree.Comment, etree.PI])("hidden"))
    elif kind == 7:
        root.addprevious(etree.Comment("before " * random.randint(0, 9)))
        root.addnext(etree.PI("after", "x"))
    elif one is not root:
        _remove(one)


def _insert(parent: Any, position: int, new: Any) -> None:
    """In front of a child, or at the end. White space that is there is repeated behind it, as an editor would."""
    before = (parent.text if position == 0 else parent[position - 1].tail) or ""
    new.tail = before[len(before.rstrip(subtree_views.SPACE)) :]
    parent.insert(position, new)


def _remove(one: Any) -> None:
    """The text behind it stays."""
    parent, tail = one.getparent(), one.tail or ""
    previous = one.getprevious()
    parent.remove(one)
    if previous is None:
        parent.text = (parent.text or "") + tail
    else:
        previous.tail = (previous.tail or "") + tail
