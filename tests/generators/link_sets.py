"""Draws sets of subscriptions that share something, documents for them, trees of brokers, and checks the law of links.

The law: what comes out behind the links, remainder(early(document)), is what the subscription itself makes of the
document. Sets are drawn so that most have a `for` path, a start or first steps in common, with everything beside it
that could break the law: bindings inside each other, conditions that removal could make true, positions, absolute
paths, namespaces, renames.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from treecast._native.testing import TextRenderer
from treecast.errors import TreecastError
from treecast.links import Demand, Early, Link, Nothing
from treecast.model import Subscription

NAMESPACES = {"p": "urn:p"}
NAMES = ("i", "a", "b", "c", "p:i", "p:b")
STARTS = (
    *("/r/i", "/r/i", "/r/a/b", "/r/*/i", "/r/p:i", "/r/*", "/r/i[@x=1]", "/r/i[not(@x)]", "/r/i[b]", "/r/i[2]"),
    *("/r/i[last()]", "/r/a[@y]/b", "/r/i[@x][@y>1]", "/*/i", "/r", "/r/i[b/@x]", "/r/*[local-name()='i']"),
)
PATHS = (
    *(STARTS),
    *(
        "//i",
        "//i",
        "//a",
        "/r//b",
        "//*",
        "//a[@x]//b",
        "//i[@x=1]/b",
        "/r/a[c]/b",
        "//a/*",
        "/r/i | /r/a",
        "//i | /r/a/b",
    ),
    *("/descendant::i[1]", "/r/descendant-or-self::a", "//p:*", "//i[not(b)]", "//a[b='1']", "/r/i[/r/a]", "//i[1]"),
)
CONDITIONS = (
    *("V/@x=1", "V/@x='2'", "V/@x>1", "V/@y", "V/b", "V/a/@x=1", "V//c", "V/b/text()='1'", "V/@x!=1"),
    *("not(V/@x)", "not(V/b)", "not(V//i)", "V/b='1'", "V='1'", "contains(V/b, '1')", "starts-with(V/@y, '1')"),
    *("V/b[2]", "V/b[last()=1]", "V/@x=1 or V/b", "V/@x and V/@y", "(V/@x or V/@y) and V/a", "V/i[not(@x)]"),
    *("V/a/b/@y<2", "V//text()='2'", "V/p:b", "V/@x=1 and V/@y=1 and V/b", "not(V/@x=1 or V/@y)"),
    *("string-length(V/@x) = 1", "V/@x = V/b/@x", "count(V/b) = 2"),
)
RETURNS = (
    *(
        "$n",
        "$n/b",
        "<o>{$n/@x}{$n//c}</o>",
        "<o>{string($n/b)}</o>",
        "<o n='{count($n//b)}'/>",
        "($n/a, $n/b)",
        "{$n/b}",
    ),
    *(
        "<o>{for $m in $n/b where $m/@x return $m}</o>",
        "if ($n/@x=1) then <yes>{$n/b}</yes> else <no/>",
        "<p:o xmlns:p='urn:p'>{$n/p:b}</p:o>",
    ),
    *("<o>{name($n)}{$n/text()}</o>",),
)
OUTSIDE = ("<o>{$msg/r/@x}{$n/b}</o>", "<o>{count($msg//b)}</o>", "<o>{for $m in $msg//c return $m}</o>")
STEPS = (
    *(
        "drop //c",
        "drop //@y",
        "drop //text()",
        "drop //b[@x]",
        "drop /i/a",
        "drop //a/b",
        "drop /*/c",
        "drop //i/i",
        "drop //b[2]",
    ),
    *(
        "rename //b to e",
        "rename //@y to z",
        "rename //c to i",
        "rename //a to b",
        "rename //@x to y",
        "rename //b to p:e",
    ),
    *(
        "unwrap //a",
        "unwrap //b",
        "unwrap //i/a",
        "unwrap //*[@y]",
        "keep //b",
        "keep //a, //c",
        "drop //i",
        "keep //@x, //b",
    ),
    *(
        "rename /i/b to k",
        "drop /descendant::b[1]",
        "drop //p:b",
        "drop /i",
        "drop /r/a",
        "keep /*",
        "drop //a[not(b)]",
    ),
    *(
        "drop /descendant::i[2]/b",
        "drop /descendant::*[2]",
        "drop //b[/i/@x]",
        "drop //c[//a]",
        "drop //i[1]/b",
        "unwrap //i",
    ),
    *("drop //b[string-length(@x) + 1 > 2]", "drop //a[@x = p:b/@x]", "unwrap //a[string(../@y) = '1']"),
)


class Drawing:
    """Draws from a seed; the same seed draws the same."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.namespaces = NAMESPACES if self.random.random() < 0.9 else NAMESPACES | {"": "urn:p"}

    # -- documents

    def document(self) -> bytes:
        root = self.random.choice(("r", "r", "r", "r", "r", "i", "a"))
        default = ' xmlns="urn:p"' if self.random.random() < (0.08 if self.namespaces is NAMESPACES else 0.9) else ""
        prolog = self.random.choice(("", "", "", "<?xml version='1.0'?><!-- before -->"))
        return f'{prolog}<{root} xmlns:p="urn:p"{default}{self._attributes()}>{self._content(0)}</{root}>'.encode()

    def _attributes(self) -> str:
        names = [name for name in ("x", "y") if self.random.random() < 0.45]
        return "".join(f' {name}="{self.random.choice("112235")}"' for name in names)

    def _content(self, depth: int) -> str:
        count = self.random.choice((0, 1, 1, 2, 2, 3, 4)) if depth else self.random.randrange(1, 6)
        return "".join(self._part(depth) for _ in range(count if depth < 5 else 0)) or self._text()

    def _part(self, depth: int) -> str:
        if self.random.random() < 0.22:
            return self._text()
        name = self.random.choice(NAMES)
        inner = self._content(depth + 1) if self.random.random() < 0.75 else ""
        return f"<{name}{self._attributes()}>{inner}</{name}>" if inner else f"<{name}{self._attributes()}/>"

    def _text(self) -> str:
        return self.random.choice(("1", "2", "1", " 12 ", "&amp;", "<!--1-->", "<![CDATA[<1>]]>", "<?q 1?>", "", "\n"))

    # -- subscriptions

    def family(self) -> list[Subscription]:
        """Subscriptions that may share something."""
        kind = self.random.random()
        size = self.random.choice((1, 2, 2, 3, 4, 6))
        if kind < 0.5:
            paths = self.random.choices(PATHS, k=self.random.choice((1, 1, 1, 2)))
            return [self._bound(self.random.choice(paths)) for _ in range(size)]
        start = self.random.choice(STARTS if self.random.random() < 0.8 else PATHS)
        shared = self.random.choices(STEPS, k=self.random.randrange(4))
        begin = f"from {start} " if kind < 0.8 else ""
        return [self._list(begin, shared) for _ in range(size)]

    def stray(self) -> Subscription:
        """One that shares nothing on purpose."""
        return self._bound(self.random.choice(PATHS)) if self.random.random() < 0.7 else self._list("", [])

    def _list(self, begin: str, shared: list[str]) -> Subscription:
        own = self.random.choices(STEPS, k=self.random.randrange(3))
        first_steps = shared if self.random.random() < 0.8 else shared[:1]
        return self._subscription(begin + "; ".join([*first_steps, *own] or [self.random.choice(STEPS)]))

    def _bound(self, path: str) -> Subscription:
        kind = self.random.random()
        where = " and ".join(
            f"({one})" for one in self.random.choices(CONDITIONS, k=self.random.choice((0, 1, 1, 1, 2)))
        )
        if kind < 0.12:
            return self._subscription(f"from {path} {self.random.choice(STEPS)}")
        if kind < 0.35 and " | " not in path:
            final = self.random.choice(("", "", "/@x", "/b", "//@y", "/text()"))
            brackets = f"[{where.replace('V//', './/').replace('V/', '').replace('V', '.')}]" if where else ""
            return self._subscription(path + brackets + final, "document" if kind < 0.14 else "elements")
        if self.random.random() < 0.07:
            return self._values(path)
        where = where.replace("V", "$n")
        result = self.random.choice(RETURNS if self.random.random() < 0.96 else OUTSIDE)
        order = self.random.choice(("", "", "", " order by $n/@x", " order by $n/b descending"))
        query = f"for $n in {_variables(path)}{f' where {where}' if where else ''}{order} return {result}"
        if self.random.random() < 0.1:
            query = query.replace(" where", ", $k in $n/b where") if where else query
        if self.random.random() < 0.04:
            query = query.replace("for $n", "for $z in $msg//c, $n")
        return self._subscription(f"<w>{{{query}}}</w>" if self.random.random() < 0.3 else query)

    def _values(self, path: str) -> Subscription:
        """Attributes or texts, bound."""
        final = self.random.choice(("/@x", "/@y", "//@x", "/text()", "//text()", "/text()[1]"))
        where = self.random.choice(
            ("", "where $n = '1'", "where not($n = '1')", "where contains($n, '1')", "where $n > 1")
        )
        paths = " | ".join(f"{branch}{final}" for branch in path.split(" | "))
        return self._subscription(f"for $n in {_variables(paths)} {where} return <o>{{$n}}</o>")

    def _subscription(self, query: str, deliver: str = "document") -> Subscription:
        identity = f"q{self.random.getrandbits(60):x}"
        return Subscription(
            identity, query, self.namespaces, deliver="elements" if deliver == "elements" else "document"
        )


def _variables(path: str) -> str:
    return " | ".join(f"$msg{branch}" for branch in path.split(" | "))


# -- what happens to a document

NOTHING, EMPTY = "nothing passes", "empty for everybody"
State: TypeAlias = bytes | str | TreecastError
"""Bytes, or one of the two above, or the error that refuses it."""

_renderer = TextRenderer()


def outcome(subscription: Subscription, state: State) -> State:
    """What a subscription makes of what reaches it."""
    if not isinstance(state, bytes):
        return b"" if state == EMPTY else state
    settings = (list(subscription.namespaces.items()), subscription.ordered, subscription.deliver == "elements")
    (payload,) = _renderer.render(state, [subscription.query], *settings)
    if payload is None:
        return NOTHING
    if isinstance(payload, tuple):
        return payload[1]
    assert isinstance(payload, TreecastError), payload
    return payload


def pass_link(early: Early | Nothing | None, state: State) -> State:
    """What a link makes of what comes to it."""
    if not isinstance(early, Early) or not isinstance(state, bytes):
        return state
    payload = outcome(Subscription("link", early.text, early.namespaces), state)
    return (EMPTY if early.empty else NOTHING) if payload == b"" else payload


@dataclass
class Broker:
    """Who hosts subscriptions and has brokers behind it; `link` is the one that leads to it."""

    subscriptions: list[Subscription] = field(default_factory=list)
    children: list[Broker] = field(default_factory=list)
    link: Link = field(default_factory=Link)

    def gather(self) -> None:
        """Fill the links, from the leaves up."""
        for number, child in enumerate(self.children):
            child.gather()
            if len(child.link):  # nothing is sent to a broker that nobody has subscribed behind
                self.link.add(f"link {number}", child.link.demand())
        for subscription in self.subscriptions:
            self.link.add(subscription.id, Demand.of(subscription))

    def receive(self, state: State, state_by_id: dict[str, tuple[Subscription, State]]) -> None:
        """Note what everybody is delivered of what came over the link."""
        for subscription in self.subscriptions:
            rest = self.link.remainder(subscription.id)
            assert isinstance(rest, Subscription)
            state_by_id[subscription.id] = (subscription, outcome(rest, state))
        for number, child in enumerate(self.children):
            if f"link {number}" not in self.link:
                continue
            rest = self.link.remainder(f"link {number}")
            assert not isinstance(rest, Subscription)
            child.receive(pass_link(rest, state), state_by_id)

    def everyone(self) -> list[Broker]:
        return [self, *(below for child in self.children for below in child.everyone())]


def same(one: State, other: State) -> bool:
    if isinstance(one, TreecastError) and isinstance(other, TreecastError):
        return one.code == other.code
    return one == other


def wrong(broker: Broker, data: bytes, counts: Counter[str]) -> list[str]:
    """Where the law does not hold, in words; `seen` counts what was exercised."""
    state = pass_link(broker.link.early, data)
    counts["shorter"] += isinstance(state, bytes) and len(state) < len(data)
    counts["nothing passes"] += state == NOTHING
    state_by_id: dict[str, tuple[Subscription, State]] = {}
    broker.receive(state, state_by_id)
    failures = []
    for subscription, actual in state_by_id.values():
        expected = outcome(subscription, data)
        counts["delivered"] += isinstance(expected, bytes)
        counts["delivered after removal"] += (
            isinstance(expected, bytes) and isinstance(state, bytes) and len(state) < len(data)
        )
        counts["refused"] += isinstance(expected, TreecastError)
        if not same(actual, expected):
            failures.append(
                f"{subscription.query}  deliver={subscription.deliver}\n  of {data!r}\n  over {broker.link.early}\n"
                f"  remainder {broker.link.remainder(subscription.id) if subscription.id in broker.link else '…'}\n"
                f"  gives {actual!r}\n  not   {expected!r}"
            )
    return failures


def grow(drawing: Drawing, hops: int, family: list[Subscription]) -> Broker:
    """A tree of brokers, so many links high, with the subscriptions at its brokers."""
    layers = [Broker()]
    brokers = layers[:]
    for _ in range(hops - 1):
        layers = [child for broker in layers for child in _children(drawing, broker)]
        brokers += layers
    for subscription in family:
        drawing.random.choice(layers if drawing.random.random() < 0.8 else brokers).subscriptions.append(subscription)
    return brokers[0]


def _children(drawing: Drawing, broker: Broker) -> list[Broker]:
    broker.children = [Broker() for _ in range(drawing.random.choice((1, 2, 2, 3)))]
    return broker.children


# -- changes


def shift(drawing: Drawing, broker: Broker, spare: list[Subscription]) -> None:
    """One subscription comes or goes somewhere; each link on the way up hears of it only if the one below changed."""
    brokers = broker.everyone()
    target = drawing.random.choice(brokers)
    if target.subscriptions and (not spare or drawing.random.random() < 0.5):
        subscription_removed = target.subscriptions.pop(drawing.random.randrange(len(target.subscriptions)))
        has_changed = target.link.remove(subscription_removed.id)
        spare.append(subscription_removed)
    elif spare:
        subscription_added = spare.pop(drawing.random.randrange(len(spare)))
        target.subscriptions.append(subscription_added)
        has_changed = target.link.add(subscription_added.id, Demand.of(subscription_added))
    else:
        return
    while target is not broker and has_changed:
        above = next(one for one in brokers if any(child is target for child in one.children))
        key = f"link {next(number for number, child in enumerate(above.children) if child is target)}"
        if key not in above.link:
            has_changed = above.link.add(key, target.link.demand())
        elif len(target.link):
            has_changed = above.link.replace(key, target.link.demand())
        else:
            has_changed = above.link.remove(key)
        target = above


def differing_links(broker: Broker) -> list[str]:
    """Links whose early form is not what the same demands give from nothing."""
    texts = []
    for one in broker.everyone():
        fresh = one.link.copy()
        shared = isinstance(fresh.early, Early) or isinstance(one.link.early, Early)
        if shared and fresh.early != one.link.early:
            texts.append(f"{one.link.early} but {fresh.early} from nothing")
    return texts


def run_rounds(seed: int, rounds: int, documents: int, changes: int) -> Counter[str]:
    """So many sets, each with documents over one to four hops, then changes; raises where the law does not hold."""
    counts: Counter[str] = Counter()
    for number in range(rounds):
        drawing = Drawing(seed * 1_000_003 + number)
        family = drawing.family() + [drawing.stray() for _ in range(drawing.random.random() < 0.1)]
        hops = 1 + number % 4
        broker = grow(drawing, hops, family)
        broker.gather()
        spare = [*drawing.family()[:2]]
        for change in range(changes + 1):
            if change:
                shift(drawing, broker, spare)
            early = broker.link.early
            kind = "nothing" if isinstance(early, Nothing) else "restructuring" if broker.link.done else "projection"
            counts[kind] += 1
            counts[f"{hops} hops"] += 1
            assert not differing_links(broker), (seed, number, differing_links(broker))
            for _ in range(documents):
                counts["documents"] += 1
                failures = wrong(broker, drawing.document(), counts)
                assert not failures, f"seed {seed}, round {number}\n" + "\n".join(failures)
    return counts
