"""Proof that a backend's gains reach the joints: measured step responses against the analytic ones.

Reading gains back is not proof: a simulator may show new values that nothing uses, or run a second PD loop of its own.
So :func:`check_backend` writes gains, moves a joint, and compares the motion with the second-order system that these
gains must give.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .core.actuators import ActuatorBackend, check_backend_shape, damping_for, to_numpy

__all__ = ["ConformanceError", "JointProbe", "StepResponse", "check_backend", "measure", "second_order_step"]


class ConformanceError(AssertionError):
    """A backend whose joints do not move as its gains say."""


class JointProbe(Protocol):
    """A probe that moves the joints of a backend under test; nothing but the PD law may act on them.

    No gravity, no contact, no joint limit or clamp in the way, and what is not moved stands still: base and neighbours.
    ``adc_wrappers.backends.mujoco.MujocoProbe`` and ``adc_wrappers.backends.pybullet.BulletProbe`` see to that.
    A probe may also have ``causes(joint, amplitude)``: a list of what it knows to disturb such a step.
    """

    @property
    def backend(self) -> ActuatorBackend:
        """The backend under test."""

    time_step: float
    """Seconds that one :meth:`move` takes."""

    def rest(self) -> NDArray[np.float64]:
        """Reset every env to rest at its nominal pose and return the joint positions, ``(num_envs, joints)``."""

    def move(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Hold position targets for one time step and return the joint positions, both ``(num_envs, joints)``."""


@dataclass(frozen=True)
class StepResponse:
    """A joint's answer to a step of its target, as a share of the step."""

    times: NDArray[np.float64]
    """Seconds since the step, ``(samples,)``."""

    measured: NDArray[np.float64]
    """Share of the step covered, ``(samples, num_envs)``."""

    expected: NDArray[np.float64]
    """The same by the analytic solution."""

    neighbours: NDArray[np.float64] = field(default_factory=lambda: np.zeros((1, 1)))
    """Largest motion of every joint, as a share of the step, ``(num_envs, joints)``; the moved joint's is 0."""

    @property
    def error(self) -> NDArray[np.float64]:
        """Largest deviation of each env, as a share of the step."""
        return np.asarray(np.abs(self.measured - self.expected).max(axis=0))


def second_order_step(
    times: NDArray[np.float64], stiffness: float, damping: float, inertia: float
) -> NDArray[np.float64]:
    """Return the unit step response of ``M q̈ + B q̇ + K q = K``.

    >>> second_order_step(np.array([0.0, 100.0]), 40.0, 4.0, 0.1).round(6)
    array([0., 1.])
    """
    omega = np.sqrt(stiffness / inertia)
    zeta = damping / (2.0 * np.sqrt(stiffness * inertia))
    decay = np.exp(-zeta * omega * times)
    if abs(zeta - 1.0) < 1e-6:
        return np.asarray(1.0 - (1.0 + omega * times) * np.exp(-omega * times))
    if zeta < 1.0:
        ringing = omega * np.sqrt(1.0 - zeta**2)
        swing = np.cos(ringing * times) + zeta * omega / ringing * np.sin(ringing * times)
        return np.asarray(1.0 - decay * swing)
    slow, fast = omega * (zeta - np.sqrt(zeta**2 - 1.0)), omega * (zeta + np.sqrt(zeta**2 - 1.0))
    return np.asarray(1.0 - (fast * np.exp(-slow * times) - slow * np.exp(-fast * times)) / (fast - slow))


def measure(probe: JointProbe, joint: int | NDArray[np.int64], amplitude: float | NDArray[np.float64]) -> StepResponse:
    """Step one joint's target by ``amplitude`` in every env, with the gains that are live, and record the motion.

    Args:
        probe: Moves the joints.
        joint: Which joint; or one for each env.
        amplitude: Size of the step; or one for each env.
    """
    rows = np.arange(probe.backend.num_envs)
    joints: NDArray[np.int64] = np.broadcast_to(joint, rows.shape)
    sizes: NDArray[np.float64] = np.broadcast_to(amplitude, rows.shape)
    inertia = check_backend_shape(probe.backend)[joints]
    stiffness, damping = (to_numpy(values)[rows, joints] for values in probe.backend.gains())
    slowest = np.sqrt(stiffness / inertia).min()
    samples = max(8, int(np.ceil(6.0 / slowest / probe.time_step)))
    start = probe.rest()
    targets = start.copy()
    targets[rows, joints] += sizes
    whole = np.stack([probe.move(targets) for _ in range(samples)])
    neighbours = np.abs(whole - start).max(axis=0) / np.abs(sizes)[:, None]
    neighbours[rows, joints] = 0.0
    times = np.arange(1, samples + 1, dtype=np.float64) * probe.time_step
    shares = (whole[:, rows, joints] - start[rows, joints]) / sizes
    expected = [second_order_step(times, *numbers) for numbers in zip(stiffness, damping, inertia, strict=True)]
    return StepResponse(times, shares, np.stack(expected, axis=1), neighbours)


def check_backend(
    probe: JointProbe,
    stiffness: tuple[float, float],
    *,
    amplitude: float = 0.05,
    damping_ratio: float = 1.0,
    tolerance: float = 0.02,
    joints: tuple[int, ...] | None = None,
) -> float:
    """Check a backend against the contract, by motion.

    Two stiffnesses are written to all envs in turn, then one of them to every other env, then all envs are reset; each
    time every env must answer a step of its target as its own gains say.

    Args:
        probe: Moves the joints.
        stiffness: Two different values, far enough apart that their responses differ by several tolerances.
        amplitude: Size of the step, in the joint's unit.
        damping_ratio: ζ of the written gains.
        tolerance: Largest deviation from the analytic response, as a share of the step.
        joints: Which joints to move; by default all, one after another.

    Returns:
        The largest deviation that was seen.

    Raises:
        ConformanceError: An env did not move as its gains say.
    """
    backend = probe.backend
    inertia = check_backend_shape(backend)
    soft, stiff = min(stiffness), max(stiffness)
    shape = (backend.num_envs, len(backend.joint_names))
    chosen = joints if joints is not None else tuple(range(shape[1]))
    worst = 0.0

    def write(value: float, env_ids: NDArray[np.int64] | None = None) -> None:
        rows = np.full((shape[0] if env_ids is None else len(env_ids), shape[1]), value)
        backend.set_gains(rows, damping_for(rows, inertia, damping_ratio), env_ids)

    def compare(expected: NDArray[np.float64], situation: str) -> None:
        nonlocal worst
        live = backend.gains()
        for name, want, have in zip(
            ("stiffness", "damping"), (expected, damping_for(expected, inertia, damping_ratio)), live, strict=True
        ):
            if not np.allclose(to_numpy(have), want, rtol=1e-4):
                raise ConformanceError(f"{situation}: {name} reads {to_numpy(have).tolist()}, wrote {want.tolist()}.")
        for joint in chosen:
            response = measure(probe, joint, amplitude)
            error = response.error
            worst = max(worst, float(error.max()))
            if not error.max() <= tolerance:
                raise ConformanceError(
                    f"{situation}: joint {backend.joint_names[joint]!r} of env {int(error.argmax())} deviates by "
                    f"{error.max():.3f} of the step from the response of its gains (tolerance {tolerance}). "
                    + _explain(probe, joint, amplitude, response, tolerance)
                )

    for value in (stiff, soft):
        write(value)
        compare(np.full(shape, value), f"all envs at {value:g}")
    some = np.arange(0, shape[0], 2)
    write(stiff, some)
    mixed = np.full(shape, soft)
    mixed[some] = stiff
    compare(mixed, f"envs {some.tolist()} at {stiff:g}, the others at {soft:g}")
    probe.rest()
    compare(mixed, "after a reset")
    return worst


_DISTURBANCES = (
    "Either the write does not reach the physics, another PD loop acts too, or the effective inertia is off; or the "
    "probe does not leave the joint alone: joint limits, clamps of targets or torques, a free base, or neighbours "
    "that give way (MujocoProbe and BulletProbe lock them)."
)


def _explain(probe: JointProbe, joint: int, amplitude: float, response: StepResponse, tolerance: float) -> str:
    """Say which of the usual causes of a wrong response apply, by what the probe knows and by the motion itself."""
    known = getattr(probe, "causes", None)
    found = [] if known is None else list(known(joint, amplitude))
    env = int(response.error.argmax())
    measured, expected = response.measured[:, env], response.expected[:, env]
    shares = response.neighbours[env]
    if shares.max() > max(tolerance, 0.02):
        name = probe.backend.joint_names[int(shares.argmax())]
        found.append(f"joint {name!r} gives way by {shares.max():.2f} of the step, so it is not locked")
    still = np.ptp(measured[-max(2, len(measured) // 10) :]) < 0.01
    if still and abs(measured[-1] - expected[-1]) > tolerance:
        found.append(
            f"it comes to rest at {measured[-1]:.2f} of the step: a joint limit, a clamp of targets or torques, dry "
            "friction or a weight holds it"
        )
    stiffness = to_numpy(probe.backend.gains().stiffness)[env, joint]
    coarse = probe.time_step * np.sqrt(stiffness / check_backend_shape(probe.backend)[joint])
    if coarse > 0.05:
        found.append(
            f"one step of the probe is {coarse:.2f} of the joint's time constant: where the law is evaluated "
            f"explicitly that alone makes about {coarse / 3:.2f}, so take lower gains or a wider tolerance"
        )
    factor = _inertia_factor(probe, joint, response, env)
    if factor is not None:
        found.append(
            f"it moves as if its inertia were {factor:.2f} times effective_inertia(), or its gains {1 / factor:.2f} "
            "times what was written: "
            + ("a base or neighbours that give way" if factor < 1.0 else "added inertia")
            + ", or another PD loop"
        )
    return (f"Found: {'; '.join(found)}. " if found else "") + _DISTURBANCES


def _inertia_factor(probe: JointProbe, joint: int, response: StepResponse, env: int) -> float | None:
    """Return by which factor of the inertia the response is explained; None if by none from 0.05 to 20."""
    gains = probe.backend.gains()
    stiffness, damping = (float(to_numpy(values)[env, joint]) for values in gains)
    inertia, measured = float(check_backend_shape(probe.backend)[joint]), response.measured[:, env]
    factors = np.geomspace(0.05, 20.0, 241)
    errors = [
        np.abs(second_order_step(response.times, stiffness, damping, inertia * factor) - measured).max()
        for factor in factors
    ]
    return float(factors[int(np.argmin(errors))]) if min(errors) < 0.25 * response.error[env] else None
