"""What is published at a root and read once: the same as reading, matching, encoding and routing it one by one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from treecast import _native
from treecast.document import Document, read_many
from treecast.index import Index
from treecast.model import Subscription
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.path_routing import PathRouting
from treecast.wire import Codec, Dictionary

pytestmark = pytest.mark.house

DRAWN = Random(5)


def news(number: int) -> bytes:
    """Most are plain; some have what is written as it stands."""
    items = [
        f'<item n="{DRAWN.randrange(6)}" at="{DRAWN.randrange(9)}">{"words " * DRAWN.randrange(30)}</item>',
        f"<item n='{number}'  ><b/>1 &lt; 2<!-- so --></item >",
        f'<p:item xmlns:p="urn:p" p:n="{number}">ü</p:item>',
        '<a><b x=""/>\n<b><c></c></b></a>',
    ]
    return f"<news>{''.join(DRAWN.choices(items, k=DRAWN.randrange(12)))}</news>".encode()


def packed(forms: _native.PublishedForms, places: Sequence[int]) -> Parcels:
    """Forms by place, with their places and one more as their numbers, each of a source of its own."""
    numbers = [place + 1 for place in places]
    sources = [f"s{place}" for place in places]
    return Parcels.read(msgspec.Raw(forms.pack(places, numbers, sources, [""] * len(numbers), 7, "binary")))


@pytest.mark.parametrize("learns", [False, True])
def test_forms_targets_and_deliveries_are_those_of_one_by_one(learns: bool) -> None:
    texts = [news(number) for number in range(60)]
    documents = [one for one in read_many(texts) if isinstance(one, Document)]
    assert len(documents) == len(texts)
    dictionary = Dictionary.learn(documents[:20], version=1) if learns else None
    codec = Codec("dictionary" if learns else "binary", dictionary=dictionary)
    routing = PathRouting(seed=1)
    table = routing.root_table()
    for target, query in (("x", '//item[@n="3"]'), ("y", "//a/b/c"), ("z", "/never")):
        table.replace(target, routing.map(Subscription("", query)))
    index = Index()
    index.add_many([("q", '//item[@n="2"]'), ("r", "//c")])
    made = table.publish(index, codec, texts, ["x", "y", "z"])
    assert made is not None
    batch, forms, routes = made
    parcels = packed(forms, range(len(texts)))
    assert [parcel.body for parcel in parcels] == codec.encode_many(documents)
    assert [parcel.source for parcel in parcels] == [f"s{place}" for place in range(len(texts))]
    targets = table.route(documents, ["x", "y", "z"])
    for target in ("x", "y", "z"):
        expected = [place for place, names in enumerate(targets, 1) if target in names]
        assert [parcel.number for parcel in routes.choose(parcels, target)] == expected
    assert {"x" in one for one in targets} == {True, False}
    assert batch.documents == len(texts)
    assert batch.deliveries == sum(len(index.match(document)) for document in documents) > 0


def test_one_that_is_rejected_has_no_form_and_the_others_have_theirs() -> None:
    table = PathRouting(seed=1).root_table()
    table.replace("x", PathRouting(seed=1).map(Subscription("", "//a")))
    made = table.publish(Index(), Codec("binary"), [b"<a/>", b"<a>", b"<b/>"], ["x"])
    assert made is not None
    batch, forms, routes = made
    assert [place for place, _ in batch.rejected] == [1]
    parcels = packed(forms, [0, 2])
    assert [Codec("binary").decode(parcel.body).data for parcel in parcels] == [b"<a/>", b"<b/>"]
    assert [parcel.number for parcel in routes.at([0, 2]).choose(parcels, "x")] == [1]
    assert [parcel.body for parcel in packed(forms, [1])] == [b""]
