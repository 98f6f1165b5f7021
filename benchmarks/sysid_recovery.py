"""Recovery of hidden parameters: random robots, by seed, and whether intervals hold what was hidden.

Every case draws a robot with hidden gains, friction, delay and noise, records it, and identifies it from the log
alone. Cases are kept in ``benchmarks/sysid_recovery.json`` as they finish; those that are there are not repeated.

    python benchmarks/sysid_recovery.py mujoco --cases 10     # a Spot on a stand in MuJoCo
    python benchmarks/sysid_recovery.py pybullet --cases 5    # the same in another engine than the one that identifies
    python benchmarks/sysid_recovery.py practice --cases 10   # the same through the practice robot's streams
    python benchmarks/sysid_recovery.py practice-policy       # there on its feet, with a policy in the loop
    python benchmarks/sysid_recovery.py --write               # benchmarks/sysid_recovery.md from all of them
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from adc_wrappers.backends.base import RobotBackend
from adc_wrappers.backends.robots import make_robot_backend
from adc_wrappers.policy import load
from adc_wrappers.runs.folder import source_commit
from adc_wrappers.spot_sim import PracticeRobot
from adc_wrappers.sysid import (
    Chirp,
    FreeParameter,
    HiddenParameters,
    HiddenRobot,
    IdentifySettings,
    PolicyExcitation,
    WindowSettings,
    identify,
    record,
    start_of,
)
from adc_wrappers.trajectories import TrajectoryLog

FILE = Path(__file__).with_suffix(".json")
TABLE = Path(__file__).with_suffix(".md")
STIFFNESS, DAMPING = 60.0, 1.5
SECONDS = 4.0
POLICY_SECONDS = 1.4
TAKEOVER_ROWS = 6
PHYSICS_STEP = 0.002


def draw(seed: int) -> HiddenParameters:
    """Return the hidden parameters of a case; the first is the paper's 40 behind 60."""
    rng = np.random.default_rng(1000 + seed)
    scale = rng.uniform(0.5, 0.9)
    return HiddenParameters(
        stiffness_scale=40.0 / 60.0 if seed == 0 else scale,
        damping_scale=rng.uniform(0.7, 1.4),
        coulomb=rng.uniform(0.1, 1.2),
        viscous=rng.uniform(0.0, 0.3),
        delay_steps=int(rng.integers(0, 5)),
        position_noise=rng.uniform(0.0005, 0.003),
        velocity_noise=rng.uniform(0.02, 0.1),
        seed=seed,
    )


def truth(hidden: HiddenParameters) -> dict[str, float]:
    """Return what the identification should say; viscous friction is part of the damping."""
    damping = hidden.damping_scale + hidden.viscous / DAMPING
    types = ("hx", "hy", "kn")
    return {
        "stiffness": hidden.stiffness_scale,
        "damping": damping,
        "coulomb": hidden.coulomb,
        **{f"damping[{kind}]": damping for kind in types},
        **{f"coulomb[{kind}]": hidden.coulomb for kind in types},
        "delay": hidden.delay_steps * PHYSICS_STEP,
    }


def collect(robot: str, hidden: HiddenParameters) -> TrajectoryLog:
    """Record a case: chirps on a stand, or a policy on the practice robot."""
    if robot.startswith("practice"):
        return collect_practice(hidden, on_stand=robot == "practice")
    spot = HiddenRobot(make_robot_backend(robot, 1, fixed_base=True), hidden)
    spot.set_gains(np.full((1, 12), STIFFNESS), np.full((1, 12), DAMPING))
    spot.reset(start_of(spot, height=2.0))
    log = record_chirp(spot, hidden.seed, f"{robot}, case {hidden.seed}")
    spot.close()
    return log


def record_chirp(spot: RobotBackend, seed: int, source: str) -> TrajectoryLog:
    """Record chirps on a stand."""
    chirp = Chirp(pose=spot.nominal_pose, period=SECONDS, seed=seed)
    return record(spot, chirp, SECONDS, on_stand=True, source=source)


def record_policy(spot: RobotBackend, source: str) -> TrajectoryLog:
    """Record the handstand policy on its feet; the rows of the take-over are left out."""
    policy = load(Path(__file__).parents[1] / "examples/policies/spot_handstand.onnx")
    motion = PolicyExcitation(policy, spot.nominal_pose)
    log = record(spot, motion, POLICY_SECONDS, keep_stopped=True, source=source)
    return log.part(TAKEOVER_ROWS, len(log.time) - 3)


def collect_practice(hidden: HiddenParameters, *, on_stand: bool) -> TrajectoryLog:
    """Record a practice robot through its state and command streams."""
    source = f"practice robot, case {hidden.seed}"
    with PracticeRobot(
        clock="lockstep", on_stand=on_stand, gain_scale=hidden.stiffness_scale, damping_scale=hidden.damping_scale,
        joint_friction=hidden.coulomb, viscous_friction=hidden.viscous, command_delay=hidden.delay_steps,
        position_noise=hidden.position_noise, velocity_noise=hidden.velocity_noise, seed=hidden.seed,
    ) as robot:  # fmt: skip
        spot = make_robot_backend(
            "spot", 1, hostname=robot.hostname, port=robot.port, certificate=robot.certificate,
            credentials=lambda: (robot.username, robot.password), stiffness=STIFFNESS, damping=DAMPING,
            clock="lockstep", wanted=(1.0, 0.0, 0.0), physics_step=PHYSICS_STEP, decimation=10,
        )  # fmt: skip
        with closing(spot):
            spot.reset(start_of(spot, height=0.5))
            return record_chirp(spot, hidden.seed, source) if on_stand else record_policy(spot, source)


def run_case(robot: str, seed: int) -> dict[str, Any]:
    """Record and identify one case."""
    hidden = draw(seed)
    log = collect(robot, hidden)
    settings = IdentifySettings(seed=seed)
    if robot == "practice-policy":  # on its feet: short windows, and one number for all joints
        free = tuple(FreeParameter(kind) for kind in ("stiffness", "damping", "coulomb", "delay"))
        settings = IdentifySettings(seed=seed, free=free, windows=WindowSettings(length=0.2, burn_in=0.0))
    wall, cpu = time.perf_counter(), time.process_time()
    found = identify([log], settings)
    expected = truth(hidden)
    return {
        "robot": robot,
        "seed": seed,
        "commit": source_commit(),
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "evaluations": found.evaluations,
        "noise": [hidden.position_noise, hidden.velocity_noise],
        "errors": [found.errors.position, found.errors.velocity],
        "parameters": [
            {
                "name": p.name, "truth": expected[p.name], "value": p.value, "lower": p.lower, "upper": p.upper,
                "verdict": p.verdict, "at_bound": p.at_bound,
            }
            for p in found.parameters
        ],
    }  # fmt: skip


def inside(parameter: dict[str, Any]) -> bool:
    """Return whether the truth is in the interval."""
    return bool(parameter["lower"] <= parameter["truth"] <= parameter["upper"])


def section(robot: str, cases: list[dict[str, Any]]) -> list[str]:
    """Return the table of one kind of robot."""
    lines = [
        f"## {robot}",
        "",
        "| case | true K | found K | interval | error | K inside | all inside | delay true, found, ms | "
        "friction true, found, N·m | CPU, s |",
        "|---:|---:|---:|---|---:|---|---|---|---|---:|",
    ]
    good = within = everything = 0
    for case in cases:
        by_name = {p["name"]: p for p in case["parameters"]}
        k, delay = by_name["stiffness"], by_name["delay"]
        error = abs(k["value"] / k["truth"] - 1.0)
        whole = sum(inside(p) for p in case["parameters"])
        good, within, everything = good + (error <= 0.05), within + inside(k), everything + (whole == len(by_name))
        coulomb = [p for p in case["parameters"] if p["name"].startswith("coulomb")]
        lines.append(
            f"| {case['seed']} | {STIFFNESS * k['truth']:.2f} | {STIFFNESS * k['value']:.2f} | "
            f"{STIFFNESS * k['lower']:.2f} to {STIFFNESS * k['upper']:.2f} | {error:.2%} | "
            f"{'yes' if inside(k) else 'no'} | {whole} of {len(by_name)} | "
            f"{1e3 * delay['truth']:.1f}, {1e3 * delay['value']:.2f} | {coulomb[0]['truth']:.2f}, "
            f"{', '.join(format(p['value'], '.2f') for p in coulomb)} | {case['cpu']:.0f} |"
        )
    count, commits = len(cases), ", ".join(dict.fromkeys(str(case["commit"]) for case in cases))
    largest = max(
        abs(p["value"] / p["truth"] - 1.0) for c in cases for p in c["parameters"] if p["name"] == "stiffness"
    )
    return [
        *lines,
        "",
        f"K within 5 %: **{good} of {count}** (largest error {largest:.2%}); true K inside its interval: "
        f"**{within} of {count}**; all true values inside: **{everything} of {count}**. "
        f"Command: `python benchmarks/sysid_recovery.py {robot} --cases {count}`, seeds 0 to {count - 1}, "
        f"{sum(case['wall'] for case in cases):.0f} s, commit {commits}.",
        "",
    ]


def main() -> None:
    """Run cases, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robot", nargs="?", choices=("mujoco", "pybullet", "practice", "practice-policy"))
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    done: list[dict[str, Any]] = json.loads(FILE.read_text()) if FILE.exists() else []
    for seed in range(options.cases if options.robot else 0):
        if any(case["robot"] == options.robot and case["seed"] == seed for case in done):
            continue
        case = run_case(options.robot, seed)
        done = json.loads(FILE.read_text()) if FILE.exists() else []
        done.append(case)
        FILE.write_text(json.dumps(done, indent=1) + "\n")
        k = case["parameters"][0]
        print(
            options.robot, seed, f"{k['truth']:.4f} {k['value']:.4f}", sum(map(inside, case["parameters"])), flush=True
        )
    if options.write:
        robots = list(dict.fromkeys(case["robot"] for case in done))
        rows = {robot: sorted((c for c in done if c["robot"] == robot), key=lambda c: c["seed"]) for robot in robots}
        head = Path(__file__).with_name("sysid_recovery_head.md").read_text()
        TABLE.write_text("\n".join([head, *(line for robot in robots for line in section(robot, rows[robot]))]))


if __name__ == "__main__":
    main()
