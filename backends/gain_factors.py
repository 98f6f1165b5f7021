"""Factors on the gains of every env of a simulator of tensors, which multiply what a curriculum writes."""

from __future__ import annotations

from typing import Any

import torch

from adc_wrappers.core.errors import BackendError

__all__ = ["GainFactors", "gain_backend", "give_backend", "randomize_gain_factors"]

_ATTRIBUTE = "adc_gain_backend"
"""Where an env keeps its backend, for events."""
_WAITING = "adc_waiting_factors"
"""Where an env keeps the ranges of factors that an event asked for before there was a backend."""

COMBINE = (
    "To have both, replace it by a factor per env that multiplies the curriculum's gains: "
    'EventTermCfg(func=adc_wrappers.backends.{backend}.randomize_gain_factors, mode="reset", '
    'params={{"stiffness_range": (0.8, 1.2), "damping_range": (0.8, 1.2)}}).'
)
"""What those read whose event would overwrite the curriculum's gains."""


class GainFactors:
    """Stiffness and damping as they were asked for, and what every env makes of them.

    Tensors are changed in place, also under ``torch.inference_mode()``.

    Args:
        shape: Number of envs and of joints.
        device: Where.
    """

    def __init__(self, shape: tuple[int, int], device: Any) -> None:
        with torch.inference_mode(False):
            self._factors = [torch.ones(shape, device=device) for _ in range(2)]
            self._asked = [torch.zeros(shape, device=device) for _ in range(2)]

    def ask(self, stiffness: torch.Tensor, damping: torch.Tensor, rows: torch.Tensor | None) -> None:
        """Keep gains of chosen envs; None for all."""
        for asked, values in zip(self._asked, (stiffness, damping), strict=True):
            _put(asked, rows, values.to(asked.dtype))

    def draw(
        self,
        rows: torch.Tensor | None,
        stiffness_range: tuple[float, float] | None,
        damping_range: tuple[float, float] | None,
    ) -> None:
        """Give chosen envs new random factors, uniformly per env and joint; None leaves stiffness or damping alone."""
        for factor, limits in zip(self._factors, (stiffness_range, damping_range), strict=True):
            if limits is None:
                continue
            low, high = limits
            if not 0.0 < low <= high:
                raise BackendError(f"expected a range of positive factors, least first, got {limits}.")
            shape = factor.shape if rows is None else (len(rows), factor.shape[1])
            _put(factor, rows, torch.empty(shape, device=factor.device).uniform_(low, high))

    def wanted(self, rows: torch.Tensor | None) -> list[torch.Tensor]:
        """Return stiffness and damping to be written for chosen envs: what was asked for, times the factors."""
        whole = [asked * factor for asked, factor in zip(self._asked, self._factors, strict=True)]
        return whole if rows is None else [values.index_select(0, rows) for values in whole]

    def without(self, stiffness: torch.Tensor, damping: torch.Tensor) -> list[torch.Tensor]:
        """Return live gains of all envs as they would be without factors."""
        return [values / factor for values, factor in zip((stiffness, damping), self._factors, strict=True)]


def _put(whole: torch.Tensor, rows: torch.Tensor | None, values: torch.Tensor) -> None:
    if rows is None:
        whole.copy_(values)
    else:
        whole.index_copy_(0, rows, values)


def gain_backend(env: Any) -> Any:
    """Return the backend that an env was given; None if it has none yet."""
    return getattr(env, _ATTRIBUTE, None)


def give_backend(env: Any, backend: Any) -> None:
    """Let an env know its backend, and draw the factors that an event has asked for before."""
    waiting: dict[str, tuple[float, float]] = getattr(env, _WAITING, {})
    if waiting:
        backend.draw_factors(None, **waiting)
    setattr(env, _ATTRIBUTE, backend)


def randomize_gain_factors(
    env: Any,
    env_ids: torch.Tensor | None,
    stiffness_range: tuple[float, float] | None = None,
    damping_range: tuple[float, float] | None = None,
) -> None:
    """Event term of Isaac Lab or mjlab: give envs new random factors on the curriculum's gains, per env and joint.

    In place of ``randomize_actuator_gains`` or ``pd_gains``, in any mode. An env has its startup events behind it
    before anybody can wrap it: what is asked for without a backend is drawn for all envs when there is one.

    Args:
        env: The simulator's env.
        env_ids: The envs; None for all.
        stiffness_range: Least and largest factor on the stiffness; None leaves it alone.
        damping_range: The same for the damping.
    """
    backend = gain_backend(env)
    if backend is not None:
        backend.draw_factors(env_ids, stiffness_range, damping_range)
        return
    asked = {"stiffness_range": stiffness_range, "damping_range": damping_range}
    new = {name: limits for name, limits in asked.items() if limits is not None}
    setattr(env, _WAITING, {**getattr(env, _WAITING, {}), **new})
