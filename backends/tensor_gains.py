"""Gains of simulators of tensors, written group by group, and factors of every env that multiply them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from adc_wrappers.core.actuators import Gains
from adc_wrappers.core.errors import BackendError

__all__ = [
    "COMBINE",
    "GainFactors",
    "TensorGains",
    "gain_backend",
    "give_backend",
    "randomize_gain_factors",
    "to_device",
]

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


def to_device(values: Any, device: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers as a tensor on a device, without waiting for the device."""
    return torch.as_tensor(values, dtype=dtype).to(device, non_blocking=True)


class _Group(Protocol):
    """Joints whose gains are kept in one place."""

    def read(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return live stiffness and damping, ``(num_envs, joints)`` each."""

    def write(self, stiffness: torch.Tensor, damping: torch.Tensor, rows: torch.Tensor | None) -> None:
        """Write gains of chosen envs; None for all."""


class TensorGains:
    """The gains of all envs, read and written; what Isaac Lab's and mjlab's backends have in common.

    Gains stay on the env's device and are changed in place, also under ``torch.inference_mode()``.
    """

    num_envs: int
    joint_names: tuple[str, ...]
    device: Any
    groups: Sequence[_Group]
    _slots: Sequence[torch.Tensor]
    """Where each group's joints are among ours."""
    _factors: GainFactors

    def gains(self) -> Gains:
        """Return the live gains, without the envs' own factors, as tensors on the device."""
        live = [torch.empty(self.num_envs, len(self.joint_names), device=self.device) for _ in range(2)]
        for group, slots in zip(self.groups, self._slots, strict=True):
            for target, values in zip(live, group.read(), strict=True):
                target[:, slots] = values.to(target.dtype)
        return Gains(*self._factors.without(*live))

    def set_gains(self, stiffness: Any, damping: Any, env_ids: Any = None) -> None:
        """Write gains of shape ``(len(env_ids), joints)``, numpy or torch; they act from the next physics step on."""
        rows = self._rows(env_ids)
        shape = (self.num_envs if rows is None else len(rows), len(self.joint_names))
        for name, values in (("stiffness", stiffness), ("damping", damping)):
            if tuple(values.shape) != shape:
                raise BackendError(f"{name}: expected shape {shape}, got {tuple(values.shape)}.")
        with torch.inference_mode():
            new = [to_device(values, self.device, torch.float32) for values in (stiffness, damping)]
            self._factors.ask(new[0], new[1], rows)
            self._apply(rows)

    def draw_factors(
        self,
        env_ids: Any = None,
        stiffness_range: tuple[float, float] | None = None,
        damping_range: tuple[float, float] | None = None,
    ) -> None:
        """Give chosen envs (default: all) new random factors on the gains and apply them; nothing is read back."""
        rows = self._rows(env_ids)
        with torch.inference_mode():
            self._factors.draw(rows, stiffness_range, damping_range)
            self._apply(rows)

    def _rows(self, env_ids: Any) -> torch.Tensor | None:
        everybody = env_ids is None or isinstance(env_ids, slice)
        return None if everybody else to_device(env_ids, self.device, torch.long)

    def _apply(self, rows: torch.Tensor | None) -> None:
        """Write what was asked for, times the factors, to every group."""
        chosen = self._factors.wanted(rows)
        for group, slots in zip(self.groups, self._slots, strict=True):
            stiffness, damping = (values.index_select(1, slots) for values in chosen)
            group.write(stiffness, damping, rows)

    def _take_up(self, env: Any) -> None:
        """Begin with what is live, which factors that are drawn before the first gains multiply; tell the env."""
        with torch.inference_mode():
            self._factors.ask(*self.gains(), None)
        give_backend(env, self)


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
