"""A torch module as an ONNX graph, and the proof that both compute the same."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import MissingExtraError

from .metadata import ExportError

try:
    import torch
except ImportError as error:
    raise MissingExtraError("torch", "sb3", "Exporting a policy") from error
try:
    import onnx
    import onnxscript  # noqa: F401 (torch's exporter needs it)
except ImportError as error:
    raise MissingExtraError(error.name or "onnx", "export", "Exporting a policy") from error

__all__ = ["ClippedPolicy", "largest_difference", "to_onnx"]

_EXAMPLE_BATCH = 2
_NOISY_LOGGER = "torch.onnx._internal.exporter._registration"


class ClippedPolicy(torch.nn.Module):
    """A policy whose actions are clipped, once more if they are already.

    Args:
        policy: From observations ``(n, obs)`` to actions ``(n, act)``, float32.
        limit: Actions are clipped to ± this.
    """

    def __init__(self, policy: torch.nn.Module, limit: float) -> None:
        super().__init__()
        self.policy = policy
        self.limit = limit

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the clipped actions."""
        actions: torch.Tensor = self.policy(observation)
        return torch.clamp(actions, -self.limit, self.limit)

    def answer(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the actions as numpy."""
        with evaluating(self), torch.inference_mode():
            actions = self(torch.from_numpy(observation).to(device_of(self)))
        return np.asarray(actions.cpu().numpy())


def to_onnx(module: torch.nn.Module, observation_size: int) -> onnx.ModelProto:
    """Return the network of ``module`` with an input ``observation`` and an output ``action``, for any batch.

    What torch notes about its origin (files and lines) is left out.
    """
    if "dynamic_shapes" not in inspect.signature(torch.onnx.export).parameters:
        raise ExportError(f"exporting needs torch 2.6 or newer, got {torch.__version__}: pip install -U torch.")
    example = torch.zeros(_EXAMPLE_BATCH, observation_size, device=device_of(module))
    with evaluating(module), _quiet():
        try:
            program: Any = torch.onnx.export(
                module,
                (example,),
                input_names=["observation"],
                output_names=["action"],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                dynamo=True,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            raise ExportError(
                f"torch cannot turn {type(module).__name__} into ONNX. Expected a module from observations "
                f"(n, {observation_size}) to actions, with tensor operations only. torch says: {error}"
            ) from error
    model: onnx.ModelProto = program.model_proto
    _forget_origin(model)
    return model


def largest_difference(
    module: ClippedPolicy, policy: Callable[[NDArray[np.float32]], NDArray[np.float32]], observations: NDArray[Any]
) -> float:
    """Return the largest difference between the actions of both, in units of the larger of 1 and the action."""
    values = np.ascontiguousarray(observations, dtype=np.float32)
    wanted, found = module.answer(values).astype(np.float64), policy(values).astype(np.float64)
    if wanted.shape != found.shape:
        raise ExportError(f"the torch policy answers in shape {wanted.shape}, the exported one in {found.shape}.")
    return float((np.abs(found - wanted) / np.maximum(1.0, np.abs(wanted))).max())


def device_of(module: torch.nn.Module) -> torch.device:
    """Return the device of a module's weights."""
    for tensor in (*module.parameters(), *module.buffers()):
        return tensor.device
    return torch.device("cpu")


@contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Put every part of a module into evaluation mode, and back afterwards."""
    before = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in before:
            part.training = mode


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's remarks about packages that a policy does not need from the user."""
    logger = logging.getLogger(_NOISY_LOGGER)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _forget_origin(model: onnx.ModelProto) -> None:
    graph = model.graph
    del model.metadata_props[:]
    del graph.metadata_props[:]
    del graph.value_info[:]
    for part in (*graph.node, *graph.input, *graph.output, *graph.initializer):
        part.doc_string = ""
        del part.metadata_props[:]
    graph.doc_string, graph.name, model.doc_string = "", "policy", ""
