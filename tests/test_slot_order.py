"""Every call lists the subscriptions of a document in the order of addition, whatever order an engine finds them in."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest

import treecast
from treecast import Index, _native, engines

SUBSCRIPTIONS = 3000


@pytest.fixture(params=[0, 1, 2], ids=["scalar", "avx2", "avx512"])
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    _native.testing.simd_force(request.param)
    yield
    _native.testing.simd_force(-1)


def query(random: Random) -> str:
    """Most are shared by several subscriptions, and a document satisfies a third of them."""
    path = "".join(random.choice(["/", "//"]) + random.choice("abcd*") for _ in range(random.randint(1, 3)))
    return path + random.choice(["", "", "[@x]"])


def filled(engine: str, random: Random) -> tuple[Index, list[str]]:
    """An index that was changed in every way, and its ids in the order of addition."""
    index = Index(engine=engine)
    names = [f"s{number}" for number in range(SUBSCRIPTIONS)]
    index.add_many((name, query(random)) for name in names)
    for number in range(300):
        name = random.choice(names)
        match number % 3:
            case 0:
                index.remove(name)
                names.remove(name)
            case 1:
                index.replace(name, query(random))
            case _:
                index.remove(name)
                index.add(name, query(random))
                names.remove(name)
                names.append(name)
    return index, names


def documents(random: Random) -> list[bytes]:
    """Some satisfy a thousand subscriptions, some a few, some none."""
    parts = ["<a/>", "<b x='1'/>", "<c><d/></c>", "<d><b><a x='2'/></b></d>", "<a><b><c x='3'/></b></a>"]
    roots = ["a", "b", "z"]
    chosen = [(random.choice(roots), "".join(random.choices(parts, k=random.choice([0, 1, 3, 8])))) for _ in range(40)]
    return [f"<{root}>{content}</{root}>".encode() for root, content in chosen]


def pairs(table: pa.Table) -> list[tuple[int, str]]:
    return list(zip(table["document"].to_pylist(), table["subscription"].to_pylist(), strict=True))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("engine", engines.names())
def test_batches_are_in_the_order_of_match(engine: str) -> None:
    random = Random(engine)
    index, names = filled(engine, random)
    given = documents(random)
    one_by_one = [index.match(document) for document in given]
    assert max(map(len, one_by_one)) > SUBSCRIPTIONS / 3
    places = {name: place for place, name in enumerate(names)}
    assert all(ids == sorted(ids, key=places.__getitem__) for ids in one_by_one)

    expected = [(number, id) for number, ids in enumerate(one_by_one) for id in ids]
    for threads in (1, 3):
        assert pairs(index.match_many(given, threads=threads)) == expected
        assert pairs(index.render_many(given, threads=threads)) == expected
        batches = index.match_batches(given, threads=threads, matches_max=2000)
        assert pairs(pa.concat_tables(batches)) == expected
        rendered = index.render_batches(given, threads=threads, payload_bytes_max=2000)
        assert pairs(pa.concat_tables(rendered)) == expected
    assert index.match_part(given, report=True).matches.to_pylist() == one_by_one
    made = index.render_part(given, report=True).deliveries.to_pylist()
    assert [[delivery["subscription"] for delivery in of_document] for of_document in made] == one_by_one


def test_the_error_of_a_batch_names_its_document() -> None:
    index = Index()
    index.add("q", "/a")
    given = [b"<a/>"] * 9 + [b"<a><b></a>"]
    place = "TC202 document 9: the end tag </a> does not match the start tag <b> (line 1, byte 6)"
    for call in (
        lambda: index.match_many(given),
        lambda: list(index.match_batches(given, matches_max=2)),
        lambda: index.render_many(given),
        lambda: list(index.render_batches(given, payload_bytes_max=2)),
    ):
        with pytest.raises(treecast.DocumentError) as caught:
            call()
        assert str(caught.value).startswith(place)
        assert caught.value.document == 9
    for single in (index.match, index.render):
        with pytest.raises(treecast.DocumentError, match=r"^TC202 the end tag") as alone:
            single(given[-1])
        assert alone.value.document is None
