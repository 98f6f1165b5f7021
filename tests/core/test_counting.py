"""The same episodes give the same lengths, however the envs are batched and reset."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from helpers import FakeBackend, ScriptedEnv, TorchBatchEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from adc_wrappers import (
    ActuatorCurriculumVectorWrapper,
    ActuatorCurriculumWrapper,
    ActuatorPort,
    CurriculumConfig,
    EpisodeTotals,
)
from adc_wrappers.core.counters import TensorCounter
from adc_wrappers.sb3 import ActuatorCurriculumVecEnv

CONFIG = CurriculumConfig(length_max=50, ema=0.3)
SCRIPTS = [[3, 5, 1], [7], [2, 9], [1]]
EPISODES = 6


def child(lengths):
    return ActuatorPort(ScriptedEnv(lengths, FakeBackend()))


def makers(scripts):
    return [functools.partial(child, lengths) for lengths in scripts]


def expected_totals(scripts):
    """The first EPISODES episodes of every env."""
    lengths = [script[i % len(script)] for script in scripts for i in range(EPISODES)]
    successes = [i % 3 == 0 for _ in scripts for i in range(EPISODES)]
    return EpisodeTotals.from_lengths(lengths, successes)


def count_vector(env, mode):
    """Step a batch of one env until it has finished EPISODES episodes and return their totals."""
    env.reset(seed=0)
    left = EPISODES
    while left:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        done = terminated | truncated
        left -= int(done.sum())
        if mode == AutoresetMode.DISABLED and done.any() and left:
            env.reset(options={"reset_mask": done})
    return env._counter.collect()


@pytest.mark.parametrize("vector_class", [SyncVectorEnv, AsyncVectorEnv])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_gymnasium_modes_agree_env_by_env(vector_class, mode):
    scripts = SCRIPTS if vector_class is SyncVectorEnv else SCRIPTS[:1]
    total = EpisodeTotals()
    for script in scripts:
        inner = vector_class(makers([script]), autoreset_mode=mode)
        env = ActuatorCurriculumVectorWrapper(inner, CONFIG)
        total += count_vector(env, mode)
        env.close()
    assert total == expected_totals(scripts)


def lengths_per_iteration(step, end, counter, steps=60, every=10):
    """Totals of each iteration of ten steps."""
    rows = []
    for i in range(steps):
        step()
        if (i + 1) % every == 0:
            rows.append(counter().collect())
    end()
    return rows


def same_step_reference(scripts, steps=60, every=10):
    """Iterations of envs that reset in the step that ends an episode, counted by hand."""
    rows, clocks, episodes = [], [0] * len(scripts), [0] * len(scripts)
    lengths, successes = [], []
    for i in range(steps):
        for env, script in enumerate(scripts):
            clocks[env] += 1
            if clocks[env] == script[episodes[env] % len(script)]:
                lengths.append(clocks[env])
                successes.append(episodes[env] % 3 == 0)
                clocks[env] = 0
                episodes[env] += 1
        if (i + 1) % every == 0:
            rows.append(EpisodeTotals.from_lengths(lengths, successes))
            lengths, successes = [], []
    return rows


def run_gymnasium(scripts):
    inner = SyncVectorEnv(makers(scripts), autoreset_mode=AutoresetMode.SAME_STEP)
    env = ActuatorCurriculumVectorWrapper(inner, CONFIG)
    env.reset()
    return lengths_per_iteration(lambda: env.step(env.action_space.sample()), env.close, lambda: env._counter)


def run_sb3(scripts, vec_class):
    venv = ActuatorCurriculumVecEnv(vec_class(makers(scripts)), CONFIG)
    venv.reset()
    actions = np.zeros((len(scripts), 2), np.float32)
    return lengths_per_iteration(lambda: venv.step(actions), venv.close, lambda: venv._counter)


def run_torch(scripts):
    longest = int(np.lcm.reduce([len(script) for script in scripts]))
    rows = [(script * longest)[:longest] for script in scripts]
    env = ActuatorCurriculumWrapper(TorchBatchEnv(rows), CONFIG)
    env.reset()
    actions = torch.zeros(len(scripts), 2)
    return lengths_per_iteration(lambda: env.step(actions), env.close, lambda: env._counter)


@pytest.mark.parametrize(
    "run",
    [run_gymnasium, functools.partial(run_sb3, vec_class=DummyVecEnv), run_torch],
    ids=["gymnasium", "dummy", "torch"],
)
def test_every_batch_counts_what_was_counted_by_hand(run):
    assert run(SCRIPTS) == same_step_reference(SCRIPTS)


@pytest.mark.slow
def test_worker_processes_count_what_was_counted_by_hand():
    scripts = SCRIPTS[:2]
    assert run_sb3(scripts, SubprocVecEnv) == same_step_reference(scripts)


def test_a_torch_batch_counts_across_its_buffer_and_through_restarts():
    """More steps in an iteration than the buffer has rows, and a reset in the middle of episodes."""
    env = ActuatorCurriculumWrapper(TorchBatchEnv([[150], [7]]), CONFIG)
    env.reset()
    for _ in range(200):
        env.step(torch.zeros(2, 2))
    assert env._counter.collect() == EpisodeTotals.from_lengths(
        [150] + [7] * 28, [True] + [i % 3 == 0 for i in range(28)]
    )
    env.reset()
    for _ in range(100):
        env.step(torch.zeros(2, 2))
    env.reset()
    for _ in range(150):
        env.step(torch.zeros(2, 2))
    lengths = [150] + [7] * 14 + [7] * 21
    assert env._counter.collect().length_sum == sum(lengths)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=4), min_size=1, max_size=5))
def test_random_scripts_are_counted_the_same_by_numpy_and_torch(scripts):
    assert run_torch(scripts) == same_step_reference(scripts)
    assert run_gymnasium(scripts) == same_step_reference(scripts)


def test_a_single_env_counts_the_same():
    env = ActuatorCurriculumWrapper(ScriptedEnv([3, 5, 1]), CONFIG)
    env.reset()

    def step():
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()

    assert lengths_per_iteration(step, env.close, lambda: env._counter) == same_step_reference([[3, 5, 1]])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.tuples(st.booleans(), st.booleans()), st.sampled_from([None, 0, 1, 2])), max_size=90))
def test_verdicts_that_come_in_some_steps_only_are_counted_once(steps):
    """None: no verdict in this step; else so many of the two envs succeed. Totals are collected every 40 steps."""
    counter = TensorCounter(torch.zeros(2, dtype=torch.bool))
    judged = successes = expected_judged = expected_successes = 0
    for i, (ended, verdict) in enumerate(steps):
        counter.step(torch.tensor(ended), torch.zeros(2, dtype=torch.bool))
        if verdict is not None:
            won = [k < verdict for k in range(2)]
            counter.judge(torch.tensor(won))
            expected_judged += sum(ended)
            expected_successes += sum(e and w for e, w in zip(ended, won, strict=True))
        if i % 40 == 39 or i == len(steps) - 1:
            totals = counter.collect()
            judged, successes = judged + totals.judged, successes + totals.successes
    assert (judged, successes) == (expected_judged, expected_successes)
