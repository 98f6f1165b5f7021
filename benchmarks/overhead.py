"""Cost of the curriculum wrapper: wrapped against bare, beside Gymnasium's and SB3's episode recorders.

All variants of a size take turns in one process, so that whatever else the machine does meets all of them; of many
short rounds the fastest counts. The cost of a wrapper is measured around an env that does nothing, where it can be
told from noise, and then given as a share of a cheap real env's step.

    python benchmarks/overhead.py            # print
    python benchmarks/overhead.py --write    # and write benchmarks/overhead.md
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers.vector import RecordEpisodeStatistics as VectorRecordEpisodeStatistics
from stable_baselines3.common.vec_env import VecMonitor

import adc_wrappers
from adc_wrappers import ActuatorCurriculumWrapper, Gains, make_env
from adc_wrappers.runs.folder import source_commit
from adc_wrappers.sb3 import VectorEnvAdapter

Step = Callable[[], Any]
EPISODE = 500
BOX = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)


class OneJoint:
    """A backend that only remembers gains."""

    joint_names = ("joint",)

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self._gains = Gains(np.ones((num_envs, 1)), np.ones((num_envs, 1)))

    def effective_inertia(self) -> Any:
        """Return 1."""
        return np.ones(1)

    def gains(self) -> Gains:
        """Return what was written."""
        return self._gains

    def set_gains(self, stiffness: Any, damping: Any, env_ids: Any = None) -> None:
        """Remember."""
        self._gains.stiffness[:], self._gains.damping[:] = stiffness, damping


class NullEnv(gym.Env[Any, Any]):
    """One env that does nothing; its info has one entry, as those of real envs."""

    observation_space = action_space = BOX

    def __init__(self) -> None:
        self.actuator_backend = OneJoint(1)
        self.clock = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Return the only observation."""
        return BOX.low, {"reward_terms": None}

    def step(self, action: Any) -> Any:
        """End every episode after 500 steps."""
        self.clock += 1
        return BOX.low, 1.0, self.clock % EPISODE == 0, False, {"reward_terms": None}


class NullVectorEnv(VectorEnv[Any, Any, Any]):
    """64 envs that do nothing; one episode ends every few steps."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012
    render_mode = None

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.single_observation_space = self.single_action_space = BOX
        self.observation_space = self.action_space = batch_space(BOX, num_envs)
        self.actuator_backend = OneJoint(num_envs)
        self.reward, self.never = np.ones(num_envs), np.zeros(num_envs, dtype=bool)
        self.ends = np.eye(EPISODE, num_envs, dtype=bool)
        self.final = np.empty(num_envs, dtype=object)
        self.final[:] = [BOX.low] * num_envs
        self.clock = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Return the only observations."""
        return self.observation_space.low, {}

    def step(self, actions: Any) -> Any:
        """End one env's episode in 64 of 500 steps."""
        self.clock += 1
        ends = self.ends[self.clock % EPISODE]
        return self.observation_space.low, self.reward, ends, self.never, {"final_obs": self.final}


class TorchEnv(gym.Env[Any, Any]):
    """Cart-poles on torch tensors, shaped like an Isaac Lab env, with any number of 2 ms physics steps in a step."""

    is_vector_env = True

    def __init__(self, num_envs: int, decimation: int) -> None:
        self.num_envs, self.device, self.decimation = num_envs, "cpu", decimation
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (num_envs, 4))
        self.action_space = gym.spaces.Box(-1, 1, (num_envs, 1))
        self.state = torch.zeros(4, num_envs)
        self.clock = torch.randint(0, EPISODE, (num_envs,))
        self.action = torch.zeros(num_envs)
        self.gain = (torch.ones(num_envs), torch.ones(num_envs))
        self.actuator_backend = TorchJoint(self)
        self.extras: dict[str, Any] = {"log": {}}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start with small random angles."""
        self.state.zero_()
        self.state[2].uniform_(-0.2, 0.2)
        return {"policy": self.state.T}, self.extras

    def physics(self) -> None:
        """One physics step."""
        x, v, theta, omega = self.state
        sin, cos = torch.sin(theta), torch.cos(theta)
        push = self.gain[0] * (self.action - x) - self.gain[1] * v + 0.05 * sin * omega * omega
        inertia = 1.0 + 0.1 * sin * sin
        v_dot = (push - 0.981 * sin * cos) / inertia
        omega += 0.002 * (10.791 * sin - cos * push) / (0.5 * inertia)
        v += 0.002 * v_dot
        x += 0.002 * v
        theta += 0.002 * omega

    def step(self, action: Any) -> Any:
        """Physics, reward, termination, reset of the finished ones."""
        for _ in range(self.decimation):
            self.physics()
        x, theta = self.state[0], self.state[2]
        self.clock += 1
        reward = 1.0 - 0.5 * theta * theta - 0.25 * x * x
        terminated = (x.abs() > 1.0) | (theta.abs() > 1.57)
        truncated = self.clock >= EPISODE
        done = terminated | truncated
        self.clock.masked_fill_(done, 0)
        self.state.masked_fill_(done, 0.0)
        return {"policy": self.state.T.clone()}, reward, terminated, truncated, self.extras


class TorchJoint(OneJoint):
    """Gains as tensors of the torch env."""

    def __init__(self, env: TorchEnv) -> None:
        self.num_envs, self.env = env.num_envs, env

    def gains(self) -> Gains:
        """Return the live tensors."""
        return Gains(self.env.gain[0][:, None], self.env.gain[1][:, None])

    def set_gains(self, stiffness: Any, damping: Any, env_ids: Any = None) -> None:
        """Write all envs in place."""
        self.env.gain[0].copy_(torch.as_tensor(stiffness[:, 0]))
        self.env.gain[1].copy_(torch.as_tensor(damping[:, 0]))


def single(env: Any) -> Step:
    """Step one env and reset it when an episode ends."""
    env.reset()
    action = BOX.low

    def step() -> None:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()

    return step


def batch(env: Any) -> Step:
    """Step a numpy batch."""
    env.reset()
    action = np.zeros((env.num_envs, 1), np.float32)
    return lambda: env.step(action)


def tensors(env: Any) -> Step:
    """Step a torch batch as a rollout does."""
    env.reset()
    action = torch.zeros(env.unwrapped.num_envs, 1)

    def step() -> None:
        with torch.inference_mode():
            env.step(action)

    return step


def fastest(steps: dict[str, Step], count: int, rounds: int) -> dict[str, float]:
    """Return seconds per step of each variant in its fastest round, the variants taking turns."""
    best = dict.fromkeys(steps, float("inf"))
    names = list(steps)
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            step = steps[name]
            begin = time.perf_counter()
            for _ in range(count):
                step()
            best[name] = min(best[name], (time.perf_counter() - begin) / count)
    return best


def measure_single(rounds: int) -> list[str]:
    """One env, an iteration of 2048 steps."""
    variants = {
        "bare": single(NullEnv()),
        "curriculum": single(ActuatorCurriculumWrapper(NullEnv(), iteration_steps=2048)),
        "RecordEpisodeStatistics": single(RecordEpisodeStatistics(NullEnv())),
        "real": single(make_env("cartpole", backend="analytic")),
    }
    return rows("single env", fastest(variants, 2048, rounds))


def measure_batch(rounds: int) -> list[str]:
    """64 envs, an iteration of 32 steps (2048 samples)."""
    variants = {
        "bare": batch(NullVectorEnv(64)),
        "curriculum": batch(ActuatorCurriculumWrapper(NullVectorEnv(64), iteration_steps=32)),
        "RecordEpisodeStatistics": batch(VectorRecordEpisodeStatistics(NullVectorEnv(64))),
        "bare, as SB3 VecEnv": batch(VectorEnvAdapter(NullVectorEnv(64))),
        "VecMonitor (SB3)": batch(VecMonitor(VectorEnvAdapter(NullVectorEnv(64)))),
        "real": batch(make_env("cartpole", backend="analytic", num_envs=64)),
    }
    return rows("64 numpy envs", fastest(variants, 512, rounds))


def measure_tensors(rounds: int) -> list[str]:
    """4096 envs, an iteration of 24 steps as in the paper."""
    variants = {
        "bare": tensors(TorchEnv(4096, 0)),
        "curriculum": tensors(ActuatorCurriculumWrapper(TorchEnv(4096, 0), iteration_steps=24)),
        "real": tensors(TorchEnv(4096, 10)),
    }
    return rows("4096 torch envs", fastest(variants, 48, rounds))


def rows(size: str, best: dict[str, float]) -> list[str]:
    """Format a size's variants."""
    lines = []
    for name, seconds in best.items():
        if name.startswith("bare") or name == "real":
            continue
        base = best["bare, as SB3 VecEnv" if "SB3" in name else "bare"]
        cost = 1e6 * (seconds - base)
        lines.append(f"| {size} | {name} | {cost:.2f} | {1e6 * best['real']:.0f} | {cost / (1e6 * best['real']):.2%} |")
    return lines


def main() -> None:
    """Measure, print, and write the table if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--write", action="store_true", help="write benchmarks/overhead.md")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    torch.set_num_threads(1)
    header = "| envs | wrapper | cost, µs per step | a cheap env's step, µs | share |\n|---|---|---:|---:|---:|"
    lines = [line for part in (measure_single, measure_batch, measure_tensors) for line in part(arguments.rounds)]
    text = "\n".join([header, *lines])
    print(text)
    if arguments.write:
        versions = (
            f"adc-wrappers {adc_wrappers.__version__}, Gymnasium {gym.__version__}, torch {torch.__version__}, "
            f"numpy {np.__version__}, Python {platform.python_version()}, {platform.machine()}"
        )
        remarks = (
            "Cost is the fastest round of the wrapped null env minus the fastest round of the bare one. The cheap env "
            "is the analytic cart-pole (torch: the same equations on tensors), ten physics steps in a step. Iterations "
            "are closed every 2048, 32 and 24 steps, gains written and read back included. VecMonitor is compared with "
            "the same null env behind the same SB3 adapter."
        )
        command = (
            f"Command: `python benchmarks/overhead.py --write --rounds {arguments.rounds}` (`make bench`), "
            f"{time.perf_counter() - begin:.0f} s, commit {source_commit()}."
        )
        paragraphs = ["# Overhead of the wrappers", f"{command} {versions}.", text, remarks]
        Path(__file__).with_suffix(".md").write_text("\n\n".join(paragraphs) + "\n")


if __name__ == "__main__":
    main()
