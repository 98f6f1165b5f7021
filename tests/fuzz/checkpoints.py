"""Checkpoints of a real, small training: damaged, or whole with parts that are none of ours."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import pickle
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from study_helpers import small_plan

from adc_wrappers.core import CurriculumError
from adc_wrappers.runs import CheckpointError, RunFolder, RunFolderError
from adc_wrappers.sb3.callbacks import KLAdaptiveLearningRate
from adc_wrappers.sb3.run_callback import restore
from adc_wrappers.sb3.training import build_model, make_training_env
from adc_wrappers.sb3.vec_env import find_curriculum
from adc_wrappers.training import find_trainer, load_trained

from .mutations import mutate_bytes, mutate_json
from .targets import Mutant, Target, expect

__all__ = ["CheckpointTarget", "ResumeTarget"]

_MANIFEST = "manifest.json"
_BOMB = 512 * 2**20


class _Quiet:
    def update(self, steps: int, row: dict[str, float]) -> None:
        pass


class CheckpointTarget(Target):
    """The newest checkpoint of a run, read for its policy and its curriculum."""

    name = "checkpoint"
    errors = (CheckpointError, CurriculumError, RunFolderError)  # the last: settings other than those in config.json

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        config = small_plan().config
        self.run = RunFolder.create(folder / "run", config.to_dict())
        with contextlib.redirect_stdout(io.StringIO()):
            find_trainer("sb3").train(config, self.run, resume=False, reporter=_Quiet())
        self.path = self.run.checkpoints.paths()[-1]
        for path in self.run.checkpoints.paths()[:-1]:
            path.unlink()
        content = self.path.read_bytes()
        self.parts = self.run.checkpoints.load(self.path).files
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            self.manifest = json.loads(archive.read(_MANIFEST))
        envs = json.loads(self.parts["envs.json"])
        envs["envs"]["env"]["action_rng"] = envs["envs"]["env"]["rng"]  # of random actions, which nobody draws or seeds
        self.parts["envs.json"] = json.dumps(envs).encode()
        self.manifest["sha256"] = _digests(self.parts)
        self.content = self._archive(self.parts)  # without the time of day, so that a seed decides the mutants
        self.path.write_bytes(self.content)
        self.size = int(load_trained(self.run).module.mean.policy.observation_space.shape[0])
        self.answer = self._ask()

    @functools.cached_property
    def bomb(self) -> bytes:
        """A checkpoint with a part that is far larger than it looks; packing it takes seconds, and few mutants do."""
        return self._archive({**self.parts, "bomb": bytes(_BOMB)}, zipfile.ZIP_DEFLATED)

    def _ask(self) -> Any:
        trained = load_trained(self.run)
        observations = np.random.default_rng(0).standard_normal((3, self.size)).astype(np.float32)
        return trained(observations), trained.curriculum, trained.steps

    def mutate(self, rng: Random) -> Mutant:
        choice = rng.random()
        if choice < 0.7:
            content, name = mutate_bytes(rng, self.content, self.content)
            return Mutant(content, name, {"renewed": False})
        if choice < 0.702:
            return Mutant(self.bomb, "a part of 512 MiB in 500 kB", {"renewed": True})
        if choice < 0.85:
            content, name = mutate_json(rng, self.manifest)
            return Mutant(self._archive(self.parts, manifest=content), f"manifest {name}", {"renewed": True})
        parts = dict(self.parts)
        part = rng.choice(list(parts))
        what = rng.choice(("bytes", "json", "drop", "tensors", "pickle", "name", "deflated"))
        if what == "json":
            part = "state.json"
            parts[part], _ = mutate_json(rng, json.loads(parts[part]))
        elif what == "tensors":
            parts[part] = _odd_tensors(rng, parts["parameters.pt"])
        elif what == "pickle":
            parts[part] = rng.choice(
                (pickle.dumps(_Quiet()), pickle.dumps({"a": 1}), b"", b"PK\x03\x04", b"cos\nsystem\n.")
            )
        elif what == "drop":
            del parts[part]
        elif what == "name":
            parts[rng.choice(("../x", "/etc/x", "x/", "a" * 300, "é"))] = parts.pop(part)
        else:
            parts[part], _ = mutate_bytes(rng, parts[part], parts[part])
        method = zipfile.ZIP_DEFLATED if what == "deflated" else zipfile.ZIP_STORED
        return Mutant(self._archive(parts, method), f"{part}: {what}, digests renewed", {"renewed": True})

    def _archive(
        self, parts: dict[str, bytes], method: int = zipfile.ZIP_STORED, manifest: bytes | None = None
    ) -> bytes:
        told = json.dumps({**self.manifest, "sha256": _digests(parts)}).encode() if manifest is None else manifest
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as archive:
            for name, content in {**parts, _MANIFEST: told}.items():
                archive.writestr(zipfile.ZipInfo(name), content, method)
        return buffer.getvalue()

    def read(self, mutant: Mutant) -> None:
        self.path.write_bytes(mutant.content)
        answer, curriculum, steps = self._ask()
        expect(bool(np.isfinite(answer).all()), "accepted, and the policy's answers are not finite")
        if not mutant.notes["renewed"]:
            same = np.array_equal(answer, self.answer[0]) and (curriculum, steps) == self.answer[1:]
            expect(same, "accepted with other contents than the digests vouch for")


def _digests(parts: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}


def _odd_tensors(rng: Random, content: bytes) -> bytes:
    """Return the parameters with one of them changed in kind, shape or value, or left out."""
    values = torch.load(io.BytesIO(content), weights_only=True)
    policy = values["policy"]
    name = rng.choice(list(policy))
    tensor = policy[name]
    odd = (tensor.double(), tensor.reshape(-1)[:1], tensor * torch.nan, tensor.to(torch.int8), tensor.numpy().tolist(),
           None, "x", torch.zeros(0), tensor.to_sparse(), torch.complex(tensor, tensor))  # fmt: skip
    choice = rng.randrange(len(odd) + 3)
    if choice < len(odd):
        policy[name] = odd[choice]
    elif choice == len(odd):
        del policy[name]
    elif choice == len(odd) + 1:
        values = rng.choice(([], {}, tensor, {"policy": tensor}, {"policy": policy}))
    else:
        values[rng.choice(("policy.optimizer", "x"))] = rng.choice(({}, {"state": {}, "param_groups": []}, tensor))
    buffer = io.BytesIO()
    torch.save(values, buffer)
    return buffer.getvalue()


class ResumeTarget(CheckpointTarget):
    """The newest checkpoint of a run, read for a training that goes on: weights, optimizer, envs, random states."""

    name = "checkpoint-resume"

    def __init__(self, folder: Path) -> None:
        self.parts_of_training: Any = None
        super().__init__(folder)
        config = small_plan().config
        venv = make_training_env(config)
        schedule = KLAdaptiveLearningRate(config.ppo.learning_rate, config.ppo.target_kl)
        self.parts_of_training = build_model(config, venv, schedule), venv, schedule
        self.answer = self._ask()

    def _ask(self) -> Any:
        if self.parts_of_training is None:
            return super()._ask()
        model, venv, schedule = self.parts_of_training
        restore(model, venv, schedule, self.run)
        observations = np.random.default_rng(0).standard_normal((3, self.size)).astype(np.float32)
        action, _ = model.predict(observations, deterministic=True)
        return action, find_curriculum(venv).state_dict(), model.num_timesteps
