"""Step and sine responses of every joint, measured on the bench and beside them the analytic ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.actuators import check_backend_shape, damping_for, to_numpy
from adc_wrappers.testing import JointProbe, measure, second_order_step

__all__ = ["JointResponse", "measure_responses", "measure_sines", "second_order_bandwidth"]

_Array = NDArray[np.float64]

_RATIOS = (0.25, 0.45, 0.65, 0.9, 1.3, 2.0)
"""Frequencies of the sines, in natural frequencies; critically damped joints lose 3 dB at 0.64."""

_SETTLING = 7.0  # time constants until the beginning is forgotten
_HALF_POWER = np.sqrt(0.5)


@dataclass(frozen=True, kw_only=True)
class JointResponse:
    """The response of one joint on the bench: weightless, everything else locked."""

    joint: str
    stiffness: float
    damping: float
    inertia: float
    """Effective inertia M."""
    times: _Array
    """Seconds since the step, ``(samples,)``."""
    step: _Array
    """Share of a small step covered, ``(samples,)``."""
    expected: _Array
    """The same by ``M q̈ + B q̇ + K q = K q_d``."""
    full_step: _Array
    """Share of a full action's step covered: torque limits show here."""
    frequencies: _Array
    """Hz, ``(sines,)``."""
    gain: _Array
    """Amplitude of the joint as a share of its target's."""
    phase: _Array
    """By how much the joint lags, degrees."""
    expected_gain: _Array
    expected_phase: _Array

    @property
    def step_error(self) -> float:
        """Largest deviation of the small step from the analytic one, as a share of the step."""
        return float(np.abs(self.step - self.expected).max())

    @property
    def rise(self) -> float:
        """Seconds from 10 to 90 % of a small step."""
        return _rise(self.times, self.step)

    @property
    def expected_rise(self) -> float:
        """The same by the analytic response."""
        fine = np.linspace(0.0, self.times[-1], 4000)
        return _rise(fine, second_order_step(fine, self.stiffness, self.damping, self.inertia))

    @property
    def full_rise(self) -> float:
        """Seconds from 10 to 90 % of a full action's step; longer than ``rise`` where the torque saturates."""
        return _rise(self.times, self.full_step)

    @property
    def overshoot(self) -> float:
        """By how much a small step is exceeded, as a share of it."""
        return float(max(0.0, self.step.max() - 1.0))

    @property
    def delay(self) -> float:
        """Seconds by which the joint answers later than the analytic response, at half of the step."""
        fine = np.linspace(0.0, self.times[-1], 4000)
        ideal = second_order_step(fine, self.stiffness, self.damping, self.inertia)
        return _crossing(self.times, self.step, 0.5) - _crossing(fine, ideal, 0.5)

    @property
    def bandwidth(self) -> float:
        """Hz at which a sine comes out at 0.71 of its target, by interpolation between the sines."""
        return _half_power(self.frequencies, self.gain)

    @property
    def expected_bandwidth(self) -> float:
        """The same by the analytic response."""
        return second_order_bandwidth(self.stiffness, self.damping, self.inertia)


def measure_responses(
    probe: JointProbe,
    stiffness: _Array,
    amplitude: _Array,
    full: _Array,
    *,
    damping_ratio: float = 1.0,
    progress: Callable[[str, float], None] | None = None,
) -> list[JointResponse]:
    """Write gains, and measure every joint's steps and sines.

    With as many envs as joints each env moves its own joint and all are measured at once; with one env, one by one.

    Args:
        probe: Moves the joints; see :func:`adc_wrappers.testing.check_backend`.
        stiffness: K per joint.
        amplitude: Size of small steps and sines per joint.
        full: Size of a full action's step per joint.
        damping_ratio: ζ.
        progress: Is told what is done and which share of all.
    """
    backend = probe.backend
    inertia, count = check_backend_shape(backend), len(backend.joint_names)
    rows = np.tile(stiffness, (backend.num_envs, 1))
    backend.set_gains(rows, damping_for(rows, inertia, damping_ratio))
    groups = [np.arange(count)] if backend.num_envs == count else [np.array([joint]) for joint in range(count)]
    found: list[JointResponse] = []
    for group in groups:
        if progress is not None:
            progress(f"joint {backend.joint_names[group[0]]}", len(found) / count)
        found += _measure_group(probe, group, amplitude[group], full[group])
    return found


def _measure_group(probe: JointProbe, joints: NDArray[np.int64], small: _Array, full: _Array) -> list[JointResponse]:
    """Measure joints that can be moved together, one in each env."""
    backend = probe.backend
    inertia = check_backend_shape(backend)
    step, large = measure(probe, joints, small), measure(probe, joints, full)
    frequencies, gain, phase = measure_sines(probe, joints, small)
    found = []
    for place, joint in enumerate(joints.tolist()):
        stiffness, damping = (float(to_numpy(values)[place, joint]) for values in backend.gains())
        ideal_gain, ideal_phase = _second_order_sine(frequencies[place], stiffness, damping, float(inertia[joint]))
        found.append(
            JointResponse(
                joint=backend.joint_names[joint], stiffness=stiffness, damping=damping, inertia=float(inertia[joint]),
                times=step.times, step=step.measured[:, place], expected=step.expected[:, place],
                full_step=large.measured[:, place], frequencies=frequencies[place], gain=gain[place],
                phase=phase[place], expected_gain=ideal_gain, expected_phase=ideal_phase,
            )
        )  # fmt: skip
    return found


def measure_sines(probe: JointProbe, joints: NDArray[np.int64], amplitude: _Array) -> tuple[_Array, _Array, _Array]:
    """Let targets swing, one joint in each env, and return frequencies (Hz), gains and lags (degrees).

    Every sine runs until its beginning is forgotten, then for one period, to which a sine is fitted.
    All are of shape ``(envs, sines)``.
    """
    backend, rows = probe.backend, np.arange(len(joints))
    inertia = check_backend_shape(backend)[joints]
    natural = np.sqrt(to_numpy(backend.gains().stiffness)[rows, joints] / inertia)
    frequencies = np.outer(natural, _RATIOS) / (2.0 * np.pi)
    gains, lags = np.empty_like(frequencies), np.empty_like(frequencies)
    for place in range(len(_RATIOS)):
        omega = 2.0 * np.pi * frequencies[:, place]
        settled = _SETTLING / natural
        samples = int(np.ceil((settled + 2.0 * np.pi / omega).max() / probe.time_step))
        start = probe.rest()
        targets, path = start.copy(), np.empty((samples, len(joints)))
        times = np.arange(1, samples + 1) * probe.time_step
        for sample in range(samples):  # a target that is held for a step acts, on average, half a step later
            targets[rows, joints] = start[rows, joints] + amplitude * np.sin(
                omega * (times[sample] - probe.time_step / 2)
            )
            path[sample] = probe.move(targets)[rows, joints]
        for env in rows.tolist():
            last = times > times[-1] - 2.0 * np.pi / omega[env]
            swing = omega[env] * times[last]
            basis = np.stack((np.sin(swing), np.cos(swing), np.ones_like(swing)), axis=1)
            values = (path[last, env] - start[env, joints[env]]) / amplitude[env]
            in_phase, across, _ = np.linalg.lstsq(basis, values, rcond=None)[0]
            gains[env, place], lags[env, place] = np.hypot(in_phase, across), -np.rad2deg(np.arctan2(across, in_phase))
    return frequencies, gains, np.mod(lags, 360.0)


def _second_order_sine(frequencies: _Array, stiffness: float, damping: float, inertia: float) -> tuple[_Array, _Array]:
    """Return gain and lag (degrees) of ``M q̈ + B q̇ + K q = K q_d``."""
    omega = 2.0 * np.pi * frequencies
    answer = stiffness / (stiffness - inertia * omega**2 + 1j * damping * omega)
    return np.abs(answer), np.mod(-np.rad2deg(np.angle(answer)), 360.0)


def second_order_bandwidth(stiffness: float, damping: float, inertia: float) -> float:
    """Return the frequency, Hz, at which ``M q̈ + B q̇ + K q = K q_d`` lets 0.71 of a sine through.

    >>> round(second_order_bandwidth(40.0, 4.0, 0.1), 3)  # critically damped: 0.644 of the natural frequency
    2.049
    """
    zeta = damping / (2.0 * np.sqrt(stiffness * inertia))
    half = 1.0 - 2.0 * zeta**2
    return float(np.sqrt(stiffness / inertia * (half + np.sqrt(half**2 + 1.0))) / (2.0 * np.pi))


def _crossing(times: _Array, shares: _Array, level: float) -> float:
    """Return when a share is first reached, between samples by a straight line; NaN if never."""
    reached = shares >= level
    if not reached.any():
        return float("nan")
    first = int(np.argmax(reached))
    before_time, before = (0.0, 0.0) if first == 0 else (float(times[first - 1]), float(shares[first - 1]))
    part = (level - before) / max(float(shares[first]) - before, 1e-12)
    return before_time + part * (float(times[first]) - before_time)


def _rise(times: _Array, shares: _Array) -> float:
    return _crossing(times, shares, 0.9) - _crossing(times, shares, 0.1)


def _half_power(frequencies: _Array, gain: _Array) -> float:
    """Return where the gain falls through 0.71, on a logarithmic scale of both; NaN if it does not."""
    below = gain < _HALF_POWER
    if not below.any() or below[0]:
        return float("nan")
    after = int(np.argmax(below))
    x, y = np.log(frequencies[after - 1 : after + 1]), np.log(gain[after - 1 : after + 1])
    return float(np.exp(x[0] + (np.log(_HALF_POWER) - y[0]) * (x[1] - x[0]) / (y[1] - y[0])))
