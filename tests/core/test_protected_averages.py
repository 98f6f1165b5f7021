"""Averages after a resume that begins all envs anew: they neither dip nor jump."""

from __future__ import annotations

import logging

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from helpers import FakeBackend, TorchBatchEnv

from adc_wrappers import ActuatorCurriculumVectorWrapper, ActuatorCurriculumWrapper, CurriculumConfig
from adc_wrappers.core.counters import ArrayCounter, TensorCounter
from adc_wrappers.core.episode_totals import EpisodeTotals

ENVS, LIMIT, FALLS = 200, 100, 0.3
MEAN = FALLS * 5.5 + (1.0 - FALLS) * LIMIT
CONFIG = CurriculumConfig(length_max=120.0, ema=0.1)


class ForeignEnv(VectorEnv):
    """Somebody else's envs: three of ten episodes fall within ten steps, the others reach the time limit."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, seed: int) -> None:
        self.num_envs = ENVS
        self.single_observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.single_action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, ENVS)
        self.action_space = batch_space(self.single_action_space, ENVS)
        self.actuator_backend = FakeBackend(ENVS)
        self._rng = np.random.default_rng(seed)

    def _lengths(self, count):
        short = self._rng.integers(1, 11, count)
        return np.where(self._rng.random(count) < FALLS, short, LIMIT)

    def reset(self, *, seed=None, options=None):
        self._left = self._lengths(ENVS)
        return np.zeros((ENVS, 1), np.float32), {}

    def step(self, actions):
        self._left -= 1
        done = self._left <= 0
        self._left[done] = self._lengths(done.sum())
        none = np.zeros(ENVS, bool)
        return np.zeros((ENVS, 1), np.float32), np.zeros(ENVS), done, none, {}


def iterate(env, iterations: int, steps: int = 8) -> list[float]:
    """Return the moving average after each iteration."""
    averages = []
    for _ in range(iterations):
        for _ in range(steps):
            env.step(np.zeros((ENVS, 1), np.float32))
        averages.append(env.end_iteration()["episode_length_ema"])
    return averages


def settled_state() -> dict:
    """State of a curriculum whose average has come to rest where it belongs."""
    env = ActuatorCurriculumVectorWrapper(ForeignEnv(0), CONFIG)
    return {**env.state_dict(), "iteration": 500, "length_ema": MEAN, "progress": MEAN / CONFIG.length_max}


@pytest.mark.parametrize("seed", range(3))
def test_the_average_of_a_foreign_env_neither_dips_nor_jumps(seed, caplog):
    env = ActuatorCurriculumVectorWrapper(ForeignEnv(seed), CONFIG)
    env.load_state_dict(settled_state())
    env.reset()
    with caplog.at_level(logging.WARNING):
        averages = iterate(env, 60)
    assert averages[:12] == [MEAN] * 12  # until every env has completed an episode, at step 100
    assert np.abs(np.array(averages) - MEAN).max() < 0.15 * MEAN
    (message,) = [record.getMessage() for record in caplog.records]
    assert "begin anew" in message


def test_without_protection_it_does_dip():
    """The test above can fail: the same envs, begun anew under a curriculum that does not know it."""
    env = ActuatorCurriculumVectorWrapper(ForeignEnv(0), CONFIG)
    env.load_state_dict(settled_state())
    env._counter = ArrayCounter(ENVS, AutoresetMode.SAME_STEP)
    env.reset()
    assert min(iterate(env, 60)) < 0.65 * MEAN


def test_a_new_run_is_not_protected():
    env = ActuatorCurriculumVectorWrapper(ForeignEnv(0), CONFIG)
    env.load_state_dict(env.state_dict())
    assert not env._counter.protected


def test_an_episode_that_never_ends_is_waited_for_only_so_long():
    counter = ArrayCounter(2, AutoresetMode.SAME_STEP)
    counter.protect(patience=10.0)
    for step in range(1, 13):
        counter.step(np.array([step % 4 == 0, False]))
        totals = counter.collect()
        waited_for = step >= 10 and step % 4 == 0
        assert totals == (EpisodeTotals(2, 4.0 + step) if waited_for else EpisodeTotals())


def test_protection_is_saved_and_loaded():
    one, other = (ArrayCounter(2, AutoresetMode.SAME_STEP) for _ in range(2))
    one.protect(patience=50.0)
    one.step(np.array([True, False]))
    one.judge(np.array([0]), np.array([True]))
    other.load_state_dict(one.state_dict())
    for counter in (one, other):
        counter.step(np.array([False, True]))
        counter.judge(np.array([1]), np.array([False]))
        assert counter.collect() == EpisodeTotals(2, 3.0, 2, 1)


def test_tensors_are_counted_as_arrays_are():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    array, tensor = ArrayCounter(6, AutoresetMode.SAME_STEP), TensorCounter(torch.zeros(6, dtype=torch.bool))
    for counter in (array, tensor):
        counter.protect(patience=30.0)
    seen = []
    for _ in range(12):
        for _ in range(int(rng.integers(1, 90))):
            done, won = rng.random(6) < 0.05, rng.random(6) < 0.5
            ended = array.step(done)
            tensor.step(torch.from_numpy(done), torch.zeros(6, dtype=torch.bool))
            if rng.random() < 0.7:
                tensor.judge(torch.from_numpy(won))
                if ended is not None:
                    array.judge(ended, won[ended])
        seen.append(array.collect())
        assert tensor.collect() == seen[-1]
    assert seen[0] != seen[-1] and seen[-1].episodes == 6 and seen[-1].judged > 0


def test_a_batch_of_tensors_is_protected_too(caplog):
    torch = pytest.importorskip("torch")
    lengths = [[3, 3, 3, 3]] * 3 + [[20, 20]]
    env = ActuatorCurriculumWrapper(TorchBatchEnv([row * (1 if len(row) == 4 else 2) for row in lengths]), CONFIG)
    state = env.state_dict()
    env.load_state_dict({**state, "iteration": 3, "length_ema": 7.25, "progress": 7.25 / 120.0})
    env.reset()
    averages = []
    for _ in range(5):
        for _ in range(8):
            env.step(torch.zeros(4, 2, dtype=torch.float64))
        averages.append(env.end_iteration()["episode_length_ema"])
    assert averages == [7.25] * 5  # (3 · 3 + 20) / 4, whenever they end
    assert "begin anew" in caplog.text
