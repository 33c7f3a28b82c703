"""order by: the order itself, and the cost of sorting: memory for the tuples, not for the keys."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

import treecast
from treecast.model import DeliveryLimits

KEYS = (
    "$a/@k",
    "$b/@k",
    "$b/@j descending",
    "count($a/t) descending",
    "$a/t empty greatest",
    "string($b/t)",
    "$a/@k | $b/t",
)
Element = dict[str, str | list[str]]


def draw(draws: random.Random) -> list[Element]:
    """Elements with few different values, so that there are many ties, and with none."""
    elements: list[Element] = []
    for _ in range(draws.randrange(2, 9)):
        element: Element = {"t": [draws.choice(["", "u", "v", "uv"]) for _ in range(draws.randrange(3))]}
        if draws.random() < 0.7:
            element["k"] = draws.choice("123")
        if draws.random() < 0.7:
            element["j"] = draws.choice(["", "1", "10", "2"])
        elements.append(element)
    return elements


def write(elements: list[Element]) -> bytes:
    """The text of an element comes in two pieces, wherever it can."""

    def pieces(text: str) -> str:
        return f"{text[:1]}<!---->{text[1:]}" if len(text) > 1 else text

    rows = []
    for number, element in enumerate(elements):
        attributes = "".join(f" {name}='{element[name]}'" for name in "kj" if name in element)
        rows.append(f"<x{attributes}>{''.join(f'<t>{pieces(text)}</t>' for text in element['t'])}<n>{number}</n></x>")
    return f"<r>{''.join(rows)}</r>".encode()


def value(key: str, elements: list[Element], a: int, b: int) -> tuple[int, str | int]:
    """What a key of KEYS is for a pair; the first part says where pairs without a value go."""
    texts_a, texts_b = elements[a]["t"], elements[b]["t"]
    if key.startswith("count"):
        return 0, len(texts_a)
    if key.startswith("string"):
        return 0, texts_b[0] if texts_b else ""
    if key.startswith("$a/t"):
        return (0, texts_a[0]) if texts_a else (1, "")
    if "|" in key and texts_b and ("k" not in elements[a] or b < a):  # an attribute comes before what is in its element
        return 0, texts_b[0]
    element, name = elements[a if key[1] == "a" else b], key[4]
    return (0, str(element[name])) if name in element else (-1, "")


def expected(elements: list[Element], keys: list[str]) -> list[tuple[int, int]]:
    pairs = [(a, b) for a in range(len(elements)) for b in range(len(elements))]
    for key in reversed(keys):  # Python's sort is stable, also in reverse
        pairs.sort(key=lambda pair: value(key, elements, *pair), reverse="descending" in key)
    return pairs


def test_the_order_is_that_of_a_stable_sort_by_each_key() -> None:
    draws = random.Random("order by")
    for _ in range(150):
        elements = draw(draws)
        keys = draws.sample(KEYS, draws.randrange(1, 5))
        index = treecast.Index()
        index.add(
            "pairs", f"for $a in $msg/r/x, $b in $msg/r/x order by {', '.join(keys)} return <p>{{$a/n, $b/n}}</p>"
        )
        (delivery,) = index.render(write(elements))
        pairs = "".join(f"<p><n>{a}</n><n>{b}</n></p>" for a, b in expected(elements, keys))
        assert delivery.payload.decode() == pairs, (keys, elements)


# The peak of a process is asked of the system by /proc: getrusage() would begin with that of whoever started it.
LARGE = """
import re, treecast
index = treecast.Index()
keys = ", ".join("$a/k, $b/@k" for _ in range(KEYS // 2))
index.add("sorted", f"for $a in $msg//x, $b in $msg//x order by {keys} return <y/>")
index.add("other", "/r")
deliveries = index.render(b"<r>" + b"<x/>" * 900 + b"</r>")
codes = [(delivery.subscription, delivery.refused and delivery.refused.code) for delivery in deliveries]
peak_kb = int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])
print(codes, peak_kb >> 10)
"""


@pytest.mark.house  # the sanitizers' own memory would be counted
@pytest.mark.parametrize(("keys", "code"), [(60, None), (200, "TC332")])
def test_keys_take_no_memory_for_each_tuple(keys: int, code: str | None) -> None:
    """810,000 tuples; sixty keys of each were 2.8 GB."""
    run = subprocess.run(
        [sys.executable, "-c", LARGE.replace("KEYS", str(keys))], capture_output=True, text=True, check=True
    )
    codes, megabytes = run.stdout.rsplit(" ", 1)
    assert codes == str([("sorted", code), ("other", None)])
    assert int(megabytes) < 400


def test_what_is_bound_together_is_limited() -> None:
    """Variables that range over one item each make tuples wide, not many."""
    ones = ", ".join(f"$v{number} in $msg/r" for number in range(60))
    index = treecast.Index(delivery_limits=DeliveryLimits(bindings_max=200_000))
    index.add("wide", f"for {ones}, $a in $msg//x, $b in $msg//x return <y/>")
    index.add("other", "/r")
    wide, other = index.render(b"<r>" + b"<x/>" * 400 + b"</r>")
    assert isinstance(wide.refused, treecast.LimitError)
    assert wide.refused.code == "TC332"
    assert "holds more than 8 items" in str(wide.refused)
    assert other.refused is None


SHORT_OF_MEMORY = """
import resource, treecast
from treecast.model import DeliveryLimits
index = treecast.Index(delivery_limits=DeliveryLimits(payload_bytes_max=1 << 34, document_payload_bytes_max=1 << 35))
index.add("large", "for $a in $msg//x, $b in $msg//x return $msg")
index.add("equal", "for $a in $msg//x, $c in $msg//x return $msg")
index.add("small", "for $a in $msg/r/x[1] return <y/>")
index.add("whole", "/r")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (128 << 20),) * 2)
for _ in range(2):
    deliveries = index.render(b"<r>" + b"<x/>" * 900 + b"</r>")
    print([(each.subscription, len(each.payload), getattr(each.refused, "code", "")) for each in deliveries])
"""


@pytest.mark.house  # the sanitizers' own memory is many times the limit
def test_a_payload_without_memory_leaves_the_others_theirs() -> None:
    run = subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY], capture_output=True, text=True, check=True)
    row = [("large", 0, "TC333"), ("equal", 0, "TC333"), ("small", 4, ""), ("whole", 3607, "")]
    assert run.stdout == f"{row}\n" * 2
