"""The curriculum inside an env runner: a layer around its vector env that follows the driver's curriculum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from adc_wrappers.core.config import CurriculumConfig
from adc_wrappers.core.controller import ApplyAt
from adc_wrappers.core.episode_totals import EpisodeTotals
from adc_wrappers.core.errors import BackendError, CurriculumError
from adc_wrappers.core.gym_bases import VectorWrapperBase
from adc_wrappers.core.vector_wrapper import ActuatorCurriculumVectorWrapper
from adc_wrappers.core.wrapper_methods import CurriculumMethods

__all__ = ["NextStepAutoreset", "RunnerCurriculum", "RunnerSettings", "find_layer", "wrap_runner_env"]


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


@dataclass(frozen=True, kw_only=True)
class RunnerSettings:
    """Settings with which an env runner wraps its envs; must be picklable."""

    curriculum: CurriculumConfig | None = None
    """Settings; None for what the envs recommend, else the paper's."""

    backend: Any = None
    """A function that makes the actuators from the vector env; None if the envs carry them."""

    apply_at: ApplyAt = "iteration"
    """When gains change: at once, or at each env's next episode."""


class _Wrappers(Protocol):
    """The curriculum's wrappers of one env runner."""

    count: int

    def settings(self) -> dict[str, Any]: ...

    def collect(self) -> EpisodeTotals: ...

    def follow(self, states: list[dict[str, Any]]) -> None: ...

    def pin(self) -> None: ...

    def verify(self) -> None: ...


class _OneWrapper:
    """One wrapper around the whole batch."""

    count = 1

    def __init__(self, wrapper: CurriculumMethods) -> None:
        self._wrapper = wrapper
        self.settings = wrapper.adc_settings
        self.collect = wrapper.adc_collect
        self.pin = wrapper.adc_pin
        self.verify = wrapper.adc_verify

    def follow(self, states: list[dict[str, Any]]) -> None:
        self._wrapper.adc_state = states[0]


class _ChildWrappers:
    """A wrapper around each child of a Gymnasium vector env, reached through its processes."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        self._env: Any = env.unwrapped
        self.count = env.num_envs

    def settings(self) -> dict[str, Any]:
        first: dict[str, Any] = self._env.call("adc_settings")[0]
        return first

    def collect(self) -> EpisodeTotals:
        return sum(self._env.call("adc_collect"), EpisodeTotals())

    def follow(self, states: list[dict[str, Any]]) -> None:
        self._env.set_attr("adc_state", states)

    def pin(self) -> None:
        self._env.call("adc_pin")

    def verify(self) -> None:
        self._env.call("adc_verify")


class RunnerCurriculum(VectorWrapperBase):
    """The layer that the driver talks to; the envs' own steps and resets pass through it.

    Args:
        env: The vector env with the curriculum's wrappers in it.
        wrappers: Those wrappers.
        worker: Index of the env runner: tells apart the random draws of ``driver="uniform"``.
        training: False pins the target gains.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], wrappers: _Wrappers, *, worker: int, training: bool) -> None:
        super().__init__(env)
        self._wrappers = wrappers
        self._worker = worker
        self.training = training
        self.settings = wrappers.settings()
        self.collect = wrappers.collect
        self.verify = wrappers.verify
        if not training:
            wrappers.pin()

    def follow(self, state: dict[str, Any]) -> None:
        """Verify the live gains, then write those of ``state`` and read them back."""
        states = [state] * self._wrappers.count
        if self.settings["config"].driver == "uniform":
            states = [{**state, "rng": self._random_state(state, i)} for i in range(self._wrappers.count)]
        self._wrappers.follow(states)

    def _random_state(self, state: dict[str, Any], index: int) -> Any:
        seed = [self.settings["config"].seed, state["iteration"], self._worker, index]
        return np.random.default_rng(seed).bit_generator.state

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the envs."""
        observation, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        return observation, _without_report(infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the envs."""
        observation, reward, terminated, truncated, infos = self.env.step(actions)
        return observation, reward, terminated, truncated, _without_report(infos)


def _without_report(infos: dict[str, Any]) -> dict[str, Any]:
    """RLlib carries every step's infos to the learner; the report is the same for all and the driver has it."""
    infos.pop("adc", None)
    infos.pop("_adc", None)
    return infos


def wrap_runner_env(
    env: VectorEnv[Any, Any, Any], settings: RunnerSettings, *, worker: int, training: bool
) -> RunnerCurriculum:
    """Put the curriculum around an env runner's vector env, or find it there, and return the layer around all."""
    own = _wrapper_inside(env)
    batch = NextStepAutoreset(env) if own is None and _mode(env) == AutoresetMode.SAME_STEP else env
    if _mode(batch) != AutoresetMode.NEXT_STEP:
        raise BackendError(
            f"RLlib takes the step after an episode's end for the next one's reset; this env's autoreset_mode is "
            f"{_mode(env)}. Give RLlib the bare batch (SAME_STEP is then converted), or a NEXT_STEP one."
        )
    wrappers: _Wrappers
    if own is not None:
        wrappers = _OneWrapper(own)
    elif _has_wrapped_children(env):
        wrappers = _ChildWrappers(env)
    else:
        wrapped = ActuatorCurriculumVectorWrapper(
            batch, settings.curriculum, backend=settings.backend, apply_at=settings.apply_at
        )
        batch, wrappers = wrapped, _OneWrapper(wrapped)
    _check(wrappers.settings(), settings)
    return RunnerCurriculum(batch, wrappers, worker=worker, training=training)


def _mode(env: VectorEnv[Any, Any, Any]) -> Any:
    return env.metadata.get("autoreset_mode")


def _wrapper_inside(env: Any) -> CurriculumMethods | None:
    layer = env
    while isinstance(layer, VectorWrapper):
        if isinstance(layer, CurriculumMethods):
            return layer
        layer = layer.env
    return None


def _has_wrapped_children(env: VectorEnv[Any, Any, Any]) -> bool:
    children: Any = env.unwrapped
    return hasattr(children, "call") and all(children.call("has_wrapper_attr", "adc_settings"))


def _check(found: dict[str, Any], settings: RunnerSettings) -> None:
    """Refuse wrappers that move by themselves or follow other settings."""
    if found["iteration_steps"] is not None:
        raise CurriculumError(
            f"the envs' curriculum closes its own iterations every {found['iteration_steps']} steps, and RLlib's "
            "driver would close them too. Create the wrapper without iteration_steps."
        )
    if settings.curriculum is not None and found["config"].to_dict() != settings.curriculum.to_dict():
        raise CurriculumError(
            "the envs bring a curriculum with other settings than add_curriculum() was given. Pass the settings in one "
            "place only."
        )


def find_layer(env_runner: Any) -> RunnerCurriculum | None:
    """Return the layer in an env runner; None if the runner has no env, as the driver's own has not."""
    layer = env_runner.env
    while isinstance(layer, VectorWrapper):
        if isinstance(layer, RunnerCurriculum):
            return layer
        layer = layer.env
    return None
