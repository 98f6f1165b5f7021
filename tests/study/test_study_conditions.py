"""Conditions: each file differs from ADC in the one thing it names, on every task."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import spied_commands

import adc_wrappers.study
from adc_wrappers import CurriculumError, make_env
from adc_wrappers.study import CONDITIONS, RobotFacts, find_condition, load_condition, select_conditions
from adc_wrappers.study.conditions import BY_NAME
from adc_wrappers.training import TrainConfig, default_config, find_trainer
from adc_wrappers.training.evaluating import EvaluationSetup
from adc_wrappers.training.ppo import ActionConfig

FOLDER = Path(adc_wrappers.study.__file__).parent / "conditions"
TASKS = {
    "cartpole": "analytic",
    "double-cartpole": "analytic",
    "spot-handstand": "mujoco",
    "spot-planar-handstand": "mujoco",
}

DIFFERS = {
    "adc": set(),
    "train_at_target": {"curriculum.driver", "curriculum.fixed_progress"},
    "train_at_start": {"curriculum.driver", "curriculum.hold_share"},
    "uniform": {"curriculum.driver", "curriculum.hold_share"},
    "time": {"curriculum.driver", "curriculum.total_iterations"},
    "no_termination": {"early_termination"},
    "retuned_scale": {
        "curriculum.driver", "curriculum.fixed_progress", "settings.command_limit", "settings.action_scale",
    },
    "noise": {"curriculum.start_stiffness", "actions.noise_std"},
    "normalized_scale": {"actions.constant_torque"},
    "authors": {"curriculum.damping", "curriculum.fixed_damping", "curriculum.average", "actions.constant_torque"},
    "success": {"curriculum.driver", "curriculum.success_max"},
    "task_progress": {"curriculum.driver"},
    "adaptive": {"curriculum.driver", "curriculum.monotone"},
    "train_at_target_whole": {"curriculum.driver", "curriculum.fixed_progress", "episode_steps"},
    "per_joint": {"curriculum.progress_begin", "curriculum.progress_end"},
}  # fmt: skip

PAPER = {
    1: {
        "train_at_target": ((385, 47), (-42.1, 8.7)),
        "train_at_start": ((215, 38), (-68.5, 12.3)),
        "uniform": ((658, 89), (-18.7, 6.2)),
        "time": ((751, 62), (-12.3, 5.1)),
        "no_termination": ((547, 56), (-35.4, 7.4)),
        "adc": ((975, 12), (-4.76, 0.83)),
    },
    2: {
        "train_at_target": ((385, 47), (-42.1, 8.7)),
        "retuned_scale": ((453, 52), (-37.4, 7.4)),
        "noise": ((447, 48), (-32.1, 6.3)),
        "normalized_scale": ((952, 40), (-5.4, 1.5)),
        "adc": ((975, 12), (-4.76, 0.83)),
    },
}


def flat(values, prefix=""):
    found = {}
    for key, value in values.items():
        if isinstance(value, dict) and key in ("curriculum", "actions", "ppo", "settings"):
            found |= flat(value, f"{key}.")
        else:
            found[prefix + key] = value
    return found


@pytest.fixture(scope="module", params=TASKS)
def setting(request):
    base = default_config(request.param, TASKS[request.param])
    return base, RobotFacts.of(base)


def test_every_condition_has_a_file_and_every_file_a_name():
    assert {path.stem for path in FOLDER.glob("*.toml")} == {*CONDITIONS, *BY_NAME}
    for name in (*CONDITIONS, *BY_NAME):
        condition = find_condition(name)
        assert condition.name == name and condition.differs.endswith(".") and condition.open


def test_the_papers_rows_are_the_papers():
    for table, rows in PAPER.items():
        papers = {name: find_condition(name).paper for name in CONDITIONS}
        found = {name: (row.length, row.reward) for name, row in papers.items() if row and table in row.tables}
        assert found == rows


@pytest.mark.parametrize("name", [*CONDITIONS, *BY_NAME])
def test_a_condition_differs_from_adc_in_what_it_names_and_nothing_else(setting, name):
    base, facts = setting
    if name == "per_joint" and len(facts.joint_names) == 1:
        pytest.skip("one joint")
    config = find_condition(name).applied_to(base, facts, seed=0)
    before, after = flat(base.to_dict()), flat(config.to_dict())
    differing = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert differing <= DIFFERS[name]
    assert name == "adc" or differing, "it is ADC"
    assert config.curriculum.to_dict()["target_stiffness"] == base.curriculum.to_dict()["target_stiffness"]
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))).to_dict() == config.to_dict()


def test_a_condition_carries_the_seed_of_its_run(setting):
    base, facts = setting
    for name in ("adc", "uniform"):
        config = find_condition(name).applied_to(base, facts, seed=7)
        assert config.seed == config.curriculum.seed == 7


def test_retuned_actions_reach_at_the_target_what_they_reach_at_the_start(setting):
    base, facts = setting
    config = find_condition("retuned_scale").applied_to(base, facts, seed=0)
    env = make_env(config.task, backend=config.backend, num_envs=1, **config.settings)
    scale = env.task.deployment().action_scale[0]
    env.close()
    start, target = base.curriculum.start_stiffness, base.curriculum.target_stiffness
    assert scale * target == pytest.approx(facts.action_scale * start)


def test_joints_soften_one_after_another_from_the_lightest():
    base = default_config("spot-handstand", "mujoco")
    facts = RobotFacts.of(base)
    curriculum = find_condition("per_joint").applied_to(base, facts, seed=0).curriculum
    begin = np.array([curriculum.progress_begin[name] for name in facts.joint_names])
    end = np.array([curriculum.progress_end[name] for name in facts.joint_names])
    assert begin.min() == 0.0 and end.max() == 1.0
    np.testing.assert_allclose(end - begin, 0.5)
    assert (np.argsort(begin, kind="stable") == np.argsort(facts.inertia.round(9), kind="stable")).all()


def test_with_one_joint_there_is_no_per_joint_condition():
    facts = RobotFacts.of(default_config("cartpole", "analytic"))
    assert [c.name for c in select_conditions((), facts)] == [name for name in CONDITIONS if name != "per_joint"]
    with pytest.raises(CurriculumError, match="one joint"):
        select_conditions(("adc", "per_joint"), facts)


def test_a_condition_of_ones_own_is_a_file(tmp_path):
    path = tmp_path / "slow.toml"
    path.write_text('title = "slow"\ndiffers = "Slower."\nopen = "Nothing."\n[curriculum]\nema = 0.01\n')
    base = default_config("cartpole", "analytic")
    facts = RobotFacts.of(base)
    (condition,) = select_conditions((str(path),), facts)
    assert condition.name == "slow" and condition.paper is None
    assert condition.applied_to(base, facts, 0).curriculum.ema == 0.01


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('title = "x"', "expected a text 'differs'"),
        ('title = "x"\ndiffers = "y"\nopen = "z"\n[curriculm]\nema = 1', "Did you mean 'curriculum'"),
        ('title = "x"\ndiffers = "y"\nopen = "z"\n[curriculum]\nemma = 1', "Did you mean 'ema'"),
        ('title = "x"\ndiffers = "y"\nopen = "z"\n[rules]\nwindow = 1', "Did you mean 'windows'"),
        ('title = "x"\ndiffers = "y"\nopen = "z"\n[training]\ntermination = 1', "early_termination"),
        ("title = ", "cannot be read"),
    ],
)
def test_a_file_with_a_mistake_is_refused(tmp_path, text, complaint):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(CurriculumError, match=complaint):
        load_condition(path)


@pytest.mark.parametrize(
    "rule", [{"windows": "size"}, {"action_scale": "more"}, {"action_scale": -1.0}, {"start_stiffness": "soft"}]
)
def test_a_rule_with_a_mistake_is_refused(rule):
    import dataclasses

    base = default_config("spot-handstand", "mujoco")
    condition = dataclasses.replace(find_condition("adc"), rules=rule)
    with pytest.raises(CurriculumError, match="expected"):
        condition.applied_to(base, RobotFacts.of(base), 0)


def test_names_are_checked():
    facts = RobotFacts.of(default_config("cartpole", "analytic"))
    for names, complaint in ((("acd",), "unknown condition"), (("adc", "adc"), "each once"), (("no.toml",), "no cond")):
        with pytest.raises(CurriculumError, match=complaint):
            select_conditions(names, facts)


# --- what conditions do to training ----------------------------------------------------------------------------------


def training_env(trainer="sb3", workers="batch", **changes):
    import dataclasses

    config = default_config("cartpole", "analytic", {"time_limit": 40})
    ppo = dataclasses.replace(config.ppo, num_envs=3)
    config = dataclasses.replace(config, trainer=trainer, workers=workers, ppo=ppo, **changes)
    return config, find_trainer(trainer).make_training_env(config)


@pytest.mark.parametrize(("trainer", "workers"), [("sb3", "batch"), ("sb3", "dummy"), ("rsl_rl", "batch")])
def test_without_early_termination_every_episode_lasts_to_its_limit(trainer, workers):
    import torch

    for early, lasts in ((True, False), (False, True)):
        _, env = training_env(trainer, workers, early_termination=early)
        env.reset()
        ended = []
        for step in range(1, 81):
            actions = np.ones((3, 1), np.float32)
            dones = env.step(torch.from_numpy(actions) if trainer == "rsl_rl" else actions)[2]
            ended += [step] * int(np.asarray(dones).sum())
        env.close()
        assert (ended == [40] * 3 + [80] * 3) is lasts


def test_an_evaluation_ends_failed_episodes_whatever_the_training_did():
    config, env = training_env(early_termination=False)
    env.close()
    setup = EvaluationSetup.of(config)
    env = make_env(setup.task, backend=setup.backend, num_envs=1, **setup.settings)
    assert env.task.early_termination


@pytest.mark.parametrize("workers", ["batch", "dummy"])
def test_noise_reaches_the_carts_and_falls_with_progress(workers):
    from adc_wrappers.sb3.vec_env import find_curriculum

    _, env = training_env(workers=workers, actions=ActionConfig(noise_std=0.3))
    env.seed(0)
    env.reset()
    carts = [env.unwrapped.env.unwrapped] if workers == "batch" else [cart.unwrapped for cart in env.unwrapped.envs]
    sent = [spied_commands(cart) for cart in carts]

    def commands():
        env.step(np.zeros((3, 1), np.float32))
        assert not any(cart.task._action.any() for cart in carts)  # the policy's own
        return np.concatenate([rows[-1] for rows in sent])

    noisy = np.array([commands() for _ in range(100)])
    assert noisy.std() == pytest.approx(0.3, rel=0.2)
    find_curriculum(env).curriculum.progress = 1.0
    assert not commands().any()
    env.close()


@pytest.mark.parametrize("workers", ["batch", "dummy"])
def test_with_constant_torque_a_stiff_cart_is_commanded_less(workers):
    _, env = training_env(workers=workers, actions=ActionConfig(constant_torque=True))
    env.reset()
    carts = [env.unwrapped.env.unwrapped] if workers == "batch" else [cart.unwrapped for cart in env.unwrapped.envs]
    sent = [spied_commands(cart) for cart in carts]
    env.step(np.ones((3, 1), np.float32))
    np.testing.assert_allclose(np.concatenate([rows[-1] for rows in sent]), 6.25 / 36.0, rtol=1e-6)
    assert all((cart.task._action == 1.0).all() for cart in carts)
    env.close()


def test_bad_noise_is_refused():
    with pytest.raises(CurriculumError, match="noise_std"):
        ActionConfig(noise_std=-1.0)


def test_the_authors_curriculum_is_run_by_name_and_as_a_recipe():
    base = default_config("spot-handstand", "mujoco")
    facts = RobotFacts.of(base)
    assert "authors" not in {condition.name for condition in select_conditions((), facts)}
    (condition,) = select_conditions(("authors",), facts)
    recipe = default_config("spot-handstand", "mujoco", recipe="authors")
    for config in (condition.applied_to(base, facts, 0), recipe):
        curriculum = config.curriculum
        assert (curriculum.damping, curriculum.fixed_damping, curriculum.average) == ("fixed", 1.5, "resets")
        assert config.actions == ActionConfig(constant_torque=True)
        assert TrainConfig.from_dict(config.to_dict()) == config
    assert recipe.settings == {"preset": "authors"} and recipe.iterations == 5000
    # a condition on top of the recipe keeps what it does not name
    kept = find_condition("train_at_target").applied_to(recipe, facts, 0)
    assert kept.actions == ActionConfig(constant_torque=True) and kept.curriculum.damping == "fixed"


def test_an_older_run_without_these_settings_still_loads():
    values = default_config("cartpole", "analytic").to_dict()
    del values["actions"], values["early_termination"]
    for name in ("damping", "fixed_damping", "average"):
        del values["curriculum"][name]
    config = TrainConfig.from_dict(values)
    assert config.curriculum == default_config("cartpole", "analytic").curriculum
    assert config.early_termination and config.actions == ActionConfig()
