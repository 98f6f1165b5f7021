"""Spot in PyBullet: pictures, models of one's own, and settings that are refused."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bullet_robot_helpers import HEIGHT, NO_ENVS, NOSE_DOWN, Array, Make, bullet_robots, hold, rollout, start
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotBackend, RobotParameters
from adc_wrappers.backends.pybullet import BulletRobotBackend
from adc_wrappers.backends.spot_model import spot_urdf
from adc_wrappers.core.errors import BackendError, MissingExtraError

make = pytest.fixture(bullet_robots)


# --- pictures ---------------------------------------------------------------------------------------------------------


def yellow(picture: NDArray[np.uint8]) -> NDArray[np.bool_]:
    red, green, blue = np.moveaxis(picture.astype(int), 2, 0)
    return np.asarray((red > 120) & (green > 80) & (blue < 60) & (red > green))


def test_a_picture_shows_the_robot_and_follows_it(make: Make) -> None:
    backend = make(2)
    backend.reset(start(position=(30.0, -17.0, HEIGHT)), np.array([1]))
    for env in (0, 1):
        picture = backend.render(env)
        assert picture.shape == (400, 640, 3)
        assert picture.dtype == np.uint8
        assert 2_000 < yellow(picture).sum() < 60_000
        rows, columns = np.nonzero(yellow(picture))
        assert abs(columns.mean() - 320) < 80
        assert abs(rows.mean() - 200) < 80


def test_a_picture_shows_the_pose_and_does_not_disturb_the_physics(make: Make) -> None:
    backend, witness = make(), make()
    level = backend.render()
    rollout(backend, 5, seed=0)
    backend.render()
    np.testing.assert_array_equal(rollout(backend, 5, seed=1), rollout_after(witness))
    backend.reset(start(position=(0.0, 0.0, 0.8), quaternion=NOSE_DOWN))
    upended = backend.render()
    height, width = (np.ptp(axis) for axis in np.nonzero(yellow(upended)))
    assert height > width
    assert np.ptp(np.nonzero(yellow(level))[1]) > np.ptp(np.nonzero(yellow(level))[0])


def rollout_after(witness: RobotBackend) -> Array:
    rollout(witness, 5, seed=0)
    return rollout(witness, 5, seed=1)


# --- models and settings ----------------------------------------------------------------------------------------------


def test_a_users_urdf_by_text_and_by_path(make: Make, tmp_path: Path) -> None:
    heavy = spot_urdf().replace('<mass value="16.70765207"', '<mass value="26.70765207"', 1)
    assert heavy != spot_urdf()
    path = tmp_path / "heavy.urdf"
    path.write_text(heavy)
    rollouts = [rollout(make(model=model), 10, seed=0) for model in (heavy, path, str(path), None)]
    np.testing.assert_array_equal(rollouts[0], rollouts[1])
    np.testing.assert_array_equal(rollouts[0], rollouts[2])
    assert not np.array_equal(rollouts[0], rollouts[3])


def test_unusable_models_say_what_is_missing(tmp_path: Path) -> None:
    renamed = spot_urdf().replace('"fl_kn"', '"left_front_knee"')
    loose = spot_urdf().replace('name="fl_ankle" type="fixed"', 'name="fl_ankle" type="continuous"')
    for model, message in (
        (renamed, "lacks the moving joints fl_kn; it has .*left_front_knee"),
        (loose, "further moving joints.*fl_ankle"),
        (tmp_path / "none.urdf", "which is no file"),
        ("<robot", "cannot load the given URDF text"),
    ):
        with pytest.raises(BackendError, match=message):
            BulletRobotBackend(1, model=model)


def test_bad_settings_and_inputs_are_refused(make: Make) -> None:
    for settings in ({"decimation": 0}, {"physics_step": 0.0}, {"physics_step": math.nan}, {"workers": -1}):
        with pytest.raises(BackendError, match="expected"):
            BulletRobotBackend(1, **settings)
    with pytest.raises(BackendError, match="num_envs"):
        BulletRobotBackend(0)
    backend = make(2)
    one = np.array([0])
    calls: list[tuple[str, Callable[[], None]]] = [
        ("targets: expected shape", lambda: backend.advance(np.zeros((1, 12)))),
        ("env_ids", lambda: backend.push(np.zeros((1, 3)), np.array([2]))),
        ("env_ids", lambda: backend.push(np.zeros((1, 3)), np.array([-1]))),
        ("velocity_change", lambda: backend.push(np.zeros((2, 3)), one)),
        ("stiffness", lambda: backend.set_gains(np.full((2, 12), -1.0), np.ones((2, 12)))),
        ("damping", lambda: backend.set_gains(np.ones((2, 12)), np.full((2, 12), np.nan))),
        ("unit length", lambda: backend.reset(start(quaternion=(2.0, 0.0, 0.0, 0.0)), one)),
        ("joint_positions", lambda: backend.reset(start(joints=[np.nan] * 12), one)),
        ("friction", lambda: backend.set_parameters(RobotParameters(friction=np.array([-0.1])), one)),
        ("base_mass", lambda: backend.set_parameters(RobotParameters(base_mass_offset=np.array([-20.0])), one)),
        ("whole", lambda: backend.set_parameters(RobotParameters(command_delay=np.array([1.5])), one)),
    ]
    for message, call in calls:
        with pytest.raises(BackendError, match=message):
            call()
    assert (backend.gains().stiffness == 60.0).all()
    backend.reset(start(0), NO_ENVS)
    hold(backend, 1)


def test_without_pybullet_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pybullet", None)
    with pytest.raises(MissingExtraError, match=r"\[pybullet\]"):
        BulletRobotBackend(1)
