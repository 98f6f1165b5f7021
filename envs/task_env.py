"""A task as Gymnasium envs: one env, or a batch."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from adc_wrappers.core import ActuatorCurriculum, CurriculumConfig
from adc_wrappers.core.backend_access import ActuatorPortMethods
from adc_wrappers.core.env_states import EnvState, generator_state, load_generator, part_of
from adc_wrappers.core.errors import did_you_mean

from .episodes import EpisodeRunner, StepResult
from .screen import FrameScreen
from .task import EpisodeWatcher, Task

__all__ = ["TaskEnv", "TaskVectorEnv", "final_infos"]

RENDER_MODES = ("rgb_array", "human")


def _check_render_mode(render_mode: str | None) -> None:
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise ValueError(f"unknown render_mode {render_mode!r}. {did_you_mean(render_mode, RENDER_MODES)}")


class TaskEnv(ActuatorPortMethods, gym.Env[Any, Any]):
    """One env of a task, at the task's target gains until a curriculum changes them.

    ``info`` has the reward's terms, whether the env is in the wanted state (``holds``) and the task's own progress in
    [0, 1] (``progress``) at every step, and
    ``is_success`` when an episode ends. On a robot, ``info["guard"]`` says why a guard has ended it.

    Args:
        task: The task, over a backend with one env.
        render_mode: ``"rgb_array"``, ``"human"`` or None.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium declares it so)
        "render_modes": list(RENDER_MODES),
        "render_fps": 50,
    }

    def __init__(self, task: Task, render_mode: str | None = None) -> None:
        _check_render_mode(render_mode)
        if task.backend.num_envs != 1:
            raise ValueError(f"expected a task over one env, got {task.backend.num_envs}: use TaskVectorEnv.")
        self.task = task
        self.actuator_backend = task.backend
        self.adc_config = task.adc_config
        self.action_term = task.action_term
        self.observation_space = task.observation_space
        self.action_space = task.action_space
        self.render_mode = render_mode
        self.metadata = {**type(self).metadata, "render_fps": round(1.0 / task.policy_step)}
        self._runner = EpisodeRunner(task)
        self._screen = FrameScreen(self.metadata["render_fps"]) if render_mode == "human" else None
        self._running = False
        _stand_as_identified(task.backend, task.adc_config)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin a new episode."""
        super().reset(seed=seed)
        self._runner.begin(np.zeros(1, dtype=np.int64), self.np_random)
        self._running = True
        self._show()
        randomization = {name: float(values[0]) for name, values in self.task.describe().items()}
        return self.task.observe()[0], {"randomization": randomization} if randomization else {}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Simulate one policy step."""
        if not self._running:
            raise ResetNeeded("call reset() before step().")
        result = self._runner.step(np.asarray(action, dtype=np.float32)[None])
        terminated, truncated = bool(result.terminated[0]), bool(result.truncated[0])
        terms = {name: float(values[0]) for name, values in result.reward_terms.items()}
        info: dict[str, Any] = {
            "reward_terms": terms, "holds": bool(result.holds[0]), "progress": float(result.progress[0]),
        }  # fmt: skip
        if terminated or truncated:
            info["is_success"] = bool(result.success[0])
            info["broken_physics"] = bool(result.broken[0])
            self._running = False
        incident = self.task.incident()
        if incident is not None:
            info["guard"] = incident
        self._show()
        return result.observation[0], float(result.reward[0]), terminated, truncated, info

    def env_state(self) -> EnvState | None:
        """Return all that decides how this env goes on, gains aside; None if the physics cannot be saved."""
        return _env_state(self, self._runner, self._running)

    def load_env_state(self, state: EnvState) -> None:
        """Go on where ``state`` was saved, by an env with the same settings; no reset is needed."""
        self._running = _load_env_state(self, self._runner, state)

    def render(self) -> NDArray[np.uint8] | None:
        """Return a picture in the mode ``"rgb_array"``; the mode ``"human"`` shows every step by itself."""
        if self.render_mode == "rgb_array":
            return self.task.render(0)
        return None

    def _show(self) -> None:
        if self._screen is not None:
            self._screen.show(self.task.render(0))

    def close(self) -> None:
        """Close the window and the physics."""
        if self._screen is not None:
            self._screen.close()
        self.task.close()


class TaskVectorEnv(VectorEnv[NDArray[np.float32], NDArray[np.float32], NDArray[Any]]):
    """A batch of envs of a task, stepped together; finished ones are reset in the same step.

    Their joints have the task's target gains until a curriculum changes them.

    ``infos`` has the reward's terms, which envs are in the wanted state (``holds``) and the task's own progress
    (``progress``) at every step; where episodes
    end, ``final_obs`` and ``final_info`` (with ``is_success``) beside their masks, in Gymnasium's form.

    Args:
        task: The task, over a backend with any number of envs.
        render_mode: ``"rgb_array"`` or None; :meth:`render` shows the first envs.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium declares it so)
        "render_modes": ["rgb_array"],
        "render_fps": 50,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(self, task: Task, render_mode: str | None = None) -> None:
        self.task = task  # first: Gymnasium closes what could not be built, too
        if render_mode == "human":
            raise ValueError("a batch has no window: use render_mode='rgb_array', or one env with 'human'.")
        _check_render_mode(render_mode)
        self.num_envs = task.backend.num_envs
        self.actuator_backend = task.backend
        self.adc_config = task.adc_config
        self.action_term = task.action_term
        self.single_observation_space = task.observation_space
        self.single_action_space = task.action_space
        self.observation_space = batch_space(task.observation_space, self.num_envs)
        self.action_space = batch_space(task.action_space, self.num_envs)
        self.render_mode = render_mode
        self.metadata = {**type(self).metadata, "render_fps": round(1.0 / task.policy_step)}
        self._runner = EpisodeRunner(task)
        self._running = False
        self.watchers: list[EpisodeWatcher] = []
        """Are shown every step before finished envs are reset."""
        _stand_as_identified(task.backend, task.adc_config)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin new episodes everywhere, or where ``options["reset_mask"]`` is true.

        One generator serves the whole batch, so ``seed`` is one number; of a list the first entry is used.
        """
        super().reset(seed=seed[0] if isinstance(seed, list) else seed)
        mask = (options or {}).get("reset_mask")
        if mask is not None and not self._running:
            raise ResetNeeded("the first reset() must be of all envs.")
        ids = np.arange(self.num_envs) if mask is None else np.flatnonzero(mask)
        self._begin(ids)
        self._running = True
        return self.task.observe(), self._episode_info()

    def _begin(self, env_ids: NDArray[np.int64]) -> None:
        self._runner.begin(env_ids, self.np_random)
        for watcher in self.watchers:
            watcher.begin(env_ids)

    def _episode_info(self) -> dict[str, Any]:
        randomization = self.task.describe()
        return {"randomization": randomization} if randomization else {}

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Simulate one policy step of every env and reset those that end."""
        if not self._running:
            raise ResetNeeded("call reset() before step().")
        result = self._runner.step(np.asarray(actions, dtype=np.float32))
        infos: dict[str, Any] = {
            "reward_terms": result.reward_terms, "holds": result.holds, "progress": result.progress,
        }  # fmt: skip
        done = result.terminated | result.truncated
        for watcher in self.watchers:
            watcher.step(result)
        observation = result.observation
        if done.any():
            infos.update(final_infos(result, done))
            self._begin(np.flatnonzero(done))
            infos.update(self._episode_info())
            observation = self.task.observe()
        return observation, result.reward, result.terminated, result.truncated, infos

    def env_state(self) -> EnvState | None:
        """Return all that decides how the batch goes on, gains aside; None if the physics cannot be saved."""
        return _env_state(self, self._runner, self._running)

    def load_env_state(self, state: EnvState) -> None:
        """Go on where ``state`` was saved, by a batch with the same settings; no reset is needed."""
        self._running = _load_env_state(self, self._runner, state)

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Return a picture of each of the first four envs."""
        if self.render_mode is None:
            return None
        return tuple(self.task.render(i) for i in range(min(self.num_envs, 4)))

    def close_extras(self, **kwargs: Any) -> None:
        """Close the physics."""
        self.task.close()


def final_infos(result: StepResult, done: NDArray[np.bool_]) -> dict[str, Any]:
    """Return observations and verdicts of the episodes that end, in Gymnasium's form."""
    final_obs = np.empty(len(done), dtype=object)
    for i in np.flatnonzero(done):
        final_obs[i] = result.observation[i].copy()
    return {
        "final_obs": final_obs,
        "_final_obs": done,
        "final_info": {
            "is_success": result.success,
            "_is_success": done,
            "broken_physics": result.broken,
            "_broken_physics": done,
        },
        "_final_info": done,
    }


def _env_state(env: Any, runner: EpisodeRunner, running: bool) -> EnvState | None:
    episodes = runner.env_state()
    if episodes is None:
        return None
    return {
        "running": running,
        "rng": generator_state(env.np_random),
        "action_rng": generator_state(env.action_space.np_random),
        "episodes": episodes,
    }


def _load_env_state(env: Any, runner: EpisodeRunner, state: EnvState) -> bool:
    """Restore generators and episodes; return whether episodes were running."""
    env.np_random = load_generator(part_of(state, "rng"))
    actions = load_generator(part_of(state, "action_rng"))
    env.action_space.np_random.bit_generator.state = actions.bit_generator.state
    runner.load_env_state(part_of(state, "episodes"), env.np_random)
    return bool(part_of(state, "running", bool))


def _stand_as_identified(backend: Any, config: CurriculumConfig) -> None:
    """Write the target gains of a task's curriculum to every env; a curriculum's wrapper stiffens them afterwards.

    A backend with ``fixed_gains`` is left alone: a robot is what was identified, at the gains that it is commanded.

    Args:
        backend: The actuators.
        config: The curriculum that the task recommends; its target is the identified stiffness.
    """
    if getattr(backend, "fixed_gains", False):
        return
    target = ActuatorCurriculum(config, backend.joint_names).target_stiffness
    stiffness = np.tile(target, (backend.num_envs, 1))
    damping = config.damping_at(stiffness, backend.effective_inertia(), backend.joint_names)
    backend.set_gains(stiffness, damping)
