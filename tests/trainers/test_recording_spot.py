"""Films of Spot in both engines."""

from __future__ import annotations

import imageio.v2 as imageio
import numpy as np
import pytest

from adc_wrappers import make_env
from adc_wrappers.runs.recording import record_episode
from adc_wrappers.viewing import make_action


@pytest.mark.parametrize("backend", ["mujoco", "pybullet"])
@pytest.mark.parametrize("ending", ["gif", "mp4"])
def test_spot_is_filmed(tmp_path, backend, ending):
    env = make_env("spot-handstand", backend=backend, render_mode="rgb_array", randomize=False, time_limit=20)
    path = tmp_path / f"film.{ending}"
    length, success = record_episode(make_action("random", env.task), env, env.adc_config, path, seed=0)
    assert (length, success) == (20, False)
    np.testing.assert_array_equal(env.task.backend.gains().stiffness, 40.0)
    env.close()
    frames = [np.asarray(frame)[..., :3].astype(float) for frame in imageio.get_reader(path)]
    assert len(frames) == (10 if ending == "gif" else 20)  # 25 and 50 pictures per second
    for frame in frames:
        yellow = (frame[..., 0] > 150) & (frame[..., 1] > 90) & (frame[..., 2] < 90)
        assert frame.shape[1:] == (640, 3) and 0.005 < yellow.mean() < 0.3, "Spot's shell must be in the picture"
    assert np.abs(frames[-1] - frames[0]).mean() > 0.5, "the robot must move"
