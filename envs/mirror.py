"""Left and right: how a task looks in a mirror."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Mirror"]


@dataclass(frozen=True, eq=False)
class Mirror:
    """A reflection that a task does not change under: entry ``i`` of a mirrored vector is ``sign[i] · x[index[i]]``.

    Applied twice it gives back what it was given.
    """

    observation_index: tuple[int, ...]
    observation_sign: tuple[float, ...]
    action_index: tuple[int, ...]
    action_sign: tuple[float, ...]

    def __post_init__(self) -> None:
        for what, index, sign in (
            ("observation", self.observation_index, self.observation_sign),
            ("action", self.action_index, self.action_sign),
        ):
            turned = [index[i] for i in index] if sorted(index) == list(range(len(index))) else []
            same_sign = len(sign) == len(index) and all(sign[i] == sign[index[i]] for i in range(len(turned)))
            if turned != list(range(len(index))) or not same_sign or not set(sign) <= {1.0, -1.0}:
                raise ValueError(
                    f"{what}: expected an index that is its own inverse, with signs of ± 1 that pairs share; got "
                    f"{index} and {sign}."
                )

    def observations(self, values: Any) -> Any:
        """Mirror observations, ``(…, n)``, numpy."""
        return np.asarray(values)[..., list(self.observation_index)] * np.array(self.observation_sign)

    def actions(self, values: Any) -> Any:
        """Mirror actions, ``(…, n)``, numpy."""
        return np.asarray(values)[..., list(self.action_index)] * np.array(self.action_sign)

    def action_basis(self) -> tuple[NDArray[np.float64], int]:
        """Return T with orthogonal columns and their number ``s``: the first ``s`` do not change in the mirror.

        Actions ``T z`` have a symmetric part, ``z[:s]``, and an antisymmetric one that changes sign, ``z[s:]``.
        """
        count = len(self.action_index)
        even: list[NDArray[np.float64]] = []
        odd: list[NDArray[np.float64]] = []
        for i, (j, sign) in enumerate(zip(self.action_index, self.action_sign, strict=True)):
            if j < i:
                continue
            for columns, factor in ((even, sign), (odd, -sign)):
                column = np.zeros(count)
                column[i], column[j] = 1.0, factor
                if i != j or factor > 0:
                    columns.append(column)
        return np.stack([*even, *odd], axis=1), len(even)

    @classmethod
    def of_parts(cls, observation: Sequence[tuple[Sequence[int], Sequence[float]]], action: int) -> Mirror:
        """Join the mirrors of an observation's parts, of which number ``action`` is that of the action.

        >>> Mirror.of_parts([((0,), (-1.0,)), ((1, 0), (1.0, 1.0))], action=1).observation_index
        (0, 2, 1)
        """
        index: list[int] = []
        for part, _ in observation:
            index += [len(index) + i for i in part] if part else []
        sign = [float(value) for _, signs in observation for value in signs]
        part, signs = observation[action]
        return cls(tuple(index), tuple(sign), tuple(part), tuple(float(value) for value in signs))
