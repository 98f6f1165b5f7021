"""A stiffness, damping, action scale and start stiffness for every joint, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.actuators import damping_for
from adc_wrappers.core.errors import CurriculumError

from .bench import Bench, JointWeight

__all__ = ["GainSuggestion", "ceiling", "suggest_gains"]

_Array = NDArray[np.float64]

_RISE = 3.358  # natural frequency times rise time of a critically damped joint
_MARGIN = 0.5  # of the largest natural frequency that a physics step can hold
_AGAINST_WEIGHT = 2.0  # K over the stiffness that the weight takes away
_RATIO = 1.5  # K_0 over K_*, the paper's 60 over 40
_LEAST_ACTION = 0.2  # rad (m): an action scale below this is of little use


@dataclass(frozen=True, kw_only=True)
class GainSuggestion:
    """Suggested gains of one joint."""

    joint: str
    stiffness: float
    """K_*: the env's own where it has one."""
    damping: float
    """B at K_*."""
    action_scale: float
    """α."""
    start_stiffness: float
    """K_0."""
    ceiling: float
    """The largest K that the physics step holds with a margin."""
    reasons: tuple[str, str, str]
    """For K, K_0 and α."""


def suggest_gains(
    bench: Bench,
    weights: Sequence[JointWeight],
    *,
    rise: float = 0.2,
    sag: float = 0.1,
    damping_ratio: float = 1.0,
) -> list[GainSuggestion]:
    """Suggest gains for every joint.

    K_* is the env's own, because it is the robot's. Where the env has none, K is the smallest that follows a target
    within ``rise`` seconds, gives way by less than ``sag`` under the weight, and is twice the stiffness that the weight
    takes away; a motor too weak for that rise gets a K at which actions of 0.2 do not saturate. K_0 is 1.5 K_* (the
    paper's ratio), or more if the weight needs it. Both stay below what the physics step can hold. α is the largest
    action that at K_0 neither asks for more torque than there is nor leaves the range.

    Args:
        bench: The joints.
        weights: The weight on each.
        rise: Wanted rise time, s.
        sag: How far a joint may give way under the weight, rad (m).
        damping_ratio: ζ.
    """
    for name, value in (("rise", rise), ("sag", sag), ("damping_ratio", damping_ratio)):
        if not (np.isfinite(value) and value > 0.0):
            raise CurriculumError(f"{name}: expected a positive number, got {value}.")
    most = ceiling(bench, damping_ratio)
    return [
        _suggest(bench, joint, weight, float(most[joint]), rise, sag, damping_ratio)
        for joint, weight in enumerate(weights)
    ]


def ceiling(bench: Bench, damping_ratio: float = 1.0) -> _Array:
    """Return the largest K of every joint at half of the natural frequency that the integrator can hold."""
    zeta = damping_ratio
    largest = {
        "explicit": 2.0 * (np.sqrt(zeta**2 + 1.0) - zeta),
        "implicit": 2.0 * (np.sqrt(zeta**2 + 1.0) + zeta),
        "rk4": 2.785 / max(1.0, zeta + np.sqrt(max(0.0, zeta**2 - 1.0))),
    }[bench.integrator]
    return np.asarray(bench.inertia * (_MARGIN * largest / bench.physics_step) ** 2)


def _suggest(
    bench: Bench, joint: int, weight: JointWeight, most: float, rise: float, sag: float, zeta: float
) -> GainSuggestion:
    inertia = float(bench.inertia[joint])
    lost = max(0.0, -weight.stiffness)
    quick, strong = inertia * (_RISE / rise) ** 2, float(bench.torque_limits[joint]) / (_RATIO * _LEAST_ACTION)
    follows = f"the least with which the joint rises in {rise:g} s"
    if strong < quick:  # a joint that saturates at once does not rise faster for a higher K
        follows = (
            f"the motor is too weak to rise in {rise:g} s; with this K an action of {_LEAST_ACTION:g} at K_0 asks for "
            "just the torque limit"
        )
    floors = {
        follows: min(quick, strong),
        f"the least with which the joint gives way by at most {sag:g} under the weight": abs(weight.torque) / sag
        + lost,
        f"twice the {lost:.3g} that the weight takes away": _AGAINST_WEIGHT * lost,
    }
    if bench.target is not None:
        stiffness = float(bench.target[joint])
        weighty = list(floors.items())[1:]
        missed = [f"{least:.3g} would be {name}" for name, least in weighty if least > stiffness]
        about = "; ".join(["the env's own, which is the robot's", *missed])
    else:
        name = max(floors, key=lambda key: floors[key])
        stiffness, about = _round(floors[name]), name
        if stiffness > most:
            stiffness, about = _floor(most), f"{stiffness:.3g} would be {about}; the physics step holds {most:.3g}"
    start, about_start = _start(bench, joint, stiffness, lost, most)
    scale, about_scale = _action_scale(bench, joint, start)
    return GainSuggestion(
        joint=bench.joint_names[joint],
        stiffness=stiffness,
        damping=float(damping_for(np.array(stiffness), np.array(inertia), zeta)),
        action_scale=scale,
        start_stiffness=start,
        ceiling=most,
        reasons=(f"K: {about}.", f"K_0: {about_start}.", f"α: {about_scale}."),
    )


def _start(bench: Bench, joint: int, stiffness: float, lost: float, most: float) -> tuple[float, str]:
    own = None if bench.start is None else float(bench.start[joint])
    start, about = (_round(_RATIO * stiffness), f"{_RATIO:g} K_*") if own is None else (own, "the env's own")
    if start < _AGAINST_WEIGHT * lost:
        start, about = _round(_AGAINST_WEIGHT * lost), f"twice the {lost:.3g} that the weight takes away"
        about += "" if own is None else f"; the env's own is {own:.3g}"
    if start > most:
        start, about = max(stiffness, _floor(most)), f"{start:.3g} would be {about}; the physics step holds {most:.3g}"
    return start, about


def _action_scale(bench: Bench, joint: int, start: float) -> tuple[float, str]:
    low, high = bench.joint_range[joint] - bench.nominal_pose[joint]
    reach, torque = float(max(high, -low)), float(bench.torque_limits[joint]) / start
    if not np.isfinite(min(reach, torque)):
        return float(bench.action_scale[joint]), "the env's own: neither torque nor range has a limit"
    if torque <= reach:
        limit = f"{bench.torque_limits[joint]:.3g}"
        return _floor(torque), f"with it a full action at K_0 = {start:.3g} asks for just the torque limit, {limit}"
    return _floor(reach), f"the joint's further stop is {reach:.3g} from the nominal pose"


def _round(value: float) -> float:
    """Round to two digits, upwards."""
    if value <= 0.0:
        return 0.0
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(np.round(np.ceil(value / unit - 1e-9) * unit, 12))


def _floor(value: float) -> float:
    """Round to two digits, downwards."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(np.round(np.floor(value / unit + 1e-9) * unit, 12))
