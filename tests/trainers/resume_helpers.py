"""Tiny trainings that are stopped and resumed, and what must be the same afterwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from adc_wrappers import CurriculumConfig
from adc_wrappers.core.env_states import unpack_state
from adc_wrappers.runs import Checkpoint, RunFolder
from adc_wrappers.training import PpoConfig, TrainConfig, default_config, find_trainer
from adc_wrappers.training.trained import read_tensors

ITERATIONS = 7
ENVS, STEPS = 3, 8


class StoppedError(Exception):
    """A training that was stopped from outside."""


class Reporter:
    """A reporter that stops a training when an iteration is reached, before that is saved."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.stop_at = stop_at

    def update(self, steps: int, row: dict[str, float]) -> None:
        if row["iteration"] == self.stop_at:
            raise StoppedError


def tiny_config(task: str, backend: str, trainer: str, workers: str = "batch", **changes) -> TrainConfig:
    """Episodes of at most 19 steps and iterations of 8: whatever is saved, it is in the midst of episodes."""
    base = default_config(task, backend, {"time_limit": 19})
    ppo = PpoConfig(
        total_steps=ITERATIONS * ENVS * STEPS, num_envs=ENVS, n_steps=STEPS, batch_size=12, n_epochs=2, hidden=(16,)
    )
    length_max = 19.0 if task.startswith("spot") else 30.0
    start, target = (60.0, 40.0) if task.startswith("spot") else (36.0, 6.25)
    curriculum = CurriculumConfig(start_stiffness=start, target_stiffness=target, length_max=length_max, ema=0.5)
    settings = {"curriculum": curriculum, "ppo": ppo, "checkpoint_every": 2, "seed": 3, **changes}
    return replace(base, trainer=trainer, workers=workers, **settings)


def run(config: TrainConfig, path, *, resume: bool = False, stop_at: int | None = None) -> RunFolder:
    """Train; a training that is to be stopped must have been stopped."""
    folder = RunFolder.open(path) if resume else RunFolder.create(path, config.to_dict())
    stopped = False
    try:
        find_trainer(config.trainer).train(config, folder, resume=resume, reporter=Reporter(stop_at))
    except StoppedError:
        stopped = True
    assert stopped == (stop_at is not None)
    return folder


def results(folder: RunFolder):
    """Metrics without the clock, and every part of the last checkpoint."""
    rows = folder.metrics.read()
    del rows["steps_per_second"]
    checkpoint = folder.checkpoints.load_latest()
    return rows, checkpoint


def same_tensors(a, b) -> bool:
    """Whether nested tensors are the same bit for bit."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_tensors(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_tensors, a, b))
    return a == b


def assert_same_run(one: RunFolder, other: RunFolder) -> None:
    """Metrics rows, weights, optimizer, curriculum, generators and envs are the same bit for bit."""
    rows, checkpoint = results(one)
    rows_too, checkpoint_too = results(other)
    assert len(set(rows["episode_length_ema"])) > 1, "nothing would be compared: no episode was completed"
    assert {name: [repr(x) for x in values] for name, values in rows.items()} == {
        name: [repr(x) for x in values] for name, values in rows_too.items()
    }
    assert checkpoint.step == checkpoint_too.step
    for name in ("parameters.pt", "torch_rng.pt"):
        assert same_tensors(read_tensors(checkpoint, name), read_tensors(checkpoint_too, name)), name
    assert checkpoint.files["state.json"] == checkpoint_too.files["state.json"]
    assert envs_of(checkpoint) == envs_of(checkpoint_too)


def envs_of(checkpoint: Checkpoint) -> str:
    """The states of the envs as text, without the generators of action spaces, which nobody seeds or uses."""
    state = unpack_state(checkpoint.files["envs.json"], checkpoint.files["envs.bin"])

    def text(value):
        if isinstance(value, dict):
            return {key: text(part) for key, part in value.items() if key != "action_rng"}
        if isinstance(value, list):
            return [text(part) for part in value]
        return value.tolist() if isinstance(value, np.ndarray) else value

    return repr(text(state))
