"""Machines of plain paths that are merged in slices: no addition builds a large one, and the answers stay the same.

native/engines/path_merge.hpp has the stages of a merge. Here changes of every kind come in the middle of each.
"""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest

from treecast import Index
from treecast._native import testing

AT_ONCE_MAX = 2048  # paths, of one addition
NAMES = [f"n{number}" for number in range(12)]


def distinct_paths(count: int, seed: int) -> list[str]:
    random = Random(seed)
    queries: dict[str, None] = {}
    while len(queries) < count:
        steps = [random.choice(("/", "//")) + random.choice((*NAMES, "*")) for _ in range(random.randint(2, 6))]
        queries["".join(steps)] = None
    return list(queries)


def draw_document(random: Random) -> bytes:
    def element(depth: int) -> str:
        name = random.choice(NAMES)
        return f"<{name}>{''.join(element(depth - 1) for _ in range(random.randint(1, 3)) if depth)}</{name}>"

    return element(5).encode()


PATHS = distinct_paths(12_000, 1)
DOCUMENTS = [draw_document(Random(seed)) for seed in range(4)]


def answers(index: Index) -> list[list[str]]:
    return [index.match(document) for document in DOCUMENTS]


def bulk(model: dict[str, str]) -> Index:
    index = Index()
    index.add_many(list(model.items()))
    return index


def test_no_addition_builds_a_large_machine() -> None:
    """Without slices, the additions that fill a level build thousands of paths at once."""
    count = 10_000
    index = Index()
    largest = done = 0
    for place, query in enumerate(PATHS[:count]):
        index.add(f"s{place}", query)
        _, done, built = testing.merges(index._native)
        largest = max(largest, built)
    assert 0 < largest <= AT_ONCE_MAX
    assert done > 0
    assert index.stats().machines < 12
    assert answers(index) == answers(bulk({f"s{place}": query for place, query in enumerate(PATHS[:count])}))


def test_many_at_once_are_one_machine_at_once() -> None:
    """Who adds many waits for them anyway, and gets the fastest machine."""
    index = Index()
    for place, query in enumerate(PATHS[:4000]):
        index.add(f"s{place}", query)
    assert index.stats().machines > 1
    index.add_many([(f"t{place}", query) for place, query in enumerate(PATHS[4000:12_000])])
    assert testing.merges(index._native)[0] == 0
    assert index.stats().machines == 1
    index.add_many([(f"u{place}", query) for place, query in enumerate(PATHS[:4000])])
    assert answers(index) == answers(
        bulk(
            {f"s{place}": query for place, query in enumerate(PATHS[:4000])}
            | {f"t{place}": query for place, query in enumerate(PATHS[4000:12_000])}
            | {f"u{place}": query for place, query in enumerate(PATHS[:4000])}
        )
    )


@pytest.mark.parametrize("seed", range(2))
def test_changes_in_the_middle_of_a_merge(seed: int, tmp_path: Path) -> None:
    """Ids come and go, paths gain and lose subscribers, a file is saved: always as an index that was built at once."""
    random = Random(seed)
    model = {f"s{place}": query for place, query in enumerate(PATHS[:1500])}
    index = bulk(model)
    fresh = iter(PATHS[1500:])
    stages = set()
    for turn in range(6000):
        draw = random.random()
        known = f"s{random.randrange(len(model))}" if draw < 0.1 else f"t{random.randrange(turn + 1)}"
        if draw < 0.1 and known in model:
            index.remove(known)
            del model[known]
        elif draw < 0.2 and known in model:  # not in the order any more: only what it matches counts
            index.remove(known)
            del model[known]
            model[f"r{turn}"] = random.choice(PATHS[: 1500 + turn])
            index.add(f"r{turn}", model[f"r{turn}"])
        elif draw < 0.3:
            model[f"x{turn}"] = random.choice(PATHS[: 1500 + turn])
            index.add(f"x{turn}", model[f"x{turn}"])
        else:
            model[f"t{turn}"] = next(fresh)
            index.add(f"t{turn}", model[f"t{turn}"])
        stages.add(testing.merges(index._native)[0] > 0)
        if turn % 997 == 500:
            assert answers(index) == answers(bulk(model)), f"after {turn} changes"
            index.save(tmp_path / "saved.tcx")
            assert answers(Index.load(tmp_path / "saved.tcx")) == answers(index)
    assert stages == {False, True}
    assert answers(index) == answers(bulk(model))
    index.compact()
    assert answers(index) == answers(bulk(model))
    for id in list(model)[: len(model) * 2 // 3]:
        index.remove(id)
        del model[id]
    assert answers(index) == answers(bulk(model))


def test_others_match_while_machines_are_merged() -> None:
    """What was found once is found again, and no call waits for another."""
    index = bulk({f"s{place}": query for place, query in enumerate(PATHS[:1500])})
    ended = threading.Event()
    counts: list[list[int]] = [[], []]

    def read(found: list[int]) -> None:
        while not ended.is_set():
            found.append(index.match_many(DOCUMENTS, threads=1).num_rows)

    readers = [threading.Thread(target=read, args=(found,)) for found in counts]
    for reader in readers:
        reader.start()
    for place, query in enumerate(PATHS[1500:5000], start=1500):
        index.add(f"s{place}", query)
    ended.set()
    for reader in readers:
        reader.join(60)
    assert testing.merges(index._native)[1] > 0
    assert all(found == sorted(found) for found in counts)
    assert answers(index) == answers(bulk({f"s{place}": query for place, query in enumerate(PATHS[:5000])}))


def test_a_change_before_every_document_makes_no_rows_anew() -> None:
    """What is known of a name stays: it is brought up to date by the paths that are new."""
    index = Index()
    made = []
    for place, query in enumerate(PATHS[:60]):
        index.add(f"s{place}", query)
        index.match(DOCUMENTS[0])
        made.append(testing.delta_rows(index._native))
    names = len(NAMES) + 1
    assert made[-1] - made[20] < names  # 39 changes; each made all rows anew before
    assert answers(index) == answers(bulk({f"s{place}": query for place, query in enumerate(PATHS[:60])}))


def test_a_new_name_in_the_delta_is_noticed() -> None:
    """A name that documents had before any query did: its row has to be made anew."""
    index = Index()
    index.add("known", "//a")
    document = b"<a x='1'>t<late><b/></late></a>"
    assert index.match(document) == ["known"]
    for id, query in (("late", "//late"), ("any", "/a/*/b"), ("x", "/a/@x"), ("text", "//text()"), ("far", "/a//b")):
        index.add(id, query)
        assert index.match(document)[-1] == id
    index.remove("late")
    assert index.match(document) == ["known", "any", "x", "text", "far"]


def test_the_delta_walks_once_over_siblings_that_are_alike() -> None:
    """Without children they match what the first has matched; with attributes or texts that queries ask for not so."""
    index = Index()
    for id in ("/a/b", "/a/b/c", "//b/following", "/a/*"):
        index.add(id, id)
    assert index.match(b"<a><b/><b/><b/><b/></a>") == ["/a/b", "/a/*"]
    assert testing.delta_events(index._native) == 2
    assert index.match(b"<a><b/><b><c/></b><b/><c/><b/></a>") == ["/a/b", "/a/b/c", "/a/*"]
    assert testing.delta_events(index._native) == 2 + 7
    index.add("@x", "/a/b/@x")
    index.add("text", "/a/b/text()")
    assert index.match(b"<a><b/><b x='1'/><b/></a>") == ["/a/b", "/a/*", "@x"]
    assert index.match(b"<a><b/><b/><b>t</b></a>") == ["/a/b", "/a/*", "text"]


def test_a_thousand_additions_build_no_machine() -> None:
    """A new machine has an empty cache, and a document walks over each; the delta takes what is recent."""
    model = {f"s{place}": query for place, query in enumerate(PATHS[4000:])}
    index = bulk(model)
    for place, query in enumerate(PATHS[:1200]):
        index.add(f"t{place}", query)
        model[f"t{place}"] = query
    assert index.stats().machines == 1
    assert answers(index) == answers(bulk(model))


def test_what_comes_and_goes_never_becomes_a_machine() -> None:
    """A full delta of which little is wanted any more is used again."""
    model = {f"s{place}": query for place, query in enumerate(PATHS[4000:])}
    index = bulk(model)
    for place, query in enumerate(PATHS[:4000]):
        index.add(f"t{place}", query)
        model[f"t{place}"] = query
        if place >= 100 and place % 4:
            index.remove(f"t{place - 100}")
            del model[f"t{place - 100}"]
    assert index.stats().machines == 1
    assert answers(index) == answers(bulk(model))


@pytest.mark.parametrize("level", range(testing.simd_best() + 1))
def test_the_delta_with_every_instruction_set(level: int) -> None:
    """Elements, attributes and texts, from one line of words to many."""
    document = b"<a x='1'>t<late y='2'><b z='3'/>u</late><b><c><a x='1'/></c></b></a>"
    names, ends = ("a", "b", "c", "late", "*", "no"), ("", "/@x", "//@y", "/text()", "//@*", "//b")
    queries = [
        f"{first}{one}{second}{two}{end}"
        for first in ("/", "//")
        for one in names
        for second in ("/", "//")
        for two in names
        for end in ends
    ]
    wanted = bulk({query: query for query in queries}).match(document)
    testing.simd_force(level)
    try:
        index = Index()
        for place, query in enumerate(queries):
            index.add(query, query)
            if place % 50 == 0:
                assert index.match(document) == [id for id in wanted if id in queries[: place + 1]]
        assert index.stats().machines == 0
        assert index.match(document) == wanted
    finally:
        testing.simd_force(-1)


def test_what_was_removed_is_not_looked_at() -> None:
    """Paths without a subscriber are passed over, unless somebody may still hold the answers of before."""
    index = bulk({f"s{place}": query for place, query in enumerate(PATHS[:3000])})
    before = index.match_many(DOCUMENTS, threads=1)
    kept = before["subscription"].to_pylist()
    del before
    for place in range(0, 3000, 2):
        index.remove(f"s{place}")
    answers(index)
    assert testing.chains_walked(index._native) == 0
    model = {f"s{place}": query for place, query in enumerate(PATHS[:3000]) if place % 2}
    assert answers(index) == answers(bulk(model))

    held = index.match_many(DOCUMENTS, threads=1)  # its readers may still ask for those that go now
    for place in range(1, 1000, 2):
        index.remove(f"s{place}")
        del model[f"s{place}"]
    assert answers(index) == answers(bulk(model))
    assert held["subscription"].to_pylist() == [id for id in kept if int(id[1:]) % 2]

    for place in range(0, 3000, 4):  # known paths again, some of them vacant
        index.add(f"r{place}", PATHS[place])
        model[f"r{place}"] = PATHS[place]
    assert answers(index) == answers(bulk(model))


def test_what_the_delta_finds_leads_straight_to_its_subscription() -> None:
    """Until another subscription of the same path comes, or one goes while somebody holds answers of before."""
    index = bulk({f"s{place}": query for place, query in enumerate(PATHS[2000:])})
    model = {f"s{place}": query for place, query in enumerate(PATHS[2000:])}

    def change(added: dict[str, str], removed: list[str]) -> int:
        """The chains that are walked after it."""
        for id, query in added.items():
            index.add(id, query)
        for id in removed:
            index.remove(id)
            del model[id]
        model.update(added)
        before = testing.delta_chains_walked(index._native)
        assert answers(index) == answers(bulk(model))
        return testing.delta_chains_walked(index._native) - before

    assert change({f"t{place}": query for place, query in enumerate(PATHS[:600])}, []) == 0
    assert change({}, [f"t{place}" for place in range(0, 600, 3)]) == 0  # nobody is subscribed any more
    assert change({f"u{place}": PATHS[place] for place in range(30)}, []) > 0  # the second, or the first again
    held = index.match_many(DOCUMENTS, threads=1)
    wanted = held["subscription"].to_pylist()
    chains = change({}, [f"t{place}" for place in range(1, 30, 3)])
    assert change({}, [f"t{place}" for place in range(301, 600, 3)]) > chains
    assert held["subscription"].to_pylist() == wanted


def test_what_nobody_reads_any_more_is_used_for_the_next_change() -> None:
    """A View has many parts, of which a change replaces few. One that an answer still belongs to is left alone."""
    index = bulk({f"s{place}": query for place, query in enumerate(PATHS[:500])})
    index.add("first", PATHS[500])
    made = testing.views_made(index._native)
    for place, query in enumerate(PATHS[501:600]):
        index.add(f"t{place}", query)
        index.remove(f"s{place}")
        index.match(DOCUMENTS[0])
    assert testing.views_made(index._native) == made

    held = index.match_many(DOCUMENTS, threads=1)
    wanted = held["subscription"].to_pylist()
    for place in range(99):
        index.remove(f"t{place}")
        index.add(f"u{place}", PATHS[place])
    assert testing.views_made(index._native) > made
    assert held["subscription"].to_pylist() == wanted
    model = {f"s{place}": PATHS[place] for place in range(99, 500)} | {"first": PATHS[500]}
    assert answers(index) == answers(bulk(model | {f"u{place}": PATHS[place] for place in range(99)}))


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_new_path_is_compared_with_next_to_no_other(tmp_path: Path, is_loaded: bool) -> None:
    """A part of the hash lies in the table, so it takes no look at the keys to pass over other paths."""
    index = bulk({f"s{place}": query for place, query in enumerate(PATHS[:4000])})
    if is_loaded:  # what is added has a table of its own; the one of the file has no such parts
        index.save(tmp_path / "paths.tcx")
        index = Index.load(tmp_path / "paths.tcx")
    else:
        assert testing.keys_compared(index._native) < 400
        before = testing.keys_compared(index._native)
        for place in range(300):
            index.add(f"again{place}", PATHS[place])
        assert 300 <= testing.keys_compared(index._native) - before < 330
    model = {f"t{place}": query for place, query in enumerate(PATHS[3900:4900])}
    for id, query in model.items():
        index.add(id, query)
    wanted = bulk({f"s{place}": query for place, query in enumerate(PATHS[:4000])} | model)
    assert [[id for id in ids if id[0] != "a"] for ids in answers(index)] == answers(wanted)
    assert index.stats().paths == wanted.stats().paths


def test_subscribers_of_one_path_are_read_from_a_list(tmp_path: Path) -> None:
    """Also where a subscription has several paths. No chain is walked until one comes or goes; files have lists too."""
    queries = [*PATHS[:300], "//n1[n2]", "//n3[n4][n5]", "//n1[n2]|//n6"]
    model = {f"s{place}": queries[place % len(queries)] for place in range(1500)}
    model |= {f"u{place}": f"{PATHS[place]} | {PATHS[place + 1]}" for place in range(100)}
    index = bulk(model)
    index.save(tmp_path / "lists.tcx")
    wanted = answers(index)
    assert testing.chains_walked(index._native) == 0
    alone = answers(bulk({query: query for query in model.values()}))
    assert wanted == [[id for id, query in model.items() if query in known] for known in alone]

    for changed in (index, Index.load(tmp_path / "lists.tcx")):
        assert answers(changed) == wanted
        assert testing.chains_walked(changed._native) == 0
        of_now = dict(model)
        for place in range(0, 1500, 7):
            changed.remove(f"s{place}")
            del of_now[f"s{place}"]
        for place in range(0, 1500, 11):
            changed.add(f"late{place}", queries[place % len(queries)])
            of_now[f"late{place}"] = queries[place % len(queries)]
        assert answers(changed) == answers(bulk(of_now))
        assert testing.chains_walked(changed._native) > 0


def test_the_same_calls_save_the_same_bytes(tmp_path: Path) -> None:
    """What is merged when depends on the calls alone."""
    files = []
    for name in ("one", "two"):
        index = Index()
        for place, query in enumerate(PATHS[:4000]):
            index.add(f"s{place}", query)
            if place == 3000:
                index.save(tmp_path / name)
        index.save(tmp_path / name)
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]


def test_the_first_addition_to_a_loaded_index_copies_no_array(tmp_path: Path) -> None:
    """Behind large arrays of a file there is room: the addition copies what is small only."""
    index = Index()
    index.add_many([(f"s{place}", f"/a/b{place % 300}//c{place // 300}") for place in range(70_000)])
    path = tmp_path / "saved.tcx"
    index.save(path)
    loaded = Index.load(path)
    before = testing.array_bytes_copied()
    loaded.add("late", "/a/late")
    loaded.remove("s5")
    assert testing.array_bytes_copied() - before < path.stat().st_size / 10
    assert loaded.match(b"<a><late/><b1><c0/></b1></a>") == ["s1", "late"]
