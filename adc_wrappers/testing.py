"""Proof that a backend's gains reach the joints: measured step responses against the analytic ones.

Reading gains back is not proof: a simulator may show new values that nothing uses, or run a second PD loop of its own.
So :func:`check_backend` writes gains, moves a joint, and compares the motion with the second-order system that these
gains must give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .core.actuators import ActuatorBackend, check_backend_shape, damping_for, to_numpy

__all__ = ["ConformanceError", "JointProbe", "StepResponse", "check_backend", "measure", "second_order_step"]


class ConformanceError(AssertionError):
    """A backend whose joints do not move as its gains say."""


class JointProbe(Protocol):
    """Moves the joints of a backend under test; nothing but the PD law may act on them (no gravity, no contact)."""

    backend: ActuatorBackend
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


def measure(probe: JointProbe, joint: int, amplitude: float) -> StepResponse:
    """Step one joint's target by ``amplitude`` in every env, with the gains that are live, and record the motion."""
    inertia = check_backend_shape(probe.backend)[joint]
    gains = probe.backend.gains()
    stiffness, damping = to_numpy(gains.stiffness)[:, joint], to_numpy(gains.damping)[:, joint]
    slowest = np.sqrt(stiffness.min() / inertia)
    samples = max(8, int(np.ceil(6.0 / slowest / probe.time_step)))
    start = probe.rest()
    targets = start.copy()
    targets[:, joint] += amplitude
    path = np.stack([probe.move(targets)[:, joint] for _ in range(samples)])
    times = np.arange(1, samples + 1, dtype=np.float64) * probe.time_step
    expected = [second_order_step(times, k, b, inertia) for k, b in zip(stiffness, damping, strict=True)]
    return StepResponse(times, (path - start[:, joint]) / amplitude, np.stack(expected, axis=1))


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
            error = measure(probe, joint, amplitude).error
            worst = max(worst, float(error.max()))
            if not error.max() <= tolerance:
                raise ConformanceError(
                    f"{situation}: joint {backend.joint_names[joint]!r} of env {int(error.argmax())} deviates by "
                    f"{error.max():.3f} of the step from the response of its gains (tolerance {tolerance}). The write "
                    "does not reach the physics, another PD loop acts too, or the effective inertia is off."
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
