"""Deliveries of an index, document after document: one document does not affect the next."""

from __future__ import annotations

import pytest

from treecast import Index, QueryError
from treecast.model import DeliveryLimits

ITEMS = (
    b"<news><item><title>First &amp; last</title><p>a<b>b</b>c</p></item>"
    b"<item><title>Second</title><p/></item><item><title>Third</title></item></news>"
)


def test_documents_of_a_batch_and_originals_have_separate_limits() -> None:
    index = Index(delivery_limits=DeliveryLimits(document_payload_bytes_max=80))
    index.add("whole", "//title")
    for name, query in {"titles": "//title", "p": "//p", "b": "//b"}.items():
        index.add(name, query, deliver="elements")
    part = index.render_part([ITEMS] * 3, report=False)
    titles = b"<title>First &amp; last</title><title>Second</title><title>Third</title>"
    for made in part.deliveries.to_pylist():
        assert [(one["subscription"], one["payload"], one["code"]) for one in made] == [
            ("whole", ITEMS, None),
            ("titles", titles, None),
            ("p", None, "TC331"),
            ("b", b"<b>b</b>", None),
        ]


def test_subscriptions_are_known_by_their_place_only_as_long_as_it_is_theirs() -> None:
    """Slots are given anew when an index is cleared out, and two indexes use the same ones."""
    index, other = Index(), Index()
    for number in range(3000):
        index.add(f"s{number}", f"for $p in $msg//p where $p/@n != 'x{number}' return <o>{number}</o>")
        other.add(f"s{number}", f"for $p in $msg//p return <u>{number}</u>")
    data = b"<r><p n='1'/></r>"
    for gone in (0, 1, 2):
        for _ in range(2):
            assert [int(made.payload[3:-4]) for made in index.render(data)] == list(range(gone * 999, 3000))
            assert [made.payload[:3] for made in other.render(data)] == [b"<u>"] * len(other)
        for number in range(gone * 999, gone * 999 + 999):
            index.remove(f"s{number}")


@pytest.mark.parametrize(
    ("query", "position"), [("/a | /a/text()", 5), ("//@x | //b", 7), ("/a[b | @x] | //b | //@x", 19)]
)
def test_markup_and_plain_text_are_not_delivered_together(query: str, position: int) -> None:
    """A text is delivered as it is, unescaped: beside an element it could be taken for one."""
    index = Index()
    with pytest.raises(QueryError, match="for \\$i in") as refused:
        index.add("both", query, deliver="elements")
    assert (refused.value.code, refused.value.position) == ("TC118", position)
    assert len(index) == 0
    index.add("whole", query)
    with pytest.raises(QueryError):
        index.replace("whole", query, deliver="elements")
    assert index.render(b"<a><b/></a>")[0].payload == b"<a><b/></a>"


def test_attributes_and_texts_are_delivered_together() -> None:
    index = Index()
    index.add("values", "//@x | //text()", deliver="elements")
    index.add("escaped", "for $i in $msg/a | $msg/a/text() return $i")
    values, escaped = index.render(b"<a x='1&lt;'>&lt;b/></a>")
    assert values.payload == b"1<<b/>"
    assert escaped.payload == b"<a x='1&lt;'>&lt;b/></a>&lt;b/&gt;"
