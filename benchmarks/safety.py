"""Endings of a robot: every fault and signal in every phase, timed on the practice robot.

    python benchmarks/safety.py                             # 5 repetitions, print
    python benchmarks/safety.py --write                     # and write benchmarks/safety.md and docs/hardware.md
    python benchmarks/safety.py --repetitions 1 --only KILL # a part
    python benchmarks/safety.py --phase takeover --raw benchmarks/safety_takeover.jsonl    # one column, by itself

Each trial has a practice robot of its own. The shipped policy takes it over and drives it; in the wanted phase a fault
is injected, or a signal is sent to the driving process or to its keeper. *Take-over*: joint control has just begun.
*Hold*: reset() has returned and no action has come. *Transition*: after three policy steps. *Stance*: the practice
robot is placed into the policy's own handstand after three steps, and the guard's phase tracker has seen it there for
five.

The robot itself remembers when its mode, its motors and the owner of its lease changed. Times count from the fault or
signal: until no command of ours acts any more, until the robot stands (or sits, lies or is off), until its motors are
off. Trials whose outcome depends on time run in real time, by the computer's clock; the others in lockstep, by the
robot's. Where nothing is to be stopped (a warning), times count from the end that the driver chooses.

Raw results go to benchmarks/safety.jsonl as they come; a run that was broken off goes on from there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safety_trial import SETTINGS, SILENCE

from adc_wrappers.runs.folder import source_commit

HERE = Path(__file__).parent
RAW = HERE / "safety.jsonl"
TABLE = HERE / "safety.md"
PAGE = HERE.parent / "docs" / "hardware.md"
BEGIN, END = "<!-- safety table, written by benchmarks/safety.py -->", "<!-- end of the safety table -->"
PHASES = ("takeover", "hold", "transition", "stance")
CLOCKS = ("lockstep", "realtime")
DRIVEN = 1.0
"""Seconds within which no command of ours may act any more."""

OFF = 30.0
"""Seconds within which motors must be off and the lease returned."""

HUNG = 300.0
"""Seconds after which a trial without a result is given up, which counts as unsafe."""

TRIES = 4
"""How often a trial is tried whose phase never came, because something stopped the robot before."""


@dataclass(frozen=True)
class Case:
    """Something that goes wrong."""

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    kind: str = "fault"
    victim: str = ""
    timed: bool = False
    """Whether it is about time, and runs in real time in every phase."""

    stops: bool = True
    """Whether it must end the episode."""

    driven: float = DRIVEN
    off: float = OFF

    @property
    def title(self) -> str:
        """What the table calls it."""
        if self.kind == "signal":
            return f"SIG{self.name} to the {self.victim}"
        more = ", ".join(
            f"{key} {value:g}" if not isinstance(value, str) else value for key, value in self.parameters.items()
        )
        return f"`{self.name}`" + (f" ({more})" if more else "")


FAULTS = (
    Case("state_loss", {"duration": 60.0}, timed=True),
    Case("state_delay", {"duration": 60.0, "delay": 1.0}, timed=True),
    Case("state_reorder", timed=True),
    Case("command_loss", {"duration": 60.0}, timed=True),
    Case("stream_cut", {"which": "both"}, timed=True),
    Case("stream_cut", {"which": "state"}, timed=True),
    Case("stream_cut", {"which": "command"}, timed=True),
    Case("clock_jump", {"seconds": 1.0}, timed=True),
    Case("clock_jump", {"seconds": -5.0}, timed=True),
    Case("lease_theft"),
    Case("estop", {"level": "cut"}),
    Case("estop", {"level": "settle_then_cut"}),
    Case("behavior_fault"),
    Case("fall", timed=True),
    Case("push", timed=True, stops=False),
    Case("low_battery"),
    Case("missing_charge"),
    Case("hot_motor"),
    Case("hot_battery"),
    Case("missing_temperatures"),
    Case("unknown_estop"),
    Case("warning", stops=False),
    Case("missing_licence"),
    Case("expired_token"),
    Case("arm_fitted"),
    Case("odom_tilt", stops=False),
    Case("slow_power_off", stops=False, off=OFF + 12.0),
)
"""All of the practice robot's fault table but ``estop_release``, which is none."""

SIGNALS = (
    *(Case(name, kind="signal", victim="driver", timed=True) for name in ("INT", "TERM", "HUP", "KILL", "STOP")),
    *(Case(name, kind="signal", victim="keeper", timed=True, stops=False) for name in ("INT", "HUP")),
    *(Case(name, kind="signal", victim="keeper", timed=True) for name in ("TERM", "KILL")),
    Case("STOP", kind="signal", victim="keeper", timed=True, driven=SILENCE + DRIVEN),
)
"""The keeper ignores what a terminal sends to everybody, and knows its driver's end by the end of its words."""

CASES = FAULTS + SIGNALS


def plan(
    repetitions: int, only: str, clocks: tuple[str, ...], phases: tuple[str, ...] = PHASES
) -> list[dict[str, Any]]:
    """Return all trials, as the workers take them."""
    trials: list[dict[str, Any]] = []
    for number, case in enumerate(CASES):
        if only and only not in case.title:
            continue
        for phase in phases:
            clock = "realtime" if case.timed or phase == "hold" else "lockstep"
            if clock not in clocks:
                continue
            trials += [
                {
                    "case": number, "title": case.title, "kind": case.kind, "name": case.name, "victim": case.victim,
                    "parameters": case.parameters, "phase": phase, "clock": clock, "repetition": repetition,
                }
                for repetition in range(repetitions)
            ]  # fmt: skip
    return trials


def key(trial: dict[str, Any]) -> tuple[str, str, int]:
    """Return what tells trials apart."""
    return trial["title"], trial["phase"], trial["repetition"]


class Worker:
    """A process that runs trials one after the other; one that hangs is replaced."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, trial: dict[str, Any]) -> dict[str, Any]:
        """Run one."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "safety_trial.py"), "work"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(trial) + "\n")
        process.stdin.flush()
        timer = threading.Timer(HUNG, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        if not line:
            process.wait()
            return {**trial, "failed": f"no result within {HUNG:g} s"}
        result: dict[str, Any] = json.loads(line)
        return result

    def close(self) -> None:
        """End the process."""
        if self._process is not None and self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(30.0)


def judge(result: dict[str, Any]) -> dict[str, Any]:
    """Return times and a verdict of a trial: ``None`` where the phase never came."""
    case = CASES[result["case"]]
    if "failed" in result:
        return {"verdict": "unsafe", "why": result["failed"]}
    moments, clock = result["moments"], "wall" if result["clock"] == "realtime" else "time"
    if "struck" not in moments:
        return {"verdict": None, "why": result["told"]["error"] or result["told"]["check"]}
    struck = moments["struck"][clock]
    begin = struck
    changes = result["history"]
    stopped = result["told"]["check"] is not None
    if not case.stops:  # the robot may be driven on, until its end or until the guard stops it for another reason
        end = _leaves(changes, clock) if stopped else moments.get("closing", {}).get(clock)
        begin = max(struck, end or struck)
    driven = _leaves(changes, clock) or begin
    calm = [c for c in changes if c[clock] >= driven and (c["mode"] in ("off", "fault") or c["settled"])]
    off = [c for c in changes if c[clock] >= begin and c["motors"] == "off"]
    already = [c for c in changes if c[clock] < begin][-1:]  # off before the moment from which times count
    off = already + off if already and already[0]["motors"] == "off" else off
    told = {
        "driven": max(0.0, driven - begin),
        "calm": max(0.0, calm[0][clock] - begin) if calm else None,
        "how": {"stand": "stands", "sit": "sits", "off": "off", "fault": "lies"}[calm[0]["mode"]] if calm else "",
        "off": max(0.0, off[0][clock] - begin) if off else None,
        "check": result["told"]["check"],
    }
    return {**told, **_verdict(case, result, told)}


def _leaves(changes: list[dict[str, Any]], clock: str) -> float | None:
    """Return when joint mode was left for the last time."""
    left = [b[clock] for a, b in itertools.pairwise(changes) if a["mode"] == "joint" and b["mode"] != "joint"]
    return left[-1] if left else None


def _verdict(case: Case, result: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    wrong = []
    if result["mode"] == "joint" or told["driven"] > case.driven:
        wrong.append(f"driven for {told['driven']:.1f} s")
    if result["lease"] == "tablet" and case.name == "lease_theft":
        return {"verdict": "unsafe" if wrong else "safe", "why": "; ".join(wrong)}  # motors are the new owner's matter
    if result["motors"] != "off" or told["off"] is None or told["off"] > case.off:
        wrong.append("motors on")
    if result["lease"] is not None:
        wrong.append(f"lease held by {result['lease']}")
    return {"verdict": "unsafe" if wrong else "safe", "why": "; ".join(wrong)}


def same_product(commit: str) -> bool:
    """Whether nothing that drives, keeps or simulates a robot has changed since a commit."""
    paths = ("backends", "envs", "adc_wrappers/deploy", "adc_wrappers/spot_sim")
    wanted = commit.removesuffix("-dirty")
    return subprocess.run(["git", "diff", "--quiet", wanted, "HEAD", "--", *paths], cwd=HERE.parent).returncode == 0


def run(trials: list[dict[str, Any]], jobs: int, raw: Path, commit: str) -> list[dict[str, Any]]:
    """Run what is not in the file yet; returns all results of the product as it is, whatever commit they are of."""
    usable = {found: same_product(found) for found in {str(r.get("commit")) for r in _read(raw)}}
    kept = [r for r in _read(raw) if usable[str(r.get("commit"))]]
    done = {key(r) for r in kept}
    wanted = {key(trial) for trial in trials}
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    left = [trial for trial in trials if key(trial) not in done]
    for trial in left:
        waiting.put(trial)
    raw.write_text("".join(json.dumps(r) + "\n" for r in kept))
    lock, begin = threading.Lock(), time.monotonic()

    def work() -> None:
        worker = Worker()
        while True:
            try:
                trial = waiting.get_nowait()
            except queue.Empty:
                break
            result = _until_reached(worker, trial)
            result["commit"] = commit
            with lock, raw.open("a") as file:
                file.write(json.dumps(result) + "\n")
                kept.append(result)
                count = len(kept) - len(done)
                found = result["verdict"]
                print(
                    f"{count}/{len(left)} {time.monotonic() - begin:.0f} s  {result['title']} in {result['phase']}: "
                    f"{found['verdict']} {found['why']}", flush=True,
                )  # fmt: skip
        worker.close()

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [r for r in kept if key(r) in wanted]


def _until_reached(worker: Worker, trial: dict[str, Any]) -> dict[str, Any]:
    """Run a trial until its phase comes, which on a busy computer it may not at once."""
    missed = []
    for _ in range(TRIES):
        result = worker.run(trial)
        verdict = judge(result)
        if verdict["verdict"] is not None:
            break
        missed.append(verdict["why"])
    history = result.pop("history", None)
    if verdict["verdict"] == "unsafe":
        result["history"] = history  # only those are looked at again
    return {**result, "verdict": verdict, "missed": missed}


def _read(raw: Path) -> list[dict[str, Any]]:
    if not raw.exists():
        return []
    return [json.loads(line) for line in raw.read_text().splitlines() if line]


def table(results: list[dict[str, Any]]) -> str:
    """Return the table: the worst of the repetitions in every cell."""
    lines = ["| what goes wrong | take-over | hold | transition | stance | unsafe |", "|---|---|---|---|---|---:|"]
    for case in CASES:
        of_case = [r for r in results if r["title"] == case.title]
        if not of_case:
            continue
        cells = [_cell([r for r in of_case if r["phase"] == phase]) for phase in PHASES]
        unsafe = sum(r["verdict"]["verdict"] == "unsafe" for r in of_case)
        reached = sum(r["verdict"]["verdict"] is not None for r in of_case)
        mark = "" if case.stops else " *"
        lines.append(f"| {case.title}{mark} | {' | '.join(cells)} | {unsafe} of {reached} |")
    return "\n".join(lines)


def _cell(results: list[dict[str, Any]]) -> str:
    found = [r["verdict"] for r in results if r["verdict"]["verdict"] is not None and "driven" in r["verdict"]]
    if not found:
        return "never came" if results else ""
    hows = sorted({f["how"] for f in found if f["how"]})
    clock = "" if results[0]["clock"] == "realtime" else "ᴸ"
    times = " / ".join(_worst([f[name] for f in found]) for name in ("driven", "calm", "off"))
    return f"{times}{clock} {', '.join(hows)}"


def _worst(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{max(known):.2f}" if len(known) == len(values) else "–"


HEADER = """\
Command: `python benchmarks/safety.py{arguments}`, {minutes:.0f} min of trials, {jobs} at once, {commits}. \
bosdyn-client {client}, Python {python}, {cores} cores, load average {load:.1f} at the end. Raw results: \
[safety.jsonl](../benchmarks/safety.jsonl).

**{trials} trials, {unsafe} unsafe endings.** Unsafe is: commands of ours act for more than {driven:g} s after the \
fault or signal ({stalled:g} s where the keeper is stopped, whose silence counts after {silence:g} s), or motors are \
on after {off:g} s (12 s more with `slow_power_off`), or the lease is still held. In {missed} attempts something else \
had stopped the robot before its phase came (a busy computer); they were tried again{never}.

A cell has the worst of the repetitions, in seconds: no command of ours acts / the robot stands, sits, is off or \
lies / motors are off. ᴸ: lockstep, by the robot's clock; else real time. A * marks what need not end an episode: \
times count from its end, or from where the guard stopped it, then or later. Signals were sent with a keeper, \
faults injected without. Settings other than the defaults: {settings}; limits `practice`. From a handstand the \
practice robot's own stand falls: nobody has tried a real one's.

"""


def _commits(results: list[dict[str, Any]]) -> str:
    """Return of which commits the trials are; between them nothing of the product has changed."""
    counts = Counter(str(r["commit"])[:12] for r in results).most_common()
    if len(counts) == 1:
        return f"commit {counts[0][0]}"
    return "commits " + ", ".join(f"{name} ({count} trials)" for name, count in counts) + ", the product unchanged"


def header(results: list[dict[str, Any]], jobs: int) -> str:
    """Return what must be known to read the table, and to make it again."""
    verdicts = [r["verdict"]["verdict"] for r in results]
    never = verdicts.count(None)
    return HEADER.format(
        arguments="".join(f" {word}" for word in sys.argv[1:]), jobs=jobs, commits=_commits(results),
        minutes=sum(r.get("seconds", HUNG) for r in results) / jobs / 60.0, client=version("bosdyn-client"),
        python=platform.python_version(), cores=os.cpu_count(), load=os.getloadavg()[1], trials=len(results),
        unsafe=verdicts.count("unsafe"), driven=DRIVEN, stalled=SILENCE + DRIVEN, silence=SILENCE, off=OFF,
        missed=sum(len(r["missed"]) for r in results), never=f", and {never} never came to it" if never else "",
        settings=", ".join(f"{name} {value:g}" for name, value in SETTINGS.items()),
    )  # fmt: skip


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write benchmarks/safety.md and docs/hardware.md")
    parser.add_argument("--repetitions", type=int, default=5, help="trials of each fault or signal in each phase")
    parser.add_argument("--jobs", type=int, default=2, help="trials at once")
    parser.add_argument("--only", default="", help="only those whose title contains this")
    parser.add_argument("--clock", choices=CLOCKS, help="only those by this clock")
    parser.add_argument("--phase", choices=PHASES, help="only those in this phase")
    parser.add_argument("--raw", type=Path, default=RAW, help="where raw results go")
    options = parser.parse_args()
    commit = source_commit() or "unknown"
    clocks = (options.clock,) if options.clock else CLOCKS
    phases = (options.phase,) if options.phase else PHASES
    if options.write and (options.only or options.clock or options.phase):
        parser.error("--write writes the whole table: leave --only, --clock and --phase out.")
    results = run(plan(options.repetitions, options.only, clocks, phases), options.jobs, options.raw, commit)
    text = header(results, options.jobs) + table(results) + "\n"
    print(text)
    if options.write:
        TABLE.write_text(f"# How a robot ends\n\n{text}")
        page = PAGE.read_text()
        before, rest = page.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
