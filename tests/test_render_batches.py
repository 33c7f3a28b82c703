"""Deliveries of an index, document after document: what one leaves behind is nothing to the next."""

from __future__ import annotations

from treecast import Index
from treecast.model import DeliveryLimits

ITEMS = (
    b"<news><item><title>First &amp; last</title><p>a<b>b</b>c</p></item>"
    b"<item><title>Second</title><p/></item><item><title>Third</title></item></news>"
)


def test_documents_of_a_batch_and_originals_take_no_room_from_each_other() -> None:
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
