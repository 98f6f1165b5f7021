"""Time of a handstand training: simulation, inference, update; beside the bare engine and other PPOs.

All trainers step the same batched env with the recipe's number of envs, steps per iteration, epochs, minibatches and
network sizes. `averaged`: mirrored networks that pass every sample and its mirror image; `symmetric layers`: one pass;
`plain`: no symmetry, which is what Stable-Baselines3 has. The bare engine is `mj_step` of the same model without
sensors under random targets on a thread per core, as in benchmarks/throughput.py. All take turns, an iteration each;
the table has medians over iterations, and shares of the bare engine in the same turn.

On a machine with other work, wall time says little. The main thread takes part in every phase, so the CPU time that it
uses is the time that an iteration takes on idle cores; of the bare engine it is the time of all threads, divided by
their number. Shares of the phases are of the main thread's CPU time.

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
from throughput import WINDOW, BareMujoco

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
    """The seconds spent in some functions."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``function``, its time counted."""

        def call(*args: Any, **kwargs: Any) -> Any:
            begin = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[part] += time.thread_time() - begin

        return call


class RslRl:
    """RSL-RL's runner, with our PPO or its own; ``play`` runs one iteration."""

    def __init__(self, config: TrainConfig, algorithm: str | None = None) -> None:
        self.clock, self.samples = Clock(), config.ppo.iteration_steps
        self.env = make_training_env(config)
        settings = runner_config(config.ppo, self.env)
        if algorithm is not None:
            settings["algorithm"]["class_name"] = algorithm
        with contextlib.redirect_stdout(io.StringIO()):
            self.runner = CurriculumRunner(self.env, settings)
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


class Bare:
    """The bare engine; ``play`` plays as many policy steps as an iteration has, or as few more as fill its windows."""

    def __init__(self, num_envs: int, samples: int) -> None:
        self.clock, self.env = Clock(), BareMujoco(num_envs)
        self._windows = -(-samples // (WINDOW * num_envs))
        self.samples = self._windows * WINDOW * num_envs

    def play(self) -> None:
        """Play windows."""
        for _ in range(self._windows):
            self.env.prepare()
            self.env.play()


def variants(task: str) -> dict[str, Any]:
    """The trainers of a task, each with an env of its own."""
    recipe = default_config(task, "mujoco")
    ppo = recipe.ppo
    plain = dataclasses.replace(ppo, mirrored=False, equivariant=False, sideways_std=None)
    bare_of_extras = dataclasses.replace(
        plain, scale_observations=False, output_gain=1.0, reward_scale=1.0, min_std=PpoConfig().min_std,
        final_target_kl=None, final_entropy_coef=None,
    )  # fmt: skip
    found: dict[str, Any] = {}
    if task == "spot-handstand":
        found["bare engine"] = Bare(ppo.num_envs, ppo.iteration_steps)
        averaged = dataclasses.replace(ppo, equivariant=False)
        symmetric = dataclasses.replace(ppo, equivariant=True)
        found["RSL-RL's runner, our PPO, symmetric layers"] = RslRl(dataclasses.replace(recipe, ppo=symmetric))
        found["RSL-RL's runner, our PPO, averaged"] = RslRl(dataclasses.replace(recipe, ppo=averaged))
        found["RSL-RL, averaged"] = RslRl(dataclasses.replace(recipe, ppo=averaged), "PPO")
    found["RSL-RL's runner, our PPO, plain"] = RslRl(dataclasses.replace(recipe, ppo=plain))
    found["RSL-RL, plain"] = RslRl(dataclasses.replace(recipe, ppo=plain), "PPO")
    found["Stable-Baselines3, plain"] = Sb3(dataclasses.replace(recipe, ppo=bare_of_extras, trainer="sb3"))
    return found


def measure(task: str, iterations: int) -> list[str]:
    """Run the trainers of a task in turn and return the rows of the table."""
    trainers = variants(task)
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in trainers}
    for iteration in range(-2, iterations):
        for name, trainer in trainers.items():
            trainer.clock.seconds = dict.fromkeys(PARTS, 0.0)
            wall, process, path = time.perf_counter(), time.process_time(), time.thread_time()
            trainer.play()
            wall, process = time.perf_counter() - wall, time.process_time() - process
            path = process / CORES if isinstance(trainer, Bare) else time.thread_time() - path
            if iteration >= 0:  # the first ones warm up
                parts = [trainer.clock.seconds[part] / path for part in PARTS]
                rows[name].append((trainer.samples / wall, trainer.samples / path, trainer.samples / process, *parts))
    base, lines = rows.get("bare engine"), []
    for name, values in rows.items():
        medians = [statistics.median(column) for column in zip(*values, strict=True)]
        shares = ["–", "–"]
        if base is not None:
            pairs = list(zip(values, base, strict=True))
            shares = [f"{statistics.median(mine[i] / bare[i] for mine, bare in pairs):.2f}" for i in (0, 1)]
        phases = [f"{share:.0%}" for share in (*medians[3:], 1.0 - sum(medians[3:]))]
        if name == "bare engine":
            phases = ["–"] * 4
        speeds = [f"{speed:,.0f}" for speed in medians[:3]]
        lines.append(f"| {task} | {name} | {' | '.join([*speeds, *shares, *phases])} |")
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
    header = (
        "| task | trainer | env steps/s of wall time | of the main thread's CPU | of all CPU | share of bare, wall | "
        "share of bare, main thread | simulation | inference | update | rest |\n|---|---|" + "---:|" * 9
    )
    tables = [measure(task, arguments.iterations) for task in ("spot-handstand", "spot-planar-handstand")]
    text = "\n".join([header, *(line for table in tables for line in table)])
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
            "\n\n".join(["# Where the time of training goes", command, text, *(__doc__ or "").split("\n\n")[1:3]])
            + "\n"
        )


if __name__ == "__main__":
    main()
