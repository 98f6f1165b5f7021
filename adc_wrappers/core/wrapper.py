"""The curriculum around a ``gymnasium.Env``: a single env, or a batch of tensors such as Isaac Lab's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from .backend_access import find_backend
from .config import CurriculumConfig
from .controller import ApplyAt, CurriculumController
from .counters import ArrayCounter, ScalarCounter, TensorCounter
from .curriculum import ActuatorCurriculum
from .episode_totals import EpisodeTotals
from .gym_bases import WrapperBase
from .report import CurriculumReport
from .wrapper_methods import CurriculumMethods, check_iteration_steps

__all__ = ["ActuatorCurriculumBatchWrapper", "ActuatorCurriculumWrapper"]


_ONLY_ENV = np.zeros(1, dtype=np.int64)


class ActuatorCurriculumWrapper(CurriculumMethods, WrapperBase, gym.utils.RecordConstructorArgs):
    """The curriculum around an env: joints start stiff and soften to the identified stiffness as episodes grow longer.

    The start gains are written before the first step. Completed episodes are counted by the wrapper; an iteration is
    closed every ``iteration_steps`` steps or by :meth:`end_iteration`, and then the new gains are written, read back
    and reported under ``info["adc"]`` (a batch of tensors: under ``extras["log"]`` with the prefix ``adc/``).

    A ``gymnasium.vector.VectorEnv`` handed to this name gives an :class:`ActuatorCurriculumVectorWrapper`; a batch of
    tensors gives a subclass that counts on the device.

    Args:
        env: A single env, or a batch such as Isaac Lab's: a ``gym.Env`` with ``num_envs`` whose step returns tensors
            and which resets finished envs in the same step.
        curriculum: Settings, or a curriculum that exists. Default: what the env recommends as ``adc_config``, else
            the paper's.
        backend: The env's actuators, or a function that makes them from the env. Default: ``env.actuator_backend``.
        iteration_steps: Policy steps (per env) in one iteration; None if an adapter or you call
            :meth:`end_iteration`.
        apply_at: ``"iteration"`` changes gains when an iteration is closed, ``"reset"`` at the next episode's start.
        training: False pins the target gains: an env for evaluation.
        combine: Sums an iteration's episode totals over all ranks of a distributed run.

    Example:
        >>> from adc_wrappers import ActuatorCurriculumWrapper, make_env
        >>> env = ActuatorCurriculumWrapper(make_env("cartpole", backend="analytic"), iteration_steps=256)
        >>> _ = env.reset(seed=0)
        >>> info = env.step(env.action_space.sample())[-1]
        >>> bool(info["adc"]["stiffness"] == env.curriculum.start_stiffness)
        True
        >>> env.close()
    """

    def __new__(cls, env: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Give a vector env its own wrapper and refuse what is no Gymnasium env."""
        if isinstance(env, VectorEnv):
            from .vector_wrapper import ActuatorCurriculumVectorWrapper

            return ActuatorCurriculumVectorWrapper(env, *args, **kwargs)
        if any(base.__module__.startswith("stable_baselines3.") for base in type(env).__mro__):
            raise TypeError(
                f"{type(env).__name__} is a Stable-Baselines3 VecEnv: "
                "use adc_wrappers.sb3.ActuatorCurriculumVecEnv(venv, ...)."
            )
        if cls is ActuatorCurriculumWrapper and getattr(getattr(env, "unwrapped", None), "num_envs", None) is not None:
            return super().__new__(ActuatorCurriculumBatchWrapper)
        return super().__new__(cls)

    def __init__(
        self,
        env: gym.Env[Any, Any],
        curriculum: CurriculumConfig | ActuatorCurriculum | None = None,
        *,
        backend: Any = None,
        iteration_steps: int | None = None,
        apply_at: ApplyAt = "iteration",
        training: bool = True,
        combine: Callable[[EpisodeTotals], EpisodeTotals] | None = None,
    ) -> None:
        check_iteration_steps(iteration_steps)
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
        found = find_backend(env, backend)
        WrapperBase.__init__(self, env)
        if curriculum is None:
            curriculum = env.get_wrapper_attr("adc_config") if env.has_wrapper_attr("adc_config") else None
        controller = CurriculumController(found, curriculum, apply_at=apply_at, training=training, combine=combine)
        self._init_curriculum(controller, iteration_steps)
        self._counter: Any = None
        self._init_counter()

    def _init_counter(self) -> None:
        self._counter = ScalarCounter(batches=self.adc.counts_batches)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the env; a running episode is not counted."""
        if self.adc.changes_at_reset:
            self.adc.begin_episodes(_ONLY_ENV)
        observation, info = self.env.reset(seed=seed, options=options)
        self._counter.restart(self._clock)
        self._note_reset()
        info["adc"] = self.adc.report
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the env, count, and close the iteration when it is full."""
        clock = self._clock + 1
        if clock >= self._alert:
            return self._special_step(action)
        result = self.env.step(action)
        self._clock = clock
        if result[2] or result[3]:
            self._note_step(clock, True, result[4])
        result[4]["adc"] = self.adc.report
        return result

    def _special_step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step that may be refused, measured, or close the iteration."""
        if self._must_reset:
            self._refuse_step()
        result = self.env.step(action)
        self._clock += 1
        self._note_step(self._clock, result[2] or result[3], result[4])
        result[4]["adc"] = self.adc.report
        return result

    def _note_step(self, clock: int, ended: bool, info: dict[str, Any]) -> None:
        if self.adc.training:
            if ended:
                self._counter.complete(clock, info.get("is_success"))
            if self._measures and "progress" in info:
                self._counter.measure(info["progress"])
        if clock >= self._due:
            self._close_iteration()


class ActuatorCurriculumBatchWrapper(ActuatorCurriculumWrapper):
    """The form of :class:`ActuatorCurriculumWrapper` around a ``gym.Env`` with ``num_envs``.

    Such an env resets finished envs in the step that ends them. Its lengths are counted on the device of its tensors
    and read once per iteration; the metrics are in ``extras["log"]`` with the prefix ``adc/`` on every step.
    """

    def _init_counter(self) -> None:
        """The counter is made at the first step, when it is known whether the env speaks torch or numpy."""
        self._log: dict[str, float] = {}
        self._logged: CurriculumReport | None = None
        self._patience: float | None = None
        self._clocks: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all envs; running episodes are not counted."""
        if self.adc.changes_at_reset:
            self.adc.begin_episodes(np.arange(self.adc.backend.num_envs))
        observation, extras = self.env.reset(seed=seed, options=options)
        if self._counter is not None:
            self._counter.restart()
        self.watch_clocks()
        self._note_reset()
        self._report(extras)
        return observation, extras

    def watch_clocks(self) -> None:
        """Leave out running episodes whose clock in the env is set between now and the next step.

        RSL-RL sets these clocks to random numbers so that not all envs end at once: what began so is cut short.
        """
        clocks = self._env_clocks()
        self._clocks = None if clocks is None else clocks.clone()

    def _env_clocks(self) -> Any:
        """Steps since each env's episode began, by the env itself, where it has such a tensor; else None."""
        clocks = getattr(self.env.unwrapped, "episode_length_buf", None)
        return clocks if hasattr(clocks, "new_tensor") else None

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all envs, count, and close the iteration when it is full."""
        if self._must_reset:
            self._refuse_step()
        if self._clocks is not None and self.adc.training:
            self._look_at_clocks()
        result = self.env.step(action)
        self._clock += 1
        if self.adc.training:
            self._count(result[2], result[3], result[4])
            if self._clock >= self._due:
                self._close_iteration()
        self._report(result[4])
        return result

    def end_iteration(self) -> CurriculumReport:
        """Close the iteration; episode totals and the check of the gains come from the device in one read."""
        checks = self.adc.readback.checks() if isinstance(self._counter, TensorCounter) else None
        if checks is None or not self.adc.training:
            return super().end_iteration()
        self._announce_protection()
        totals, values = self._counter.collect_with(checks)
        report = self.adc.end_iteration(totals, values)
        self._iteration_closed()
        return report

    def _protect(self) -> None:
        self._patience = self.curriculum.config.length_max
        if self._counter is not None:
            self._counter.protect(self._patience)

    def _look_at_clocks(self) -> None:
        """Compare on the device; nothing is read from it."""
        before, self._clocks = self._clocks, None
        clocks = self._env_clocks()
        if clocks is not None:
            self._make_counter(clocks)
            self._counter.leave_out(clocks != before)

    def _make_counter(self, like: Any) -> None:
        if self._counter is not None:
            return
        apart = self.adc.counts_batches
        if hasattr(like, "new_tensor"):
            self._counter = TensorCounter(like, batches=apart)
        else:
            self._counter = ArrayCounter(len(like), AutoresetMode.SAME_STEP, batches=apart)
        if self._patience is not None:
            self._counter.protect(self._patience)

    def _count(self, terminated: Any, truncated: Any, extras: dict[str, Any]) -> None:
        self._make_counter(terminated)
        if self._measures and "progress" in extras:
            self._counter.measure(extras["progress"])
        if isinstance(self._counter, TensorCounter):
            self._count_tensors(self._counter, terminated, truncated, extras)
        else:
            self._count_arrays(self._counter, terminated | truncated, extras)

    def _count_tensors(self, counter: TensorCounter, terminated: Any, truncated: Any, extras: dict[str, Any]) -> None:
        done = counter.step(terminated, truncated)
        if "is_success" in extras:
            counter.judge(extras["is_success"])
        if self.adc.changes_at_reset:  # costs a read from the device on every step
            ended = done.nonzero().flatten().cpu().numpy()
            if len(ended):
                self.adc.begin_episodes(ended)

    def _count_arrays(self, counter: ArrayCounter, done: Any, extras: dict[str, Any]) -> None:
        ended = counter.step(done)
        if ended is None:
            return
        if "is_success" in extras:
            counter.judge(ended, np.asarray(extras["is_success"], dtype=bool)[ended])
        if self.adc.changes_at_reset:
            self.adc.begin_episodes(ended)

    def _report(self, extras: dict[str, Any]) -> None:
        """Write every key on every step.

        Isaac Lab replaces the log when an env resets, and RSL-RL before 5.3 logs only the keys that the first step of
        a rollout has.
        """
        report = self.adc.report
        if report is not self._logged:
            self._log = {"adc/" + key: value for key, value in report.items()}
            self._logged = report
        extras.setdefault("log", {}).update(self._log)
