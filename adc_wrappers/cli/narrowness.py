"""``adc narrowness``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.registry import find_task, make_env

from .evaluate import open_policy
from .options import parse_settings

if TYPE_CHECKING:
    from adc_wrappers.viability import Narrowness

__all__ = ["ExplorationOptions", "NarrownessCommand", "measure", "narrowness_table", "shown_progress"]

_SAVED_KINDS = ("friction", "mass", "pose", "velocity", "joints")


@dataclass(frozen=True, kw_only=True)
class ExplorationOptions:
    """Options of exploration: how much is explored and tried."""

    backend: str | None = None
    """Engine; by default the fastest one whose envs can be saved."""

    horizon: int = 100
    """T in policy steps, of exploration and of viability."""

    episodes: int = 256
    """Random episodes per stiffness."""

    states: int = 48
    """Visited states, and starts, that are judged."""

    tries: int = 24
    """Action sequences per state and round."""

    rounds: int = 4
    """Rounds of refinement."""

    given_up: int = 10
    """A state from which no try lives longer than so many steps counts as lost."""

    policy: tuple[Path, ...] = ()
    """Run folders whose policies are tried too."""

    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """Settings of the task itself."""


@dataclass(frozen=True, kw_only=True)
class NarrownessCommand:
    """Estimate ε: the share of states met by random exploration that can still be saved, over the stiffness K."""

    task: tyro.conf.Positional[str]
    """Name of a task."""

    stiffness: tuple[float, ...] = ()
    """K of every joint; by default five values from the target to the start of the task's curriculum."""

    exploration: tyro.conf.OmitArgPrefixes[ExplorationOptions] = field(default_factory=ExplorationOptions)
    """How much."""

    seed: int = 0
    """Seed of starts, actions and tries."""

    out: Path | None = None
    """Folder for picture and tables; by default runs/narrowness-TASK."""

    def run(self) -> int:
        """Measure, draw, print."""
        console = Console(highlight=False, soft_wrap=True)
        stiffness, found, kernel, _ = measure(self.task, self.stiffness, self.exploration, self.seed)
        console.print(narrowness_table(self.task, found, kernel))
        low, high = found[0], found[-1]
        console.print(
            f"ε at K = {stiffness[0]:g}: {low.lower:.2f} to {low.upper:.2f}; at K = {stiffness[-1]:g}: {high.lower:.2f}"
            f" to {high.upper:.2f}. The lower number counts states that a try has saved; the upper all that were not "
            f"given up (no try lived longer than {self.exploration.given_up} steps)."
        )
        for path in write_measurement(self.out or Path(f"runs/narrowness-{self.task}"), self.task, found, kernel):
            console.print(f"{'plot' if path.suffix == '.png' else 'data'} {path}")
        return 0


def measure(
    task: str, stiffness: Sequence[float], options: ExplorationOptions, seed: int
) -> tuple[list[float], list[Narrowness], list[float] | None, int]:
    """Return the stiffnesses, an estimate for each, the cart-pole kernel's ε if there is one, and the time limit."""
    from adc_wrappers.viability import SearchSettings, estimate_narrowness
    from adc_wrappers.viability.narrowness import kernel_epsilon

    settings = SearchSettings(
        horizon=options.horizon,
        states=options.states,
        tries=options.tries,
        rounds=options.rounds,
        given_up=options.given_up,
    )
    if options.episodes < 2:
        raise CurriculumError(f"--episodes: expected at least 2, got {options.episodes}.")
    envs = _make_envs(task, options)
    try:
        chosen = _stiffness(envs.adc_config, stiffness)
        policies = [_load(folder, task) for folder in options.policy]
        with shown_progress("exploring") as report:
            found = estimate_narrowness(envs.task, chosen, settings, policies=policies, seed=seed, progress=report)
        return chosen, found, kernel_epsilon(envs.task, found), envs.task.time_limit
    finally:
        envs.close()


def _make_envs(task: str, options: ExplorationOptions) -> Any:
    spec = find_task(task)
    settings = parse_settings(options.set)
    if "randomize" in {field.name for field in dataclasses.fields(spec.settings_class())}:
        settings = {"randomize": list(_SAVED_KINDS), **settings}
    backend = options.backend or ("analytic" if "analytic" in spec.backends else spec.backends[0])
    return make_env(task, backend=backend, num_envs=options.episodes, **settings)


def _stiffness(config: Any, given: Sequence[float]) -> list[float]:
    if given:
        return sorted(set(given))
    ends = (config.target_stiffness, config.start_stiffness)
    if not all(isinstance(value, float | int) for value in ends):
        raise CurriculumError("--stiffness: the task's curriculum has no single K per end; name the values.")
    return [float(value) for value in np.linspace(*ends, 5)]


def _load(path: Path, task: str) -> Any:
    policy = open_policy(path)
    if policy.config.task != task:
        raise CurriculumError(f"--policy: expected a policy of {task!r}, got one of {policy.config.task!r} in {path}.")
    return policy


@contextmanager
def shown_progress(title: str) -> Iterator[Any]:
    """Show a bar; yields a function that is told what is done and which share of all."""
    with Progress(console=Console(stderr=True), transient=True) as bar:
        row = bar.add_task(title, total=1.0)
        yield lambda text, share: bar.update(row, description=text, completed=share)


def narrowness_table(task: str, found: Sequence[Narrowness], kernel: Sequence[float] | None) -> Table:
    """Return a table, one row per stiffness."""
    title = f"{task}: ε over T = {found[0].horizon} steps, {len(found[0].visited_lives)} visited states each"
    table = Table(title=title, title_justify="left")
    titles = ["K", "ε at least", "at most", "95 %", "starts saved", "random episode, mean", "median"]
    for name in titles + (["ε by the kernel"] if kernel is not None else []):
        table.add_column(name, justify="right")
    for index, item in enumerate(found):
        row = [
            f"{item.stiffness:g}",
            f"{item.lower:.3f}",
            f"{item.upper:.3f}",
            f"{item.interval[0]:.3f} … {item.interval[1]:.3f}",
            f"{item.coverage[0]:.2f}",
            f"{item.lengths.mean():.1f}",
            f"{np.median(item.lengths):g}",
        ]
        table.add_row(*row, *([f"{kernel[index]:.3f}"] if kernel is not None else []))
    return table


def write_measurement(
    folder: Path, task: str, found: Sequence[Narrowness], kernel: Sequence[float] | None
) -> list[Path]:
    """Write picture and tables."""
    from adc_wrappers.viability.pictures import draw_narrowness, narrowness_rows, survival_rows, write_rows

    return [
        draw_narrowness(task, found, folder / "narrowness.png", kernel),
        write_rows(folder / "narrowness.csv", *narrowness_rows(found, kernel)),
        write_rows(folder / "survival.csv", *survival_rows(found)),
    ]
