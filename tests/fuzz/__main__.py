"""``python -m tests.fuzz``: mutants of every file kind, and a table of what became of them."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .harness import BAD, Result, run
from .kinds import KINDS


def main() -> int:
    """Fuzz, print a table, and return 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--kind", default="all", help="all, or names with commas: " + ", ".join(KINDS))
    parser.add_argument("--mutants", type=int, default=1000, help="of every kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant, to run a finding again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="kinds that are fuzzed at the same time")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds after which a mutant hangs")
    parser.add_argument("--memory", type=int, default=2048, help="MiB that reading a mutant may take")
    parser.add_argument("--out", type=Path, help="write every finding to this JSON file")
    options = parser.parse_args()
    kinds = list(KINDS) if options.kind == "all" else options.kind.split(",")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        parser.error(f"unknown kind {unknown[0]!r}; choose of {', '.join(KINDS)}")
    print(f"seed {options.seed}, mutants {options.first} to {options.first + options.mutants - 1}, commit {_commit()}")
    print("| kind | mutants | accepted | refused | " + " | ".join(BAD) + " | seconds |", flush=True)
    print("|---" * (5 + len(BAD)) + "|", flush=True)

    def one(kind: str) -> Result:
        result = run(
            kind, mutants=options.mutants, seed=options.seed, first=options.first, timeout=options.timeout,
            memory=options.memory,
        )  # fmt: skip
        print(_row(result), flush=True)
        return result

    begin = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(one, kinds))
    print(f"{sum(result.bad for result in results)} bad of {sum(r.outcomes.total() for r in results)} mutants in "
          f"{time.monotonic() - begin:.0f} s")  # fmt: skip
    for result in results:
        _explain(result)
    if options.out is not None:
        options.out.write_text(json.dumps({result.kind: result.findings for result in results}, indent=1))
    return int(any(result.bad for result in results))


def _row(result: Result) -> str:
    names = ("accepted", "refused", *BAD)
    counts = " | ".join(f"{result.outcomes[name]:,}" for name in names)
    return f"| {result.kind} | {result.outcomes.total():,} | {counts} | {result.seconds:.0f} |"


def _explain(result: Result) -> None:
    """Print each distinct problem once, with the number of a mutant that shows it."""
    problems = Counter((f["problem"], _last_own_line(f.get("traceback", ""))) for f in result.findings)
    for (problem, line), count in problems.most_common(20):
        first = next(
            f for f in result.findings if f["problem"] == problem and _last_own_line(f.get("traceback", "")) == line
        )
        print(f"\n{result.kind}: {count} × {problem}, such as mutant {first['index']} ({first['what']})\n  {line}")
        print("  " + first.get("traceback", "").strip().splitlines()[-1][:300] if first.get("traceback") else "")


def _last_own_line(text: str) -> str:
    own = [line.strip() for line in text.splitlines() if line.lstrip().startswith("File") and "adc_wrappers" in line]
    return own[-1] if own else ""


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return answer.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
