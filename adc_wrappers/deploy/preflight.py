"""The preflight: what must be known, and right, before a policy may drive a robot."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from adc_wrappers.backends.spot.takeover import GRAVITY_TOLERANCE, LARGEST_TILT
from adc_wrappers.envs.fit import env_differences

__all__ = ["PreflightItem", "PreflightReport", "preflight"]

_WATCH_SECONDS = 2.5
_RATE_SECONDS = 0.5
_LEAST_RATE = 250.0


@dataclass(frozen=True, kw_only=True)
class PreflightItem:
    """One line of the report."""

    name: str
    value: str
    ok: bool | None
    """None where there is nothing to judge."""


@dataclass(frozen=True)
class PreflightReport:
    """The report."""

    items: tuple[PreflightItem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against driving."""
        return all(item.ok is not False for item in self.items)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return it for recordings."""
        return [asdict(item) for item in self.items]


def preflight(env: Any, policy: Any) -> PreflightReport:
    """Ask the robot of an env everything that matters; nothing moves.

    Args:
        env: An env on the backend ``"spot"``.
        policy: The policy file that is to drive it.
    """
    backend = env.unwrapped.task.backend
    session = backend.session
    health = session.health()
    return PreflightReport(
        (
            *_identity(session),
            *_condition(backend, session, health),
            *_links(backend, session),
            *_policy_items(env, backend, policy),
        )
    )


def robot_identity(session: Any) -> dict[str, str]:
    """Return serial number, software version and nickname of a robot."""
    identity = session.identity
    version = identity.software_release.version
    return {
        "serial": identity.serial_number,
        "software": f"{version.major_version}.{version.minor_version}.{version.patch_level}",
        "nickname": identity.nickname,
    }


def _identity(session: Any) -> list[PreflightItem]:
    return [
        PreflightItem(name=name, value=value or "not given", ok=None) for name, value in robot_identity(session).items()
    ]


def _condition(backend: Any, session: Any, health: Any) -> list[PreflightItem]:
    limits = backend.guard.limits
    problem = health.problem(limits, driving=False)
    unknown = [f"{name}: unknown" for name in health.estop_unknown]
    stops = ", ".join((*health.estopped, *unknown)) or "released"
    return [
        PreflightItem(name="licence", value=str(backend.settings.licence), ok=session.licensed()),
        PreflightItem(name="joints", value=f"{len(health.joints)}", ok=not health.has_arm),
        PreflightItem(name="E-stop", value=stops, ok=not health.estopped and not unknown),
        PreflightItem(name="faults", value="; ".join(health.faults) or "none", ok=not health.faults),
        PreflightItem(name="warnings", value="; ".join(health.warnings) or "none", ok=None),
        PreflightItem(name="motor power", value=health.motor_power, ok=None),
        _measured("battery", health.battery, "%", limits.battery, least=True),
        _measured("battery's temperature", health.battery_temperature, "°C", limits.battery_temperature),
        _measured(
            "hottest motor", health.hottest_motor and health.hottest_motor[1], "°C", limits.motor_temperature,
            where=health.hottest_motor[0] if health.hottest_motor else "",
        ),
        PreflightItem(name="may be driven", value="yes" if problem is None else problem[1], ok=problem is None),
    ]  # fmt: skip


def _measured(
    name: str, value: float | None, unit: str, limit: float | None, *, least: bool = False, where: str = ""
) -> PreflightItem:
    """Return the line of a reading; a missing one speaks against driving unless nobody asks for it."""
    if value is None:
        return PreflightItem(name=name, value="not reported", ok=None if limit is None else False)
    shown = f"{where} {value:.0f} {unit}".strip()
    if limit is None:
        return PreflightItem(name=name, value=f"{shown} (no limit)", ok=None)
    good = value >= limit if least else value <= limit
    return PreflightItem(name=name, value=f"{shown} (at {'least' if least else 'most'} {limit:g} {unit})", ok=good)


def _links(backend: Any, session: Any) -> list[PreflightItem]:
    backend.watch(_WATCH_SECONDS)
    angle, tilt = backend.gravity_disagreement(), backend.tilt()
    agreed = None if math.isnan(angle) or angle > GRAVITY_TOLERANCE else True
    more = "" if agreed else "; judged when it stands"
    shown = "no inertial sensor" if math.isnan(angle) else f"{angle:.1f}° (at most {GRAVITY_TOLERANCE:g}°{more})"
    items = [
        PreflightItem(name="time sync", value=f"robot's clock ahead by {session.clock_skew():.3f} s", ok=True),
        PreflightItem(name="gravity: odometry against inertial sensor", value=shown, ok=agreed),
        PreflightItem(
            name="upright", value=f"tilted by {tilt:.0f}° (at most {LARGEST_TILT:g}°)", ok=tilt <= LARGEST_TILT
        ),
    ]
    if backend.settings.clock == "realtime":
        before, begin = backend.receiver.count, time.monotonic()
        time.sleep(_RATE_SECONDS)
        rate = (backend.receiver.count - before) / (time.monotonic() - begin)
        good = rate >= _LEAST_RATE or backend.settings.is_practice
        items.append(PreflightItem(name="state stream", value=f"{rate:.0f} Hz", ok=good))
    return items


def _policy_items(env: Any, backend: Any, policy: Any) -> list[PreflightItem]:
    metadata, gains = policy.metadata, backend.gains()
    differences = env_differences(policy, env, gains=False).values()  # those of a robot are commanded: below
    known = metadata.commanded_stiffness is not None
    if known:
        same = np.allclose(metadata.commanded_stiffness, gains.stiffness[0]) and np.allclose(
            metadata.commanded_damping, gains.damping[0]
        )
    else:
        same = None
    in_file = _range(metadata.commanded_stiffness) if known else "not in the file"
    simulated = f"K {_range(metadata.simulated_stiffness)}, B {_range(metadata.simulated_damping)}"
    commanded = f"K {_range(gains.stiffness[0])}, B {_range(gains.damping[0])}"
    return [
        PreflightItem(
            name="joint order, pose, scale, observation",
            value="; ".join(differences) or "as in the file",
            ok=not differences,
        ),
        PreflightItem(name="simulated gains (file)", value=simulated, ok=None),
        PreflightItem(name="commanded gains (file)", value=in_file, ok=None),
        PreflightItem(name="commanded gains (now)", value=commanded, ok=same if known else None),
        PreflightItem(name="policy rate", value=f"{metadata.policy_rate:g} Hz", ok=True),
    ]


def _range(values: Any) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:.3g}" if math.isclose(low, high) else f"{low:.3g} to {high:.3g}"
