"""The parts of the firewall without a network: health of back ends, and the file with the rules."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from treecast.serve.doors.problems import DoorError
from treecast.serve.firewall.backend import Backend
from treecast.serve.firewall.firewall import load_rules
from treecast.serve.firewall.health import Health
from treecast.serve.firewall.rules_file import BackendForm, RulesError
from treecast.serve.firewall.settings import FirewallSettings

pytestmark = pytest.mark.house

SETTINGS = FirewallSettings(
    failures_max=2,
    rest_ms=100,
    rest_ms_max=300,
    check_failures_max=2,
    check_successes_min=2,
    backend_queue_max=1,
    backend_queue_ms=60_000,
)


# --- health -----------------------------------------------------------------------------------------------------------


def test_failures_in_a_row_bring_it_down() -> None:
    health = Health(SETTINGS, is_checked=False)
    for _ in range(5):
        health.note_failure(0)
        health.note_success()
    assert health.state == "up"
    health.note_failure(10)
    health.note_failure(10)
    assert health.state == "down" and not health.is_usable(109) and health.is_usable(110)


def test_one_document_is_tried_after_a_rest_and_rests_grow() -> None:
    health = Health(SETTINGS, is_checked=False)
    now, rests = 0, []
    health.note_failure(now)
    health.note_failure(now)
    for _ in range(4):
        rest = next(ms for ms in range(1_000) if health.is_usable(now + ms))
        rests.append(rest)
        now += rest
        health.begin()
        assert health.state == "trying" and not health.is_usable(now)  # one at a time
        health.note_failure(now)
    assert rests == [100, 200, 300, 300]
    health.begin()
    health.note_abandonment(now)
    assert health.state == "down" and health.is_usable(now)
    health.begin()
    health.note_success()
    assert health.state == "up"
    health.note_failure(now)
    health.note_failure(now)
    assert health.is_usable(now + 100)  # the first rest again


def test_what_was_sent_before_it_went_down_does_not_bring_it_up() -> None:
    health = Health(SETTINGS, is_checked=False)
    health.note_failure(0)
    health.note_failure(0)
    health.note_success()
    assert health.state == "down"


def test_only_its_check_brings_a_checked_one_up() -> None:
    health = Health(SETTINGS, is_checked=True)
    health.note_check(True, 0)
    health.note_failure(0)
    health.note_failure(0)
    assert health.state == "down" and not health.is_usable(10_000)
    health.note_check(True, 0)
    health.note_check(False, 0)
    health.note_check(True, 0)
    assert health.state == "down"
    health.note_check(True, 0)
    assert health.state == "up"
    health.note_check(False, 0)
    assert health.state == "up"
    health.note_check(False, 0)
    assert health.state == "down"


# --- queues -----------------------------------------------------------------------------------------------------------


def test_a_slot_that_nobody_takes_any_more_goes_to_the_next() -> None:
    async def run() -> None:
        backend = Backend(BackendForm(name="a", url="http://a/", concurrency_max=1), SETTINGS)
        order: list[str] = []

        async def use(name: str) -> None:
            async with backend.slot():
                order.append(name)

        async with backend.slot():
            waiting = asyncio.create_task(use("first"))
            await asyncio.sleep(0)
            assert (backend.outstanding, backend.waiting) == (1, 1)
            with pytest.raises(DoorError, match="TC451"):
                async with asyncio.timeout(10):  # at once
                    await use("too many")
            waiting.cancel()
            await asyncio.sleep(0)
            assert backend.waiting == 0
            second = asyncio.create_task(use("second"))
            await asyncio.sleep(0)
        await second
        assert order == ["second"] and (backend.outstanding, backend.waiting) == (0, 0)

    asyncio.run(run())


# --- the file ---------------------------------------------------------------------------------------------------------

WRONG = """
unwanted = "perhaps"
pass_headers = ["Authorization"]

[[backend]]
name = "a"
url = "ftp://a"

[[rule]]
name = "r"
querry = "/a"
backends = ["a"]
"""
UNFIT = """
pass_headers = ["Authorization", "Treecast-Source", "X-Shop"]
backend = [{name = "a", url = "http://u:p@a/"}, {name = "a", url = "http://a", health = "health"}]
rule = [
    {name = "r", query = "/a", backends = ["b"]},
    {name = "", query = "/a", backends = []},
    {name = "s", query = "/a", backends = ["a", "a"], policy = "all", retry_sent = true},
]
path = [{path = "/v1/documents"}, {path = "/v1/x"}, {path = "soap"}, {path = "/soap*"}, {path = "/healthz"}]
"""


def mistakes(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "rules.toml"
    file.write_text(text)
    with pytest.raises(RulesError) as refused:
        load_rules(str(file), SETTINGS)
    return str(refused.value).splitlines()[1:]


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    assert len(mistakes(tmp_path, WRONG)) == 2  # what has a wrong form; the rest is looked at when that is right
    found = "\n".join(mistakes(tmp_path, UNFIT))
    for expected in (
        "'Authorization' is never passed on",
        "'Treecast-Source' is never",
        "two of this name",
        "url 'http://u:p@a/'",
        "health 'health'",
        "no back end 'b'",
        "rule '': a name has",
        "names no back end",
        "names a back end twice",
        "retry_sent",
        "path '/v1/documents': this is a page",
        "path '/v1/x': this is a page",
        "path 'soap': write",
        "path '/soap*': write",
        "path '/healthz': this is a page",
    ):
        assert expected in found, (expected, found)
    assert "X-Shop" not in found
    queries = "".join(
        f"[[rule]]\nname = '{n}'\nquery = '{q}'\nbackends = ['a']\n" for n, q in (("x", "a/"), ("y", "/["))
    )
    found = "\n".join(mistakes(tmp_path, "[[backend]]\nname = 'a'\nurl = 'http://a/'\n" + queries))
    assert "rule 'x': TC1" in found and "rule 'y': TC1" in found
    assert mistakes(tmp_path, "ca = 'no.pem'")[0].startswith("  ca: ")
    assert mistakes(tmp_path, "a = [1, 2, 3, ")[0].startswith("  it is not TOML")
    with pytest.raises(RulesError, match="cannot be read"):
        load_rules(str(tmp_path / "none.toml"), SETTINGS)
    with pytest.raises(RulesError, match="more than 10 bytes"):
        load_rules(str(tmp_path / "rules.toml"), FirewallSettings(rules_bytes_max=10))


def test_paths_and_priorities(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(
        "path = [{path = '/soap/*', source = 'a'}, {path = '/soap/orders/*', source = 'b'}, {path = '/in'}]\n"
        "backend = [{name = 'x', url = 'http://x/'}]\n"
        "rule = [{name = 'low', query = '/a', backends = ['x']}, {name = 'same', query = '/a', backends = ['x']},\n"
        "{name = 'high', query = '//b', backends = ['x'], priority = 1, then = 'continue', sources = ['s']}]\n"
    )
    rules = load_rules(str(file), SETTINGS)
    found = [rules.source_of(path) for path in ("/soap/x", "/soap/orders/x", "/in", "/in/x", "/soap")]
    assert found == ["a", "b", "", None, None]
    names = rules.matching(b"<a><b/></a>")
    assert [rule.name for rule in rules.applying(names, "s")] == ["high", "low"]
    assert [rule.name for rule in rules.applying(names, "t")] == ["low"]
    before = rules.backends["x"]
    assert load_rules(str(file), SETTINGS, rules).backends["x"] is before
