"""Runs of the test suite, or of parts of it, again and again while other work keeps every core busy.

A test that passes on a quiet machine only is a defect, of the test or of what it tests::

    python tests/busy.py --runs 3                       # the whole suite, three times
    python tests/busy.py --runs 20 tests/trainers/test_sb3.py    # some files, twenty times

Prints a line per run and ends with 1 if any run failed; the output of a failed run is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import multiprocessing.synchronize
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_COUNTS = re.compile(r"(\d+) (passed|failed|skipped|errors?)")


def _spin(stop: multiprocessing.synchronize.Event) -> None:
    while not stop.is_set():
        sum(range(200_000))


@contextlib.contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep ``count`` cores busy inside the block."""
    stop = multiprocessing.Event()
    workers = [multiprocessing.Process(target=_spin, args=(stop,), daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        stop.set()
        for worker in workers:
            worker.join(10.0)


def run(number: int, arguments: list[str], logs: Path) -> bool:
    """Run pytest once, print a row, and return whether it passed."""
    log = logs / f"run{number}.log"
    begin = time.monotonic()
    with log.open("w") as out:
        code = subprocess.call([sys.executable, "-m", "pytest", *arguments], stdout=out, stderr=subprocess.STDOUT)
    counts = dict(reversed(pair) for pair in _COUNTS.findall(log.read_text()[-2000:]))
    numbers = ", ".join(f"{counts.get(what, 0)} {what}" for what in ("passed", "failed", "skipped"))
    load = os.getloadavg()[0]
    verdict = "passed" if code == 0 else f"FAILED ({code}), see {log}"
    print(f"| {number} | {verdict} | {numbers} | {time.monotonic() - begin:.0f} s | {load:.1f} |", flush=True)
    return code == 0


def main() -> int:
    """Run, and count what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="how often")
    parser.add_argument("--busy", type=int, default=os.cpu_count() or 1, help="cores to keep busy beside the tests")
    parser.add_argument("--logs", type=Path, default=None, help="folder for the output of the runs")
    options, arguments = parser.parse_known_args()
    logs = options.logs or Path(tempfile.mkdtemp(prefix="busy-tests-"))
    logs.mkdir(parents=True, exist_ok=True)
    print("| run | result | tests | time | load |\n|---|---|---|---:|---:|", flush=True)
    with busy_cores(options.busy):
        passed = [run(number, arguments, logs) for number in range(1, options.runs + 1)]
    print(f"{sum(passed)} of {len(passed)} runs passed; output in {logs}")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
