"""A trained policy, read from a run folder, whoever trained it."""

from __future__ import annotations

import importlib
import io
import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.envs.fit import MadeFor
from adc_wrappers.runs import Checkpoint, CheckpointError, RunFolder

from .config import TrainConfig
from .origin import check_settings, made_for
from .resuming import kept_random_states

__all__ = ["TrainedPolicy", "check_weights", "load_trained", "read_tensors", "tensor_bytes", "trainer_module"]


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


def trainer_module(name: str) -> Any:
    """Return an adapter's training module, imported now: it has ``train`` and ``load_module``."""
    return importlib.import_module(f"adc_wrappers.{name}.training")


def load_trained(folder: RunFolder) -> TrainedPolicy:
    """Load the newest whole checkpoint of a run.

    Raises:
        RunFolderError: ``config.json`` says something else than the checkpoint.
    """
    config = TrainConfig.from_dict(folder.config())
    checkpoint = folder.checkpoints.load_latest()
    check_settings(folder, config, checkpoint)
    trainer = trainer_module(config.trainer)
    with kept_random_states():  # building a network draws its first weights
        module = trainer.load_module(config, checkpoint)
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
        return _torch().load(io.BytesIO(content), weights_only=True)
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
