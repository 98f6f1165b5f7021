"""The one contract between the curriculum and a simulator: joint gains that are written, read back and compared."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .errors import BackendError, CurriculumError

__all__ = [
    "ActuatorBackend",
    "DeviceReadback",
    "Gains",
    "as_numpy",
    "check_backend_shape",
    "check_time_step",
    "damping_for",
    "to_numpy",
]


class Gains(NamedTuple):
    """PD gains of every env and joint, each of shape ``(num_envs, joints)``."""

    stiffness: Any
    """K, N·m/rad (N/m for a sliding joint)."""

    damping: Any
    """B, N·m·s/rad (N·s/m)."""


@runtime_checkable
class ActuatorBackend(Protocol):
    """The part of a simulator that the wrappers need.

    A backend may also have ``explicit_time_step`` (seconds): the physics step at which it evaluates the PD law
    explicitly. Where it is there, gains that this step cannot hold are refused before they are written. One whose
    ``fixed_gains`` is true, such as a robot, keeps the gains that it was made with: envs do not write to it.
    """

    @property
    def num_envs(self) -> int:
        """Number of envs whose gains it holds."""

    @property
    def joint_names(self) -> Sequence[str]:
        """Names of the actuated joints, in the order of every array."""

    def effective_inertia(self) -> NDArray[np.float64]:
        """Return M per joint at the nominal pose, armature included, shape ``(joints,)``."""

    def gains(self) -> Gains:
        """Return the live gains of every env, read from where the physics takes them."""

    def set_gains(
        self,
        stiffness: NDArray[np.float64],
        damping: NDArray[np.float64],
        env_ids: NDArray[np.int64] | None = None,
    ) -> None:
        """Write gains of shape ``(len(env_ids), joints)``; without ``env_ids``, of all envs."""


def as_numpy(values: Any) -> NDArray[Any]:
    """Return an array or tensor of any device as numpy, in its own precision, copied only where it must be."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values)


def to_numpy(values: Any) -> NDArray[np.float64]:
    """Return an array or tensor of any device as float64 numpy, without a copy where none is needed."""
    return np.asarray(as_numpy(values), dtype=np.float64)


def damping_for(
    stiffness: NDArray[np.float64], inertia: NDArray[np.float64], damping_ratio: float = 1.0
) -> NDArray[np.float64]:
    """Return ``B_i = 2 ζ √(K_i M_i)``.

    >>> damping_for(np.array([40.0]), np.array([0.1]))
    array([4.])
    """
    return np.asarray(2.0 * damping_ratio * np.sqrt(stiffness * inertia), dtype=np.float64)


def check_backend_shape(backend: Any) -> NDArray[np.float64]:
    """Check that ``backend`` is complete and consistent, and return its effective inertia.

    Raises:
        BackendError: A member is missing, or a shape or value is off.
    """
    members = ("num_envs", "joint_names", "effective_inertia", "gains", "set_gains")
    missing = [name for name in members if not hasattr(backend, name)]
    if missing:
        raise BackendError(
            f"{type(backend).__name__} is not an actuator backend: it lacks {', '.join(missing)}. "
            "See adc_wrappers.ActuatorBackend for the five members."
        )
    joints = len(backend.joint_names)
    inertia = to_numpy(backend.effective_inertia())
    if inertia.shape != (joints,):
        raise BackendError(
            f"{type(backend).__name__}.effective_inertia(): expected shape ({joints},), one value per joint, "
            f"got {inertia.shape}."
        )
    if not (np.isfinite(inertia).all() and (inertia > 0).all()):
        raise BackendError(
            f"{type(backend).__name__}.effective_inertia(): expected positive finite numbers, got {inertia.tolist()}."
        )
    expected = (backend.num_envs, joints)
    for name, values in zip(Gains._fields, backend.gains(), strict=True):
        if to_numpy(values).shape != expected:
            raise BackendError(
                f"{type(backend).__name__}.gains().{name}: expected shape {expected} (envs, joints), "
                f"got {to_numpy(values).shape}."
            )
    return inertia


def check_time_step(
    stiffness: NDArray[np.float64],
    damping: NDArray[np.float64],
    inertia: NDArray[np.float64],
    time_step: float,
    joint_names: Sequence[str],
) -> None:
    """Refuse gains that an explicitly evaluated PD law cannot hold at ``time_step``.

    With ``a = K dt²/M`` and ``b = B dt/M`` a symplectic Euler step of one joint is stable if and only if
    ``a + 2b < 4`` and ``b < 2``. At critical damping that is ``M > 1.46 K dt²``; it contains the rule of thumb
    ``M > K dt²`` (see ``docs/decisions/0003-explicit-pd-limit.md``).
    """
    a = stiffness * time_step**2 / inertia
    b = damping * time_step / inertia
    for joint in np.flatnonzero((a + 2.0 * b >= 4.0) | (b >= 2.0)).tolist():
        raise CurriculumError(
            f"joint {joint_names[joint]!r}: stiffness {stiffness[joint]:g} with damping {damping[joint]:g} on an "
            f"effective inertia of {inertia[joint]:g} is unstable at an explicit physics step of {time_step:g} s "
            f"(K·dt²/M is {a[joint]:.3g}). Use a smaller physics step, more armature, a lower stiffness, or an "
            "engine that integrates the PD law implicitly."
        )


class DeviceReadback:
    """Checks of a backend's gains whose verdicts stay on its device until somebody reads them.

    Reading a number from a GPU waits for all work before it, so an iteration does it once, for everything.

    Args:
        backend: The backend; where its gains are numpy arrays there is nothing to do here.
        tolerance: Relative difference allowed.
    """

    def __init__(self, backend: ActuatorBackend, tolerance: float) -> None:
        self._backend = backend
        self._tolerance = tolerance
        self._wanted: tuple[NDArray[np.float64], ...] | None = None
        self._on_device: list[Any] | None = None
        self._verdict: Any = None

    def expect(self, stiffness: NDArray[np.float64], damping: NDArray[np.float64], *, unread: bool) -> None:
        """Take note of what was written; with ``unread`` it is compared now, and the verdict comes with the next."""
        self._wanted, self._on_device, self._verdict = (stiffness, damping), None, None
        if unread:
            self._verdict = self._excess()

    def checks(self) -> list[Any] | None:
        """Return the check of the live gains, and that of the last write if nobody has read it; numbers on the device.

        A number above zero, or NaN, says that the gains are not what was written. None: the gains are not tensors.
        """
        now = self._excess()
        if now is None:
            return None
        return [now] if self._verdict is None else [now, self._verdict]

    def _excess(self) -> Any:
        """By how much the worst gain is off beyond what is allowed, a number on the device."""
        live = self._backend.gains()
        if self._wanted is None or not hasattr(live.stiffness, "detach"):
            return None
        if self._on_device is None:
            self._on_device = [self._move(want, have) for want, have in zip(self._wanted, live, strict=True)]
        worst = None
        for want, have in zip(self._on_device, live, strict=True):
            excess = ((have - want).abs() - self._tolerance * want).amax()
            worst = excess if worst is None else sys.modules["torch"].maximum(worst, excess)
        return worst

    def _move(self, values: NDArray[np.float64], like: Any) -> Any:
        """Return numbers as a tensor beside another; the copy does not wait for the device."""
        torch = sys.modules["torch"]
        return torch.as_tensor(values, dtype=like.dtype).to(like.device, non_blocking=True)
