"""Where the time of a handstand training goes: simulation, inference, update; RSL-RL and Stable-Baselines3.

Both trainers step the same batched env with the recipe's number of envs, steps per iteration, epochs, minibatches and
network sizes. RSL-RL runs twice: with the recipe's mirrored networks, whose every pass sees each sample twice, and with
plain ones, which is what Stable-Baselines3 has. The trainers take turns, an iteration each; the table has medians over
iterations.

    python benchmarks/training.py            # print
    python benchmarks/training.py --write    # and write benchmarks/training.md
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import stable_baselines3
import torch

import adc_wrappers
from adc_wrappers.rsl_rl import CurriculumRunner, runner_config
from adc_wrappers.rsl_rl.training import make_training_env
from adc_wrappers.runs.folder import source_commit
from adc_wrappers.sb3.callbacks import CurriculumCallback
from adc_wrappers.sb3.training import build_model
from adc_wrappers.sb3.training import make_training_env as make_sb3_env
from adc_wrappers.training import PpoConfig, TrainConfig, default_config

CORES = len(os.sched_getaffinity(0))
PARTS = ("simulation", "inference", "update")


class Clock:
    """Adds up the seconds spent in some functions."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``function``, its time counted."""

        def call(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[part] += time.perf_counter() - begin

        return call


class RslRl:
    """RSL-RL's runner; ``play`` runs one iteration."""

    def __init__(self, config: TrainConfig) -> None:
        self.clock, self.samples = Clock(), config.ppo.iteration_steps
        self.env = make_training_env(config)
        with contextlib.redirect_stdout(io.StringIO()):
            self.runner = CurriculumRunner(self.env, runner_config(config.ppo, self.env))
        self.env.step = self.clock.timed("simulation", self.env.step)  # type: ignore[method-assign]
        self.runner.alg.act = self.clock.timed("inference", self.runner.alg.act)
        self.runner.alg.update = self.clock.timed("update", self.runner.alg.update)

    def play(self) -> None:
        """Run one iteration."""
        self.runner.learn(1)


class Sb3:
    """SB3's PPO over the same batched env; ``play`` runs one iteration."""

    def __init__(self, config: TrainConfig) -> None:
        self.clock, self.samples = Clock(), config.ppo.iteration_steps
        self.env = make_sb3_env(config)
        self.model = build_model(config, self.env, config.ppo.learning_rate)
        self.env.step = self.clock.timed("simulation", self.env.step)  # type: ignore[method-assign]
        self.model.policy.forward = self.clock.timed("inference", self.model.policy.forward)  # type: ignore[method-assign]
        self.model.train = self.clock.timed("update", self.model.train)  # type: ignore[method-assign]

    def play(self) -> None:
        """Run one iteration."""
        self.model.learn(self.samples, callback=CurriculumCallback(), reset_num_timesteps=False)


def variants() -> dict[str, Any]:
    """The trainers, each with an env of its own."""
    recipe = default_config("spot-handstand", "mujoco")
    ppo = recipe.ppo
    plain = dataclasses.replace(
        ppo, mirrored=False, scale_observations=False, sideways_std=None, output_gain=1.0, reward_scale=1.0
    )
    sb3 = dataclasses.replace(plain, min_std=PpoConfig().min_std)
    return {
        "RSL-RL, mirrored (the recipe)": RslRl(recipe),
        "RSL-RL, plain networks": RslRl(dataclasses.replace(recipe, ppo=plain)),
        "Stable-Baselines3": Sb3(dataclasses.replace(recipe, ppo=sb3, trainer="sb3")),
    }


def measure(iterations: int) -> list[str]:
    """Run the trainers in turn and return the rows of the table."""
    trainers = variants()
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in trainers}
    for iteration in range(-2, iterations):
        for name, trainer in trainers.items():
            trainer.clock.seconds = dict.fromkeys(PARTS, 0.0)
            begin = time.perf_counter()
            trainer.play()
            whole = time.perf_counter() - begin
            if iteration >= 0:  # the first ones warm up
                parts = [trainer.clock.seconds[part] / whole for part in PARTS]
                rows[name].append((trainer.samples / whole, *parts))
    lines = []
    for name, values in rows.items():
        speed, *shares = (statistics.median(column) for column in zip(*values, strict=True))
        cells = " | ".join(f"{share:.0%}" for share in shares)
        lines.append(f"| {name} | {speed:,.0f} | {cells} | {1 - sum(shares):.0%} |")
    for trainer in trainers.values():
        trainer.env.close()
    return lines


def main() -> None:
    """Measure, print, and write the table if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--write", action="store_true", help="write benchmarks/training.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    begin = time.perf_counter()
    header = "| trainer | env steps/s | simulation | inference | update | rest |\n|---|---:|---:|---:|---:|---:|"
    text = "\n".join([header, *measure(arguments.iterations)])
    print(text)
    if arguments.write:
        versions = (
            f"adc-wrappers {adc_wrappers.__version__}, RSL-RL {version('rsl-rl-lib')}, "
            f"Stable-Baselines3 {stable_baselines3.__version__}, torch {torch.__version__}, "
            f"Python {platform.python_version()}, {platform.machine()}, {CORES} cores, load {os.getloadavg()[0]:.1f}"
        )
        command = (
            f"Command: `python benchmarks/training.py --write --iterations {arguments.iterations}`, seed 0, "
            f"{time.perf_counter() - begin:.0f} s, commit {source_commit()}. {versions}."
        )
        Path(__file__).with_suffix(".md").write_text(
            "\n\n".join(["# Where the time of training goes", command, text, (__doc__ or "").split("\n\n")[1]]) + "\n"
        )


if __name__ == "__main__":
    main()
