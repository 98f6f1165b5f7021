"""The curriculum around a batch that is one ``gymnasium.Env``, such as Isaac Lab's envs."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from .counters import ArrayCounter, TensorCounter
from .report import CurriculumReport
from .wrapper import ActuatorCurriculumWrapper

__all__ = ["ActuatorCurriculumBatchWrapper"]


class ActuatorCurriculumBatchWrapper(ActuatorCurriculumWrapper):
    """What :class:`ActuatorCurriculumWrapper` becomes around a ``gym.Env`` with ``num_envs``.

    Such an env resets finished envs in the step that ends them. Its lengths are counted on the device of its tensors
    and read once per iteration; the metrics are in ``extras["log"]`` with the prefix ``adc/`` on every step.
    """

    def _init_counter(self) -> None:
        """The counter is made at the first step, when it is known whether the env speaks torch or numpy."""
        self._log: dict[str, float] = {}
        self._logged: CurriculumReport | None = None
        self._patience: float | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all envs; running episodes are not counted."""
        if self.adc.changes_at_reset:
            self.adc.begin_episodes(np.arange(self.adc.backend.num_envs))
        observation, extras = self.env.reset(seed=seed, options=options)
        if self._counter is not None:
            self._counter.restart()
        self._must_reset = False
        self._report(extras)
        return observation, extras

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all envs, count, and close the iteration when it is full."""
        if self._must_reset:
            self._refuse_step()
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
        self._schedule_closing()
        return report

    def _protect(self) -> None:
        self._patience = self.curriculum.config.length_max
        if self._counter is not None:
            self._counter.protect(self._patience)

    def _count(self, terminated: Any, truncated: Any, extras: dict[str, Any]) -> None:
        if self._counter is None:
            apart = self.adc.counts_batches
            if hasattr(terminated, "new_tensor"):
                self._counter = TensorCounter(terminated, batches=apart)
            else:
                self._counter = ArrayCounter(len(terminated), AutoresetMode.SAME_STEP, batches=apart)
            if self._patience is not None:
                self._counter.protect(self._patience)
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
