"""Observations of several moments: order, starts, saved states, the mirror, every kind of array."""

from __future__ import annotations

import numpy as np
import pytest

from adc_wrappers import CurriculumError, make_env
from adc_wrappers.envs.spot.sensing import ObservationHistory


def as_kind(kind: str, values: np.ndarray):
    return values if kind == "numpy" else pytest.importorskip("torch").tensor(values)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_what_was_seen_follows_what_is_seen_newest_first(kind):
    frames = np.arange(5 * 2 * 3, dtype=np.float64).reshape(5, 2, 3)
    history = ObservationHistory(as_kind(kind, frames[0]), 3)
    np.testing.assert_array_equal(history.seen(as_kind(kind, frames[0])), np.tile(frames[0], 3))
    for frame in frames[:3]:
        history.step(as_kind(kind, frame))
    expected = np.concatenate((frames[3], frames[2], frames[1]), axis=1)
    np.testing.assert_array_equal(history.seen(as_kind(kind, frames[3])), expected)
    history.begin(as_kind(kind, frames[4]), as_kind(kind, np.array([1])))
    expected = np.concatenate((frames[4], frames[2], frames[1]), axis=1)
    expected[1] = np.tile(frames[4, 1], 3)
    np.testing.assert_array_equal(history.seen(as_kind(kind, frames[4])), expected)


def test_one_moment_is_what_is_seen():
    frame = np.ones((2, 3))
    history = ObservationHistory(frame, 1)
    history.step(frame)
    history.begin(frame, np.array([0]))
    assert history.past is None and history.seen(frame) is frame


@pytest.mark.parametrize("task", ["spot-handstand", "spot-planar-handstand"])
def test_an_env_shows_its_last_observations(task):
    env = make_env(task, num_envs=3, preset="robot", moments=3, time_limit=6)
    size = env.single_observation_space.shape[0] // 3
    seen, _ = env.reset(seed=0)
    np.testing.assert_array_equal(seen, np.tile(seen[:, :size], 3))
    rng = np.random.default_rng(0)
    for _ in range(12):
        before = seen
        seen, _, ended, truncated, _ = env.step(rng.uniform(-1, 1, env.action_space.shape).astype(np.float32))
        begun = ended | truncated
        np.testing.assert_array_equal(seen[~begun, size:], before[~begun, :-size])
        np.testing.assert_array_equal(seen[begun], np.tile(seen[begun, :size], 3))
    assert begun.any(), "no episode ended in the last step, so no new one was looked at"
    env.close()


def test_the_past_is_saved_with_an_env():
    settings = {"num_envs": 2, "preset": "robot", "moments": 3, "randomize": ["mass"]}
    env, other = make_env("spot-handstand", **settings), make_env("spot-handstand", **settings)
    env.reset(seed=0)
    other.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(4):
        env.step(rng.uniform(-1, 1, (2, 12)).astype(np.float32))
    other.load_env_state(env.env_state())
    np.testing.assert_array_equal(other.task.observe(), env.task.observe())
    env.task.restore(env.task.snapshot(np.array([0])), np.array([1]))
    np.testing.assert_array_equal(env.task.history.past[1], env.task.history.past[0])
    for made in (env, other):
        made.close()


def test_the_mirror_turns_every_moment_and_the_file_names_it():
    env = make_env("spot-handstand", num_envs=1, preset="robot", moments=2)
    one = make_env("spot-handstand", num_envs=1, preset="robot", moments=1)
    values = np.random.default_rng(0).normal(size=90)
    turned = env.task.mirror.observations(values)
    np.testing.assert_array_equal(turned[:45], one.task.mirror.observations(values[:45]))
    np.testing.assert_array_equal(turned[45:], one.task.mirror.observations(values[45:]))
    assert env.task.observation_scale == one.task.observation_scale * 2
    parts = env.task.deployment().observation
    assert [part.now for part in parts[6:]] == [part.name for part in parts[:6]]
    assert parts[6].name == "base_linear_velocity_before_1" and "1 policy step before" in parts[6].meaning
    for made in (env, one):
        made.close()


@pytest.mark.parametrize("moments", [0, 21])
def test_none_and_too_many_are_refused(moments):
    with pytest.raises(CurriculumError, match=f"spot moments: expected 1 to 20, got {moments}"):
        make_env("spot-handstand", moments=moments)
