"""The simulated world itself, with two peers that are easy to judge: it repeats runs, finds planted bugs, shortens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.mailbox import DURATION_MS, EarlyLetters, Letter, LetterCodec, Letters, Mailbox, TrustingCodec, Writer

from treecast.overlay.peer import Effect
from treecast.sim import Crash, Fault, FaultRates, HostFault, LinkFault, Partition, World, draw_faults
from treecast.sim.faults import ANY, from_toml, text_of, to_toml
from treecast.sim.scenario import Outcome, Scenario, case_of, report_of
from treecast.sim.shorten import shorten, shorten_list

pytestmark = pytest.mark.house

TESTS = Path(__file__).parent.parent


def first_failure(scenario: Scenario, seeds: range) -> Outcome:
    for seed in seeds:
        outcome = scenario.run(seed)
        if outcome.failure is not None:
            return outcome
    raise AssertionError(f"no seed of {seeds} fails")


def test_correct_peers_pass() -> None:
    assert [seed for seed in range(150) if Letters().run(seed).failure] == []


def test_a_confirmation_before_the_write_is_found_and_shortened() -> None:
    outcome = first_failure(EarlyLetters(), range(100))
    assert "were confirmed and are lost" in (outcome.failure or "")
    short = shorten(EarlyLetters(), outcome)
    assert short.failure is not None and len(short.faults) <= min(3, len(outcome.faults))
    # Minimal: without any one of them it does not fail.
    for fault in short.faults:
        rest = [other for other in short.faults if other is not fault]
        assert EarlyLetters().run(short.seed, rest).failure is None
    assert "seed" in report_of(short) and all(text_of(fault) in report_of(short) for fault in short.faults)
    assert from_toml(to_toml(short.faults)) == short.faults
    assert "[[case]]" in case_of(short)


def test_flipped_bits_that_nobody_notices_are_found() -> None:
    outcome = first_failure(Letters(codec=TrustingCodec()), range(100))
    assert "went unnoticed" in (outcome.failure or "")


def test_without_its_disk_a_single_mailbox_loses_letters() -> None:
    rates = FaultRates(crashing=("mailbox",), loses_disk=True)
    outcome = first_failure(Letters(rates=rates), range(100))
    assert any(isinstance(fault, Crash) and fault.loses_disk for fault in outcome.faults)


DIGESTS = "from support.mailbox import Letters\nfor seed in range(12): print(Letters().run(seed).digest)"


def test_runs_repeat_whatever_the_hash_seed() -> None:
    answers = {
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(TESTS)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "77")
    }
    assert len(answers) == 1
    assert len(set(answers.pop().split())) == 12


@pytest.mark.parametrize(
    "fault",
    [
        Crash("mailbox", 100, 500),
        Crash("ann", 100, 500),
        Partition([["mailbox"], ["ann", "ben"]], 0, 2000),
        Partition([["mailbox"], ["ann", "ben"]], 0, 2000, one_way=True),
        *(LinkFault("loss", ANY, "mailbox", 0, 2000, amount) for amount in (300, 1000)),
        *(LinkFault(effect, ANY, ANY, 0, 2000, 500) for effect in ("duplication", "reordering", "flips", "delay")),
        HostFault("stall", "mailbox", 60, 2000),
        HostFault("slow", "mailbox", 0, 2000, 50),
        HostFault("full-disk", "mailbox", 0, 1000),
        HostFault("slow-disk", "mailbox", 0, 1000, 300),
        HostFault("failed-sync", "mailbox", 0),
        HostFault("clock-jump", "ann", 100, 0, -3_000),
        HostFault("clock-drift", "ann", 0, 1000, 50_000),
    ],
)
def test_each_fault_changes_what_happens(fault: Fault) -> None:
    assert len(text_of(fault)) > 10
    without = Letters().run(3, [])
    with_fault = Letters().run(3, [fault])
    assert without.failure is None and with_fault.failure is None
    assert with_fault.digest != without.digest
    # A fault changes more than its own line of the trace.
    assert with_fault.events != without.events or "lost" in Letters().run(3, [fault], with_trace=True).trace


def test_a_stalled_host_gets_everything_afterwards() -> None:
    world = World(1, LetterCodec())
    confirmed_ids: list[int] = []
    world.add_host("mailbox", Mailbox)
    world.add_host("ann", lambda storage, random: Writer("ann", range(3)), lambda event: confirmed_ids.append(event.id))
    world.schedule([HostFault("stall", "mailbox", 1, 1_000)])
    world.run(999)
    assert confirmed_ids == []
    world.run(1_050)
    assert set(confirmed_ids) == {0, 1, 2}


@pytest.mark.parametrize(
    "faults",
    [
        [HostFault("slow", "mailbox", 0, 30, 20)],
        [HostFault("slow", "mailbox", 0, 500, 20), HostFault("stall", "mailbox", 15, 60)],
        [HostFault("slow", "mailbox", 0, 500, 20), HostFault("slow", "mailbox", 5, 35, 50)],
    ],
)
def test_a_slow_host_serves_first_come_first(faults: list[Fault]) -> None:
    """Also when it is fast again, and others still wait."""
    world = World(1, LetterCodec())
    handled_ids: list[int] = []

    class Listing(Mailbox):
        def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
            handled_ids.append(message.id)
            return super().receive(sender, message, now_ms)

    host = world.add_host("mailbox", Listing)
    world.schedule(faults)
    for number in range(12):
        world.at(number * 5_000, host.arrive, "ann", [Letter(number, "")])
    world.run(1_000)
    assert handled_ids == list(range(12))


def test_an_exception_of_a_peer_fails_the_run() -> None:
    class Broken(Mailbox):
        def tick(self, now_ms: int) -> list:  # type: ignore[type-arg]
            raise KeyError("oh")

    world = World(1, LetterCodec())
    world.add_host("mailbox", Broken)
    world.run(DURATION_MS)
    assert world.failure is not None and "KeyError" in world.failure and "test_world.py" in world.failure


def test_swarm_draws_all_kinds_and_leaves_kinds_out() -> None:
    rates = FaultRates(crashing=("a",), storing=("a",), loses_disk=True, damages=True)
    runs = [draw_faults(Random(seed), ["a", "b", "c"], 1000, rates) for seed in range(300)]

    def kind(fault: Fault) -> str:
        return fault.effect if isinstance(fault, LinkFault | HostFault) else type(fault).__name__

    kinds = [{kind(fault) for fault in faults} for faults in runs]
    everything = set.union(*kinds)
    assert len(everything) == 15
    for one in everything:
        assert 0.1 < sum(one in run_kinds for run_kinds in kinds) / len(kinds) < 0.6
    assert any(not run_kinds for run_kinds in kinds)
    assert all(from_toml(to_toml(faults)) == faults for faults in runs)


def test_rare_branches_are_taken_often_in_some_runs_only() -> None:
    chances = [sum(World(seed, LetterCodec()).chance("early") for _ in range(1)) for seed in range(5)]
    assert chances == [sum(World(seed, LetterCodec()).chance("early") for _ in range(1)) for seed in range(5)]
    counts = []
    for seed in range(100):
        world = World(seed, LetterCodec())
        counts.append(sum(world.chance("early") for _ in range(100)))
    assert 10 < sum(count > 0 for count in counts) < 45
    assert max(counts) > 20


def test_shortening_keeps_what_is_needed() -> None:
    attempts = 0

    def fails(numbers: list[int]) -> bool:
        nonlocal attempts
        attempts += 1
        return {3, 50, 51} <= set(numbers)

    assert shorten_list(list(range(64)), fails) == [3, 50, 51]
    assert attempts < 120
    assert shorten_list([1, 2], lambda numbers: True) == []
