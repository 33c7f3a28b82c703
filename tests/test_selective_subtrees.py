"""Subscriptions to subtrees: text, normal form, paths, previews. Brute force and lxml are the judges."""

from __future__ import annotations

from random import Random

import pytest
from generators import subtree_cases
from generators.xml import Generator
from lxml import etree
from oracles import subtree_views

from treecast.errors import QueryError
from treecast.selective.labelled import LabelledDocument
from treecast.selective.outline import Outline
from treecast.selective.subtrees import Subtree, Subtrees, choose

pytestmark = pytest.mark.house


@pytest.fixture
def paper() -> Outline:
    return Outline(subtree_cases.PAPER, spacing=1)


def pons(subtrees: Subtrees, outline: Outline) -> list[int]:
    return sorted(outline.label(id)[0] for id in subtrees.elements(outline))


def test_example_1(paper: Outline) -> None:
    whole = Subtrees.parse("{(18, 1) - (10, 7)}", paper)
    assert pons(whole, paper) == [1, 2, 3, 4, 5, 6, *range(11, 19)]
    two = Subtrees.parse("{(6, 1) - (4, 2), (17, 11)}", paper)
    assert pons(two, paper) == [1, 5, 6, *range(11, 18)]
    assert two.to_text(paper) == "{(6,1)-(4,2), (17,11)}"
    assert [one.to_text(paper) for one in two.single()] == ["{(6,1)-(4,2)}", "{(17,11)}"]
    assert two.positive().to_text(paper) == "{(6,1), (17,11)}"


def test_the_slip_in_example_1_is_refused(paper: Outline) -> None:
    with pytest.raises(QueryError) as caught:
        Subtrees.parse("{(6, 1) - (4, 1), (17, 11)}", paper)
    assert (caught.value.code, caught.value.position) == ("TC161", 10)
    assert "(4,2)" in caught.value.hint


def test_labels_in_text_follow_the_document(paper: Outline) -> None:
    wanted = Subtrees.parse("{(17,11)-(15,13)}", paper)
    paper.insert(0, 0)
    assert Subtrees.parse(wanted.to_text(paper), paper) == wanted


def test_normal_form_is_what_it_means() -> None:
    for seed in range(400):
        random = Random(seed)
        outline = Outline(subtree_cases.parents(random, random.randint(1, 14)))
        parts = [subtree_cases.part(random, outline) for _ in range(random.randint(1, 4))]
        shown = subtree_cases.meaning(parts, outline)
        found = Subtrees.of(parts, outline)
        assert sorted(found.elements(outline)) == sorted(shown)
        assert {id for id in outline if found.covers(id, outline)} == shown
        # One meaning, one form: parts begin where nothing is seen above, exclusions where something is.
        assert [part.root for part in found.parts] == [
            id for id in outline if id in shown and outline.parent(id) not in shown
        ]
        excluded = [id for id in outline if id not in shown and outline.parent(id) in shown]
        assert sorted(id for part in found.parts for id in part.without) == sorted(excluded)
        if shown:
            assert Subtrees.parse(found.to_text(outline), outline) == found


def test_what_is_excluded_wins() -> None:
    for seed in range(200):
        random = Random(seed)
        outline = Outline(subtree_cases.parents(random, random.randint(1, 14)))
        ids = list(outline)
        include, exclude = (random.choices(ids, k=random.randint(0, 4)) for _ in range(2))
        inside = subtree_cases.meaning([Subtree(id) for id in include], outline)
        outside = subtree_cases.meaning([Subtree(id) for id in exclude], outline)
        assert set(choose(include, exclude, outline).elements(outline)) == inside - outside


def same(ours: bytes) -> bytes:
    """Ours as lxml writes it: it does not escape `&` in namespaces."""
    return bytes(etree.tostring(subtree_views.read(ours), method="c14n", exclusive=True, with_comments=True))


def check_preview(data: bytes, random: Random) -> None:
    document = LabelledDocument.read(data)
    for _ in range(3):
        wanted = Subtrees.of([subtree_cases.part(random, document.outline) for _ in range(2)], document.outline)
        ids = list(document.outline)
        shown = {ids.index(id) for id in wanted.elements(document.outline)}
        assert [same(one) for one in document.preview(wanted)] == subtree_views.view(data, shown)
        chosen = [document.choose([path], exclude=without) for path, without in document.paths(wanted)]
        assert Subtrees.of([part for one in chosen for part in one.parts], document.outline) == wanted


def test_previews_equal_an_extraction_by_lxml() -> None:
    for seed in range(150):
        check_preview(Generator(seed).document("utf-8"), Random(seed))


def test_previews_of_indented_documents() -> None:
    data = b"<a>\n <b>x<c/> <!--k--> <c/>y<d/></b>\n <b/>\n <e>\n  <c/>\n </e>z <b/>\n</a>"
    for seed in range(100):
        check_preview(data, Random(seed))


def test_hidden_siblings_leave_no_trace() -> None:
    views = set()
    for count in range(4):
        hidden = b"\n  <secret><b/></secret>" * count
        document = LabelledDocument.read(
            b"<a k='top'>\n <b>\n  <c/>" + hidden + b"\n  <d/>" + hidden + b"\n </b>\n</a>"
        )
        exclude = ["//secret"] if count else []
        views.add(tuple(document.preview(document.choose(["//b[c]"], exclude=exclude))))
    assert views == {(b"<b>\n  <c></c>\n  <d></d>\n </b>",)}


def test_paths_name_single_elements() -> None:
    document = LabelledDocument.read(b"<a xmlns:p='urn:p'><p:b/><b/><b xmlns='urn:q'/><b><p:c/></b></a>")
    for id in document.outline:
        assert document.select(document.path(id)) == [id]
    assert document.path(list(document.outline)[4]) == "/a/b[2]"
