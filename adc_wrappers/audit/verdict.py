"""The verdict of an audit against limits that have a name, and its file, which belongs to one policy by its digest."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from adc_wrappers.backends.guard import PRACTICE_LIMITS, ROBOT_LIMITS, GuardLimits
from adc_wrappers.core.errors import CurriculumError, did_you_mean
from adc_wrappers.core.files import write_json
from adc_wrappers.core.reading import check_fields, read_object

__all__ = [
    "AUDITS",
    "Audit",
    "AuditItem",
    "AuditLimits",
    "audit_folder",
    "file_digest",
    "find_audit",
    "judge",
    "read_audit",
]

_ALWAYS = ("target beyond", "slew of", "change of slew")
_HIT = ("reach of", "predicted torque")


@dataclass(frozen=True, kw_only=True)
class AuditLimits:
    """The numbers of a verdict."""

    name: str
    """What they are called."""

    guard: GuardLimits
    """The guard that stands behind the policy."""

    most_hit: float = 1e-3
    """Largest share of steps in which predicted torque or reach may be beyond the guard's limits: a joint that is hit
    moves faster than its target may follow. Range and slew may never be beyond."""

    most_stopped: float = 0.1
    """Largest share of episodes that the guard may stop."""

    least_success: float = 0.8
    """Least success rate."""

    latency: float = 0.02
    """Latency of states, and of commands, at which at least 80 % of the success rate without any is left, s."""


AUDITS: Final = {
    "robot": AuditLimits(name="robot", guard=ROBOT_LIMITS),
    "practice": AuditLimits(name="practice", guard=PRACTICE_LIMITS, latency=0.0),
}
"""Named sets; ``robot`` decides whether a policy is deployed on a real host."""


def find_audit(name: str) -> AuditLimits:
    """Return a set by name."""
    if name not in AUDITS:
        raise CurriculumError(f"unknown limits {name!r}. {did_you_mean(name, AUDITS)}")
    return AUDITS[name]


@dataclass(frozen=True, kw_only=True)
class AuditItem:
    """One line of a verdict."""

    name: str
    """What was asked."""

    value: str
    """What was found."""

    limit: str
    """What is accepted."""

    ok: bool
    """Whether it is."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Findings about one policy, and whether they are accepted."""

    policy: str
    """Name of the policy's file or folder."""

    sha256: str | None
    """Digest of the policy's file; None for a run folder, whose policy changes."""

    limits: str
    """Name of the limits."""

    guard_limits: dict[str, Any]
    """The guard's numbers."""

    episodes: int
    seed: int
    commands: dict[str, dict[str, float]]
    """Worst value, limit and share of steps beyond it, of what is asked of joints."""

    states: dict[str, dict[str, float]]
    """The same of what the robot does."""

    power: dict[str, float]
    """Mechanical power of all joints, W: mean, p99, largest."""

    stops: dict[str, int]
    """Episodes that the guard would have stopped, by the check that would have done it first."""

    success_rate: float
    latency: dict[str, list[list[float]]] = field(default_factory=dict)
    """Seconds and success rate, of ``state_latency`` and ``command_latency``."""

    commit: str | None = None
    """Commit of the library's source tree."""

    items: tuple[AuditItem, ...] = ()
    """The verdict, line by line."""

    @property
    def passed(self) -> bool:
        """Whether every line is accepted."""
        return bool(self.items) and all(item.ok for item in self.items)

    @property
    def reasons(self) -> list[str]:
        """What is not accepted, in words."""
        return [f"{item.name}: {item.value}, accepted is {item.limit}" for item in self.items if not item.ok]

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        write_json(path, {**dataclasses.asdict(self), "passed": self.passed})


def judge(audit: Audit, limits: AuditLimits) -> Audit:
    """Return the audit with its verdict."""
    items = []
    for name, found in audit.commands.items():
        most = 0.0 if name.startswith(_ALWAYS) else limits.most_hit
        value = f"{found['worst']:.3g} at worst, beyond in {found['share']:.2%} of steps"
        accepted = f"{found['limit']:.3g}" + (f", beyond in at most {most:.1%}" if most else ", always")
        items.append(AuditItem(name=name, value=value, limit=accepted, ok=found["share"] <= most))
    stopped = sum(audit.stops.values()) / audit.episodes
    named = ", ".join(f"{check} {count}" for check, count in sorted(audit.stops.items(), key=lambda item: -item[1]))
    items.append(
        AuditItem(
            name="episodes that the guard would stop", value=f"{stopped:.1%}{f' ({named})' if named else ''}",
            limit=f"at most {limits.most_stopped:.0%}", ok=stopped <= limits.most_stopped,
        )
    )  # fmt: skip
    items.append(
        AuditItem(
            name="success", value=f"{audit.success_rate:.1%}", limit=f"at least {limits.least_success:.0%}",
            ok=audit.success_rate >= limits.least_success,
        )
    )  # fmt: skip
    items += [_latency_item(audit, which, limits.latency) for which in ("state_latency", "command_latency")]
    return dataclasses.replace(audit, items=tuple(items))


def _latency_item(audit: Audit, which: str, wanted: float) -> AuditItem:
    name, limit = which.replace("_", " "), f"at least {wanted * 1e3:g} ms"
    curve = audit.latency.get(which)
    if not curve:
        return AuditItem(name=name, value="not tried", limit=limit, ok=wanted <= 0.0)
    survived = -1.0
    for seconds, rate in sorted((row[0], row[1]) for row in curve):
        if rate <= 0.0 or rate < 0.8 * curve[0][1]:
            break
        survived = seconds
    value = f"survives {survived * 1e3:g} ms" if survived >= 0.0 else "no success at any"
    return AuditItem(name=name, value=value, limit=limit, ok=survived >= wanted - 1e-9)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a policy file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def audit_folder(policy: Path) -> Path:
    """Return where the audit of a policy goes: beside its file, or into its run folder."""
    return policy / "audit" if policy.is_dir() else policy.with_name(f"{policy.stem}-audit")


def read_audit(policy: Path, limits: AuditLimits) -> Audit | None:
    """Return the stored audit of a policy file under these limits; None if there is none of this very file.

    Raises:
        CurriculumError: The file of the audit is broken.
    """
    path = audit_folder(policy) / "audit.json"
    if not path.is_file():
        return None
    values: Mapping[str, Any] = read_object(path, CurriculumError)
    known = {name: value for name, value in values.items() if name != "passed"}
    check_fields(Audit, known, str(path), skip=("items",))
    items = known.get("items", [])
    if not isinstance(items, list):
        raise CurriculumError(f"{path}: items: expected a list, got {type(items).__name__}.")
    for item in items:
        check_fields(AuditItem, item, f"{path}: items")
    audit = Audit(**{**known, "items": tuple(AuditItem(**item) for item in items)})
    same = audit.sha256 == file_digest(policy) and audit.guard_limits == limits.guard.to_dict()
    # judged anew: what was measured is stored, what is accepted is decided here
    return judge(audit, limits) if same and audit.limits == limits.name else None
