"""Needs of a deployment: time of a policy's answer on one core, and memory of the process.

    python benchmarks/small_computer.py            # print
    python benchmarks/small_computer.py --write    # and write benchmarks/small_computer.md

Every row is a process of its own, pinned to one core, that imports what `adc deploy` imports. Times are those of one
observation after another, as at 50 Hz; CPU seconds of the process, so that what else the computer does matters less.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
POLICIES = sorted((HERE.parent / "examples" / "policies").glob("*.onnx"))
STEPS = 2000
MEASURE = """
import json, os, resource, sys, time

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
begin = time.process_time()
import numpy as np
import adc_wrappers.backends.spot.backend
import adc_wrappers.deploy.deployer
from adc_wrappers.backends.limiter import LIMITERS, CommandLimiter
from adc_wrappers.backends.spot_model import SPOT
from adc_wrappers.policy import load

policy = load(sys.argv[1])
loaded = time.process_time() - begin
rng = np.random.default_rng(0)
seen = rng.normal(0.0, 0.3, (int(sys.argv[2]), policy.metadata.observation_size)).astype(np.float32)
pose = np.array(policy.metadata.nominal_pose)[None]
limiter = CommandLimiter(LIMITERS["robot"], SPOT, 0.02, pose)
gains = [np.array(v)[None] for v in (policy.metadata.simulated_stiffness, policy.metadata.simulated_damping)]
asked, limited = [], []
for row in seen:
    t0 = time.process_time_ns()
    action = policy(row)
    t1 = time.process_time_ns()
    limiter.accept(limiter(pose + 1.2 * action[None], pose, 0.0 * pose, *gains))
    asked.append(t1 - t0)
    limited.append(time.process_time_ns() - t1)
print(json.dumps({
    "load_s": loaded,
    "policy_us": [float(x) / 1e3 for x in np.percentile(asked, [50, 99])],
    "limiter_us": [float(x) / 1e3 for x in np.percentile(limited, [50, 99])],
    "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "heavy": [name for name in ("torch", "mujoco", "pybullet", "matplotlib") if name in sys.modules],
}))
"""


def measure(policy: Path) -> dict[str, Any]:
    """Return the numbers of one process."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(policy), str(STEPS)], capture_output=True, text=True, check=True,
        env=environment,
    )  # fmt: skip
    values: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return values


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return the numbers as a table."""
    lines = [
        "| policy | answer, p50 / p99 | limiter, p50 / p99 | memory of the process | import and load, CPU | torch, "
        "simulators, matplotlib |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for name, row in rows.items():
        answer, limiter = (f"{row[key][0]:.0f} / {row[key][1]:.0f} µs" for key in ("policy_us", "limiter_us"))
        heavy = ", ".join(row["heavy"]) or "not loaded"
        lines.append(f"| {name} | {answer} | {limiter} | {row['memory_mb']:.0f} MB | {row['load_s']:.1f} s | {heavy} |")
    return "\n".join(lines)


def main() -> None:
    """Measure every shipped policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    begin = time.time()
    rows = {path.name: measure(path) for path in POLICIES}
    text = table(rows)
    print(text)
    if options.write:
        from adc_wrappers.runs.folder import source_commit

        load = os.getloadavg()[0]
        packages = ", ".join(f"{name} {version(name)}" for name in ("onnxruntime", "numpy", "bosdyn-client"))
        (HERE / "small_computer.md").write_text(
            "# What a deployment needs of a computer\n\n"
            f"Command: `python benchmarks/small_computer.py --write`, {time.time() - begin:.0f} s, commit "
            f"{source_commit()}.\n{STEPS} answers each, seed 0. One core of a {platform.machine()}, load average "
            f"{load:.1f}.\n{packages}, Python {platform.python_version()}.\n"
            f"CPU times; the policy is asked 50 times a second, so 20,000 µs are there.\n\n{text}\n"
        )


if __name__ == "__main__":
    main()
