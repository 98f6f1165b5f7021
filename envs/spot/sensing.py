"""Measurements of a robot: the true state late, noisy, and with a linear velocity that is estimated; and a memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from adc_wrappers.backends.array_kinds import array_namespace, put_rows
from adc_wrappers.backends.base import RobotState
from adc_wrappers.core.env_states import EnvState, put_array

from .presets import LinearVelocity

__all__ = ["NOISE", "Draw", "ObservationHistory", "SpotSensing"]

NOISE: Final = {
    "base_linear_velocity": 0.1,
    "base_angular_velocity": 0.1,
    "projected_gravity": 0.05,
    "joint_positions": 0.05,
    "joint_velocities": 0.5,
}
"""What is observed of a state, and its uniform noise: m/s, rad/s, 1, rad and rad/s, as in Isaac Lab's Spot."""

LAG: Final = 0.04
"""Time constant of an estimated linear velocity, s: an estimator sees a change of speed only by and by."""

DRIFT: Final = 0.1
"""Standard deviation of its slow error, m/s."""

DRIFT_TIME: Final = 5.0
"""Time in which that error is forgotten, s."""

Draw = Callable[[tuple[int, int]], Any]
"""Draws uniform numbers in [−1, 1) of a shape, as arrays of the states' kind."""


class SpotSensing:
    """The sensors of a batch of robots: measured states of true ones, in numpy or torch.

    What is measured is made once after every step and every reset, so that the policy, the command limiter and a guard
    see the same numbers.

    - latency: each robot's states are old by some share of a policy step, between the last state and this one;
    - noise: uniform, new at every step;
    - an estimated linear velocity besides lags by a filter, and drifts.

    Args:
        state: The robots as they are: arrays of their kind, on their device, are used.
        kinds: What is randomized; ``noise`` and ``latency`` matter here.
        linear_velocity: Whether noise is that of an estimate.
        policy_step: Seconds in one policy step.
        latency: Least and largest age of states, s.
    """

    def __init__(
        self,
        state: RobotState,
        kinds: Collection[str],
        linear_velocity: LinearVelocity,
        policy_step: float,
        latency: tuple[float, float],
    ) -> None:
        self._noisy, self._late = "noise" in kinds, "latency" in kinds
        self.active = self._noisy or self._late
        """Whether anything is measured otherwise than it is."""
        self._estimated = self._noisy and linear_velocity == "estimated"
        self._shares = tuple(seconds / policy_step for seconds in latency)
        self._keeps = policy_step / (policy_step + LAG)
        self._forgets = policy_step / DRIFT_TIME
        xp = array_namespace(state.joint_positions)
        self._truth = {name: xp.asarray(getattr(state, name), copy=True) for name in NOISE}
        self._measured = {name: xp.asarray(values, copy=True) for name, values in self._truth.items()}
        velocity = self._truth["base_linear_velocity"]
        self.age: Any = xp.zeros_like(velocity[:, :1])
        """Age of every robot's states, in policy steps, ``(n, 1)``."""
        self._estimate = xp.asarray(velocity, copy=True)
        self._drift = xp.zeros_like(velocity)

    def seen(self, state: RobotState) -> RobotState:
        """Return a state with what was measured of it last in place of what is true."""
        return state._replace(**self._measured) if self.active else state

    def begin(self, state: RobotState, rows: Any, draw: Draw, level: float = 1.0) -> None:
        """Begin episodes of chosen robots.

        Args:
            state: All robots as they are.
            rows: Those that begin.
            draw: Where random numbers come from.
            level: How much noise and latency there is, in [0, 1].
        """
        if not self.active:
            return
        now = {name: getattr(state, name)[rows] for name in NOISE}
        for name, values in now.items():
            put_rows(self._truth[name], rows, values)
        velocity = now["base_linear_velocity"]
        put_rows(self._estimate, rows, velocity)
        put_rows(self._drift, rows, level * DRIFT * draw((len(velocity), 3)) if self._estimated else 0.0 * velocity)
        if self._late:
            low, high = self._shares
            put_rows(self.age, rows, level * (low + 0.5 * (high - low) * (1.0 + draw((len(velocity), 1)))))
        if self._estimated:
            now["base_linear_velocity"] = velocity + self._drift[rows]
        for name, values in self._with_noise(now, draw, level).items():
            put_rows(self._measured[name], rows, values)

    def step(self, state: RobotState, draw: Draw, level: float = 1.0) -> None:
        """Measure all robots after a step; the arguments are those of :meth:`begin`."""
        if not self.active:
            return
        values = {}
        for name, before in self._truth.items():
            now = getattr(state, name)
            values[name] = now + self.age * (before - now) if self._late else now
        if self._estimated:
            late = values["base_linear_velocity"]
            self._estimate += self._keeps * (late - self._estimate)
            kick = level * DRIFT * (6.0 * self._forgets) ** 0.5  # uniform numbers have a variance of 1/3
            self._drift *= 1.0 - self._forgets
            self._drift += kick * draw((len(late), 3))
            values["base_linear_velocity"] = self._estimate + self._drift
        for name, measured in self._with_noise(values, draw, level).items():
            self._measured[name][:] = measured
            self._truth[name][:] = getattr(state, name)

    def _with_noise(self, values: dict[str, Any], draw: Draw, level: float) -> dict[str, Any]:
        if not self._noisy:
            return values
        sizes = {name: part.shape[1] for name, part in values.items()}
        count = len(values["joint_positions"])
        numbers, begin = level * draw((count, sum(sizes.values()))), 0
        noisy = {}
        for name, size in sizes.items():
            noisy[name] = values[name] + NOISE[name] * numbers[:, begin : begin + size]
            begin += size
        return noisy

    def _arrays(self) -> dict[str, Any]:
        named = {f"measured_{name}": values for name, values in self._measured.items()}
        named |= {f"true_{name}": values for name, values in self._truth.items()}
        return {**named, "age": self.age, "estimate": self._estimate, "drift": self._drift}

    def env_state(self) -> EnvState:
        """Return what was measured and what it came from, for a checkpoint; nothing if everything is as it is."""
        return {name: values.copy() for name, values in self._arrays().items()} if self.active else {}

    def load_env_state(self, state: EnvState) -> None:
        """Restore it."""
        for name, values in self._arrays().items() if self.active else ():
            put_array(values, state, name)


class ObservationHistory:
    """The last observations of a batch of robots, newest first, side by side, in numpy or torch.

    One noisy moment does not tell how a robot moves; several do, and with the last actions among them they also tell
    how late its joints are. An episode begins as if the robot had always been as it is.

    Args:
        frame: What is observed now, ``(n, size)``: arrays of its kind, on its device, are used.
        moments: How many moments a policy sees, this one included; 1: nothing is remembered.
    """

    def __init__(self, frame: Any, moments: int) -> None:
        self._before = moments - 1
        self.past: Any = self._repeated(frame) if self._before else None
        """The moments before this one, ``(n, (moments − 1) · size)``; None if nothing is remembered."""

    def _repeated(self, frame: Any) -> Any:
        return array_namespace(frame).concat((frame,) * self._before, axis=-1)

    def begin(self, frame: Any, rows: Any) -> None:
        """Begin episodes of chosen robots with what is observed of all now."""
        if self.past is not None:
            put_rows(self.past, rows, self._repeated(frame[rows]))

    def step(self, frame: Any) -> None:
        """Remember what is observed, before it changes."""
        if self.past is not None:
            older = array_namespace(frame).concat((frame, self.past), axis=-1)
            self.past[:] = older[:, : self.past.shape[1]]

    def seen(self, frame: Any) -> Any:
        """Return what a policy sees: what is observed now, and what is remembered."""
        return frame if self.past is None else array_namespace(frame).concat((frame, self.past), axis=-1)
