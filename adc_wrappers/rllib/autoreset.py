"""The autoreset mode that RLlib's env runner is written for."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from adc_wrappers.core.bases import VectorWrapperBase
from adc_wrappers.core.errors import BackendError

__all__ = ["NextStepAutoreset"]


class NextStepAutoreset(VectorWrapperBase):
    """A vector env that resets finished envs in the same step, such as ``make_env(…, num_envs=64)``, for RLlib.

    RLlib takes the step after an episode's end for the reset of the next one and drops its action. Here that is what
    happens: the end is returned with the episode's last observation, and the step after it with the first one of the
    next. The batch steps together, so an env that is being reset is simulated for one step that nobody sees.

    Args:
        env: A vector env over boxes whose ``reset`` takes ``options["reset_mask"]``.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        if not isinstance(env.single_observation_space, Box):
            raise BackendError(
                f"NextStepAutoreset expects a Box of numbers as observation space, got {env.single_observation_space}."
            )
        super().__init__(env)
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        self._waiting: NDArray[np.bool_] = np.zeros(env.num_envs, dtype=bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all envs, or those in ``options["reset_mask"]``."""
        mask = (options or {}).get("reset_mask")
        self._waiting[slice(None) if mask is None else mask] = False
        result: tuple[Any, dict[str, Any]] = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        return result

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all envs; those whose episode ended in the last step begin the next one instead."""
        observation, reward, terminated, truncated, infos = self.env.step(actions)
        fresh = self._waiting
        ended = (terminated | truncated) & ~fresh
        if ended.any() or fresh.any():
            observation = np.array(observation)
            for i in np.flatnonzero(ended):
                observation[i] = infos["final_obs"][i]
        _use_final_info(infos, ended)
        if fresh.any():
            first, _ = self.env.reset(options={"reset_mask": fresh})
            observation[fresh] = first[fresh]
            reward = np.where(fresh, 0.0, reward)
            terminated, truncated = terminated & ~fresh, truncated & ~fresh
        self._waiting = ended
        return observation, reward, terminated, truncated, infos


def _use_final_info(infos: dict[str, Any], ended: NDArray[np.bool_]) -> None:
    """Put what the ended episodes said at their end where this mode has it."""
    final = infos.pop("final_info", {})
    for name in ("_final_info", "final_obs", "_final_obs"):
        infos.pop(name, None)
    for name, values in final.items():
        if ended.any() and not name.startswith("_"):
            infos[name] = values
            infos[f"_{name}"] = np.asarray(final.get(f"_{name}", ended), dtype=bool) & ended
