"""Layers of a training on a CPU that take less time than torch's own, with the same weights and the same function."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

__all__ = ["QuickElu", "QuickLinear", "elu", "elu_gradient", "plain_layers", "product", "quicken"]


def elu(values: torch.Tensor) -> torch.Tensor:
    """Return ``max(x, min(exp(x), 1) − 1)``."""
    result = values.exp().clamp_(max=1.0).sub_(1.0)
    return torch.maximum(values, result, out=result)


def elu_gradient(gradient: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the ELU's argument from that of its result, and from the result."""
    found: torch.Tensor = torch.ops.aten.elu_backward(gradient, 1.0, 1.0, 1.0, True, result)
    return found


class _Elu(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
        result = elu(values)
        context.save_for_backward(result)
        return result

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return elu_gradient(gradients[0], context.saved_tensors[0])


class QuickElu(nn.Module):
    """``nn.ELU()`` to 10⁻⁷, for training: forward, torch's own takes as long as the layer before it."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return the ELU of every value."""
        result: torch.Tensor = _Elu.apply(values)  # type: ignore[no-untyped-call]
        return result


def _onednn() -> Any:
    """Return oneDNN's product of dense matrices; None where torch was built without it."""
    if not torch._C._has_mkldnn:
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


_ONEDNN = _onednn()


def product(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return ``rows @ weight.T + bias``, by oneDNN where that can be.

    On a processor that is not Intel's it takes half of the time of MKL, which torch would use.
    """
    if _ONEDNN is None or not _for_onednn(rows) or not _for_onednn(weight):
        return nn.functional.linear(rows, weight, bias)
    found: torch.Tensor = _ONEDNN(_dense(rows), _dense(weight), bias, "none", [], "")
    return found


def _dense(matrix: torch.Tensor) -> torch.Tensor:
    """Return a matrix without gaps between its rows or columns: for one with gaps oneDNN may take 300 times as long."""
    if matrix.is_contiguous() or matrix.t().is_contiguous():
        return matrix
    return matrix.t().contiguous().t() if matrix.stride(0) == 1 else matrix.contiguous()


def _for_onednn(matrix: torch.Tensor) -> bool:
    return matrix.dim() == 2 and matrix.numel() > 0 and matrix.dtype == torch.float32 and matrix.device.type == "cpu"


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        context.save_for_backward(rows, weight)
        return product(rows, weight, bias)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (gradient,), (rows, weight) = gradients, context.saved_tensors
        wanted = context.needs_input_grad
        return (
            product(gradient, weight.t()) if wanted[0] else None,
            product(gradient.t(), rows.t()) if wanted[1] else None,
            gradient.sum(0) if wanted[2] else None,
        )


class QuickLinear(nn.Linear):
    """``nn.Linear`` for training, with quicker products of matrices."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the layer's output for a batch."""
        if input.dim() != 2:
            return super().forward(input)
        result: torch.Tensor = _Linear.apply(input, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return result


def quicken(network: Any) -> None:
    """Put quick layers in the place of torch's into a sequence of layers; weights are kept."""
    for index, layer in enumerate(network):
        if type(layer) is nn.ELU:
            network[index] = QuickElu()
        elif type(layer) is nn.Linear:
            network[index] = _same_weights(layer, QuickLinear)


def plain_layers(model: nn.Module) -> nn.Module:
    """Put torch's own layers back into a model, for export, and return it."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, QuickElu):
                setattr(parent, name, nn.ELU())
            elif isinstance(child, QuickLinear):
                setattr(parent, name, _same_weights(child, nn.Linear))
    return model


def _same_weights(layer: nn.Linear, kind: type[nn.Linear]) -> nn.Linear:
    """Return a layer of another kind with the very weights of this one."""
    made = kind(layer.in_features, layer.out_features, bias=layer.bias is not None, device="meta")  # nothing is drawn
    made.weight, made.bias = layer.weight, layer.bias
    return made
