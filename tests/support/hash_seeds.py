"""Runs of a scenario in processes whose hash seeds differ."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import sys
from treecast.sim.__main__ import SCENARIOS
for seed in range(int(sys.argv[2])):
    outcome = SCENARIOS[sys.argv[1]]().run(seed)
    print(outcome.digest, outcome.events, outcome.failure)
"""


def digests(scenario: str, seeds: int) -> list[str]:
    """A line for each seed, the same in both processes."""
    answers = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, scenario, str(seeds)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "4242")
    }
    assert len(answers) == 1
    return answers.pop().splitlines()
