"""Stable-Baselines3's ``VecEnv``: the curriculum and the two action ablations around one, a ``VectorEnv`` as one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from adc_wrappers.core import ActuatorCurriculum, CurriculumConfig, CurriculumError
from adc_wrappers.core.action_wrappers import ActionNoise, ActionScaler
from adc_wrappers.core.backend_access import ChildrenBackend
from adc_wrappers.core.controller import ApplyAt, CurriculumController
from adc_wrappers.core.counters import ArrayCounter
from adc_wrappers.core.env_states import EnvStateError
from adc_wrappers.core.errors import BackendError
from adc_wrappers.core.files import write_atomically
from adc_wrappers.core.reading import read_json
from adc_wrappers.core.wrapper_methods import CurriculumMethods, check_iteration_steps
from adc_wrappers.core.wrapper_methods import find_curriculum as find_inside
from adc_wrappers.training.ppo import ActionConfig

__all__ = ["ActionVecEnv", "ActuatorCurriculumVecEnv", "VectorEnvAdapter", "find_curriculum"]


class _VecEnvBackend(ChildrenBackend):
    """The children of a Dummy- or SubprocVecEnv as one backend, reached with ``env_method``."""

    def __init__(self, venv: VecEnv) -> None:
        if not venv.has_attr("adc_describe"):
            raise BackendError(
                f"the envs of {type(venv).__name__} do not open their actuators. Wrap each of them, inside its env "
                "function, with adc_wrappers.ActuatorPort(env, backend=...); envs of make_env() need no wrapper."
            )
        self._venv = venv
        super().__init__(venv.num_envs, venv.env_method("adc_describe"))

    def set_gains(
        self,
        stiffness: NDArray[np.float64],
        damping: NDArray[np.float64],
        env_ids: NDArray[np.int64] | None = None,
    ) -> None:
        """Write gains to the children: one call if all get the same, else one for each."""
        ids = list(range(self.num_envs)) if env_ids is None else env_ids.tolist()
        if (stiffness == stiffness[0]).all() and (damping == damping[0]).all():
            self._venv.env_method("adc_set_gains", stiffness[0], damping[0], indices=ids)
            return
        for env, k, b in zip(ids, stiffness, damping, strict=True):
            self._venv.env_method("adc_set_gains", k, b, indices=[env])

    def send_actions(self, part: str, rows: NDArray[np.float64] | None) -> None:
        """Give every child's action term its row of a factor or of noise."""
        if rows is None or (rows == rows[0]).all():
            self._venv.env_method("adc_change_actions", part, None if rows is None else rows[0])
            return
        for env, row in enumerate(rows):
            self._venv.env_method("adc_change_actions", part, row, indices=[env])

    def call_children(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every child, with the same arguments, and return the answers."""
        return self._venv.env_method(method, *arguments)

    def load_task_states(self, states: Sequence[dict[str, Any]]) -> None:
        """Give every child's task its state."""
        for env, state in enumerate(states):
            self._venv.env_method("adc_load_task", state, indices=[env])


class ActuatorCurriculumVecEnv(CurriculumMethods, VecEnvWrapper):
    """One curriculum, in the main process, for all envs of a ``DummyVecEnv`` or ``SubprocVecEnv``.

    Wrap before ``VecMonitor`` and ``VecNormalize``, and close iterations with :class:`CurriculumCallback`.

    Args:
        venv: The vectorized env; its children are envs of ``make_env`` or wrapped in ``ActuatorPort``.
        curriculum: Settings, or a curriculum that exists. Default: what the children recommend, else the paper's.
        iteration_steps: Steps of the vectorized env in one iteration; None if the callback closes iterations.
        apply_at: ``"iteration"`` changes gains when an iteration is closed, ``"reset"`` at each env's next episode.
        training: False pins the target gains: an env for evaluation.

    Example:
        >>> from stable_baselines3.common.vec_env import DummyVecEnv
        >>> from adc_wrappers import make_env
        >>> venv = DummyVecEnv([lambda: make_env("cartpole", backend="analytic")] * 2)
        >>> venv = ActuatorCurriculumVecEnv(venv)
        >>> venv.curriculum.start_stiffness
        array([36.])
    """

    def __init__(
        self,
        venv: VecEnv,
        curriculum: CurriculumConfig | ActuatorCurriculum | None = None,
        *,
        iteration_steps: int | None = None,
        apply_at: ApplyAt = "iteration",
        training: bool = True,
    ) -> None:
        check_iteration_steps(iteration_steps)
        backend = _VecEnvBackend(venv)
        VecEnvWrapper.__init__(self, venv)
        config = backend.config if curriculum is None else curriculum
        controller = CurriculumController(backend, config, apply_at=apply_at, training=training)
        self._init_curriculum(controller, iteration_steps)
        self._counter = ArrayCounter(venv.num_envs, AutoresetMode.SAME_STEP, batches=controller.counts_batches)

    def reset(self) -> VecEnvObs:
        """Reset all envs; running episodes are not counted."""
        if self.adc.changes_at_reset:
            self.adc.begin_episodes(np.arange(self.num_envs))
        observation = self.venv.reset()
        self._counter.restart()
        self._note_reset()
        return observation

    def step_async(self, actions: NDArray[Any]) -> None:
        """Start a step."""
        if self._must_reset:
            self._refuse_step()
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Finish the step, count, and report under ``infos[i]["adc"]``."""
        observation, rewards, dones, infos = self.venv.step_wait()
        self._clock += 1
        if self.adc.training:
            ended = self._counter.step(np.asarray(dones, dtype=bool))
            if ended is not None:
                judged = np.array([i for i in ended if "is_success" in infos[i]], dtype=np.int64)
                if len(judged):
                    self._counter.judge(judged, np.array([bool(infos[i]["is_success"]) for i in judged]))
                if self.adc.changes_at_reset:
                    self.adc.begin_episodes(ended)
            if self._measures:
                self._counter.measure([info["progress"] for info in infos if "progress" in info])
            if self._clock >= self._due:
                self._close_iteration()
        report = self.adc.report
        for info in infos:
            info["adc"] = report
        return observation, rewards, dones, infos

    def _inner_state(self) -> list[Any] | None:
        """States of the children, in workers too; None if one has none, or has other wrappers around it."""
        if not self.venv.has_attr("env_state") or self.venv.has_attr("env"):
            return None
        states = self.venv.env_method("env_state")
        return None if any(state is None for state in states) else states

    def _load_inner_state(self, state: Any) -> None:
        if not isinstance(state, list) or len(state) != self.num_envs:
            raise EnvStateError(f"state of the envs: expected a list of {self.num_envs}, one for each env.")
        for index, part in enumerate(state):
            self.venv.env_method("load_env_state", part, indices=[index])

    def save(self, path: str | Path) -> None:
        """Write the curriculum's state as JSON, whole or not at all."""
        write_atomically(Path(path), json.dumps(self.state_dict(), indent=2).encode())

    @staticmethod
    def load(
        path: str | Path, venv: VecEnv, curriculum: CurriculumConfig | None = None, **arguments: Any
    ) -> ActuatorCurriculumVecEnv:
        """Wrap ``venv`` with the curriculum that :meth:`save` wrote.

        Args:
            path: The file.
            venv: The env to wrap.
            curriculum: The settings; needed where they contain a function, which JSON cannot hold.
            **arguments: Further arguments of the constructor.
        """
        state = read_json(Path(path), CurriculumError)
        if not isinstance(state, dict) or "config" not in state:
            raise CurriculumError(f"{path} is not a curriculum file: expected what save() wrote.")
        config = curriculum if curriculum is not None else CurriculumConfig.from_dict(state["config"])
        wrapped = ActuatorCurriculumVecEnv(venv, config, **arguments)
        wrapped.load_state_dict(state)
        return wrapped


def find_curriculum(venv: Any) -> CurriculumMethods:
    """Return the curriculum wrapper inside a VecEnv, whichever library's wrapper it is.

    Raises:
        BackendError: There is none.
    """
    missing = BackendError(
        f"{type(venv).__name__} has no curriculum inside. Wrap the VecEnv with "
        "adc_wrappers.sb3.ActuatorCurriculumVecEnv before giving it to the algorithm."
    )
    return find_inside(venv, missing)


class ActionVecEnv(VecEnvWrapper):
    """Noise on actions and their scale, as an :class:`~adc_wrappers.training.ppo.ActionConfig` says.

    Args:
        venv: The env with the curriculum.
        config: What is done to actions.
        seed: Seed of the noise.
    """

    venv: ActuatorCurriculumVecEnv

    def __init__(self, venv: ActuatorCurriculumVecEnv, config: ActionConfig, seed: int) -> None:
        super().__init__(venv)
        self._parts: list[Callable[[Any], Any]] = []
        if config.noise_std > 0.0:
            self._parts.append(ActionNoise(venv, config.noise_std, 0.0, seed))
        if config.constant_torque:
            self._parts.append(ActionScaler(venv))

    def reset(self) -> VecEnvObs:
        """Reset all envs."""
        return self.venv.reset()

    def step_async(self, actions: NDArray[Any]) -> None:
        """Start a step with what has become of the actions."""
        for part in self._parts:
            actions = part(actions)
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Finish the step."""
        return self.venv.step_wait()


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
