"""Cost of the curriculum's wrapper on a batch of torch envs, also as a share of an Isaac Lab env's own step.

python benchmarks/isaac_overhead.py  # the wrapper alone, on a batch that does nothing; needs torch only
python benchmarks/isaac_overhead.py --isaac physx --write  # and Isaac Lab's step with as many Spots; needs Isaac Lab 3

Times are CPU seconds of this process on one thread, so that other work on the machine does not count; the share is of
both in one run.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from adc_wrappers import ActuatorCurriculumWrapper, CurriculumConfig, make_env
from adc_wrappers.core.actuators import Gains

TABLE = Path(__file__).with_suffix(".md")
ITERATION = 24
ROUNDS = 25


class Constant(gym.Env[Any, Any]):
    """A batch whose step does nothing: what remains is the wrapper."""

    def __init__(self, num_envs: int, device: str) -> None:
        self.num_envs, self.device = num_envs, device
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (num_envs, 45))
        self.action_space = gym.spaces.Box(-1.0, 1.0, (num_envs, 12))
        self.actuator_backend = Tensors(num_envs, device)
        generator = torch.Generator().manual_seed(0)
        ended = torch.rand(64, num_envs, generator=generator) < 0.01
        self._ended = [row.to(device) for row in ended]
        self._never = torch.zeros(num_envs, dtype=torch.bool, device=device)
        self._observation = {"policy": torch.zeros(num_envs, 45, device=device)}
        self._reward = torch.zeros(num_envs, device=device)
        self._extras: dict[str, Any] = {"log": {}}
        self._clock = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Return what step returns."""
        return self._observation, self._extras

    def step(self, action: Any) -> Any:
        """Return prepared tensors."""
        self._clock += 1
        return self._observation, self._reward, self._ended[self._clock % 64], self._never, self._extras


class Tensors:
    """Gains as tensors, written in place."""

    joint_names = tuple(f"j{i}" for i in range(12))

    def __init__(self, num_envs: int, device: str) -> None:
        self.num_envs = num_envs
        self._gains = [torch.ones(num_envs, 12, device=device) for _ in range(2)]

    def effective_inertia(self) -> Any:
        """Return M."""
        return np.full(12, 0.1)

    def gains(self) -> Gains:
        """Return the tensors."""
        return Gains(*self._gains)

    def set_gains(self, stiffness: Any, damping: Any, env_ids: Any = None) -> None:
        """Write in place."""
        for tensor, values in zip(self._gains, (stiffness, damping), strict=True):
            tensor.copy_(torch.as_tensor(values))


def seconds_per_step(step: Any, steps: int) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    for _ in range(steps):
        step()
    return (time.process_time() - start) / steps


def wrapper_cost(num_envs: int, device: str) -> tuple[float, float]:
    """Return the wrapper's own seconds per step and per closed iteration, medians over rounds."""
    config = CurriculumConfig(length_max=900.0)
    bare = Constant(num_envs, device)
    stepping = ActuatorCurriculumWrapper(Constant(num_envs, device), config)
    closing = ActuatorCurriculumWrapper(Constant(num_envs, device), config, iteration_steps=ITERATION)
    action = torch.zeros(num_envs, 12, device=device)
    for env in (stepping, closing):
        env.reset()
    per_step, per_iteration = [], []
    with torch.inference_mode():
        for env in (stepping, closing):  # warm-up
            seconds_per_step(lambda env=env: env.step(action), 2 * ITERATION)
        for _ in range(ROUNDS):
            nothing = seconds_per_step(lambda: bare.step(action), 8 * ITERATION)
            open_end = seconds_per_step(lambda: stepping.step(action), 8 * ITERATION)
            closed = seconds_per_step(lambda: closing.step(action), 8 * ITERATION)
            per_step.append(open_end - nothing)
            per_iteration.append((closed - open_end) * ITERATION)
    return statistics.median(per_step), statistics.median(per_iteration)


def one_thread_for_physx() -> None:
    """Isaac Lab starts eight, whatever the machine has; on a busy one they wait for each other most of the time."""
    if importlib.util.find_spec("ovphysx") is None:
        return
    import ovphysx

    plain = ovphysx.PhysXConfig
    ovphysx.PhysXConfig = lambda **settings: plain(**{**settings, "num_threads": 0})


def isaac_step(engine: str, num_envs: int, device: str, steps: int) -> float:
    """Return the seconds of one step of the handstand in Isaac Lab."""
    one_thread_for_physx()
    env = make_env(
        "spot-handstand", backend="isaaclab", num_envs=num_envs, device=device, engine=engine, source="generated",
        seed=0,
    )  # fmt: skip
    env.reset()
    action = torch.zeros(num_envs, 12, device=device)
    with torch.inference_mode():
        env.step(action)
        found = seconds_per_step(lambda: env.step(action), steps)
    env.close()
    return found


def main() -> None:
    """Measure, print, and write the table if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[4096])
    parser.add_argument("--isaac", choices=("newton", "physx"), help="measure Isaac Lab's own step too")
    parser.add_argument("--isaac-envs", type=int, nargs="*", help="numbers of envs for Isaac Lab's step; default: all")
    parser.add_argument("--steps", type=int, default=3, help="steps of Isaac Lab that are timed")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    begin = time.time()
    rows = []
    for count in arguments.num_envs:
        step, iteration = wrapper_cost(count, arguments.device)
        isaac = None
        if arguments.isaac and (arguments.isaac_envs is None or count in arguments.isaac_envs):
            isaac = isaac_step(arguments.isaac, count, arguments.device, arguments.steps)
        rows.append((count, step, iteration, isaac))
        print(rows[-1], flush=True)
    text = table(rows, arguments, time.time() - begin)
    print(text)
    if arguments.write:
        TABLE.write_text(text)


def table(rows: list[tuple[int, float, float, float | None]], arguments: argparse.Namespace, duration: float) -> str:
    """Return the results as Markdown."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    sizes = " ".join(str(count) for count in arguments.num_envs)
    engine = f" --isaac {arguments.isaac}" if arguments.isaac else ""
    lines = [
        "# The wrapper's cost on a batch of torch envs",
        "",
        f"`python benchmarks/isaac_overhead.py --num-envs {sizes}{engine} --steps {arguments.steps} --write`, device "
        f"{arguments.device}, torch {torch.__version__.split('+')[0]}, {platform.machine()}, one thread, commit "
        f"{commit.strip()}, {duration / 60:.0f} minutes. CPU time; medians of {ROUNDS} rounds. No GPU was there: on "
        "one, the wrapper's operations are queued beside the simulator's, with no read from the device inside `step` "
        "and one per iteration (`tests/backends/test_host_reads.py`).",
        "",
        "| envs | wrapper, µs per step | closing an iteration, µs | the same, per step of 24 | Isaac Lab's step, ms | "
        "wrapper's share of it |",
        "|---|---|---|---|---|---|",
    ]
    for count, step, iteration, isaac in rows:
        whole = step + iteration / ITERATION
        theirs = ("–", "–") if isaac is None else (f"{1e3 * isaac:.0f}", f"{100 * whole / isaac:.4f} %")
        lines.append(
            f"| {count} | {1e6 * step:.0f} | {1e6 * iteration:.0f} | {1e6 * iteration / ITERATION:.0f} | "
            + " | ".join(theirs) + " |"
        )  # fmt: skip
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
