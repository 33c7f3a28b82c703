"""A store in a process that dies, again and again, under a disk that loses what was not synced."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

from support.crashing_disk import CrashingDisk, read_recording
from support.store_model import Model
from support.stored_groups import SETTINGS, draw_group, last_group
from treecast.overlay.storage import StorageError
from treecast.serve.store import Store

TESTS = Path(__file__).resolve().parent.parent


@dataclass
class CrashTrial:
    """Everything follows from `seed`, except at which byte a process is interrupted by itself."""

    directory: Path
    shim: Path
    seed: int
    without: str = ""
    groups: int = 30

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._lives = 0
        self.root = self.directory / "life-0"
        (self.root).mkdir(parents=True)

    def live(self, *, kill_before: int) -> Path:
        """Run a process on what the last crash left, which dies before some operation; returns its recording."""
        self.disk = CrashingDisk(self.root)
        recording = self.directory / f"recording-{self._lives}"
        done = subprocess.run(
            [sys.executable, "-m", "support.stored_groups", str(self.root / "store"), str(self.seed), str(self.groups)]
            + ([self.without] if self.without else []),
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
        assert done.returncode == -9 or (done.returncode == 0 and not kill_before), done.stderr[-2000:]
        self._lives += 1
        return recording

    def crashes(self, count: int) -> list[str]:
        """Let a process die, look at `count` moments of its life, go on with the last one; returns what was lost."""
        operations = read_recording(self.live(kill_before=self._random.randint(40, 1200)))
        moments = sorted(self._random.randint(0, len(operations)) for _ in range(count - 1))
        losses, position = [], 0
        for number, moment in enumerate([*moments, len(operations)]):
            for operation in operations[position:moment]:
                self.disk.replay(operation)
            position = moment
            target = self.directory / f"life-{self._lives}" if number == count - 1 else self.directory / "looked-at"
            self.disk.crash(target, self._random)
            loss = self.loss(target)
            if loss:
                losses.append(f"seed {self.seed}, life {self._lives}, operation {moment}: {loss}")
            if number < count - 1:
                target.rename(self.directory / f"seen-{self._lives}-{number}")
        self.root = self.directory / f"life-{self._lives}"
        return losses

    def loss(self, target: Path) -> str:
        """What is wrong with the store that a crash left: empty if every acknowledged group is there, and whole."""
        acknowledged = self.disk.acknowledged
        try:
            with Store.open(target / "store", SETTINGS) as store:
                last = last_group(store)
                if not acknowledged <= last <= acknowledged + 1:
                    return f"{acknowledged} groups were acknowledged, and {last} are there"
                model = Model()
                for group in range(1, last + 1):
                    model.apply(draw_group(self.seed, group))
                return model.difference(store) or "; ".join(damage.message for damage in store.verify())
        except StorageError as error:
            return str(error)
