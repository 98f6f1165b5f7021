"""A Gymnasium ``VectorEnv`` as a Stable-Baselines3 ``VecEnv``, without a process or a loop per env."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from adc_wrappers.core.errors import BackendError

__all__ = ["VectorEnvAdapter"]


class VectorEnvAdapter(VecEnv):
    """A batched env, as it is, for Stable-Baselines3 to train on.

    Args:
        env: A vector env that resets finished envs in the same step, such as those of ``make_env(…, num_envs=…)``;
            possibly wrapped in ``ActuatorCurriculumVectorWrapper``.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        mode = env.metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise BackendError(
                f"Stable-Baselines3 expects finished envs to be reset in the same step; this one's autoreset_mode is "
                f"{mode}. Create it with autoreset_mode=AutoresetMode.SAME_STEP."
            )
        self.env = env
        self.render_mode = env.render_mode
        self._actions: Any = None
        self._last_infos: dict[str, Any] = {}
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> VecEnvObs:
        """Reset all envs with the seed given by :meth:`seed`, if any."""
        observation, _ = self.env.reset(seed=self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return observation  # type: ignore[no-any-return]

    def step_async(self, actions: NDArray[Any]) -> None:
        """Keep the actions."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Step, and put what an ended episode left where Stable-Baselines3 looks for it."""
        observation, rewards, terminated, truncated, infos = self.env.step(self._actions)
        dones = terminated | truncated
        rows: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        final = infos.get("final_info", {})
        for i in np.flatnonzero(dones):
            rows[i]["terminal_observation"] = infos["final_obs"][i]
            rows[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
            if "is_success" in final:
                rows[i]["is_success"] = bool(final["is_success"][i])
        return observation, np.asarray(rewards, dtype=np.float32), dones, rows

    def close(self) -> None:
        """Close the vector env."""
        self.env.close()

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """Return the pictures that the vector env renders."""
        frames = self.env.render()
        return list(frames) if frames is not None else [None]  # type: ignore[arg-type]

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return the batch's attribute, once per env asked for."""
        value = getattr(self.env.unwrapped, attr_name)
        return [value] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Refuse: one object serves the whole batch."""
        raise AttributeError(f"cannot set {attr_name!r} per env: the batch is one object (VectorEnvAdapter.env).")

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        """Call the batch's method once; the answer stands for every env asked for."""
        answer = getattr(self.env.unwrapped, method_name)(*args, **kwargs)
        return [answer] * len(list(self._get_indices(indices)))

    def env_is_wrapped(self, wrapper_class: Any, indices: VecEnvIndices = None) -> list[bool]:
        """Say whether the vector env is wrapped in ``wrapper_class``."""
        layer: Any = self.env
        found = False
        while layer is not None and not found:
            found = isinstance(layer, wrapper_class)
            layer = getattr(layer, "env", None)
        return [found] * len(list(self._get_indices(indices)))
