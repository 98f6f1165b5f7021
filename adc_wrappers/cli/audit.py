"""``adc audit``, and what ``adc deploy`` makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from .evaluate import open_policy

if TYPE_CHECKING:
    from adc_wrappers.audit import Audit as Verdict
    from adc_wrappers.audit.auditing import Findings
    from adc_wrappers.audit.verdict import AuditLimits

__all__ = ["DESPITE", "Audit", "require_audit"]

DESPITE = "I deploy a policy that fails its audit"
"""What has to be said to deploy one."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Measure in simulation what a policy would ask of a robot, and judge it; exit code 1 if it fails.

    Slew, range, reach and torque of its commands, joint speeds, power, spectra, the envelope of each phase, what the
    guard would stop, and which latency it survives.
    """

    policy: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="POLICY")]
    """A policy file that `adc export` wrote, or a run folder."""

    limits: Literal["robot", "practice"] = "robot"
    """What is accepted."""

    episodes: int = 100
    """Episodes with the training's randomization at exactly the target gains."""

    latency_episodes: int = 30
    """Episodes at each latency that is tried; 0 tries none, and a policy cannot pass then."""

    seed: int = 20_000
    """Seed of start states and randomization."""

    seconds: float | None = None
    """Length of an episode; by default the task's time limit."""

    against: Path | None = None
    """Another policy, whose spectra are drawn beside this one's."""

    out: Path | None = None
    """Folder for the results; by default POLICY-audit beside the file, where `adc deploy` looks."""

    picture: bool = True
    """Draw."""

    def run(self) -> int:
        """Audit."""
        from adc_wrappers.audit import find_audit
        from adc_wrappers.audit.verdict import audit_folder

        console = Console(highlight=False, soft_wrap=True)
        limits = find_audit(self.limits)
        folder = self.out if self.out is not None else audit_folder(self.policy)
        found = self._audit(self.policy, limits, self.latency_episodes)
        found.audit.write(folder / "audit.json")
        found.write_spectra(folder / "spectra.csv")
        _print(console, found.audit)
        console.print(f"numbers  {folder / 'audit.json'}")
        if self.picture:
            from adc_wrappers.audit.auditing import draw_audit, draw_comparison

            console.print(f"picture  {draw_audit(found, limits, folder / 'audit.png')}")
            if self.against is not None:
                other = self._audit(self.against, limits, 0)
                console.print(f"picture  {draw_comparison(found, other, folder / 'comparison.png')}")
        verdict = "passes" if found.audit.passed else "FAILS"
        console.print(f"{self.policy.name} {verdict} the limits {limits.name!r}")
        return 0 if found.audit.passed else 1

    def _audit(self, path: Path, limits: AuditLimits, latency_episodes: int) -> Findings:
        from adc_wrappers.audit.auditing import audit_policy

        policy = open_policy(path)
        step = policy.made_for.deployment.policy_step if policy.made_for is not None else 0.02
        steps = None if self.seconds is None else max(1, round(self.seconds / step))
        return audit_policy(
            policy, path, limits, episodes=self.episodes, latency_episodes=latency_episodes, seed=self.seed, steps=steps
        )


def _print(console: Console, audit: Verdict) -> None:
    table = Table(title=f"{audit.policy} against {audit.limits!r}: {audit.episodes} episodes", title_justify="left")
    for column in ("", "found", "accepted", ""):
        table.add_column(column)
    for item in audit.items:
        table.add_row(item.name, item.value, item.limit, "ok" if item.ok else "NO")
    console.print(table)
    rows = Table("what the robot does", "worst", "limit", "beyond, of steps", box=None, padding=(0, 2))
    for name, found in audit.states.items():
        rows.add_row(name, f"{found['worst']:.3g}", f"{found['limit']:.3g}", f"{found['share']:.2%}")
    console.print(rows)
    watts = audit.power
    console.print(
        f"power of the joints: {watts['mean']:.0f} W in the mean, {watts['p99']:.0f} W at most in 99 % of steps, "
        f"{watts['largest']:.0f} W at worst"
    )


def require_audit(path: Path, console: Console, despite: str | None) -> None:
    """Refuse a policy for a real robot that has not passed its audit, unless told in words.

    A stored audit of this very file counts; without one it is made here, which needs MuJoCo.

    Args:
        path: The policy file.
        console: Told what is done.
        despite: What the user said about it.

    Raises:
        ValueError: It fails, or cannot be audited here.
    """
    from adc_wrappers.audit import find_audit, read_audit
    from adc_wrappers.audit.verdict import audit_folder
    from adc_wrappers.core.errors import MissingExtraError

    if despite is not None and despite != DESPITE:
        raise ValueError(f"--despite-audit: expected the words {DESPITE!r}, got {despite!r}.")
    limits = find_audit("robot")
    audit = read_audit(path, limits)
    if audit is None and despite is None:
        console.print(f"no audit of this file in {audit_folder(path)}: it is made now, in simulation.")
        try:
            found = Audit(policy=path)._audit(path, limits, Audit(policy=path).latency_episodes)
        except MissingExtraError as error:
            raise ValueError(
                f"{path} has no audit, and none can be made here: {error} Run `adc audit {path}` on a computer with "
                f"MuJoCo, and copy {audit_folder(path)} here, beside the policy."
            ) from error
        audit = found.audit
        audit.write(audit_folder(path) / "audit.json")
    if audit is not None and audit.passed:
        console.print(f"audit: passes the limits 'robot' ({audit.episodes} episodes)")
        return
    reasons = ["it was not audited"] if audit is None else audit.reasons
    if despite is None:
        raise ValueError(
            f"{path} fails its audit for a robot, so it is not deployed on one. {'; '.join(reasons)}. See "
            f"{audit_folder(path)}. To deploy it all the same: --despite-audit '{DESPITE}'."
        )
    console.print(f"audit: FAILS, and is deployed all the same, as was said. {'; '.join(reasons)}", markup=False)
