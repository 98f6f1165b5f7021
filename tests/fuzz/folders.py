"""Marks and locks of a run folder: whose it is, and who writes into it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from random import Random

from adc_wrappers.runs import FolderLock, RunFolderError
from adc_wrappers.runs.folder import MARKER, check_removable, mark
from adc_wrappers.runs.lock import LOCK_FILE, LockOwner

from .mutations import mutate_json
from .targets import Mutant, Target, expect

__all__ = ["LockTarget", "MarkerTarget"]


class MarkerTarget(Target):
    """The mark of a run folder, before anything in it is removed."""

    name = "run-marker"
    errors = (RunFolderError,)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        mark(folder)
        self.example = json.loads((folder / MARKER).read_text())

    def mutate(self, rng: Random) -> Mutant:
        return Mutant(*mutate_json(rng, self.example))

    def read(self, mutant: Mutant) -> None:
        (self.folder / MARKER).write_bytes(mutant.content)
        check_removable(self.folder)
        said = json.loads(mutant.content)["format"]
        expect(said == self.example["format"], f"taken for a run's folder, though it is marked as {said!r}")


class LockTarget(Target):
    """The lock of a run folder that somebody left behind."""

    name = "run-lock"
    errors = (RunFolderError,)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # The first process of the machine lives as long as it does; names of machine and boot are this one's.
        first = {"pid": 1, "started": "", "command": "adc train", "since": "2026-01-01 00:00:00", "slurm": ""}
        owner = {**asdict(LockOwner.this_process()), **first, "restarts": 0}
        self.examples = [owner, {**owner, "pid": 2**22 + 1}, {**owner, "host": "elsewhere"}]

    def mutate(self, rng: Random) -> Mutant:
        return Mutant(*mutate_json(rng, rng.choice(self.examples)))

    def read(self, mutant: Mutant) -> None:
        path = self.folder / LOCK_FILE
        path.write_bytes(mutant.content)
        with FolderLock(self.folder, heed_signals=False):
            pass
        expect(not path.exists(), "a lock that was taken over is still there after it was given back")
