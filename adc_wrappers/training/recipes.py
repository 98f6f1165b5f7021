"""Recipes: how each task trains by default, and the paper's own settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adc_wrappers.core import CurriculumError
from adc_wrappers.core.config import AUTHORS
from adc_wrappers.core.errors import did_you_mean
from adc_wrappers.envs.registry import find_task

from .config import TrainConfig, recommended_curriculum, shortened
from .ppo import ActionConfig, PpoConfig

__all__ = ["PAPER_PPO", "RECIPES", "Recipe", "default_config", "find_recipe", "first_config", "recipe_names"]

PAPER_PPO = PpoConfig(
    total_steps=10_000 * 24 * 4096, num_envs=4096, n_steps=24, batch_size=24 * 4096 // 4, initial_std=1.0
)
"""Tables "PPO Configuration" and "Network Configuration" of the paper: 10,000 iterations of 24 × 4096 samples."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The way to train a task."""

    trainer: str
    """Which adapter trains."""

    workers: str
    """How envs are stepped."""

    ppo: PpoConfig
    """The algorithm."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the task that go with it."""

    curriculum: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the curriculum that differ from what the task recommends."""

    checkpoint_every: int = 1
    """Iterations between two checkpoints."""

    episode_steps: int | None = None
    """Policy steps after which an episode of training is cut short; None for the task's own time limit."""

    backend: str | None = None
    """Engine that it is meant for; None for the task's first."""

    actions: ActionConfig = field(default_factory=ActionConfig)
    """What happens to actions between the policy and the joint targets in training."""

    first: tuple[str, str] | None = None
    """Task and recipe that ``adc train`` trains before, to begin with its policy; a study begins with nothing."""

    for_first: tuple[str, ...] = ()
    """Settings that the training before has too, where they are given."""


BY_PROGRESS = {
    "driver": "task_progress",
    "task_progress_min": 0.0,
    "task_progress_max": 0.5,
    "monotone": True,
    "hold_share": 0.4,
}
"""K follows the share of steps in the stance, and arrives at K* with one half of them."""

HINDSTAND_CPU = Recipe(
    trainer="rsl_rl",
    workers="batch",
    ppo=PpoConfig(
        total_steps=20_000_000,
        num_envs=128,
        n_steps=32,
        batch_size=1024,
        n_epochs=5,
        target_kl=0.03,
        final_target_kl=0.005,
        clip_value=False,
        entropy_coef=0.001,
        final_entropy_coef=0.0,
        value_coef=1.0,
        initial_std=0.35,
        sideways_std=0.15,
        min_std=0.05,
        hidden=(128, 128),
        reward_scale=0.2,
        mirrored=True,
        scale_observations=True,
        output_gain=0.01,
    ),
    settings={"preset": "cpu"},
    curriculum={"length_max": 900.0, "monotone": True, "hold_share": 0.5},
    checkpoint_every=50,
)
"""The stance on the hind feet on two cores: what the handstand was trained with at first."""

HINDSTAND_SUCCESS = dataclasses.replace(
    HINDSTAND_CPU,
    curriculum={"driver": "success", "success_min": 0.0, "success_max": 0.5, "monotone": True, "hold_share": 0.5},
)
"""The same, with K driven by the success rate: standing on four feet, however long, does not soften the joints."""

HANDSTAND_CPU = dataclasses.replace(
    HINDSTAND_CPU,
    ppo=dataclasses.replace(
        HINDSTAND_CPU.ppo, total_steps=10_000_000, initial_std=0.2625, sideways_std=0.1125, min_std=0.0375
    ),
    settings={"preset": "stepping", "physics_step": 0.004, "decimation": 5},
    curriculum={"length_max": 900.0, "monotone": True, "hold_share": 0.4},
    episode_steps=250,
)
"""The handstand on two cores, see ``docs/recipes/handstand_cpu.md``; K follows the paper's rule."""

HANDSTAND_PROGRESS = dataclasses.replace(HANDSTAND_CPU, curriculum=BY_PROGRESS)
"""The same, with K driven by the share of steps in the stance: the quickest."""

HANDSTAND_SUCCESS = dataclasses.replace(HANDSTAND_CPU, curriculum=HINDSTAND_SUCCESS.curriculum)
"""The same, with K driven by the success rate."""

HANDSTAND_AUTHORS = Recipe(
    trainer="rsl_rl",
    workers="batch",
    ppo=dataclasses.replace(PAPER_PPO, total_steps=5_000 * 24 * 4096),
    settings={"preset": "authors"},
    curriculum=AUTHORS,
    actions=ActionConfig(constant_torque=True),
    checkpoint_every=50,
)
"""The task and the curriculum of the paper's authors' public code, 5,000 iterations, with the paper's PPO."""

PLANAR_HANDSTAND = Recipe(
    trainer="rsl_rl",
    workers="batch",
    ppo=PpoConfig(
        total_steps=3_000_000,
        num_envs=256,
        n_steps=32,
        batch_size=2048,
        n_epochs=5,
        target_kl=0.03,
        initial_std=0.2625,
        hidden=(128, 64),
        reward_scale=0.2,
        scale_observations=True,
        output_gain=0.01,
    ),
    settings={"preset": "cpu", "action_scale": 1.6, "fall_cost": 18.0, "physics_step": 0.004, "decimation": 5},
    curriculum={"length_max": 900.0, "monotone": True, "hold_share": 0.4},
    checkpoint_every=50,
    episode_steps=250,
)
"""The handstand in the plane of symmetry, see ``docs/recipes/planar_handstand.md``: some minutes of one core.

α and the target KL divergence are those with which training at K* was best (``benchmarks/tuning.md``)."""

HANDSTAND_ROBOT = dataclasses.replace(
    HANDSTAND_CPU,
    ppo=dataclasses.replace(
        HANDSTAND_CPU.ppo, total_steps=40_000_000, initial_std=0.25, sideways_std=0.1, privileged_value=True
    ),
    settings={"preset": "robot", "physics_step": 0.004, "decimation": 5},
    curriculum=BY_PROGRESS,
    first=("spot-handstand", "progress"),
    for_first=("fall_cost", "late_fall_cost", "linear_velocity", "model", "scale_by_dt", "time_limit"),
)
"""A handstand that may run on a robot, see ``docs/recipes/handstand_robot.md``: behind the command limiter."""

PLANAR_ROBOT = dataclasses.replace(
    PLANAR_HANDSTAND,
    ppo=dataclasses.replace(
        PLANAR_HANDSTAND.ppo,
        total_steps=6_000_000,
        initial_std=0.25,
        final_target_kl=0.01,
        final_entropy_coef=0.0003,
    ),
    settings={
        **PLANAR_HANDSTAND.settings,
        "preset": "robot",
        "action_scale": 1.7,
        "weights": {"support_feet_in_air": 0.0, "single_support": 0.0},
    },
    curriculum=BY_PROGRESS,
)
"""The same in the plane of symmetry, for quick trials."""

PLANAR_DEMO = dataclasses.replace(
    PLANAR_HANDSTAND,
    ppo=dataclasses.replace(PLANAR_HANDSTAND.ppo, total_steps=1_500_000),
    curriculum=BY_PROGRESS,
)
"""What ``adc demo`` shows: half of the steps, as in the study, and K by the task's own progress."""

CARTPOLE_NARROW = Recipe(
    trainer="sb3",
    workers="batch",
    backend="analytic",
    ppo=PpoConfig(
        total_steps=400_000,
        num_envs=256,
        n_steps=16,
        batch_size=1024,
        n_epochs=5,
        max_learning_rate=3e-3,
        clip_value=False,
        entropy_coef=0.0,
        hidden=(64, 64),
    ),
    settings={"start_angle": 0.04, "start_rate": 0.05},
    curriculum={"start_stiffness": 36.0, "target_stiffness": 1.0, "ema": 0.1, "hold_share": 0.4},
    checkpoint_every=50,
)
"""A cart so soft that only starts within 0.07 rad can be caught (ω_n = 1 rad/s), in about half a minute."""

CARTPOLE_QUICK = dataclasses.replace(
    CARTPOLE_NARROW,
    ppo=dataclasses.replace(CARTPOLE_NARROW.ppo, total_steps=100_000, num_envs=64, batch_size=256),
    settings={},
    curriculum={"ema": 0.1, "hold_share": 0.4},
)
"""The cart-pole in seconds, for a first look at a study."""

_REACHABLE = 0.9
"""Share of the longest episode that the moving average of lengths can be expected to reach."""

_SB3_DEFAULT = Recipe(trainer="sb3", workers="dummy", ppo=PpoConfig())

RECIPES: dict[str, dict[str, Recipe]] = {
    "spot-handstand": {
        "default": HANDSTAND_CPU,
        "progress": HANDSTAND_PROGRESS,
        "success": HANDSTAND_SUCCESS,
        "authors": HANDSTAND_AUTHORS,
        "robot": HANDSTAND_ROBOT,
    },
    "spot-planar-handstand": {"default": PLANAR_HANDSTAND, "demo": PLANAR_DEMO, "robot": PLANAR_ROBOT},
    "spot-hindstand": {"default": HINDSTAND_CPU, "success": HINDSTAND_SUCCESS, "authors": HANDSTAND_AUTHORS},
    "cartpole": {
        "default": Recipe(
            trainer="sb3",
            workers="dummy",
            ppo=PpoConfig(
                total_steps=250_000,
                num_envs=8,
                n_steps=256,
                batch_size=512,
                n_epochs=10,
                max_learning_rate=3e-3,
                clip_value=False,
                entropy_coef=0.0,
                hidden=(64, 64),
            ),
        ),
        "narrow": CARTPOLE_NARROW,
        "quick": CARTPOLE_QUICK,
    },
    "double-cartpole": {
        "default": Recipe(
            trainer="sb3",
            workers="dummy",
            ppo=PpoConfig(
                total_steps=1_000_000,
                num_envs=64,
                n_steps=64,
                batch_size=1024,
                n_epochs=10,
                max_learning_rate=1e-3,
                clip_value=False,
                entropy_coef=0.0,
                initial_std=0.5,
                hidden=(64, 64),
            ),
        ),
    },
}
"""Recipes by task and name; the first is what ``adc train`` takes."""


def _recipes_of(task: str) -> dict[str, Recipe]:
    known = {"default": _SB3_DEFAULT, **RECIPES.get(task, {})}
    known["paper"] = Recipe(trainer="rsl_rl", workers="batch", ppo=PAPER_PPO, checkpoint_every=50)
    return known


def recipe_names(task: str) -> list[str]:
    """Return the names of a task's recipes, its default first.

    >>> recipe_names("cartpole")
    ['default', 'narrow', 'quick', 'paper']
    """
    return list(_recipes_of(task))


def find_recipe(task: str, name: str | None = None) -> Recipe:
    """Return a task's recipe by name, or its default."""
    known = _recipes_of(task)
    chosen = "default" if name is None else name
    if chosen not in known:
        raise CurriculumError(f"the task {task!r} has no recipe {chosen!r}. {did_you_mean(chosen, known)}")
    return known[chosen]


def default_config(
    task: str,
    backend: str,
    settings: dict[str, Any] | None = None,
    *,
    recipe: str | None = None,
    seed: int = 0,
    episode_steps: int | None = None,
) -> TrainConfig:
    """Return the config that a task trains with unless told otherwise.

    Args:
        task: Name of the task.
        backend: Engine.
        settings: Settings of the task; they win over the recipe's.
        recipe: Name of a recipe; ``"paper"`` has the paper's PPO.
        seed: Seed of envs, policy and curriculum.
        episode_steps: Policy steps after which an episode of training is cut short; by default as the recipe says.
    """
    chosen = find_recipe(task, recipe)
    merged = {**chosen.settings, **(settings or {})}
    for name, ours in chosen.settings.items():
        if isinstance(ours, Mapping) and isinstance(merged[name], Mapping):
            merged[name] = {**ours, **merged[name]}
    schedule = dict(chosen.curriculum)
    if schedule.get("hold_share") or schedule.get("driver") == "time":
        schedule.setdefault("total_iterations", chosen.ppo.iterations)
    steps = chosen.episode_steps if episode_steps is None else episode_steps
    recommended = recommended_curriculum(task, backend, shortened(task, merged, steps))
    if "length_max" in schedule:  # made for the task's own time limit
        schedule["length_max"] = min(schedule["length_max"], _REACHABLE * recommended.length_max)
    return TrainConfig(
        task=task,
        backend=backend,
        recipe=recipe,
        trainer=chosen.trainer,
        workers=chosen.workers,
        seed=seed,
        curriculum=dataclasses.replace(recommended, seed=seed, **schedule),
        ppo=chosen.ppo,
        settings=merged,
        checkpoint_every=chosen.checkpoint_every,
        episode_steps=steps,
        actions=chosen.actions,
    )


def first_config(config: TrainConfig) -> TrainConfig | None:
    """Return the config of the training that a recipe wants done before; None if it wants none.

    It has the seed, the stiffnesses, and what the recipe names of the settings, of the training that it is for.
    """
    recipe = find_recipe(config.task, config.recipe)
    if recipe.first is None:
        return None
    task, name = recipe.first
    ends = {key: getattr(config.curriculum, key) for key in ("start_stiffness", "target_stiffness")}
    if task != config.task and not all(isinstance(value, float | int) for value in ends.values()):
        raise CurriculumError(
            f"the recipe trains {task} first, whose joints are others: expected one stiffness for all joints, got "
            f"{ends}. Train {task} yourself and give it with --start-from."
        )
    settings = find_task(config.task).task_settings(config.settings)
    own = {
        key: settings[key] for key in recipe.for_first if key in settings and recipe.settings.get(key) != settings[key]
    }
    known = find_task(task).backends
    first = default_config(task, config.backend if config.backend in known else known[0], own, recipe=name)
    curriculum = dataclasses.replace(first.curriculum, seed=config.seed, **ends)
    return dataclasses.replace(first, seed=config.seed, curriculum=curriculum)
