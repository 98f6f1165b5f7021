"""Spot's handstand and hind-leg stand as envs: interfaces, actions, endings, success, determinism, broken physics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check
from spot_helpers import POSE, fake_task, make_state
from stable_baselines3.common.env_checker import check_env as sb3_check

from adc_wrappers import ActuatorCurriculumWrapper, make_env
from adc_wrappers.backends.base import RobotStart
from adc_wrappers.backends.spot_model import LINK_NAMES, spot_mjcf, spot_urdf
from adc_wrappers.core.errors import BackendError, CurriculumError
from adc_wrappers.envs.episodes import EpisodeRunner
from adc_wrappers.envs.spot import HANDSTAND, HINDSTAND, Stance
from adc_wrappers.envs.task_env import TaskEnv, TaskVectorEnv

ENGINES = ("mujoco", "pybullet")
TASKS = {"spot-handstand": "ADC/SpotHandstand-v0", "spot-hindstand": "ADC/SpotHindstand-v0"}
FRONT, HIND = ("fl_foot", "fr_foot"), ("hl_foot", "hr_foot")

Make = Callable[..., Any]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes envs and closes them after the test."""
    made: list[Any] = []

    def build(task: str = "spot-handstand", **settings: Any) -> Any:
        made.append(make_env(task, **settings))
        return made[-1]

    yield build
    for env in made:
        env.close()


# --- interfaces ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "wrapped"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("gymnasium_id", TASKS.values())
def test_env_checkers_pass(gymnasium_id: str, engine: str, wrapped: bool) -> None:
    env: Any = gym.make(gymnasium_id, backend=engine)
    if wrapped:
        env = ActuatorCurriculumWrapper(env)
    gymnasium_check(env if wrapped else env.unwrapped, skip_render_check=True)
    sb3_check(env)
    env.close()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("task", TASKS)
def test_a_batch_has_gymnasiums_shapes(make: Make, task: str, engine: str) -> None:
    env = make(task, backend=engine, num_envs=3)
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space
    observation, reward, terminated, truncated, infos = env.step(env.action_space.sample())
    assert observation in env.observation_space
    assert observation.dtype == np.float32
    assert reward.shape == terminated.shape == truncated.shape == (3,)
    np.testing.assert_allclose(sum(infos["reward_terms"].values()), reward)


# --- actions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "reach"),
    [({}, 0.9), ({"preset": "authors"}, 0.2 * 5.0), ({"action_scale": 0.5}, 0.5), ({"action_limit": 2.0}, 1.8)],
    ids=["paper", "authors", "scale", "limit"],
)
def test_actions_reach_the_robots_scaled_and_clipped(settings: dict[str, Any], reach: float) -> None:
    task, robots = fake_task(**settings)
    actions = np.zeros((1, 12), np.float32)
    actions[0, :3] = 5.0, -5.0, 0.5
    task.advance(actions)
    expected = np.zeros(12)
    expected[:3] = reach, -reach, 0.5 * task.action_scale
    np.testing.assert_allclose(robots.targets[-1][0], POSE + expected, atol=1e-7)
    assert float(task.action_space.high[0]) == task.action_limit


@pytest.mark.parametrize("engine", ENGINES)
def test_actions_move_the_engines_joints(make: Make, engine: str) -> None:
    """In the air, where every joint comes to where it was told."""
    env = make(backend=engine, num_envs=1, randomize=False)
    env.reset(seed=0)
    still = np.zeros((1, 3))
    high = np.array([[0.0, 0.0, 30.0]])
    level = np.array([[1.0, 0.0, 0.0, 0.0]])
    env.actuator_backend.reset(RobotStart(high, level, still, still, POSE[None], np.zeros((1, 12))))
    action = np.zeros((1, 12), np.float32)
    action[0, [1, 5]] = 0.3, -7.0
    for _ in range(60):
        env.step(action)
    offset = env.actuator_backend.state().joint_positions[0] - POSE
    assert offset[[1, 5, 0]] == pytest.approx([0.27, -0.9, 0.0], abs=0.02)


# --- endings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "deadly"),
    [("paper", ("body", "uleg")), ("authors", ("body", "uleg", "lleg")), ("cpu", ("body", "hip", "uleg"))],
)
def test_which_links_end_an_episode(preset: str, deadly: tuple[str, ...]) -> None:
    task, robots = fake_task(preset=preset)
    for name in LINK_NAMES:
        robots.now = make_state(touching=(name,))
        task.look()
        assert bool(task.terminated()[0]) == name.endswith(deadly), name


def test_without_early_termination_the_first_fall_of_an_episode_is_paid_once() -> None:
    task, robots = fake_task(fall_cost=50.0)
    task.early_termination = False
    env = TaskVectorEnv(task)
    env.reset(seed=0)
    down, up = make_state(touching=("body",)), make_state(touching=(*FRONT, *HIND))

    def paid(state: Any) -> float:
        robots.now = state
        infos = env.step(np.zeros((1, 12), np.float32))[4]
        assert task.reward_terms()["fall"][0] == infos["reward_terms"]["fall"][0]  # asking again changes nothing
        return float(infos["reward_terms"]["fall"][0])

    # a robot that lies rocks: touching again within the same episode is the same failure
    assert [paid(state) for state in (up, down, down, up, down, down)] == [0.0, -50.0, 0.0, 0.0, 0.0, 0.0]
    saved = task.snapshot(np.array([0]))
    robots.now = up
    env.reset()
    assert [paid(state) for state in (up, down, down)] == [0.0, -50.0, 0.0]
    env.reset()
    task.restore(saved, np.array([0]))
    assert paid(down) == 0.0


def test_with_early_termination_every_fall_is_paid() -> None:
    task, robots = fake_task(fall_cost=50.0)
    env = TaskVectorEnv(task)
    env.reset(seed=0)
    robots.now = make_state(touching=("body",))
    for _ in range(3):
        _, _, terminated, _, infos = env.step(np.zeros((1, 12), np.float32))
        assert terminated[0] and infos["reward_terms"]["fall"][0] == -50.0


def test_the_time_limit_is_1000_steps_and_a_setting() -> None:
    for settings, limit in (({}, 1000), ({"time_limit": 7}, 7)):
        task, robots = fake_task(**settings)
        robots.now = make_state(touching=(*FRONT, *HIND))
        env = TaskEnv(task)
        env.reset(seed=0)
        ends = [env.step(np.zeros(12, np.float32))[2:4] for _ in range(limit)]
        assert ends == [(False, False)] * (limit - 1) + [(False, True)]


# --- success ---------------------------------------------------------------------------------------------------------


def last_step(stance: Stance, script: Callable[[int], Any]) -> Any:
    """Run an episode of 300 steps in states that a script gives by step, and return how it ended."""
    task, robots = fake_task(stance=stance, time_limit=300)
    runner = EpisodeRunner(task)
    runner.begin(np.array([0]), np.random.default_rng(0))
    for step in range(300):
        robots.now = script(step)
        result = runner.step(np.zeros((1, 12), np.float32))
        if result.terminated[0] or result.truncated[0]:
            return result
    raise AssertionError("the episode did not end")


def stand(stance: Stance, touching: tuple[str, ...] | None = None, degrees: float = 0.0) -> Any:
    angle = np.deg2rad(degrees)
    gravity = (stance.gravity[0] * np.cos(angle), np.sin(angle), 0.0)
    return make_state(touching=stance.support_feet if touching is None else touching, projected_gravity=gravity)


STANCES = pytest.mark.parametrize("stance", [HANDSTAND, HINDSTAND], ids=lambda stance: stance.name)


@STANCES
def test_success_is_the_stance_for_the_last_two_seconds(stance: Stance) -> None:
    four_feet = make_state(touching=(*FRONT, *HIND))
    for held, expected in ((300, True), (100, True), (99, False), (0, False)):
        result = last_step(stance, lambda step, held=held: stand(stance) if step >= 300 - held else four_feet)
        assert result.truncated[0]
        assert bool(result.success[0]) is expected, held


@STANCES
def test_the_stance_of_the_other_task_is_no_success(stance: Stance) -> None:
    other = HINDSTAND if stance is HANDSTAND else HANDSTAND
    assert last_step(stance, lambda step: stand(stance)).success[0]
    assert not last_step(stance, lambda step: stand(other)).success[0]


@STANCES
@pytest.mark.parametrize("when", [201, 250, 299])
def test_what_breaks_a_success(stance: Stance, when: int) -> None:
    lifted, support = stance.lifted_feet, stance.support_feet
    spoilers = {
        "a lifted foot": stand(stance, (*support, lifted[0])),
        "a lower leg": stand(stance, (*support, "fl_lleg")),
        "in the air": stand(stance, ()),
        "tilted": stand(stance, degrees=25.0),
    }
    for name, spoiler in spoilers.items():
        result = last_step(stance, lambda step, spoiler=spoiler: spoiler if step == when else stand(stance))
        assert result.truncated[0], name
        assert not result.success[0], name
    for harmless in (stand(stance, support[:1]), stand(stance, degrees=19.0)):
        result = last_step(stance, lambda step, state=harmless: state if step == when else stand(stance))
        assert result.success[0]


@STANCES
def test_a_terminated_episode_is_no_success(stance: Stance) -> None:
    fallen = stand(stance, (*stance.support_feet, "body"))
    for when in (250, 299):
        result = last_step(stance, lambda step, when=when: fallen if step == when else stand(stance))
        assert result.terminated[0]
        assert not result.truncated[0]
        assert not result.success[0]


def test_success_reaches_info() -> None:
    for state, expected in ((stand(HANDSTAND), True), (make_state(touching=FRONT), False)):
        for batched in (False, True):
            task, robots = fake_task(time_limit=120)
            robots.now = state
            env: Any = TaskVectorEnv(task) if batched else TaskEnv(task)
            env.reset(seed=0)
            action = np.zeros((1, 12) if batched else 12, np.float32)
            infos = [env.step(action)[4] for _ in range(120)]
            assert "is_success" not in infos[0]
            final = infos[-1]["final_info"] if batched else infos[-1]
            assert bool(np.all(final["is_success"])) is expected


def test_holding_starts_anew_with_every_episode() -> None:
    task, robots = fake_task(time_limit=99)
    robots.now = stand(HANDSTAND)
    runner = EpisodeRunner(task)
    for _ in range(2):
        runner.begin(np.array([0]), np.random.default_rng(0))
        results = [runner.step(np.zeros((1, 12), np.float32)) for _ in range(99)]
        assert results[-1].truncated[0]
        assert not results[-1].success[0]


# --- determinism -----------------------------------------------------------------------------------------------------


def rollout(env: Any, seed: int, steps: int = 60) -> list[np.ndarray]:
    """Everything that an env gives in so many steps, resets included; the last entry says which envs were reset."""
    rng = np.random.default_rng(7)
    observation, infos = env.reset(seed=seed)
    path = [observation, *infos["randomization"].values()]
    ended = np.zeros(env.num_envs, dtype=bool)
    for _ in range(steps):
        action = rng.uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32)
        observation, reward, terminated, truncated, _ = env.step(action)
        path += [observation, reward, terminated, truncated]
        ended |= terminated | truncated
    return [*path, ended]


@pytest.mark.parametrize("engine", ENGINES)
def test_seeded_runs_repeat_bit_for_bit(make: Make, engine: str) -> None:
    envs = [make(backend=engine, num_envs=4, time_limit=40) for _ in range(2)]
    first, second = rollout(envs[0], 3), rollout(envs[1], 3)
    assert first[-1].all(), "an env was never reset: resets were not compared"
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(first, rollout(envs[0], 3), strict=True):  # on the env that has run before
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(first[0], rollout(envs[1], 4, steps=0)[0])


# --- broken physics --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_broken_physics_ends_one_env_and_never_reaches_the_policy(make: Make, engine: str) -> None:
    envs = [make(backend=engine, num_envs=3, randomize=False) for _ in range(2)]
    for env in envs:
        env.reset(seed=0)
    actions = np.zeros((3, 12), np.float32)
    broken = actions.copy()
    broken[1, 4] = np.nan
    calm = [env.step(given) for env, given in zip(envs, (actions, broken), strict=True)]
    observation, reward, terminated, truncated, infos = calm[1]
    assert terminated.tolist() == [False, True, False]
    assert not truncated.any()
    assert np.isfinite(observation).all()
    assert np.isfinite(reward).all()
    assert all(np.isfinite(values).all() for values in infos["reward_terms"].values())
    assert np.isfinite(infos["final_obs"][1]).all()
    assert infos["final_info"]["broken_physics"].tolist() == [False, True, False]
    assert not infos["final_info"]["is_success"].any()
    assert envs[1]._runner.broken_episodes == 1
    np.testing.assert_array_equal(observation[[0, 2]], calm[0][0][[0, 2]])
    np.testing.assert_array_equal(observation[1], envs[0].reset(seed=0)[0][1])
    for _ in range(20):  # the env that broke goes on as a new one would
        fresh, again = envs[0].step(actions)[0], envs[1].step(actions)[0]
    np.testing.assert_array_equal(again[1], fresh[1])
    assert envs[1]._runner.broken_episodes == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_broken_physics_in_a_single_env(make: Make, engine: str) -> None:
    env = make(backend=engine)
    env.reset(seed=0)
    observation, reward, terminated, _, info = env.step(np.full(12, np.nan, np.float32))
    assert terminated
    assert info["broken_physics"]
    assert np.isfinite(observation).all()
    assert np.isfinite(reward)
    assert np.isfinite(env.reset()[0]).all()
    assert not env.step(np.zeros(12, np.float32))[4].get("broken_physics", False)


def test_a_fall_is_not_broken_physics() -> None:
    task, robots = fake_task(num_envs=2)
    robots.now = make_state(2, touching=("body",))
    env = TaskVectorEnv(task)
    env.reset(seed=0)
    infos = env.step(np.zeros((2, 12), np.float32))[4]
    assert infos["final_info"]["broken_physics"].tolist() == [False, False]
    assert env._runner.broken_episodes == 0


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "papre"}, "'paper'"),
        ({"randomize": ["frictoin"]}, "'friction'"),
        ({"randomize": "pushes"}, "'push'"),
        ({"weights": {"orientatoin": -1.0}}, "'orientation'"),
        ({"weights": {"foot_slips": -1.0}}, "unknown reward term 'foot_slips'"),
        ({"weights": {"height": np.nan}}, "weights: expected names and numbers or null, got {'height': nan}"),
        ({"action_scale": 0.0}, "action_scale: expected a positive number, got 0.0"),
        ({"action_scale": np.inf}, "action_scale: expected a finite number"),
        ({"action_limit": np.nan}, "action_limit: expected a number or null, got nan"),
        ({"fall_cost": -1.0}, "fall_cost: expected a number that is not negative"),
        ({"time_limit": 0}, "time_limit: expected at least 1"),
    ],
)
def test_bad_settings_name_the_nearest_good_one(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CurriculumError, match=re.escape(message)):
        make_env("spot-handstand", **settings)


def test_a_weight_brings_a_term_that_the_preset_does_not_have() -> None:
    without = make_env("spot-handstand", randomize=False)
    env = make_env("spot-handstand", randomize=False, weights={"foot_slip": -1.0})
    assert set(env.task.logic.reward_terms()) - set(without.task.logic.reward_terms()) == {"foot_slip"}
    assert env.task.logic.weights["foot_slip"] == pytest.approx(-1.0 * env.task.policy_step)


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"no setting 'randomise'\. Did you mean 'randomize'"):
        make_env("spot-handstand", randomise=False)
    with pytest.raises(ValueError, match=r"unknown task 'spot-handstnad'\. Did you mean 'spot-handstand'"):
        make_env("spot-handstnad")
    with pytest.raises(ValueError, match=r"no backend 'mujocco'\. Did you mean 'mujoco'"):
        make_env("spot-handstand", backend="mujocco")


# --- one's own model -------------------------------------------------------------------------------------------------

MODELS = {"mujoco": ("spot.xml", spot_mjcf), "pybullet": ("spot.urdf", spot_urdf)}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_file_of_ones_own(make: Make, tmp_path: Path, engine: str) -> None:
    """The generated file moves as the built-in robot, and what is changed in it acts."""
    name, write = MODELS[engine]
    files = {friction: tmp_path / f"{friction}_{name}" for friction in (0.8, 0.1)}
    for friction, path in files.items():
        path.write_text(write(friction=friction))
    settings = {"backend": engine, "num_envs": 1, "randomize": False}
    envs = [make(**settings), *(make(**settings, model=str(path)) for path in files.values())]
    actions = np.random.default_rng(0).uniform(-0.3, 0.3, (15, 1, 12)).astype(np.float32)
    for env in envs:
        env.reset(seed=0)
    for action in actions:
        built_in, copy, slippery = (env.step(action)[0] for env in envs)
    np.testing.assert_allclose(copy, built_in, atol=1e-5)
    assert np.abs(slippery - built_in).max() > 1e-2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_model_file_is_named(tmp_path: Path, engine: str) -> None:
    with pytest.raises(BackendError, match="nowhere"):
        make_env("spot-handstand", backend=engine, model=str(tmp_path / "nowhere.urdf"))
