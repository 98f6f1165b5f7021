"""Trials of a policy file on practice robots that hide what they are, under the guard's limits for a robot.

Every trial has a robot of its own, drawn from its number: what it makes of the gains that it is told, its friction, its
weight, its delay and the noise of its sensors; and a push at a time and from a side that are drawn too. Everything else
is as `adc deploy` does it: preflight, take-over, policy, stop, motors confirmed off. Rows go to trials.jsonl as they
come, so that a run that was broken off goes on; the page is made from them.

    python benchmarks/practice_trials.py POLICY.onnx                                  # 200 in lockstep
    python benchmarks/practice_trials.py POLICY.onnx --clock realtime --trials 50     # 50 in real time
    python benchmarks/practice_trials.py                                              # write the page anew
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adc_wrappers.cli.trials import SUMMARY_ROWS
from adc_wrappers.core.files import write_atomically
from adc_wrappers.deploy import Trial, read_trial, summarize
from adc_wrappers.deploy.deployer import Deployer
from adc_wrappers.policy import load
from adc_wrappers.runs.folder import source_commit
from adc_wrappers.spot_sim import PracticeRobot

OUT = Path("results/practice-trials")
LIMITS = "robot"
RANGES: dict[str, tuple[float, float]] = {
    "gain_scale": (0.9, 1.1),
    "damping_scale": (0.9, 1.1),
    "joint_friction": (0.0, 1.0),
    "viscous_friction": (0.0, 0.2),
    "ground_friction": (0.4, 1.0),
    "base_mass_offset": (-2.5, 2.5),
    "position_noise": (0.0, 0.01),
    "velocity_noise": (0.0, 0.2),
}
"""What a robot hides, uniform between two numbers."""

DELAY_STEPS = 4
"""Largest delay of commands, physics steps of 2 ms."""

PUSH_SPEED, PUSH_SECONDS = 0.5, (6.0, 14.0)


def draw(seed: int, number: int) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the hidden robot of a trial, and its push."""
    rng = np.random.default_rng([seed, number])
    hidden: dict[str, Any] = {name: round(float(rng.uniform(*ends)), 4) for name, ends in RANGES.items()}
    hidden |= {"command_delay": int(rng.integers(0, DELAY_STEPS + 1)), "seed": int(rng.integers(2**31))}
    push = {"at": round(float(rng.uniform(*PUSH_SECONDS)), 2), "direction": round(float(rng.uniform(0.0, 360.0)), 1)}
    return hidden, push


def run_trial(path: Path, policy: Any, clock: str, seed: int, number: int) -> dict[str, Any]:
    """Run one trial and return its row."""
    hidden, push = draw(seed, number)
    metadata = policy.metadata
    gains = (metadata.commanded_stiffness, metadata.commanded_damping)
    if gains[0] is None:
        gains = (metadata.simulated_stiffness, metadata.simulated_damping)
    begin = time.monotonic()
    with (
        PracticeRobot(clock=clock, **hidden) as robot,
        tempfile.TemporaryDirectory(prefix="practice-trial-") as out,
    ):
        target: dict[str, Any] = {
            "hostname": robot.hostname, "port": robot.port, "certificate": robot.certificate, "clock": clock,
            "limits": LIMITS, "patience": 30.0, "credentials": lambda: (robot.username, robot.password),
            "stiffness": gains[0], "damping": gains[1],
        }  # fmt: skip
        with Deployer(policy, path, target, out=Path(out), command=[]) as deployer:
            report = deployer.preflight()
            if report is not None and not report.ok:
                folder = deployer.refuse(report, number)
            else:
                folder, _ = deployer.trial(
                    seed=number,
                    push_at=push["at"],
                    push=lambda: robot.inject("push", speed=PUSH_SPEED, direction=push["direction"]),
                )
        trial = read_trial(folder)
        return {
            "clock": clock, "limits": LIMITS, "number": number, "seed": seed, "hidden": hidden, "push": push,
            "source": trial.source, "outcome": trial.outcome, "motors_off": deployer.motors_off,
            "events": [event for event in trial.events if event.get("event") == "push recovered"],
            "policy": hashlib.sha256(path.read_bytes()).hexdigest()[:16], "commit": source_commit(),
            "took": round(time.monotonic() - begin, 1),
        }  # fmt: skip


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows so far."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


def as_trial(row: dict[str, Any]) -> Trial:
    """Return a row as what is summarized."""
    return Trial(
        folder=Path(), source=row["source"], metadata={name: row[name] for name in ("clock", "limits")},
        outcome=row["outcome"], events=tuple(row["events"]),
    )  # fmt: skip


def _split(rows: Sequence[dict[str, Any]], name: str) -> str:
    """Return success in the lower and in the upper half of what robots hid."""
    ordered = sorted(rows, key=lambda row: row["hidden"][name])
    halves = ordered[: len(rows) // 2], ordered[len(rows) // 2 :]
    shares = [100.0 * np.mean([row["outcome"]["success"] for row in half]) if half else 0.0 for half in halves]
    return f"| {name} | {shares[0]:.0f} % | {shares[1]:.0f} % |"


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Return the page: a column per clock, endings one by one, and what hidden things do."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["clock"], []).append(row)
    numbers = {clock: summarize([as_trial(row) for row in some]) for clock, some in groups.items()}
    unsafe = {clock: sum(not row["motors_off"] for row in some) for clock, some in groups.items()}
    lines = ["| | " + " | ".join(groups) + " |", "|---|" + "---|" * len(groups)]
    for name, show in SUMMARY_ROWS.items():
        lines.append(f"| {name} | " + " | ".join(show(value) for value in numbers.values()) + " |")
    lines.append("| motors not confirmed off | " + " | ".join(str(count) for count in unsafe.values()) + " |")
    lines += ["", "## What robots hid, and success in both halves", ""]
    for clock, some in groups.items():
        lines += [f"{clock}:", "", "| hidden | lower half | upper half |", "|---|---:|---:|"]
        lines += [_split(some, name) for name in (*RANGES, "command_delay")]
        lines.append("")
    lines += ["## Stops by the guard, one by one", "", "| clock | trial | after, s | why |", "|---|---:|---:|---|"]
    for row in rows:
        if row["outcome"]["ended"] in ("guard", "take-over"):
            why = row["outcome"]["reason"].replace("|", "/")
            lines.append(f"| {row['clock']} | {row['number']} | {row['outcome']['seconds']:.2f} | {why} |")
    return "\n".join(lines)


HEAD = """# Trials on practice robots

Made by `python benchmarks/practice_trials.py POLICY.onnx [--clock realtime]`, which says what is
done. Guard limits: `{limits}`. Policy {policies}, seed {seeds}, commit {commits}, {minutes:.0f} min
of trials. No robot was here: see
[what a practice robot is not](../../docs/practice_robot.md#what-it-is-not). Raw rows:
[trials.jsonl](trials.jsonl).

The paper tells of about 20 recorded trials of ten policies on a real Spot, on carpet, padding and
hardwood: all transitions succeeded, on padding sometimes at the second attempt; prods with a pole
were held, much larger pushes were not. It gives no times, no guard and no table.

"""


def write_page(out: Path) -> None:
    """Write the page from the rows."""
    rows = read_rows(out / "trials.jsonl")
    if not rows:
        raise SystemExit(f"no trials in {out}: give a policy file.")
    named = {name: ", ".join(sorted({str(row[name]) for row in rows})) for name in ("policy", "seed", "commit")}
    head = HEAD.format(
        limits=LIMITS, policies=named["policy"], seeds=named["seed"], commits=named["commit"],
        minutes=sum(row["took"] for row in rows) / 60.0,
    )  # fmt: skip
    write_atomically(out / "README.md", (head + page(rows) + "\n").encode())


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", type=Path, nargs="?", help="a policy file; without one only the page is written")
    parser.add_argument("--clock", choices=("lockstep", "realtime"), default="lockstep", help="whose time it is")
    parser.add_argument("--trials", type=int, default=200, help="how many, those that are there counted")
    parser.add_argument("--seed", type=int, default=0, help="seed of the hidden robots")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of rows and page")
    options = parser.parse_args()
    if options.policy is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        policy, rows = load(options.policy), options.out / "trials.jsonl"
        done = {(row["clock"], row["number"], row["seed"]) for row in read_rows(rows)}
        for number in range(options.trials):
            if (options.clock, number, options.seed) in done:
                continue
            row = run_trial(options.policy, policy, options.clock, options.seed, number)
            with rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            outcome = row["outcome"]
            print(f"{number}: {outcome['mode']}, {outcome['seconds']:.1f} s, motors {outcome['motors']}", flush=True)
    write_page(options.out)


if __name__ == "__main__":
    main()
