"""The ids of documents that were published last, compared with a dictionary, and how much memory they take."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest

from treecast.overlay.broker.recent_ids import RecentIds

pytestmark = pytest.mark.house


@pytest.mark.parametrize("count_max", [1, 2, 15, 16, 100])
def test_it_is_a_dictionary_that_forgets(count_max: int) -> None:
    random = Random(count_max)
    ids, expected = RecentIds(count_max), dict[str, tuple[int, int]]()
    now_ms = number = 0
    for _ in range(3_000):
        now_ms += random.choice([0, 0, 1, 40])
        name = str(random.randrange(300))
        assert ids.number_of(name) == expected.get(name, (None,))[0]
        if name not in expected:
            number += random.randint(1, 3)
            ids.add(name, number, now_ms)
            expected[name] = (number, now_ms)
        if random.random() < 0.5:
            last = 0
            while expected:
                oldest = next(iter(expected))
                its_number, published_ms = expected[oldest]
                if len(expected) <= count_max and now_ms - published_ms <= 500:
                    break
                last = its_number
                del expected[oldest]
            assert ids.forget(now_ms, 500) == last
            assert len(ids) == len(expected)


def test_its_memory_is_bounded_by_what_it_remembers() -> None:
    count_max = 8_000
    ids = RecentIds(count_max)
    sizes = []
    tracemalloc.start()
    try:
        for number in range(1, 10 * count_max + 1):
            ids.add(f"source/{number}", number, number)
            ids.forget(number, 1 << 40)
            if number % 700 == 0:
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert len(ids) == count_max
    full = sizes[24:]
    assert max(full) < 1.35 * min(full), "a block at most is there that is not needed"
    assert max(full) < 200 * count_max
