"""The curriculum around a ``gymnasium.vector.VectorEnv``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from .actuators import ActuatorBackend
from .backend_access import VectorChildrenBackend, find_backend
from .config import CurriculumConfig
from .controller import ApplyAt, CurriculumController
from .counters import ArrayCounter
from .curriculum import ActuatorCurriculum
from .episode_totals import EpisodeTotals
from .errors import BackendError
from .gym_bases import VectorWrapperBase
from .wrapper_methods import CurriculumMethods, check_iteration_steps

__all__ = ["ActuatorCurriculumVectorWrapper"]


class ActuatorCurriculumVectorWrapper(CurriculumMethods, VectorWrapperBase, gym.utils.RecordConstructorArgs):
    """One curriculum for all envs of a vector env, under any autoreset mode.

    The vector twin of :class:`ActuatorCurriculumWrapper`, with the same arguments. The backend is the vector env's
    own (``actuator_backend``), the ``backend`` argument, or the children of a ``SyncVectorEnv`` or
    ``AsyncVectorEnv``, which are reached through their processes.

    Example:
        >>> from adc_wrappers import ActuatorCurriculumVectorWrapper, make_env
        >>> envs = ActuatorCurriculumVectorWrapper(
        ...     make_env("cartpole", backend="analytic", num_envs=8), iteration_steps=32)
        >>> _ = envs.reset(seed=0)
        >>> sorted(envs.step(envs.action_space.sample())[-1]["adc"])[:3]
        ['damping_mean', 'episode_length_ema', 'iteration']
        >>> envs.close()
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        curriculum: CurriculumConfig | ActuatorCurriculum | None = None,
        *,
        backend: Any = None,
        iteration_steps: int | None = None,
        apply_at: ApplyAt = "iteration",
        training: bool = True,
        combine: Callable[[EpisodeTotals], EpisodeTotals] | None = None,
    ) -> None:
        if not isinstance(env, VectorEnv):
            raise TypeError(
                f"expected a gymnasium.vector.VectorEnv, got {type(env).__name__}. "
                "For a single env use ActuatorCurriculumWrapper."
            )
        check_iteration_steps(iteration_steps)
        mode = env.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            raise BackendError(
                f"{env}.metadata['autoreset_mode'] is {mode!r}; expected an AutoresetMode, because the length of an "
                "episode depends on it. Set it to the mode that the env follows."
            )
        gym.utils.RecordConstructorArgs.__init__(
            self,
            curriculum=curriculum,
            backend=backend,
            iteration_steps=iteration_steps,
            apply_at=apply_at,
            training=training,
            combine=combine,
            _disable_deepcopy=True,
        )
        found, recommended = _backend_and_config(env, backend)
        VectorWrapperBase.__init__(self, env)
        controller = CurriculumController(
            found,
            recommended if curriculum is None else curriculum,
            apply_at=apply_at,
            training=training,
            combine=combine,
        )
        self._init_curriculum(controller, iteration_steps)
        self._mode = mode
        self._counter = ArrayCounter(env.num_envs, mode, batches=controller.counts_batches)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all envs, or those in ``options["reset_mask"]``; their running episodes are not counted."""
        mask = options.get("reset_mask") if options else None
        if self.adc.changes_at_reset:
            self.adc.begin_episodes(np.arange(self.num_envs) if mask is None else np.flatnonzero(mask))
        observations, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        self._counter.restart(mask)
        if mask is None or mask.all():
            self._note_reset()
        infos["adc"] = self.adc.report
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all envs, count, and close the iteration when it is full."""
        clock = self._clock + 1
        special = clock >= self._alert
        if special and self._must_reset:
            self._refuse_step()
        result = self.env.step(actions)
        self._clock = clock
        if self.adc.training:
            ended = self._counter.step(result[2] | result[3])
            if ended is not None:
                self._end_episodes(ended, result[4])
            if special:
                if self._measures:
                    self._measure(ended, result[4])
                if clock >= self._due:
                    self._close_iteration()
        result[4]["adc"] = self.adc.report
        return result

    def _measure(self, ended: NDArray[np.int64] | None, infos: dict[str, Any]) -> None:
        """Take note of the task's own progress, of every step or of the episodes that ended."""
        if "progress" in infos:
            known = infos.get("_progress")
            values = np.asarray(infos["progress"], dtype=np.float64)
            self._counter.measure(values if known is None else values[np.asarray(known, dtype=bool)])
        elif ended is not None and "progress" in infos.get("final_info", {}):
            final = infos["final_info"]
            known = np.asarray(final.get("_progress", np.ones(self.num_envs, dtype=bool)), dtype=bool)[ended]
            self._counter.measure(np.asarray(final["progress"], dtype=np.float64)[ended[known]])

    def _end_episodes(self, ended: NDArray[np.int64], infos: dict[str, Any]) -> None:
        final = infos.get("final_info", infos) if self._mode == AutoresetMode.SAME_STEP else infos
        if "is_success" in final:
            known = np.asarray(final.get("_is_success", np.ones(self.num_envs, dtype=bool)), dtype=bool)[ended]
            self._counter.judge(ended[known], np.asarray(final["is_success"], dtype=bool)[ended[known]])
        if self._mode != AutoresetMode.DISABLED and self.adc.changes_at_reset:
            self.adc.begin_episodes(ended)


def _backend_and_config(env: VectorEnv[Any, Any, Any], backend: Any) -> tuple[ActuatorBackend, CurriculumConfig | None]:
    """Return the backend of a vector env and the settings that the env recommends."""
    own = getattr(env.unwrapped, "actuator_backend", None)
    if backend is not None or own is not None:
        return find_backend(env, backend), getattr(env.unwrapped, "adc_config", None)
    if not hasattr(env.unwrapped, "call"):
        return find_backend(env), None
    children = VectorChildrenBackend(env)
    return children, children.config
