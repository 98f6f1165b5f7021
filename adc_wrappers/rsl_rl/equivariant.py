"""Layers that are symmetric themselves, which mirror their result with their input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from .layers import elu, elu_gradient, product

__all__ = ["EquivariantMLP"]


_HALF = math.sqrt(0.5)


class EquivariantMLP(nn.Module):
    """An MLP between vectors that have an even part, which a mirror leaves, and an odd one, whose sign it changes.

    Hidden units are pairs that change places in the mirror. A layer takes even to even and odd to odd parts, with
    weights of their own; the activation acts on the pairs, (even + odd) and (even − odd). One pass does the work of the
    two that averaging over an observation and its mirror image takes, with a quarter of the multiplications, and the
    symmetry holds to the last bit.

    Args:
        index: Where each entry of a mirrored input comes from.
        sign: And its sign.
        hidden: Units of each hidden layer, even numbers.
        output_sign: How each output changes in the mirror: 1 not at all, −1 its sign; those that do not come first.
        scale: Factor on each input, the same for an entry and its mirror image; None for none.
    """

    scale: torch.Tensor

    index: torch.Tensor
    sign: torch.Tensor
    even_rows: torch.Tensor
    odd_rows: torch.Tensor
    even_factor: torch.Tensor
    odd_factor: torch.Tensor

    def __init__(
        self,
        index: Sequence[int],
        sign: Sequence[float],
        hidden: Sequence[int],
        output_sign: Sequence[float],
        scale: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self._last = len(hidden)
        if any(units % 2 for units in hidden):
            raise ValueError(f"hidden: expected even numbers of units, which come in pairs, got {list(hidden)}.")
        if list(output_sign) != sorted(output_sign, reverse=True):
            raise ValueError(f"output_sign: expected those that do not change first, got {list(output_sign)}.")
        rows = [i for i, j in enumerate(index) if i <= j]
        even = [i for i in rows if i != index[i] or sign[i] > 0]
        odd = [i for i in rows if i != index[i] or sign[i] < 0]
        for name, values in (("index", index), ("even_rows", even), ("odd_rows", odd)):
            self.register_buffer(name, torch.tensor(list(values), dtype=torch.long), persistent=False)
        self.register_buffer("sign", torch.tensor(list(sign)), persistent=False)
        for name, chosen in (("even_factor", even), ("odd_factor", odd)):  # an orthonormal change of basis
            factors = [0.5 if i == index[i] else _HALF for i in chosen]
            self.register_buffer(name, torch.tensor(factors), persistent=False)
        if not even or not odd:
            raise ValueError("expected inputs that change their sign in the mirror, and some that do not.")
        self.register_buffer("scale", torch.tensor(1.0 if scale is None else list(scale)), persistent=False)
        symmetric = sum(1 for value in output_sign if value > 0)
        sizes = [(len(even), len(odd)), *((units // 2, units // 2) for units in hidden)]
        sizes.append((symmetric, len(output_sign) - symmetric))
        pairs = list(pairwise(sizes))
        self.even: Any = nn.ModuleList(nn.Linear(before[0], after[0]) for before, after in pairs if after[0])
        self.odd: Any = nn.ModuleList(nn.Linear(before[1], after[1], bias=False) for before, after in pairs if after[1])
        with torch.no_grad():
            for number, (before, _) in enumerate(pairs):
                # as torch begins a whole layer; sums and differences of a pair are larger than its units by √2
                bound = (1.0 if number == 0 else _HALF) / math.sqrt(sum(before))
                for parameter in self._layer(number):
                    parameter.uniform_(-bound, bound)

    def _layer(self, number: int) -> list[nn.Parameter]:
        layers = [half[number] for half in (self.even, self.odd) if len(half) > number]
        return [parameter for layer in layers for parameter in layer.parameters()]

    def scale_last_layer(self, gain: float) -> None:
        """Multiply weights and biases of the last layer."""
        with torch.no_grad():
            for parameter in self._layer(self._last):
                parameter.mul_(gain)

    def inputs(self, observation: torch.Tensor) -> torch.Tensor:
        """Return even and odd parts of scaled observations side by side."""
        scaled = observation * self.scale
        mirrored = scaled[:, self.index] * self.sign
        even = (scaled + mirrored)[:, self.even_rows] * self.even_factor
        odd = (scaled - mirrored)[:, self.odd_rows] * self.odd_factor
        return torch.cat((even, odd), dim=1)

    def outputs(self, inputs: torch.Tensor, count: int) -> torch.Tensor:
        """Return the outputs of ``count`` observations from their even and odd parts."""
        weights = [layer.weight for half in (self.even, self.odd) for layer in half]
        biases = [layer.bias for layer in self.even]
        outputs: torch.Tensor = _Pass.apply(inputs, len(self.even_rows), self._last, len(biases), *weights, *biases)  # type: ignore[no-untyped-call]
        return outputs

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the outputs for a batch."""
        return self.outputs(self.inputs(observation), observation.shape[0])

    @torch.no_grad()
    def dense(self) -> nn.Sequential:
        """Return a plain MLP with the same function, to rounding, for export."""
        basis = self.inputs(torch.eye(len(self.index), device=self.sign.device)).T
        split = len(self.even_rows)
        bias, even, odd = self.even[0].bias, self.even[0].weight @ basis[:split], self.odd[0].weight @ basis[split:]
        layers: list[nn.Module] = [_linear(torch.cat((even + odd, even - odd)), torch.cat((bias, bias))), nn.ELU()]
        for number in range(1, self._last):
            even, odd, bias = self.even[number].weight, self.odd[number].weight, self.even[number].bias
            same, crossed = even + odd, even - odd
            rows = torch.cat((torch.cat((same, crossed), dim=1), torch.cat((crossed, same), dim=1)))
            layers += [_linear(rows, torch.cat((bias, bias))), nn.ELU()]
        weights, biases = [], []
        if len(self.even) > self._last:
            weights.append(self.even[self._last].weight.repeat(1, 2))
            biases.append(self.even[self._last].bias)
        if len(self.odd) > self._last:
            weight = self.odd[self._last].weight
            weights.append(torch.cat((weight, -weight), dim=1))
            biases.append(weight.new_zeros(len(weight)))
        return nn.Sequential(*layers, _linear(torch.cat(weights), torch.cat(biases)))


class _Pass(torch.autograd.Function):
    """All layers forward and back, without a graph of the small steps between them.

    Inputs are constants: they get no gradient.
    """

    @staticmethod
    def forward(
        context: Any, inputs: torch.Tensor, split: int, last: int, evens: int, *parameters: torch.Tensor
    ) -> torch.Tensor:
        biases = parameters[len(parameters) - evens :]
        even_weights, odd_weights = parameters[:evens], parameters[evens : len(parameters) - evens]
        even, odd = inputs[:, :split], inputs[:, split:]
        kept = [even, odd]
        for number in range(last):
            even = product(even, even_weights[number], biases[number])
            odd = product(odd, odd_weights[number])
            pairs = even.new_empty((2, *even.shape))
            torch.add(even, odd, out=pairs[0])
            torch.sub(even, odd, out=pairs[1])
            pairs = elu(pairs)
            torch.add(pairs[0], pairs[1], out=even)
            torch.sub(pairs[0], pairs[1], out=odd)
            kept += [pairs, even, odd]
        parts = [product(even, even_weights[last], biases[last])] if evens > last else []
        parts += [product(odd, odd_weights[last])] if len(odd_weights) > last else []
        context.save_for_backward(*kept, *parameters)
        context.sizes = last, evens, parts[0].shape[1] if evens > last else 0
        return torch.cat(parts, dim=1)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        last, evens, split = context.sizes
        kept, parameters = context.saved_tensors[: 2 + 3 * last], context.saved_tensors[2 + 3 * last :]
        weights = parameters[:evens], parameters[evens : len(parameters) - evens]
        (gradient,) = gradients
        halves: list[torch.Tensor | None] = [gradient[:, :split] if evens > last else None]
        halves.append(gradient[:, split:] if len(weights[1]) > last else None)
        found: list[list[torch.Tensor]] = [[], []]
        found_biases: list[torch.Tensor] = []
        for number in range(last, -1, -1):
            before = kept[3 * number : 3 * number + 2]
            below: list[torch.Tensor | None] = [None, None]
            for half, part in enumerate(halves):
                if part is not None:
                    found[half].insert(0, product(part.t(), before[half].t()))
                    below[half] = product(part, weights[half][number].t()) if number else None
            if halves[0] is not None:
                found_biases.insert(0, halves[0].sum(0))
            if number:
                halves = list(_through_pairs(below, kept[3 * number - 1]))
        return (None, None, None, None, *found[0], *found[1], *found_biases)


def _through_pairs(below: Sequence[torch.Tensor | None], pairs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Take the gradients of sums and differences of a layer's pairs to those of its even and odd parts."""
    even, odd = below
    both = torch.empty_like(pairs)
    if even is not None and odd is not None:
        torch.add(even, odd, out=both[0])
        torch.sub(even, odd, out=both[1])
    elif even is not None:  # the last layer has no use for the odd part
        both.copy_(even)
    elif odd is not None:
        both[0].copy_(odd)
        torch.neg(odd, out=both[1])
    both = elu_gradient(both, pairs)
    return both[0] + both[1], both[0] - both[1]


def _linear(weight: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)
    return layer
