"""The harness that runs mutants in processes of their own, with limits of time and memory."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from .kinds import find_target
from .targets import WrongAcceptanceError

__all__ = ["BAD", "Result", "run", "run_one"]

BAD = ("foreign", "wrong", "hang", "crash")
"""Outcomes of which there must be none; the others are ``refused`` and ``accepted``."""

_TOLD = ("accepted", "refused", "foreign", "wrong")  # by the child; the parent sees hangs and crashes
_POLL = 0.05


@dataclass
class Result:
    """Outcomes of the mutants of one kind."""

    kind: str
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, Any]] = field(default_factory=list)
    """What went wrong, with the number of the mutant."""

    @property
    def bad(self) -> int:
        """How many mutants were not handled as they must be."""
        return sum(self.outcomes[name] for name in BAD)


def run_one(target: Any, seed: int, index: int) -> tuple[str, dict[str, Any] | None]:
    """Return the outcome of one mutant, and the finding if it is bad."""
    rng = Random(f"{seed}/{target.name}/{index}")
    mutant = target.mutate(rng)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(mutant)
    except target.errors as error:
        if str(error):
            return "refused", None
        return "foreign", _finding(index, mutant.what, "an error of our own that says nothing", error)
    except WrongAcceptanceError as error:
        return "wrong", _finding(index, mutant.what, str(error), error)
    except Exception as error:  # this is what is looked for
        return "foreign", _finding(index, mutant.what, f"{type(error).__module__}.{type(error).__name__}", error)
    return "accepted", None


def _finding(index: int, what: str, problem: str, error: BaseException) -> dict[str, Any]:
    lines = traceback.format_exception(error)
    return {"index": index, "what": what, "problem": problem, "traceback": "".join(lines)[-3000:]}


def _work(kind: str, seed: int, begin: int, end: int, memory: int, progress: Any, log: str) -> None:
    os.fsync = lambda _: None  # no crash of the machine is tried here, and waiting for its disk takes most of the time
    with tempfile.TemporaryDirectory() as folder:
        target = find_target(kind)(Path(folder))
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + memory * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with Path(log).open("a") as file:
            for index in range(begin, end):
                progress[0], progress[1] = index, time.monotonic()
                outcome, finding = run_one(target, seed, index)
                progress[2 + _TOLD.index(outcome)] += 1
                if finding is not None:
                    file.write(json.dumps(finding) + "\n")
                    file.flush()


def run(kind: str, *, mutants: int, seed: int = 0, first: int = 0, timeout: float = 60.0, memory: int = 2048) -> Result:
    """Run mutants of one kind one after another in a child process, which is started anew if it hangs or dies.

    Args:
        kind: Name of the kind.
        mutants: How many.
        seed: Decides them all, together with kind and number.
        first: Number of the first.
        timeout: Seconds after which one is taken for hanging.
        memory: MiB that reading may take beyond what the process has when it begins.
    """
    result = Result(kind)
    start = time.monotonic()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        log.touch()
        begin, end = first, first + mutants
        while begin < end:
            progress = context.Array("d", [begin, 0.0, *(0.0 for _ in _TOLD)], lock=False)
            process = context.Process(target=_work, args=(kind, seed, begin, end, memory, progress, str(log)))
            process.start()
            hung = _watch(process, progress, timeout)
            result.outcomes.update({name: int(progress[2 + place]) for place, name in enumerate(_TOLD)})
            if process.exitcode == 0:
                break
            if process.exitcode == 1:  # a Python traceback, on stderr: readers' exceptions do not get this far
                raise RuntimeError(f"{kind}: the fuzzer itself failed at mutant {int(progress[0])}.")
            index, outcome = int(progress[0]), "hang" if hung else "crash"
            result.outcomes[outcome] += 1
            result.findings.append({"index": index, "what": "?", "problem": f"{outcome}, exit code {process.exitcode}"})
            begin = index + 1
        result.findings += [json.loads(line) for line in log.read_text().splitlines()]
    result.seconds = time.monotonic() - start
    return result


def _watch(process: Any, progress: Sequence[float], timeout: float) -> bool:
    """Wait for a process; kill it and return True if one mutant takes longer than ``timeout``."""
    while process.is_alive():
        process.join(_POLL)
        if progress[1] and time.monotonic() - progress[1] > timeout:
            process.kill()
            process.join()
            return True
    return False
