"""Spot's handstand in mjlab; ``adc_wrappers.rsl_rl.mjlab_task`` makes it one of mjlab's own tasks."""

from __future__ import annotations

from typing import Any

from adc_wrappers.core.errors import MissingExtraError

try:
    import mjlab  # noqa: F401
except ImportError as error:
    raise MissingExtraError("mjlab", "mjlab", "the backend 'mjlab'") from error

__all__ = ["make_mjlab_env"]


def make_mjlab_env(
    num_envs: int = 4096,
    render_mode: str | None = None,
    *,
    device: str = "cuda:0",
    seed: int | None = None,
    **settings: Any,
) -> Any:
    """Make the handstand in mjlab: one env of many robots, whose tensors stay on the device.

    Args:
        num_envs: Number of robots.
        render_mode: mjlab's.
        device: Where they are simulated.
        seed: Seed of everything random.
        **settings: The task's own, see :class:`adc_wrappers.envs.spot.SpotSettings`.
    """
    from .cfg import handstand_cfg
    from .env import SpotStandMjlabEnv

    config = handstand_cfg(num_envs=num_envs, seed=seed, **settings)
    return SpotStandMjlabEnv(config, device=device, render_mode=render_mode)
