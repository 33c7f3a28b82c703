"""Subscribers who differ in the values of their where clauses share one plan, and get what each would get alone."""

from __future__ import annotations

import random

import treecast

DOCUMENT = (
    b"<r><a k='1' l='x'>one<return>x</return><let>y</let></a><a k='2' l='y'>two<b>1</b></a>"
    b"<a k='1' l='it''s'><b>2</b>three</a></r>"
).replace(b"''", b"&apos;")

FORMS = [
    "for $n in $msg/r/a where $n/@k = {0} return <o>{{$n/text()}}</o>",
    "for $n in $msg/r/a[@k = {0}] where $n/@l = {1} return <o l='{{$n/@l}}' k=\"k\">{{$n}}</o>",
    "for $n in $msg//a where contains($n/@l, {0}) or $n/b = {1} return ($n/@k, 'v', {0})",
    "for $n in $msg/r/a where $n[return = {0}] return $n/return",
    "for $n in $msg/r/a where $n/return = {0} return if ($n/let = {1}) then <y/> else <z/>",
    "for $n in $msg/r/a let $v := $n/@k where $v = {0} return <o>{{$v}}</o>",
    "for $n in $msg/r/*[local-name() = 'a'] where $n/@k = {0} return <o>{{string($n/@l)}}</o>",
    "<w>{{for $n in $msg/r/a where $n/@k = {0} return <o>{{$n/b}}</o>}}</w>",
    "for $n in $msg/r/a where starts-with($n, {0}) order by $n/@l descending return <o>{{$n/@l}}{{$n/b}}</o>",
    "for $n in $msg/r/a where $n/@k = {0} return <o>{{$n/b}}{{$n/@k}}</o>",
]
VALUES = ["'1'", '"1"', "'2'", '""', "'x'", '"y"', '"it\'s"', "'one'", "'two'", "' return '", "'{'"]


def drawn(seed: int, count: int) -> list[tuple[str, str]]:
    chance = random.Random(seed)
    forms = [chance.choice(FORMS).format(chance.choice(VALUES), chance.choice(VALUES)) for _ in range(count)]
    return [(f"s{number}", text) for number, text in enumerate(forms)]


def summary(delivery: treecast.Delivery) -> tuple[str, bytes, str | None]:
    return delivery.subscription, delivery.payload, delivery.refused.code if delivery.refused else None


def test_each_gets_what_it_would_get_alone() -> None:
    subscriptions = drawn(3, 400)
    index = treecast.Index()
    index.add_many(subscriptions)
    expected = []
    for id, text in subscriptions:
        alone = treecast.Index()
        alone.add(id, text)
        expected += alone.render(DOCUMENT)
    assert len(expected) > 100
    for _ in range(2):  # what was learnt from the first time is used the second
        found = index.render(DOCUMENT)
        assert [summary(one) for one in found] == [summary(one) for one in expected]
        assert [one.subscription for one in found] == index.match(DOCUMENT)


def test_after_changes() -> None:
    """A slot names a text for good, whatever comes and goes."""
    chance = random.Random(5)
    index = treecast.Index()
    texts: dict[str, str] = {}
    for number, (_, text) in enumerate(drawn(7, 3000)):
        id = f"s{chance.randrange(60)}"
        if id in texts and chance.random() < 0.4:
            index.remove(id)
            del texts[id]
        elif id in texts:
            index.replace(id, text)
            texts[id] = text
        else:
            index.add(id, text)
            texts[id] = text
        if number % 100 == 0:
            fresh = treecast.Index()
            fresh.add_many(list(texts.items()))
            found = {one.subscription: one.payload for one in index.render(DOCUMENT)}
            assert found == {one.subscription: one.payload for one in fresh.render(DOCUMENT)}


def test_refusals_point_into_the_text_as_written() -> None:
    text = "for $n in $msg/r/a where $n/@l = 'x' return <o>x{$n/@k}</o>"
    index = treecast.Index()
    index.add("one", text.replace("'x'", "'nothing of this kind'"))
    index.add("two", text)
    (delivery,) = index.render(DOCUMENT)
    assert delivery.subscription == "two"
    error = delivery.refused
    assert isinstance(error, treecast.QueryError) and error.code == "TC119"
    assert text[error.position :].startswith(("$n/@k", "{$n/@k"))


def test_an_empty_payload_comes_first() -> None:
    index = treecast.Index()
    index.add_many([("nothing", "drop /*"), ("all", "/r"), ("again", "keep //none")])
    assert [one.payload for one in index.render(DOCUMENT)] == [b"", DOCUMENT, b""]
    only = treecast.Index()
    only.add("nothing", "drop /*")
    (deliveries,) = only.render_part([DOCUMENT], report=False).deliveries.to_pylist()
    assert [one["payload"] for one in deliveries] == [b""]


def test_a_sequence_that_begins_with_clauses_is_filled_too() -> None:
    index = treecast.Index()
    for number, value in enumerate(("x", "y", "none", "x")):
        index.add(f"q{number}", f"for $b in $msg//b where $b/@k = '{value}' return $b, $msg//c")
    data = b"<a><b k='x'/><c/><b k='y'/></a>"
    for _ in range(2):
        payloads = {delivery.subscription: delivery.payload for delivery in index.render(data)}
        assert list(payloads) == index.match(data)
        assert payloads == {"q0": b"<b k='x'/><c/>", "q1": b"<b k='y'/><c/>", "q3": b"<b k='x'/><c/>"}
