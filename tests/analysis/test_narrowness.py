"""Saving and restoring tasks, tries from saved states, ε, advice, and the commands."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("scipy")

from adc_wrappers import make_env
from adc_wrappers.cli import main
from adc_wrappers.core.errors import BackendError, CurriculumError
from adc_wrappers.envs.task import Task
from adc_wrappers.viability import Narrowness, SearchSettings, advise, estimate_narrowness
from adc_wrappers.viability.narrowness import kernel_epsilon
from adc_wrappers.viability.tries import Tries, explore, lives, set_stiffness, take

QUICK = SearchSettings(horizon=60, states=24, tries=8, rounds=2)
TASKS = [
    ("cartpole", "analytic", {}),
    ("double-cartpole", "analytic", {}),
    ("cartpole", "pybullet", {}),
    ("spot-handstand", "mujoco", {"randomize": ["friction", "mass", "velocity", "joints"]}),
]


def make_task(name="cartpole", backend="analytic", count=64, **settings):
    return make_env(name, backend=backend, num_envs=count, **settings).task


@pytest.mark.parametrize(("name", "backend", "settings"), TASKS)
def test_a_restored_env_goes_on_as_the_saved_one_did(name, backend, settings):
    task, rng = make_task(name, backend, 4, **settings), np.random.default_rng(0)
    task.begin(np.arange(4), rng)
    actions = rng.uniform(-0.3, 0.3, (20, 4, *task.action_space.shape)).astype(np.float32)
    for action in actions[:5]:
        task.advance(action)
    saved = task.snapshot(np.arange(4))
    for action in actions[5:]:
        task.advance(action)
    first = task.observe().copy()
    order = np.array([2, 0, 3, 1])
    task.restore(take(saved, order), np.arange(4))
    for action in actions[5:]:
        task.advance(action[order])
    np.testing.assert_allclose(task.observe(), first[order], atol=2e-3)


def test_what_does_not_follow_from_the_state_is_refused():
    task = make_task("spot-handstand", "mujoco", 2)
    with pytest.raises(BackendError, match="randomized by 'push' cannot be saved"):
        task.snapshot(np.arange(2))


def test_a_task_without_saving_says_so():
    class Bare(Task):
        pass

    Bare.__abstractmethods__ = frozenset()
    with pytest.raises(BackendError, match="Bare cannot be saved"):
        Bare().snapshot(np.arange(1))


def test_every_try_is_made_even_with_few_envs_and_a_solved_state_drops_the_rest():
    task, rng = make_task(count=7), np.random.default_rng(0)
    task.begin(np.arange(7), rng)
    saved = task.snapshot(np.arange(5))
    owners = np.repeat(np.arange(5), 6)
    knots = np.zeros((30, 3, 1), np.float32)
    solved = np.zeros(5, bool)
    answer = lives(task, saved, Tries(owners, knots, np.full(30, -1)), (), 400, solved)
    assert (answer >= 0).all() and not solved.any()
    assert all(len(set(answer[owners == state])) == 1 for state in range(5))
    short = lives(task, saved, Tries(owners, knots, np.full(30, -1)), (), int(answer.min()), solved)
    assert solved.all() and set(short.tolist()) == {-1, int(answer.min())}


def test_lives_are_those_of_a_plain_loop():
    task, rng = make_task(count=6), np.random.default_rng(3)
    task.begin(np.arange(6), rng)
    saved = task.snapshot(np.arange(6))
    knots = np.repeat(rng.uniform(-1, 1, (6, 1, 1)), 2, axis=1).astype(np.float32)
    expected = np.zeros(6, np.int64)
    alive = np.ones(6, bool)
    for _ in range(80):
        task.advance(knots[:, 0])
        alive &= ~task.terminated()
        expected += alive
    answer = lives(task, saved, Tries(np.arange(6), knots, np.full(6, -1)), (), 80, np.zeros(6, bool))
    assert answer.tolist() == expected.tolist()


def test_random_exploration_is_counted_right():
    task = make_task(count=50)
    set_stiffness(task, 6.25)
    found = explore(task, 60, np.random.default_rng(0))
    assert found.survival[0] == 1.0 and (np.diff(found.survival) <= 0).all()
    assert found.lengths.max() <= 60
    assert found.alive_share == pytest.approx(found.alive.sum() / (found.alive.sum() + (~found.alive[-1]).sum()))
    states, times = found.sample(40, np.random.default_rng(1))
    assert len(times) == 40 and (np.abs(states["state"][:, 0]) <= 1.0).all()


def test_the_estimate_brackets_the_kernel_on_the_cart_pole_and_grows_with_stiffness():
    task = make_task(count=256)
    found = estimate_narrowness(task, [4.0, 36.0], replace(QUICK, states=60, horizon=100))
    exact = kernel_epsilon(task, found, points=11)
    for item, value in zip(found, exact, strict=True):
        assert item.lower <= value + 1e-9 <= item.upper + 1e-9
        assert value - item.lower < 0.05
        assert item.interval[0] < item.lower and item.interval[1] > item.upper
    assert found[0].lower < found[1].lower
    assert found[1].coverage[0] > 0.95


def test_two_poles_are_narrower_on_a_soft_cart_than_on_a_stiff_one():
    soft, stiff = estimate_narrowness(make_task("double-cartpole", count=128), [4.0, 100.0], QUICK)
    assert soft.lower < stiff.lower


@pytest.mark.slow
def test_spot_is_narrower_with_soft_joints_than_with_stiff_ones():
    task = make_task("spot-handstand", "mujoco", 64, randomize=["friction", "mass", "velocity", "joints"])
    soft, stiff = estimate_narrowness(task, [30.0, 90.0], replace(QUICK, states=8, horizon=40))
    assert soft.lengths.mean() < stiff.lengths.mean()
    assert soft.lower <= stiff.lower


# --- advice ----------------------------------------------------------------------------------------------------------


def met(stiffness, saved, length=30, starts=1.0, horizon=100):
    lives_of = np.where(np.arange(100) < 100 * saved, horizon, 20)
    alive = (np.arange(horizon + 1) <= length).astype(float)
    return Narrowness(
        stiffness, alive, np.full(50, length), 1.0, {}, lives_of, np.where(np.arange(100) < 100 * starts, horizon, 3),
        horizon, 10,
    )  # fmt: skip


def test_the_start_stiffness_is_where_the_gain_saturates():
    found = [met(40, 0.1), met(50, 0.4), met(60, 0.78), met(70, 0.8), met(80, 0.79)]
    advice = advise(found, 1000)
    assert advice.start_stiffness == 60
    assert advice.start_range[0] <= 60 <= advice.start_range[1]
    assert advice.length_min == 30 and advice.length_max == 900


def test_without_a_gain_in_viability_the_random_episode_decides_and_without_either_nothing_is_changed():
    assert advise([met(40, 0.3, 20), met(50, 0.31, 60), met(60, 0.3, 61)], 500).start_stiffness == 50
    flat = advise([met(40, 0.3), met(50, 0.31)], 500)
    assert flat.start_stiffness == 40 and "do not help" in flat.reasons[0]


def test_lost_starts_lower_the_upper_threshold():
    advice = advise([met(40, 0.1, starts=0.5), met(60, 0.6)], 1000)
    assert advice.length_max == pytest.approx(450)
    assert "50% of the starts look lost" in advice.reasons[2]


@pytest.mark.parametrize("found", [[], [met(40, 0.1)], [met(60, 0.1), met(40, 0.2)]])
def test_advice_needs_rising_stiffnesses(found):
    with pytest.raises(CurriculumError, match="at least two stiffnesses in rising order"):
        advise(found, 1000)


# --- the commands ----------------------------------------------------------------------------------------------------

FEW = ["--states", "8", "--episodes", "16", "--tries", "3", "--rounds", "1", "--horizon", "40"]


def test_narrowness_prints_and_writes(tmp_path, capsys):
    words = ["narrowness", "cartpole", "--stiffness", "6.25", "36", "--out", str(tmp_path), *FEW]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "ε at K = 6.25" in text and str(tmp_path / "narrowness.png") in text
    rows = list(csv.DictReader((tmp_path / "narrowness.csv").open()))
    assert [float(row["stiffness"]) for row in rows] == [6.25, 36.0]
    assert all(float(row["epsilon_lower"]) <= float(row["epsilon_upper"]) for row in rows)
    assert len(list(csv.reader((tmp_path / "survival.csv").open()))) == 42


def test_advise_prints_reasons_and_a_command(tmp_path, capsys):
    words = ["advise", "double-cartpole", "--stiffness", "4", "100", "--out", str(tmp_path), *FEW]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "K_0" in text and "L_min" in text and "adc train double-cartpole --curriculum.start-stiffness" in text
    assert (tmp_path / "advice.csv").is_file()


def test_viability_draws_and_writes(tmp_path, capsys):
    words = ["viability", "cartpole", "--frequencies", "2", "6", "--slices", "2", "6", "--start-points", "9"]
    words += ["--kernel-frequencies", "2", "6", "--kernel-points", "7", "9", "--horizon", "1", "--no-influence"]
    words += ["--pairs", "6", "7", "--samples", "10", "--kernel-horizon", "0.8", "--out", str(tmp_path)]
    assert main(words) == 0
    text = capsys.readouterr().out
    names = ["viability.png", "success.csv", "maps.csv", "coverage.csv", "inclusion.csv", "proposition.csv"]
    for name in names:
        assert str(tmp_path / name) in text and (tmp_path / name).stat().st_size > 50


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["narrowness", "cartpol"], "Did you mean 'cartpole'?"),
        (["narrowness", "cartpole", "--horizon", "5"], "given_up: expected 0 to 4"),
        (["narrowness", "cartpole", "--stiffness", "-1", *FEW], "stiffness: expected a positive number, got -1"),
        (["advise", "cartpole", "--stiffness", "4", *FEW], "at least two stiffnesses"),
        (["viability", "cartpole", "--slices", "3.3"], "--slices: expected some of --frequencies"),
        (["narrowness", "spot-handstand", "--set", "randomize=True", *FEW], "randomized by 'push' cannot be saved"),
    ],
)
def test_the_commands_answer_mistakes(words, message, capsys, tmp_path):
    assert main([*words, "--out", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
