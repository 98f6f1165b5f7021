"""Drivers that look at the task itself: its own progress, and the adaptive rule that goes on and back."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers import TorchBatchEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.vec_env import DummyVecEnv

from adc_wrappers import (
    ActuatorCurriculum,
    ActuatorCurriculumVectorWrapper,
    ActuatorCurriculumWrapper,
    CurriculumConfig,
    CurriculumError,
    make_env,
)
from adc_wrappers.core.episode_totals import EpisodeTotals
from adc_wrappers.sb3 import ActuatorCurriculumVecEnv

ADAPTIVE = CurriculumConfig(
    driver="adaptive", adaptive_lower=0.2, adaptive_upper=0.6, adaptive_step=0.25, adaptive_iterations=3
)


def seen(share: float, steps: int = 100, episodes: int = 2) -> EpisodeTotals:
    """An iteration with this share of steps in the wanted state."""
    return EpisodeTotals(episodes, 50.0 * episodes, measured=steps, progress_sum=share * steps)


# Task progress


def test_k_follows_the_moving_average_of_the_tasks_own_progress() -> None:
    config = CurriculumConfig(driver="task_progress", task_progress_min=0.1, task_progress_max=0.5, ema=0.5)
    curriculum = ActuatorCurriculum(config)
    curriculum.update(EpisodeTotals(5, 5000.0, measured=100))
    assert curriculum.progress == 0.0 and curriculum.stiffness == 60.0  # a robot that merely stands
    curriculum.update(seen(0.6))
    assert curriculum.task_progress_ema == pytest.approx(0.3)
    assert curriculum.progress == pytest.approx(0.5)
    curriculum.update(EpisodeTotals())
    assert curriculum.progress == pytest.approx(0.5)


def test_a_driver_that_waits_for_what_never_comes_says_so() -> None:
    for config in (CurriculumConfig(driver="task_progress"), ADAPTIVE):
        with pytest.raises(CurriculumError, match=r"info\['progress'\]"):
            ActuatorCurriculum(config).update([10, 20])
    by_success = CurriculumConfig(driver="adaptive", adaptive_measure="success")
    with pytest.raises(CurriculumError, match="is_success"):
        ActuatorCurriculum(by_success).update([10, 20])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"task_progress_max": 0.0}, "task_progress_min < task_progress_max"),
        ({"adaptive_lower": 0.7}, "adaptive_lower < adaptive_upper"),
        ({"adaptive_step": 0.0}, "adaptive_step"),
        ({"adaptive_iterations": 0}, "adaptive_iterations"),
        ({"adaptive_measure": "sucess"}, "Did you mean 'success'"),
        ({"adaptive_upper": float("nan")}, "adaptive_upper"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(CurriculumError, match=message):
        CurriculumConfig(**values)


# The adaptive rule


def run(curriculum: ActuatorCurriculum, shares: list[float]) -> list[float]:
    return [float(curriculum.update(seen(share))[0]) for share in shares]


def test_it_goes_on_when_the_policy_copes_and_back_when_it_collapses() -> None:
    curriculum = ActuatorCurriculum(ADAPTIVE)
    assert run(curriculum, [0.9] * 3) == [60.0, 60.0, 55.0]  # three iterations at one stiffness
    assert run(curriculum, [0.9] * 9)[-1] == 40.0
    assert run(curriculum, [0.4] * 9)[-1] == 40.0  # neither good nor bad
    assert run(curriculum, [0.0] * 30)[-1] == 60.0
    assert run(curriculum, [0.9] * 12)[-1] == 40.0


def test_only_what_was_seen_at_the_present_stiffness_counts() -> None:
    curriculum = ActuatorCurriculum(ADAPTIVE)
    run(curriculum, [1.0, 1.0, 1.0])
    assert curriculum.progress == 0.25
    run(curriculum, [0.3, 0.3, 0.3])  # a long average over both stiffnesses would be above 0.6
    assert curriculum.progress == 0.25


def test_it_may_look_at_success_or_length() -> None:
    by_success = ActuatorCurriculum(
        CurriculumConfig(driver="adaptive", adaptive_measure="success", adaptive_iterations=1)
    )
    by_success.update(EpisodeTotals(4, 400.0, judged=4, successes=3))
    assert by_success.progress == pytest.approx(0.1)
    by_length = ActuatorCurriculum(
        CurriculumConfig(driver="adaptive", adaptive_measure="episode_length", adaptive_iterations=1, length_max=100.0)
    )
    by_length.update([60, 60])
    assert by_length.progress == pytest.approx(0.1)
    by_length.update([5, 5])
    assert by_length.progress == 0.0


@settings(deadline=None)
@given(
    shares=st.lists(st.floats(0.0, 1.0), max_size=60),
    step=st.floats(0.01, 1.0),
    iterations=st.integers(1, 5),
    cut=st.integers(0, 60),
)
def test_k_never_leaves_its_range_and_a_checkpoint_changes_nothing(
    shares: list[float], step: float, iterations: int, cut: int
) -> None:
    config = CurriculumConfig(driver="adaptive", adaptive_step=step, adaptive_iterations=iterations)
    whole = ActuatorCurriculum(config)
    path = run(whole, shares)
    assert all(40.0 <= k <= 60.0 for k in path)
    first, second = ActuatorCurriculum(config), ActuatorCurriculum(config)
    begin = run(first, shares[:cut])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert begin + run(second, shares[cut:]) == path


def test_two_ranks_that_add_up_what_they_saw_agree() -> None:
    alone, ranks = ActuatorCurriculum(ADAPTIVE), [ActuatorCurriculum(ADAPTIVE) for _ in range(2)]
    rng = np.random.default_rng(0)
    for _ in range(40):
        parts = [
            seen(float(share), int(steps)) for share, steps in zip(rng.random(2), rng.integers(1, 50, 2), strict=True)
        ]
        together = EpisodeTotals.from_sums(np.sum([part.sums for part in parts], axis=0).tolist())
        stiffness = {float(curriculum.update(together)[0]) for curriculum in ranks}
        assert stiffness == {float(alone.update(parts[0] + parts[1])[0])}


def test_a_state_of_an_older_version_loads_as_if_nothing_had_been_measured() -> None:
    curriculum = ActuatorCurriculum(CurriculumConfig(driver="episode_length"))
    curriculum.update([500, 700])
    state = curriculum.state_dict()
    for name in ("task_progress_ema", "settled", "since"):
        del state[name]
    other = ActuatorCurriculum(CurriculumConfig(driver="episode_length"))
    other.load_state_dict(state)
    assert other.progress == curriculum.progress and other.task_progress_ema == 0.0
    for broken in ({"task_progress_ema": 2.0}, {"settled": -1}, {"since": [1.0]}):
        with pytest.raises(CurriculumError):
            other.load_state_dict({**curriculum.state_dict(), **broken})


# Where progress is collected


CONFIG = CurriculumConfig(
    driver="task_progress", task_progress_max=1.0, ema=1.0, start_stiffness=60, target_stiffness=40
)


class Halfway(gym.Wrapper):
    """An env that says how far it is: at every step, or when an episode ends."""

    def __init__(self, env: gym.Env, *, at_end: bool) -> None:
        super().__init__(env)
        self._at_end = at_end
        self._clock = 0

    def reset(self, **arguments: Any) -> Any:
        self._clock = 0
        return self.env.reset(**arguments)

    def step(self, action: Any) -> Any:
        observation, reward, _, _, info = self.env.step(action)
        self._clock += 1
        ended = self._clock == 5
        info.pop("progress", None)
        if ended or not self._at_end:
            info["progress"] = 0.25 if self._at_end else 0.5 * (self._clock % 2)
        return observation, reward, False, ended, info


def cart(at_end: bool) -> gym.Env:
    return Halfway(make_env("cartpole", backend="analytic"), at_end=at_end)


@pytest.mark.parametrize(("at_end", "mean"), [(False, 0.3), (True, 0.25)])
def test_every_wrapper_collects_it_per_step_or_per_episode(at_end: bool, mean: float) -> None:
    single = ActuatorCurriculumWrapper(cart(at_end), CONFIG, iteration_steps=10)
    single.reset(seed=0)
    for _ in range(10):
        if single.step(single.action_space.sample())[3]:
            single.reset()
    assert single.curriculum.task_progress_ema == pytest.approx(mean)
    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
        children = SyncVectorEnv([lambda: cart(at_end)] * 2, autoreset_mode=mode)
        envs = ActuatorCurriculumVectorWrapper(children, CONFIG, iteration_steps=12)
        envs.reset(seed=0)
        for _ in range(12):
            envs.step(envs.action_space.sample())
        assert envs.curriculum.task_progress_ema == pytest.approx(mean, abs=0.06), mode
        envs.close()
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([lambda: cart(at_end)] * 2), CONFIG, iteration_steps=10)
    venv.reset()
    for _ in range(10):
        venv.step(np.zeros((2, 1), dtype=np.float32))
    assert venv.curriculum.task_progress_ema == pytest.approx(mean)


def test_a_batch_of_tensors_collects_it_on_its_device() -> None:
    class Measured(TorchBatchEnv):
        def step(self, action: Any) -> Any:
            result = super().step(action)
            result[4]["progress"] = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
            return result

    env = ActuatorCurriculumWrapper(Measured([[5], [5], [5]]), CONFIG, iteration_steps=10)
    env.reset()
    for _ in range(10):
        env.step(torch.zeros(3, 2))
    assert env.curriculum.task_progress_ema == pytest.approx(0.5)


def test_our_own_tasks_report_the_share_of_steps_in_the_wanted_state() -> None:
    envs = make_env("spot-planar-handstand", num_envs=4)
    envs.reset(seed=0)
    for _ in range(3):
        infos = envs.step(np.zeros((4, 4), dtype=np.float32))[-1]
        np.testing.assert_array_equal(infos["progress"], infos["holds"].astype(np.float64))
    envs.close()


def test_nothing_is_collected_in_evaluation_or_for_drivers_that_do_not_look() -> None:
    envs = ActuatorCurriculumVectorWrapper(make_env("spot-planar-handstand", num_envs=2), CONFIG)
    envs.reset(seed=0)
    with envs.evaluation():
        envs.reset(seed=1)
        envs.step(np.zeros((2, 4), dtype=np.float32))
    envs.reset(seed=0)
    envs.step(np.zeros((2, 4), dtype=np.float32))
    assert envs._counter.collect().measured == 2
    plain = ActuatorCurriculumVectorWrapper(make_env("spot-planar-handstand", num_envs=2), CurriculumConfig())
    plain.reset(seed=0)
    plain.step(np.zeros((2, 4), dtype=np.float32))
    assert plain._counter.collect().measured == 0
