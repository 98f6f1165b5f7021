"""Time that the curriculum adds to an iteration of RLlib's PPO, as a ratio in one run.

Two algorithms with the same settings and the same envs, one plain and one with the curriculum, take turns, an iteration
each; each has two env-runner processes of its own with eight cart-poles each. The share is the median over pairs of
neighbouring iterations. The driver's part, sending twice and waiting for
the answers, is timed by itself; where the quartiles of the ratio hold 1, it is the better number.

    python benchmarks/rllib.py            # print
    python benchmarks/rllib.py --write    # and write benchmarks/rllib.md
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_worker_niceness", "0")

import gymnasium
import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

import adc_wrappers
from adc_wrappers import CurriculumConfig, make_env
from adc_wrappers.rllib import NextStepAutoreset, add_curriculum
from adc_wrappers.rllib.callbacks import CurriculumCallbacks
from adc_wrappers.runs.folder import source_commit


def make(context: Any) -> Any:
    """One cart-pole, or a batch that resets as RLlib expects."""
    env = make_env("cartpole", backend="analytic", num_envs=context.get("num_envs"))
    return NextStepAutoreset(env) if "num_envs" in context else env


def settings(mode: str, batch: int) -> Any:
    """PPO on the analytic cart-pole."""
    return (
        PPOConfig()
        .environment("bench-cartpole")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=8, gym_env_vectorize_mode=mode)
        .training(train_batch_size_per_learner=batch, minibatch_size=256, num_epochs=4)
        .debugging(seed=0, log_level="ERROR")
    )


class Clock:
    """The seconds spent in one method of the callback's driver part."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``function``, its time counted."""

        def call(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - begin

        return call


def measure(mode: str, batch: int, pairs: int) -> str:
    """Return the row of one way to vectorize."""
    curriculum = CurriculumConfig(start_stiffness=36.0, target_stiffness=6.25, length_max=450)
    plain = settings(mode, batch).build_algo()
    wrapped = add_curriculum(settings(mode, batch), curriculum).build_algo()
    clock = Clock()
    callback = next(each for each in wrapped.callbacks if isinstance(each, CurriculumCallbacks))
    callback._broadcast = clock.timed(callback._broadcast)  # type: ignore[method-assign]
    rows = []
    for pair in range(-2, pairs):
        seconds = []
        clock.seconds = 0.0
        for algorithm in (plain, wrapped):
            begin = time.perf_counter()
            algorithm.train()
            seconds.append(time.perf_counter() - begin)
        if pair >= 0:  # the first ones warm up
            rows.append((*seconds, clock.seconds))
    plain.stop()
    wrapped.stop()
    share = statistics.median(b / a for a, b, _ in rows)
    spread = statistics.quantiles([b / a for a, b, _ in rows], n=4)
    iteration, sending = statistics.median(a for a, _, _ in rows), statistics.median(c for _, _, c in rows)
    return (
        f"| {mode} | {batch} | {iteration:.2f} | {share:.3f} | {spread[0]:.2f} to {spread[2]:.2f} | "
        f"{sending * 1e3:.1f} | {sending / iteration:.2%} |"
    )


def main() -> None:
    """Measure, print, and write the table if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--write", action="store_true", help="write benchmarks/rllib.md")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    register_env("bench-cartpole", make)
    header = (
        "| vectorization | env steps | plain iteration, s | with / plain | quartiles | sending, ms | share |\n"
        "|---|---:|---:|---:|---:|---:|---:|"
    )
    rows = [measure(mode, arguments.batch, arguments.pairs) for mode in ("sync", "vector_entry_point")]
    text = "\n".join([header, *rows])
    print(text)
    if arguments.write:
        versions = (
            f"adc-wrappers {adc_wrappers.__version__}, RLlib {ray.__version__}, Gymnasium {gymnasium.__version__}, "
            f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}, "
            f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}"
        )
        command = (
            f"Command: `python benchmarks/rllib.py --write --pairs {arguments.pairs} --batch {arguments.batch}`, "
            f"seed 0, {time.perf_counter() - begin:.0f} s, commit {source_commit()}. {versions}."
        )
        Path(__file__).with_suffix(".md").write_text(
            "\n\n".join(
                ["# The curriculum's part of an RLlib iteration", command, text, (__doc__ or "").split("\n\n")[1]]
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
