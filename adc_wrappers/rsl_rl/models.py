"""Networks that know their task: fixed observation scales, and left-right symmetry that holds exactly."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from rsl_rl.models import MLPModel
from rsl_rl.modules import GaussianDistribution
from torch import nn

from .equivariant import EquivariantMLP
from .layers import plain_layers, quicken

__all__ = ["MirrorGaussian", "TaskMLP", "TaskModel"]


class TaskMLP(nn.Module):
    """An MLP whose input is scaled, and whose output is averaged over an observation and its mirror image.

    Args:
        mlp: The network.
        scale: Factor on each observation; None for none.
        index: Where each entry of a mirrored observation comes from; None for no symmetry.
        sign: And its sign.
        output_sign: How each output changes in the mirror: 1 not at all, −1 its sign.
    """

    scale: torch.Tensor
    index: torch.Tensor
    sign: torch.Tensor
    output_sign: torch.Tensor

    def __init__(
        self,
        mlp: nn.Module,
        scale: Sequence[float] | None = None,
        index: Sequence[int] | None = None,
        sign: Sequence[float] = (),
        output_sign: Sequence[float] = (),
    ) -> None:
        super().__init__()
        self.mlp = mlp
        self.mirrored = index is not None
        if scale is not None and index is not None and any(scale[i] != scale[j] for i, j in enumerate(index)):
            raise ValueError("expected observation scales that are the same for an entry and its mirror image.")
        self.register_buffer("scale", torch.tensor(1.0 if scale is None else list(scale)), persistent=False)
        self.register_buffer("index", torch.tensor(list(index or ()), dtype=torch.long), persistent=False)
        self.register_buffer("sign", torch.tensor(list(sign)), persistent=False)
        self.register_buffer("output_sign", torch.tensor(list(output_sign)), persistent=False)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the outputs for a batch."""
        return self.outputs(self.inputs(observation), observation.shape[0])

    def inputs(self, observation: torch.Tensor) -> torch.Tensor:
        """Return what the inner network sees: scaled observations, followed by their mirror images."""
        scaled = observation * self.scale
        return torch.cat((scaled, scaled[:, self.index] * self.sign)) if self.mirrored else scaled

    def outputs(self, inputs: torch.Tensor, count: int) -> torch.Tensor:
        """Return the outputs of ``count`` observations from what the inner network sees of them."""
        both: torch.Tensor = self.mlp(inputs)
        if not self.mirrored:
            return both
        straight, mirrored = both[:count], both[count:]  # torch.chunk would fix the batch size of an ONNX export
        return 0.5 * (straight + self.output_sign * mirrored)


class TaskModel(MLPModel):
    """RSL-RL's MLP model with the task's scales and symmetry.

    Args:
        *args: As of ``MLPModel``.
        observation_scale: Factor on each observation.
        mirror: ``{"index": …, "sign": …, "output_sign": …}``, see :class:`TaskMLP`.
        equivariant: Use layers that are symmetric themselves, see :class:`.equivariant.EquivariantMLP`, instead of
            averaging; needs ``mirror``.
        output_gain: Factor on the initial weights and biases of the last layer.
        **settings: As of ``MLPModel``.
    """

    def __init__(
        self,
        *args: Any,
        observation_scale: Sequence[float] | None = None,
        mirror: dict[str, Sequence[float]] | None = None,
        equivariant: bool = False,
        output_gain: float = 1.0,
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        if equivariant:
            if mirror is None:
                raise ValueError("equivariant: expected a mirror.")
            hidden = settings["hidden_dims"]
            net = EquivariantMLP(mirror["index"], mirror["sign"], hidden, mirror["output_sign"], observation_scale)  # type: ignore[arg-type]
            net.scale_last_layer(output_gain)
            self.mlp: Any = net
            return
        quicken(self.mlp)
        last = [layer for layer in self.mlp if isinstance(layer, nn.Linear)][-1]
        with torch.no_grad():
            last.weight.mul_(output_gain)
            last.bias.mul_(output_gain)
        self.mlp = TaskMLP(self.mlp, observation_scale, **(mirror or {}))  # type: ignore[arg-type]

    def as_jit(self) -> nn.Module:
        """Return a copy for TorchScript."""
        return _plain(super().as_jit())

    def as_onnx(self, verbose: bool) -> nn.Module:
        """Return a copy for ONNX."""
        return _plain(super().as_onnx(verbose))


def _plain(exported: nn.Module) -> nn.Module:
    """Give an exported copy layers that every runtime knows."""
    if isinstance(exported.mlp, EquivariantMLP):
        exported.mlp = exported.mlp.dense()
    return plain_layers(exported)


class MirrorGaussian(GaussianDistribution):
    """A Gaussian over the symmetric and antisymmetric parts of an action, each with a deviation of its own.

    The network's output and the distribution's parameters are coordinates ``z``; samples are actions ``T z``. Left
    and right joints therefore explore together as much as the symmetric part says and apart as much as the other says.

    Args:
        output_dim: Number of actions.
        basis: T, ``(actions, actions)``, orthogonal columns, the symmetric ones first.
        symmetric: Number of symmetric columns.
        sideways_std: Initial deviation of the antisymmetric part; None for that of the symmetric one.
        **settings: As of ``GaussianDistribution``.
    """

    basis: torch.Tensor
    inverse: torch.Tensor

    def __init__(
        self,
        output_dim: int,
        *,
        basis: Sequence[Sequence[float]],
        symmetric: int,
        sideways_std: float | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(output_dim, **settings)
        matrix = torch.tensor(basis)
        self.register_buffer("basis", matrix.T.contiguous(), persistent=False)
        self.register_buffer("inverse", torch.linalg.inv(matrix).T.contiguous(), persistent=False)
        if sideways_std is not None:
            with torch.no_grad():
                if self.std_type == "log":
                    self.log_std_param[symmetric:] = math.log(sideways_std)
                else:
                    self.std_param[symmetric:] = sideways_std

    def sample(self) -> torch.Tensor:
        """Draw actions."""
        drawn: torch.Tensor = super().sample()
        return drawn @ self.basis

    def deterministic_output(self, mlp_output: torch.Tensor) -> torch.Tensor:
        """Return the mean action."""
        return mlp_output @ self.basis

    def as_deterministic_output_module(self) -> nn.Module:
        """Return what turns the network's output into the mean action, for export."""
        turn = nn.Linear(self.output_dim, self.output_dim, bias=False)
        with torch.no_grad():
            turn.weight.copy_(self.basis.T)
        return turn

    def log_prob(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return the log probability of actions, up to the constant log |det T|, which no ratio notices."""
        log_prob: torch.Tensor = super().log_prob(outputs @ self.inverse)
        return log_prob
