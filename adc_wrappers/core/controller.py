"""The controller of a backend's gains: it applies a curriculum, checks that it took, and reports."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .actuators import ActuatorBackend, DeviceReadback, as_numpy, check_backend_shape, check_time_step
from .config import CurriculumConfig
from .curriculum import ActuatorCurriculum
from .env_states import EnvState, part_of, put_array
from .episode_totals import EpisodeTotals
from .errors import BackendError, CurriculumError, did_you_mean
from .report import CurriculumReport

__all__ = ["ApplyAt", "CurriculumController"]

ApplyAt = Literal["iteration", "reset"]

_TOLERANCE = 1e-4
"""Relative difference that a backend's own precision may make between gains written and gains read."""

_NOT_TAKEN = "did not take"
_CHANGED = "were changed behind the curriculum"


class CurriculumController:
    """The owner of a backend's gains: whatever the joints are doing, this object set it.

    Args:
        backend: Where gains are written.
        curriculum: Settings of a new curriculum, or one that exists.
        apply_at: ``"iteration"`` changes every env when an iteration is closed; ``"reset"`` changes each env when its
            next episode begins.
        training: With False the target gains are pinned and nothing is counted.
        combine: Called with an iteration's totals before they are used; returns the sum over all ranks.

    Everything is validated before the first gain is written; then the start gains are written and read back.
    """

    def __init__(
        self,
        backend: ActuatorBackend,
        curriculum: CurriculumConfig | ActuatorCurriculum | None = None,
        *,
        apply_at: ApplyAt = "iteration",
        training: bool = True,
        combine: Callable[[EpisodeTotals], EpisodeTotals] | None = None,
    ) -> None:
        if apply_at not in ("iteration", "reset"):
            raise CurriculumError(f"unknown apply_at {apply_at!r}. {did_you_mean(apply_at, ('iteration', 'reset'))}")
        self.inertia = check_backend_shape(backend)
        self.backend = backend
        self.curriculum = _as_curriculum(curriculum, backend)
        self.training = training
        if not training:
            self._pin_curriculum()
        self.combine = combine
        self._apply_at = apply_at
        self._evaluating = False
        self._check_stability()
        shape = (backend.num_envs, len(backend.joint_names))
        self._stiffness: NDArray[np.float64] = np.zeros(shape)
        self._damping: NDArray[np.float64] = np.zeros(shape)
        self._pending: NDArray[np.bool_] = np.zeros(backend.num_envs, dtype=bool)
        self._any_pending = False
        self.last_totals = EpisodeTotals()
        self.readback = DeviceReadback(backend, _TOLERANCE)
        """Checks of gains on a device, to be read together with what else an iteration reads from it."""
        self._listeners: list[Callable[[], None]] = []
        self.report = CurriculumReport()
        """Numbers of the present iteration; replaced when they change."""
        if training:
            self._apply_now()
        else:
            self._write(self.curriculum.target_stiffness)

    def _check_stability(self) -> None:
        time_step = getattr(self.backend, "explicit_time_step", None)
        if time_step is None:
            return
        for stiffness in (self.curriculum.start_stiffness, self.curriculum.target_stiffness):
            check_time_step(stiffness, self.damping(stiffness), self.inertia, time_step, self.backend.joint_names)

    @property
    def stiffness(self) -> NDArray[np.float64]:
        """K of every env and joint as last written, shape ``(num_envs, joints)``; do not change it."""
        return self._stiffness

    @property
    def counts_batches(self) -> bool:
        """Whether a counter must keep apart which episodes ended together."""
        return self.curriculum.config.average == "resets"

    @property
    def counts_progress(self) -> bool:
        """Whether anything looks at the task's own progress, so that a counter must collect it."""
        config = self.curriculum.config
        named = config.driver == "task_progress" or (
            config.driver == "adaptive" and config.adaptive_measure == "task_progress"
        )
        return named or not isinstance(config.driver, str)

    @property
    def changes_at_reset(self) -> bool:
        """Whether :meth:`begin_episodes` has work to do."""
        return self.training and (self._any_pending or self.curriculum.per_episode)

    def begin_episodes(self, env_ids: NDArray[np.int64]) -> None:
        """Give envs that begin an episode the gains that wait for them."""
        if self.curriculum.per_episode:
            self._write(self.curriculum.draw(len(env_ids)), env_ids)
            return
        due = env_ids[self._pending[env_ids]]
        if len(due):
            self._write(np.tile(self.curriculum.stiffness, (len(due), 1)), due)
            self._pending[due] = False
            self._any_pending = bool(self._pending.any())

    def end_iteration(self, totals: EpisodeTotals, checks: list[float] | None = None) -> CurriculumReport:
        """Close an iteration: move the curriculum, write the gains, return the report.

        Args:
            totals: Episodes completed in it.
            checks: What the checks of ``readback`` gave. The gains are then not read here, and the verdict on those
                that are written now is among the next iteration's checks.
        """
        self.refuse_pinned()
        totals = self._judge_and_combine(totals, checks)
        self.curriculum.update(totals)
        self.last_totals = totals
        self._apply_when_due(read_later=checks is not None)
        return self.report

    def _judge_and_combine(self, totals: EpisodeTotals, checks: list[float] | None) -> EpisodeTotals:
        """Judge the gains and add up all ranks; a rank that fails says so to the others, who would wait for it."""
        if self.combine is None:
            self._judge(checks)
            return totals
        try:
            self._judge(checks)
        except BackendError:
            self.combine(replace(totals, failures=1))
            raise
        combined = self.combine(totals)
        if combined.failures:
            raise BackendError(
                f"the gains of {combined.failures} other rank(s) are not what was written; their own errors say which. "
                "All ranks stop."
            )
        return combined

    def follow(self, state: dict[str, Any]) -> CurriculumReport:
        """Close an iteration with the state of a curriculum that is moved elsewhere, under the same settings."""
        self.refuse_pinned()
        self.verify()
        self.curriculum.load_state_dict(state)
        self._apply_when_due()
        return self.report

    def pin(self) -> None:
        """Write the target gains and leave training for good."""
        self.training = False
        self._pin_curriculum()
        self._write(self.curriculum.target_stiffness)

    def _pin_curriculum(self) -> None:
        """Let the curriculum say what is live, in a copy: it may be that of a training, which goes on."""
        self.curriculum = copy.copy(self.curriculum)
        self.curriculum.pinned = True

    def refuse_pinned(self) -> None:
        """Raise if the target gains are pinned, so that there is no iteration to close."""
        if not self.training:
            raise CurriculumError(
                "an iteration cannot be closed while the target gains are pinned: leave evaluation() first."
            )

    def refuse_evaluation(self, what: str) -> None:
        """Raise inside :meth:`evaluation`, whose episodes are not those of the training."""
        if self._evaluating:
            raise CurriculumError(f"a state cannot be {what} while the target gains are pinned: leave evaluation().")

    def _judge(self, checks: list[float] | None) -> None:
        """Raise if the live gains are not what was written, by reading them or by checks made on the device."""
        if checks is None:
            self.verify()
            return
        for complaint, excess in zip((_CHANGED, _NOT_TAKEN), checks, strict=False):
            if not excess <= 0.0:  # true for NaN
                self._compare(self._stiffness, self._damping, complaint)
                raise BackendError(
                    f"the gains of {type(self.backend).__name__} {complaint} in the last iteration, and are right now."
                )

    def _apply_when_due(self, *, read_later: bool = False) -> None:
        if self._apply_at == "reset" and not self.curriculum.per_episode:
            self._pending[:] = True
            self._any_pending = True
            self._refresh_report()
        elif self.curriculum.per_episode:
            self._refresh_report()
        else:
            self._apply_now(read_later=read_later)

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """Pin the target gains in every env; restore what was live afterwards."""
        if not self.training:
            yield
            return
        before = self._stiffness.copy()
        self.training, self._evaluating, self.curriculum.pinned = False, True, True
        try:
            self._write(self.curriculum.target_stiffness)
            yield
        finally:
            self.curriculum.pinned = False
            self._write(before)
            self.training, self._evaluating = True, False

    def verify(self) -> None:
        """Raise if the live gains are no longer what was written."""
        self._compare(self._stiffness, self._damping, _CHANGED)

    def load_state_dict(self, state: dict[str, Any], *, strict: bool = True) -> None:
        """Restore the curriculum and write its gains."""
        self.refuse_evaluation("loaded")
        self.curriculum.load_state_dict(state, strict=strict)
        if self.training:
            self._apply_now()

    def env_state(self) -> EnvState:
        """Return the gains of every env, which a draw or the next reset may still change."""
        return {
            "stiffness": self._stiffness.copy(),
            "pending": self._pending.copy(),
            "rng": self.curriculum.state_dict()["rng"],
        }

    def load_env_state(self, state: EnvState) -> None:
        """Give every env the gains that it had; the curriculum's own state must have been loaded before."""
        stiffness, pending = self._stiffness.copy(), self._pending.copy()
        put_array(stiffness, state, "stiffness")
        put_array(pending, state, "pending")
        if not (np.isfinite(stiffness).all() and (stiffness > 0).all()):
            raise CurriculumError("state of the envs: expected a stiffness that is finite and positive everywhere.")
        self.curriculum.load_random_state(part_of(state, "rng"))
        self._write(stiffness)
        self._pending, self._any_pending = pending, bool(pending.any())

    def _apply_now(self, *, read_later: bool = False) -> None:
        curriculum = self.curriculum
        self._pending[:] = False
        self._any_pending = False
        stiffness = curriculum.draw(self.backend.num_envs) if curriculum.per_episode else curriculum.stiffness
        self._write(stiffness, read_later=read_later)

    def _write(
        self, stiffness: NDArray[np.float64], env_ids: NDArray[np.int64] | None = None, *, read_later: bool = False
    ) -> None:
        """Write one row of stiffness for all envs, or a row for each; read back and compare."""
        chosen = slice(None) if env_ids is None else env_ids
        expected_stiffness, expected_damping = self._stiffness.copy(), self._damping.copy()
        expected_stiffness[chosen] = stiffness
        expected_damping[chosen] = self.damping(stiffness)
        # The backend gets arrays of its own, so that it may keep them.
        self.backend.set_gains(expected_stiffness[chosen].copy(), expected_damping[chosen].copy(), env_ids)
        if not read_later:
            self._compare(expected_stiffness, expected_damping, _NOT_TAKEN)
        self._stiffness, self._damping = expected_stiffness, expected_damping
        self.readback.expect(expected_stiffness, expected_damping, unread=read_later)
        for listener in self._listeners:
            listener()
        self._refresh_report()

    def on_gains(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after every write of gains, for what must change with them."""
        self._listeners.append(listener)

    def damping(self, stiffness: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the damping that belongs to ``stiffness``."""
        return self.curriculum.config.damping_at(stiffness, self.inertia, self.backend.joint_names)

    def _compare(self, stiffness: NDArray[np.float64], damping: NDArray[np.float64], complaint: str) -> None:
        for name, want, live in zip(("stiffness", "damping"), (stiffness, damping), self.backend.gains(), strict=True):
            have = as_numpy(live)
            if have.dtype == want.dtype and have.shape == want.shape and have.tobytes() == want.tobytes():
                continue  # the usual case, at a fifth of the time that comparing numbers takes
            if np.array_equal(have, want.astype(have.dtype, copy=False)):
                continue
            right = np.abs(have - want) <= _TOLERANCE * want  # false for NaN
            if not right.all():
                env, joint = np.argwhere(~right)[0]
                raise BackendError(
                    f"the gains of {type(self.backend).__name__} {complaint}: {name} of env {env}, joint "
                    f"{self.backend.joint_names[joint]!r} should be {want[env, joint]:g} and reads "
                    f"{have[env, joint]:g}. Check that set_gains() reaches the actuators, and that no reset or "
                    "randomization of gains writes to them too."
                )

    def _refresh_report(self) -> None:
        curriculum = self.curriculum
        size = self._stiffness.size
        self.report = CurriculumReport(
            stiffness=float(np.add.reduce(self._stiffness, axis=None)) / size,
            damping_mean=float(np.add.reduce(self._damping, axis=None)) / size,
            progress=curriculum.progress,
            episode_length_ema=curriculum.length_ema,
            success_ema=curriculum.success_ema,
            task_progress_ema=curriculum.task_progress_ema,
            iteration=curriculum.iteration,
        )


def _as_curriculum(
    curriculum: CurriculumConfig | ActuatorCurriculum | None, backend: ActuatorBackend
) -> ActuatorCurriculum:
    if not isinstance(curriculum, ActuatorCurriculum):
        return ActuatorCurriculum(curriculum, backend.joint_names)
    if len(curriculum.joint_names) != len(backend.joint_names):
        raise CurriculumError(
            f"the curriculum is for {len(curriculum.joint_names)} joints {curriculum.joint_names}, the backend has "
            f"{len(backend.joint_names)}: {tuple(backend.joint_names)}. Create it with the backend's joint_names."
        )
    return curriculum
