"""A trained policy read from a run folder, and the one truth about its run: settings and env in every checkpoint.

``config.json`` is for people and for commands to read before a checkpoint is; where it says something else than the
newest checkpoint, that is an error.
"""

from __future__ import annotations

import dataclasses
import io
import json
import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core import ActuatorCurriculumVectorWrapper, CurriculumConfig, CurriculumError
from adc_wrappers.core.errors import BackendError, MissingExtraError
from adc_wrappers.core.reading import parse_json
from adc_wrappers.envs.fit import MadeFor, find_task_of
from adc_wrappers.envs.registry import make_vector_env
from adc_wrappers.runs import Checkpoint, CheckpointError, RunFolder, RunFolderError

from .config import TrainConfig, as_stored
from .resuming import kept_random_states
from .trainer import find_trainer

__all__ = [
    "TrainedPolicy",
    "check_settings",
    "check_weights",
    "env_of",
    "keep_settings",
    "load_trained",
    "made_for",
    "read_tensors",
    "tensor_bytes",
]


_SETTINGS, _ENV = "config.json", "made_for.json"


def keep_settings(config: TrainConfig, folder: RunFolder, *, resume: bool) -> None:
    """Let every checkpoint of a training that begins hold its settings and its env.

    Args:
        config: The run's settings.
        folder: The run folder.
        resume: Compare them with the newest checkpoint first, if there is one.

    Raises:
        RunFolderError: The newest checkpoint was trained with other settings.
    """
    if resume and folder.checkpoints.paths():
        check_settings(folder, config, folder.checkpoints.load_latest())
    origin = env_of(config)
    folder.checkpoints.common = {
        _SETTINGS: json.dumps(config.to_dict()).encode(),
        _ENV: json.dumps(None if origin is None else origin.to_dict()).encode(),
    }


def check_settings(folder: RunFolder, config: TrainConfig, checkpoint: Checkpoint) -> None:
    """Refuse settings that are not those of a checkpoint; the length of the training may be another.

    Args:
        folder: The run folder, for the message.
        config: What its ``config.json`` says.
        checkpoint: A checkpoint of it. One of an older version knows the settings of its curriculum only.

    Raises:
        RunFolderError: Lists what differs.
    """
    try:
        trained = as_stored(_trained_with(config, checkpoint).to_dict())
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # a CurriculumError is a ValueError
        raise CheckpointError(f"{checkpoint.path}: its settings cannot be read ({error}).") from error
    differing = _differences("", trained, as_stored(config.to_dict()))
    if differing:
        raise RunFolderError(
            f"{folder.config_file} is not what {checkpoint.path.name} was trained with: {'; '.join(differing)}. Put "
            "the old values back. To evaluate at another stiffness or with other settings, use `adc eval --stiffness` "
            "and `--set`; to train with others, begin a new run (--out)."
        )


def _trained_with(config: TrainConfig, checkpoint: Checkpoint) -> TrainConfig:
    """Return the settings of a checkpoint, with the length of the training as ``config`` has it."""
    stored = config
    if _SETTINGS in checkpoint.files:
        stored = TrainConfig.from_dict(checkpoint.json(_SETTINGS))
    curriculum = CurriculumConfig.from_dict(checkpoint.json("state.json")["curriculum"]["config"])
    stored = stored.moved_to(config.settings.get("device"))
    ppo = dataclasses.replace(stored.ppo, total_steps=config.ppo.total_steps)
    return dataclasses.replace(stored, curriculum=curriculum, ppo=ppo, checkpoint_every=config.checkpoint_every)


def _differences(where: str, trained: Any, said: Any) -> list[str]:
    if isinstance(trained, dict) and isinstance(said, dict):
        names = sorted(trained.keys() | said.keys())
        return [text for name in names for text in _differences(f"{where}.{name}", trained.get(name), said.get(name))]
    if trained == said:
        return []
    return [f"{where[1:]}: the checkpoint has {trained!r}, config.json {said!r}"]


def made_for(config: TrainConfig, checkpoint: Checkpoint) -> MadeFor | None:
    """Return the env that a checkpoint's policy was made for; None where the task does not say.

    A checkpoint of an older version does not hold it; then it is the env that its settings make today.

    Raises:
        CheckpointError: What it holds cannot be read.
    """
    if _ENV not in checkpoint.files:
        return env_of(config)
    try:
        values = parse_json(checkpoint.part(_ENV), _ENV, CurriculumError)
        return None if values is None else MadeFor.from_dict(values)
    except (CurriculumError, ValueError) as error:
        raise CheckpointError(f"{checkpoint.path}: {error}") from error


def env_of(config: TrainConfig) -> MadeFor | None:
    """Return the env that settings make, at its target gains; None where the task does not say what it is."""
    envs = make_vector_env(config.task, backend=config.backend, num_envs=1, settings=config.settings)
    try:
        pinned = ActuatorCurriculumVectorWrapper(envs, config.curriculum, training=False)
        return MadeFor.of(pinned) if _says_what_it_is(pinned) else None
    finally:
        envs.close()


def _says_what_it_is(env: Any) -> bool:
    """Whether an env's task says how its policies are run elsewhere; one of somebody's own need not."""
    try:
        find_task_of(env).deployment()
    except BackendError:
        return False
    return True


_TENSOR_ERRORS = (
    pickle.UnpicklingError, RuntimeError, ValueError, KeyError, IndexError, TypeError, AttributeError, AssertionError,
    EOFError, OSError, OverflowError, MemoryError, struct.error,
)  # fmt: skip
"""What torch's reader of tensors raises for a damaged file; it has no error of its own."""


@dataclass(frozen=True, eq=False)
class TrainedPolicy:
    """The newest policy of a run; call it with a batch of observations for the actions of its mean."""

    config: TrainConfig
    """The run's settings."""

    module: Any
    """``torch.nn.Module`` from observations ``(n, …)`` to actions clipped to the action space, float32."""

    steps: int
    """Env steps that it was trained for."""

    curriculum: dict[str, Any]
    """State of the curriculum at that point."""

    made_for: MadeFor | None
    """The env that it was made for; None where its task does not say."""

    def __call__(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the actions for a batch of observations."""
        import torch

        with torch.inference_mode():
            actions = self.module(torch.from_numpy(np.ascontiguousarray(observation, dtype=np.float32)))
        return np.asarray(actions.numpy(), dtype=np.float32)


def load_trained(folder: RunFolder, device: str | None = None) -> TrainedPolicy:
    """Load the newest whole checkpoint of a run.

    Args:
        folder: The run folder.
        device: Where a simulator of tensors is to run from now on; by default where it ran.

    Raises:
        RunFolderError: ``config.json`` says something else than the checkpoint.
    """
    config = TrainConfig.from_dict(folder.config()).moved_to(device)
    checkpoint = folder.checkpoints.load_latest()
    check_settings(folder, config, checkpoint)
    with kept_random_states():  # building a network draws its first weights
        module = find_trainer(config.trainer).load_module(config, checkpoint)
        origin = made_for(config, checkpoint)
    curriculum = checkpoint.json("state.json").get("curriculum")
    if not isinstance(curriculum, dict):
        raise CheckpointError(f"{checkpoint.path}: state.json holds no state of a curriculum.")
    return TrainedPolicy(config, module, checkpoint.step, curriculum, origin)


def tensor_bytes(value: Any) -> bytes:
    """Return tensors, in whatever dicts and lists, as the bytes of a checkpoint's part."""
    torch = _torch()
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def read_tensors(checkpoint: Checkpoint, name: str) -> Any:
    """Return a part that :func:`tensor_bytes` wrote; only tensors are read, no pickled code.

    Raises:
        CheckpointError: The part is missing, damaged, or holds anything but tensors and plain values.
    """
    content = checkpoint.part(name)
    try:
        return _torch().load(io.BytesIO(content), weights_only=True, map_location="cpu")  # wherever it was trained
    except _TENSOR_ERRORS as error:
        raise CheckpointError(f"{checkpoint.path}: {name} is not a file of tensors ({str(error)[:200]}).") from error


def check_weights(expected: Mapping[str, Any], found: Any, where: str) -> None:
    """Refuse weights that are not those of a network: names, shapes, kinds, and finite numbers.

    Args:
        expected: The network's own ``state_dict``.
        found: What was read.
        where: What to call it in errors.

    Raises:
        CheckpointError: Names what differs first.
    """
    torch = _torch()
    if not isinstance(found, Mapping) or list(found) != list(expected):
        raise CheckpointError(f"{where}: expected the weights {', '.join(expected)}; it is of another network.")
    for name, tensor in expected.items():
        other = found[name]
        same = isinstance(other, torch.Tensor) and (other.shape, other.dtype) == (tensor.shape, tensor.dtype)
        if not same or other.layout != torch.strided:
            raise CheckpointError(f"{where}: {name}: expected {tuple(tensor.shape)} in {tensor.dtype}, got another.")
        if not torch.isfinite(other).all():
            raise CheckpointError(f"{where}: {name}: expected finite numbers; use an earlier checkpoint.")


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch", "sb3", "Reading a trained policy") from error
    return torch
