"""Small studies: trained in seconds, or written by hand."""

from __future__ import annotations

import dataclasses
import functools
import json

import numpy as np

from adc_wrappers.study import CONDITIONS, Plan, RobotFacts, find_condition
from adc_wrappers.training import default_config

SMALL = (
    "--backend", "analytic", "--workers", "batch", "--num-envs", "4", "--ppo.n-steps", "32", "--ppo.hidden", "8",
    "--steps", "256", "--set", "time_limit=60", "--episodes", "4",
)  # fmt: skip
"""Options of ``adc study run cartpole`` for runs of two iterations."""


def small_plan(conditions=("adc", "train_at_target"), seeds=(0, 1)):
    """Two iterations of a cart-pole."""
    config = default_config("cartpole", "analytic", {"time_limit": 60})
    ppo = dataclasses.replace(config.ppo, total_steps=256, num_envs=4, n_steps=32, batch_size=64, hidden=(8,))
    config = dataclasses.replace(config, workers="batch", ppo=ppo)
    return Plan(conditions=tuple(find_condition(name) for name in conditions), seeds=seeds, config=config, episodes=4)


def small_jobs(out, **options):
    """Its jobs, with the study's file written."""
    plan = small_plan(**options)
    facts = RobotFacts.of(plan.config)
    jobs = plan.jobs(out, facts)
    plan.begin(out, jobs, "adc study run …")
    return jobs


@functools.cache
def config_text(task):
    """A task's default settings as JSON."""
    return json.dumps(default_config(task, "analytic" if task == "cartpole" else "mujoco").to_dict())


def write_run(out, condition, seed, *, success=0.5, steps=1000, error=None, task="cartpole", **changes):
    """A run folder as training and evaluation leave it, with made-up numbers."""
    path = out / condition / f"seed{seed}"
    path.mkdir(parents=True)
    config = json.loads(config_text(task))
    config["ppo"]["total_steps"] = steps
    (path / "config.json").write_text(json.dumps(config))
    (path / "command.txt").write_text(f"adc train {task} --seed {seed}\n")
    rng = np.random.default_rng([seed, len(condition)])
    lines = ["iteration,steps,stiffness,episode_length_mean,success_ema,return_mean"]
    for i in range(1, 41):
        length = "nan" if i == 1 else f"{10 * i + rng.normal():.3f}"
        lines.append(f"{i},{i * steps // 40},{36 - 0.5 * i:.3f},{length},{success * i / 40:.4f},{i + rng.normal():.3f}")
    (path / "metrics.csv").write_text("\n".join(lines) + "\n")
    if error is not None:
        (path / "job.json").write_text(json.dumps({"state": "failed", "error": error, "seconds": 1.0, "attempts": 1}))
        return path
    good = round(1000 * success)
    summary = {
        "seed": 10_000,
        "trained": {"backend": "analytic", "steps": steps, "seed": seed},
        "at_target": True,
        "episodes": 1000,
        "success_rate": success,
        "length_mean": 100 + 300 * success,
        "return_mean": -40 + 30 * success,
        "modes": {"success": good, "terminated": 900 - good, "not in place": 100},
        **changes,
    }
    (path / "eval.json").write_text(json.dumps(summary))
    (path / "job.json").write_text(json.dumps({"state": "finished", "error": None, "seconds": 60.0, "attempts": 1}))
    return path


def write_study(out, conditions=CONDITIONS, seeds=10, task="cartpole"):
    """Runs of many conditions with made-up numbers, and one that failed."""
    rng = np.random.default_rng(0)
    for place, condition in enumerate(conditions):
        for seed in range(seeds):
            write_run(
                out, condition, seed, success=float(np.clip(0.08 * place + 0.05 * rng.normal(), 0, 0.9)), task=task
            )
    write_run(out, conditions[0], seeds, error="Traceback …\nBackendError: the <gains> did not take")
    return out
