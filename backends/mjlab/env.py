"""mjlab's env as a ``gymnasium.Env``, which it is in all but name."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from mjlab.envs import ManagerBasedRlEnv

__all__ = ["GymMjlabEnv", "as_gym"]


class GymMjlabEnv(ManagerBasedRlEnv, gym.Env[Any, Any]):
    """``ManagerBasedRlEnv`` that Gymnasium's wrappers accept; made and used like its parent.

    Example::

        env = GymMjlabEnv(load_env_cfg("Mjlab-Velocity-Flat-Unitree-Go1"), device="cuda:0")
        env = ActuatorCurriculumWrapper(env, config, backend=MjlabBackend)
        runner = CurriculumRunner(RslRlVecEnvWrapper(env), runner_config, log_dir, device="cuda:0")
    """


def as_gym(env: Any, kind: type[GymMjlabEnv] = GymMjlabEnv) -> GymMjlabEnv:
    """Make an env that mjlab has made a ``gymnasium.Env``, in place, and return it.

    Args:
        env: mjlab's plain env, or one of ours already.
        kind: What it becomes; these classes add methods and properties, and nothing that is made with an env.
    """
    if not isinstance(env, kind):
        env.__class__ = kind
    made: GymMjlabEnv = env
    return made
