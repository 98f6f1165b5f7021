"""Conditions of a study: files that say in what a training differs from ADC, and what depends on the robot."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core import CurriculumConfig, CurriculumError
from adc_wrappers.core.errors import MissingExtraError, did_you_mean
from adc_wrappers.core.reading import check_fields, read_text, tree_problem
from adc_wrappers.envs.registry import find_task, make_vector_env
from adc_wrappers.training import ActionConfig, TrainConfig

__all__ = [
    "BY_NAME",
    "CONDITIONS",
    "RULES",
    "Condition",
    "PaperRow",
    "RobotFacts",
    "find_condition",
    "load_condition",
    "select_conditions",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotFacts:
    """Facts about the robot that rules may need."""

    joint_names: tuple[str, ...]
    """Its joints."""

    inertia: NDArray[np.float64]
    """Effective inertia per joint."""

    action_scale: float
    """α."""

    @classmethod
    def of(cls, config: TrainConfig) -> RobotFacts:
        """Ask the task."""
        env = make_vector_env(config.task, backend=config.backend, num_envs=1, settings=config.settings)
        try:
            backend = env.task.backend
            return cls(
                joint_names=tuple(backend.joint_names),
                inertia=np.asarray(backend.effective_inertia(), dtype=np.float64),
                action_scale=float(env.task.deployment().action_scale[0]),
            )
        finally:
            env.close()


def _start_stiffness(config: TrainConfig, facts: RobotFacts, value: Any) -> TrainConfig:
    """Start where the curriculum ends: its progress moves, K does not."""
    if value != "target":
        raise CurriculumError(f"rules.start_stiffness: expected 'target', got {value!r}.")
    curriculum = dataclasses.replace(config.curriculum, start_stiffness=config.curriculum.target_stiffness)
    return dataclasses.replace(config, curriculum=curriculum)


def _action_scale(config: TrainConfig, facts: RobotFacts, value: Any) -> TrainConfig:
    """Multiply α by a number, or by K_0/K_*."""
    start, target = config.curriculum.start_stiffness, config.curriculum.target_stiffness
    if value == "K0/K*":
        if not (isinstance(start, float) and isinstance(target, float)):
            raise CurriculumError("rules.action_scale 'K0/K*' needs one K_0 and one K_* for all joints.")
        factor = start / target
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < np.inf:
        factor = float(value)
    else:
        raise CurriculumError(f"rules.action_scale: expected 'K0/K*' or a positive factor, got {value!r}.")
    name = find_task(config.task).action_scale
    return dataclasses.replace(config, settings={**config.settings, name: facts.action_scale * factor})


def _windows(config: TrainConfig, facts: RobotFacts, value: Any) -> TrainConfig:
    """Let joints soften one after another, light ones first."""
    if value != "inertia":
        raise CurriculumError(f"rules.windows: expected 'inertia', got {value!r}.")
    size = np.log(facts.inertia)
    span = float(np.ptp(size))
    if span == 0.0:
        raise CurriculumError("rules.windows 'inertia': all joints have the same effective inertia, so none is first.")
    begin = 0.5 * (size - size.min()) / span
    curriculum = dataclasses.replace(
        config.curriculum,
        progress_begin=dict(zip(facts.joint_names, begin.round(6).tolist(), strict=True)),
        progress_end=dict(zip(facts.joint_names, (0.5 + begin).round(6).tolist(), strict=True)),
    )
    return dataclasses.replace(config, curriculum=curriculum)


RULES: dict[str, Callable[[TrainConfig, RobotFacts, Any], TrainConfig]] = {
    "start_stiffness": _start_stiffness,
    "action_scale": _action_scale,
    "windows": _windows,
}
"""Rules by name; add one here to let condition files ask for it."""


CONDITIONS = (
    "train_at_target",
    "train_at_start",
    "uniform",
    "time",
    "no_termination",
    "adc",
    "retuned_scale",
    "noise",
    "normalized_scale",
    "success",
    "per_joint",
)
"""The conditions of this library, in the order of the paper's tables; the last two are not in the paper."""

BY_NAME = ("task_progress", "adaptive", "authors", "train_at_target_whole")
"""Conditions that are run only if they are asked for: the first two look at what the task itself says of its progress,
the third has numbers of one robot, the last is for recipes with short episodes."""

_SECTIONS = ("curriculum", "training", "actions", "rules", "paper")
_TRAINING = ("early_termination", "episode_steps")


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """The paper's report on a condition: mean and standard deviation over ten seeds, on the handstand."""

    tables: tuple[int, ...]
    """1 for the ablation study, 2 for the additional ablations of the appendix."""

    length: tuple[float, float]
    """Episode length."""

    reward: tuple[float, float]
    """Reward."""

    @classmethod
    def of(cls, values: Any, where: str) -> PaperRow | None:
        """Return the row that a file holds, if it holds one.

        Raises:
            CurriculumError: It is no row.
        """
        if values is None:
            return None
        check_fields(cls, values, f"{where}, paper")
        return cls(**{name: tuple(numbers) for name, numbers in values.items()})


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A training's difference from the base config, which is ADC."""

    name: str
    """Name of the file, and of the folder with its runs."""

    title: str
    """Its name in tables and plots."""

    differs: str
    """The one thing in which it differs, in a sentence."""

    open: str
    """What the paper leaves open, and what is done about it."""

    curriculum: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the curriculum that it replaces."""

    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the training that it replaces."""

    actions: Mapping[str, Any] = field(default_factory=dict)
    """What happens to actions in training."""

    rules: Mapping[str, Any] = field(default_factory=dict)
    """What depends on the robot, by the name of a rule in :mod:`~adc_wrappers.study.conditions`."""

    paper: PaperRow | None = None
    """The paper's numbers."""

    def __post_init__(self) -> None:
        known = {
            "curriculum": [item.name for item in dataclasses.fields(CurriculumConfig)],
            "training": _TRAINING,
            "actions": [item.name for item in dataclasses.fields(ActionConfig)],
            "rules": list(RULES),
        }
        for section, names in known.items():
            if not isinstance(getattr(self, section), Mapping):
                raise CurriculumError(f"condition {self.name!r}: expected a section [{section}], got a value.")
            for name in getattr(self, section):
                if name not in names:
                    raise CurriculumError(
                        f"condition {self.name!r}, [{section}]: unknown name {name!r}. {did_you_mean(name, names)}"
                    )

        for section, kind in (("curriculum", CurriculumConfig), ("training", TrainConfig), ("actions", ActionConfig)):
            check_fields(kind, getattr(self, section), f"condition {self.name!r}, [{section}]", partial=True)

    def applied_to(self, base: TrainConfig, facts: RobotFacts, seed: int) -> TrainConfig:
        """Return the config of one run.

        Args:
            base: ADC on the task.
            facts: What rules may need to know of the robot.
            seed: Seed of the run.
        """
        changes = dict(self.curriculum)
        if changes.get("driver") == "time":
            changes.setdefault("total_iterations", base.iterations)
        config = dataclasses.replace(
            base,
            seed=seed,
            curriculum=dataclasses.replace(base.curriculum, seed=seed, **changes),
            actions=dataclasses.replace(base.actions, **self.actions),
            **self.training,
        )
        for name, value in self.rules.items():
            config = RULES[name](config, facts, value)
        return config


def load_condition(path: Path) -> Condition:
    """Read a condition's file; what is missing or unknown raises."""
    return _parse(path.stem, read_text(path, CurriculumError), str(path))


def find_condition(name: str) -> Condition:
    """Return a condition by its name, or from a file of your own whose name ends in ``.toml``."""
    if name.endswith(".toml"):
        if not Path(name).exists():
            raise CurriculumError(f"there is no condition file {name}.")
        return load_condition(Path(name))
    known = (*CONDITIONS, *BY_NAME)
    if name not in known:
        raise CurriculumError(f"unknown condition {name!r}. {did_you_mean(name, known)}")
    file = resources.files("adc_wrappers.study") / "conditions" / f"{name}.toml"
    return _parse(name, file.read_text(encoding="utf-8"), f"{name}.toml")


def select_conditions(names: Sequence[str], facts: RobotFacts) -> list[Condition]:
    """Return the conditions that were asked for; by default all that the robot can have.

    Args:
        names: Names and files; none for all but those of :data:`BY_NAME`.
        facts: The robot: with one joint, joints cannot soften one after another.
    """
    found = [find_condition(name) for name in names or CONDITIONS]
    if len({condition.name for condition in found}) != len(found):
        raise CurriculumError(f"conditions: expected each once, got {', '.join(c.name for c in found)}.")
    single = len(facts.joint_names) == 1
    if names and single and any("windows" in condition.rules for condition in found):
        raise CurriculumError("the robot has one joint: joints that soften one after another are ADC itself.")
    return [condition for condition in found if not (single and "windows" in condition.rules)]


def _parse(name: str, text: str, source: str) -> Condition:
    try:
        values = _toml(text)
    except (ValueError, RecursionError) as error:
        raise CurriculumError(f"{source} cannot be read: {error}.") from error
    problem = tree_problem(values)
    if problem is not None:
        raise CurriculumError(f"{source}: expected plain values, got {problem}.")
    for key in ("title", "differs", "open"):
        if not isinstance(values.get(key), str):
            raise CurriculumError(f"{source}: expected a text {key!r}, got {values.get(key)!r}.")
    for key in values:
        if key not in ("title", "differs", "open", *_SECTIONS):
            raise CurriculumError(f"{source}: unknown section {key!r}. {did_you_mean(key, _SECTIONS)}")
    row = PaperRow.of(values.pop("paper", None), source)
    texts: dict[str, Any] = {key: " ".join(values.pop(key).split()) for key in ("title", "differs", "open")}
    return Condition(name=name, paper=row, **texts, **values)


def _toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        try:
            import tomli as toml
        except ImportError as error:
            raise MissingExtraError("tomli", "study", "Reading a condition") from error
    values: dict[str, Any] = toml.loads(text)
    return values
