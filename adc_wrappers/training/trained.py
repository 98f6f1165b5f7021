"""A trained policy, read from a run folder, whoever trained it."""

from __future__ import annotations

import importlib
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.runs import Checkpoint, RunFolder

from .config import TrainConfig

__all__ = ["TrainedPolicy", "load_trained", "read_tensors", "tensor_bytes", "trainer_module"]


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
    """Load the newest whole checkpoint of a run."""
    config = TrainConfig.from_dict(folder.config())
    checkpoint = folder.checkpoints.load_latest()
    module = trainer_module(config.trainer).load_module(config, checkpoint)
    return TrainedPolicy(config, module, checkpoint.step, checkpoint.json("state.json")["curriculum"])


def tensor_bytes(value: Any) -> bytes:
    """Return tensors, in whatever dicts and lists, as the bytes of a checkpoint's part."""
    torch = _torch()
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def read_tensors(checkpoint: Checkpoint, name: str) -> Any:
    """Return a part that :func:`tensor_bytes` wrote; only tensors are read, no pickled code."""
    return _torch().load(io.BytesIO(checkpoint.files[name]), weights_only=True)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch", "sb3", "Reading a trained policy") from error
    return torch
