"""A constant command stands Spot for a whole episode, from the task's own start, at both ends of the curriculum."""

from __future__ import annotations

import numpy as np
import pytest

from adc_wrappers import ActuatorCurriculumWrapper, CurriculumConfig, make_env
from adc_wrappers.viewing.playback import make_action


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["mujoco", "pybullet"])
@pytest.mark.parametrize("stiffness", [40.0, 60.0])
def test_weight_and_pressing_feet_compensated_stand_for_twenty_seconds(backend, stiffness):
    """The joint torques of a level stance whose feet press outwards, over K, on top of the nominal pose."""
    env = make_env("spot-handstand", backend=backend, randomize=False)
    curriculum = CurriculumConfig(start_stiffness=stiffness, target_stiffness=stiffness)
    wrapped = ActuatorCurriculumWrapper(env, curriculum)
    action = make_action("standing", env.task)(np.zeros((1, 45), np.float32))[0]
    assert np.abs(action).max() < 1.0
    wrapped.reset(seed=0)
    for step in range(1000):
        _, _, terminated, truncated, _ = wrapped.step(action)
        assert not terminated, f"fell after {step} steps"
    assert truncated
    wrapped.close()
