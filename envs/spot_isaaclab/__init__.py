"""Spot's handstand in Isaac Lab: ``ADC-Spot-Handstand-v0``. Importing this package registers the ids with Gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from adc_wrappers.core.errors import MissingExtraError

try:
    import isaaclab  # noqa: F401
except ImportError as error:
    raise MissingExtraError("isaaclab", "isaaclab", "the backend 'isaaclab'") from error

__all__ = ["HANDSTAND_ID", "PLAY_ID", "make_isaac_env"]

HANDSTAND_ID = "ADC-Spot-Handstand-v0"
PLAY_ID = "ADC-Spot-Handstand-Play-v0"

for _id, _cfg in ((HANDSTAND_ID, "SpotHandstandEnvCfg"), (PLAY_ID, "SpotHandstandPlayEnvCfg")):
    if _id not in gym.registry:
        gym.register(
            id=_id,
            entry_point=f"{__name__}.env:SpotStandIsaacEnv",
            disable_env_checker=True,
            kwargs={"env_cfg_entry_point": f"{__name__}.cfg:{_cfg}"},
        )


def make_isaac_env(num_envs: int = 4096, render_mode: str | None = None, **options: Any) -> Any:
    """Make the handstand in Isaac Lab: one env of many robots, whose tensors stay on the device.

    Args:
        num_envs: Number of robots.
        render_mode: Isaac Lab's.
        **options: What :func:`~.cfg.handstand_cfg` takes: ``device``, ``engine``, ``source``, ``seed``, and the task's
            settings.
    """
    from .cfg import handstand_cfg

    return gym.make(HANDSTAND_ID, cfg=handstand_cfg(num_envs=num_envs, **options), render_mode=render_mode)
