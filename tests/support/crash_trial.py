"""A store in a process that dies, again and again, under a disk that loses what was not synced."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

from support.crashing_disk import CrashingDisk, Operation, read_recording
from support.store_model import Model
from support.stored_groups import SETTINGS, draw_group, last_group
from treecast.overlay.storage import StorageError
from treecast.serve.store import Store

TESTS = Path(__file__).resolve().parent.parent


@dataclass
class CrashTrial:
    """Everything follows from `seed`, except the ids that a store draws. See stored_groups.py for the last ones."""

    directory: Path
    shim: Path
    seed: int
    without: str = ""
    fails: bool = False
    """A sync fails, the process dies, and another one opens the store before the power is lost."""
    groups: int = 50

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._lives = 0
        self._last = 0
        self.root = self.directory / "life-0"
        (self.root).mkdir(parents=True)

    def live(self, *, kill_before: int = 0, failing: str = "") -> list[Operation]:
        """Run a process on what is there, which dies before some operation; returns its recording."""
        recording = self.directory / f"recording-{self._lives}"
        arguments = [str(self.root / "store"), str(self.seed), str(self.groups), failing, self.without]
        process = subprocess.run(
            [sys.executable, "-m", "support.stored_groups", *arguments],
            cwd=TESTS,
            env={
                **os.environ,
                "LD_PRELOAD": f"{self.shim} {os.environ.get('LD_PRELOAD', '')}",
                "DISK_ROOT": str(self.root),
                "DISK_RECORDING": str(recording),
                "DISK_KILL": str(kill_before),
            },
            capture_output=True,
            text=True,
        )
        assert process.returncode in (-9, 0), process.stderr[-2000:]  # it may come to its end before
        self._lives += 1
        return read_recording(recording)

    def crashes(self, count: int) -> list[str]:
        """Let a process die, look at `count` moments of its life, go on with the last one; returns what was lost."""
        self.disk = CrashingDisk(self.root, self._random)
        self.disk.acknowledged = self._last  # whatever the last crash left was seen, and has to stay
        operations = []
        if self.fails:
            operations = [*self.live(failing=str(self._random.randint(0, 90))), Operation("P", -1, 0, b"")]
        operations += self.live(kill_before=self._random.randint(40, 1200))
        failures = [place for place, operation in enumerate(operations) if operation.kind == "F"]
        moments = sorted(self._draw_moment(len(operations), failures) for _ in range(count - 1))
        losses, position = [], 0
        for number, moment in enumerate([*moments, len(operations)]):
            for operation in operations[position:moment]:
                self.disk.replay(operation)
            position = moment
            target = self.directory / f"life-{self._lives}" if number == count - 1 else self.directory / "looked-at"
            self.disk.crash(target)
            loss = self.loss(target)
            if loss:
                losses.append(f"seed {self.seed}, life {self._lives}, operation {moment}: {loss}")
            if number < count - 1:
                target.rename(self.directory / f"seen-{self._lives}-{number}")
        self.root = self.directory / f"life-{self._lives}"
        return losses

    def _draw_moment(self, end: int, failures: list[int]) -> int:
        """Any moment; where syncs have failed, mostly one soon after that."""
        if failures and self._random.random() < 0.8:
            return min(end, self._random.choice(failures) + self._random.randint(0, 60))
        return self._random.randint(0, end)

    def loss(self, target: Path) -> str:
        """What is wrong with the store that a crash left: empty if every acknowledged group is there, and whole."""
        acknowledged_groups = self.disk.acknowledged
        try:
            with Store.open(target / "store", SETTINGS) as store:
                last = self._last = last_group(store)
                if not acknowledged_groups <= last <= acknowledged_groups + 1:
                    return f"{acknowledged_groups} groups were acknowledged, and {last} are there"
                model = Model()
                for group in range(1, last + 1):
                    model.apply(draw_group(self.seed, group))
                return model.difference(store) or "; ".join(damage.message for damage in store.verify())
        except StorageError as error:
            return str(error)
