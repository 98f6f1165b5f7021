"""``adc gains``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from adc_wrappers.core.errors import CurriculumError

from .narrowness import shown_progress
from .options import parse_settings
from .progress import narrow_table

if TYPE_CHECKING:
    from adc_wrappers.gains import Bench, GainSuggestion, JointResponse, JointWeight
    from adc_wrappers.gains.bench import Standing

__all__ = ["GainsCommand", "reasons_of", "weigh_and_suggest"]

_SMALL = 0.02
"""Size of small steps and sines, rad (m)."""


@dataclass(frozen=True, kw_only=True)
class GainsCommand:
    """Measure how every joint follows its target, and suggest K, B, the action scale and K_0 with reasons."""

    env: tyro.conf.Positional[str]
    """Name of a task, or id of a Gymnasium MuJoCo env such as Ant-v5."""

    stiffness: float | None = None
    """K of every joint to measure at; by default the suggested one, which is the task's own where it has one."""

    rise: float = 0.2
    """Wanted rise time in seconds, of an env that knows no K of its own."""

    sag: float = 0.1
    """How far a joint may give way under the weight, rad (m), of an env that knows no K of its own."""

    damping_ratio: float = 1.0
    """ζ; 1 is critical."""

    backend: str | None = None
    """Engine of a task; by default the task's first."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """Settings of the task, or arguments of gymnasium.make."""

    out: Path | None = None
    """Folder for picture and tables; by default runs/gains-ENV, or runs/gains-ENV-BACKEND where one is given."""

    def run(self) -> int:
        """Measure, suggest, draw."""
        from adc_wrappers.gains import measure_responses, open_bench
        from adc_wrappers.gains.pictures import write_gains

        if self.stiffness is not None and not self.stiffness > 0.0:
            raise CurriculumError(f"--stiffness: expected a positive number, got {self.stiffness}.")
        bench = open_bench(self.env, backend=self.backend, **parse_settings(self.set))
        try:
            weights, suggestions = weigh_and_suggest(bench, self.rise, self.sag, self.damping_ratio)
            live = np.array([item.stiffness for item in suggestions])
            if self.stiffness is not None:
                live = np.full_like(live, self.stiffness)
                weights = bench.weigh(live)
            low, high = (bench.joint_range - bench.nominal_pose[:, None]).T
            towards = np.where(high >= -low, 1.0, -1.0)  # a full action goes where there is more room
            with shown_progress("measuring") as report:
                responses = measure_responses(
                    bench.probe, live, towards * _SMALL, towards * bench.action_scale,
                    damping_ratio=self.damping_ratio, progress=report,
                )  # fmt: skip
            standing = None if bench.stand is None else bench.stand(live)
            console = Console(highlight=False, soft_wrap=True)
            console.print(
                _measured(bench, responses), _loads(bench, responses, weights, standing), _suggested(suggestions)
            )
            _print_reasons(console, suggestions, standing)
            name = "-".join(["gains", self.env.replace("/", "-"), *filter(None, [self.backend])])
            folder = self.out or Path("runs") / name
            for path in write_gains(folder, bench, responses, weights, suggestions, standing):
                console.print(f"{'plot' if path.suffix == '.png' else 'data'} {path}")
        finally:
            bench.close()
        return 0


def weigh_and_suggest(
    bench: Bench, rise: float = 0.2, sag: float = 0.1, damping_ratio: float = 1.0
) -> tuple[list[JointWeight], list[GainSuggestion]]:
    """Return the weight on every joint, and gains that go with it; a weight that hangs is measured, so twice."""
    from adc_wrappers.gains import suggest_gains
    from adc_wrappers.gains.suggestion import ceiling

    first = bench.inertia * (3.4 / rise) ** 2 if bench.target is None else bench.target
    weights = bench.weigh(np.minimum(first, ceiling(bench, damping_ratio)))
    return weights, suggest_gains(bench, weights, rise=rise, sag=sag, damping_ratio=damping_ratio)


def _measured(bench: Bench, responses: Sequence[JointResponse]) -> Table:
    title = f"{bench.name} in {bench.engine}: how joints follow (in brackets, the analytic response)"
    table = narrow_table(title, ("joint", "M", "K", "B", "rise,\nms", "over-\nshoot", "bandwidth,\nHz", "delay,\nms"))
    for item in responses:
        table.add_row(
            item.joint, f"{item.inertia:.3g}", f"{item.stiffness:.3g}", f"{item.damping:.3g}",
            f"{1e3 * item.rise:.0f} ({1e3 * item.expected_rise:.0f})", f"{item.overshoot:.0%}",
            f"{item.bandwidth:.2f} ({item.expected_bandwidth:.2f})", f"{1e3 * item.delay:.1f}",
        )  # fmt: skip
    return table


def _loads(
    bench: Bench, responses: Sequence[JointResponse], weights: Sequence[JointWeight], standing: Standing | None
) -> Table:
    heads = ["joint", "weight,\nN·m (N)", "its\nstiffness", "sag,\nrad (m)"]
    heads += [*([] if standing is None else ["standing"]), "Kα/limit", "rise,\nms"]
    table = narrow_table("what they carry (an estimate), and what a full action asks for", tuple(heads))
    for joint, (item, weight) in enumerate(zip(responses, weights, strict=True)):
        limit = float(bench.torque_limits[joint])
        table.add_row(
            item.joint, _plain(weight.torque), _plain(weight.stiffness), sag_text(weight.sag(item.stiffness)),
            *([] if standing is None else [sag_text(float(standing.sag[joint]))]),
            "no limit" if np.isinf(limit) else f"{item.stiffness * bench.action_scale[joint] / limit:.2f}",
            "too long" if np.isnan(item.full_rise) else f"{1e3 * item.full_rise:.0f}",
        )  # fmt: skip
    return table


def sag_text(sag: float) -> str:
    """Return how far a joint gives way, or that it does: far from its pose a linear estimate says no more."""
    from adc_wrappers.gains.bench import SUNK

    return "gives way" if abs(sag) > SUNK else _plain(sag, 3)


def _plain(value: float, digits: int = 2) -> str:
    """Return a number without the sign of a rounded zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def _suggested(suggestions: Sequence[GainSuggestion]) -> Table:
    table = narrow_table("suggested", ("joint", "K", "B", "α", "K_0", "K at\nmost"))
    for item in suggestions:
        values = (item.stiffness, item.damping, item.action_scale, item.start_stiffness)
        table.add_row(item.joint, *(f"{value:.3g}" for value in values), f"{float(f'{item.ceiling:.3g}'):,.0f}")
    return table


def reasons_of(suggestions: Sequence[GainSuggestion]) -> list[str]:
    """Return every reason once, with the joints that it is of."""
    joints: dict[str, list[str]] = {}
    for item in suggestions:
        for reason in item.reasons:
            joints.setdefault(reason, []).append(item.joint)
    return [
        reason if len(names) == len(suggestions) else f"{reason} ({', '.join(names)})"
        for reason, names in joints.items()
    ]


def _print_reasons(console: Console, suggestions: Sequence[GainSuggestion], standing: Standing | None) -> None:
    for reason in sorted(reasons_of(suggestions)):
        console.print(f"- {reason}", markup=False)
    if standing is not None:
        verdict = "it stands" if standing.stands else "it does not stand by itself (fallen, sinking or still moving)"
        console.print(f"- Told to hold the nominal pose on the ground at the K of the table, {verdict}.", markup=False)
    console.print(_settings(suggestions), markup=False)


def _settings(suggestions: Sequence[GainSuggestion]) -> str:
    """Return the line of Python that takes the suggestion."""
    parts = []
    for name, field in (("start_stiffness", "start_stiffness"), ("target_stiffness", "stiffness")):
        values = {item.joint: getattr(item, field) for item in suggestions}
        same = len(set(values.values())) == 1
        text = f"{next(iter(values.values())):g}" if same else str({key: float(f"{v:g}") for key, v in values.items()})
        parts.append(f"{name}={text}")
    return f"CurriculumConfig({', '.join(parts)})"
