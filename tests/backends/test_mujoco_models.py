"""The batched MuJoCo backend: models of one's own, pictures, refusals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from mujoco_robot_helpers import LEVEL, POSE, assert_same, copy, run, shaken, start, targets, touching

from adc_wrappers.backends.base import RobotParameters, RobotStart
from adc_wrappers.backends.mujoco import MujocoRobotBackend
from adc_wrappers.backends.mujoco import model as robot_model
from adc_wrappers.backends.spot_model import (
    FOOT_NAMES,
    JOINT_NAMES,
    LINK_NAMES,
    NOMINAL_POSE,
    spot_mjcf,
    spot_urdf,
    standing_height,
)
from adc_wrappers.core.errors import BackendError, install_command

# Models of one's own


def test_a_urdf_and_an_mjcf_with_springs_and_motors_of_its_own_move_like_the_generated_spot(tmp_path: Path) -> None:
    rng = np.random.default_rng(14)
    begin, commands = shaken(2, rng), targets(2, 10, rng)
    begin.base_position[:, 2] = 4.0
    expected = run(MujocoRobotBackend(2), begin, commands)[-1]
    path = tmp_path / "spot.urdf"
    path.write_text(spot_urdf())
    spec = mujoco.MjSpec.from_string(spot_mjcf(stiffness=500.0, damping=3.0))
    for name in JOINT_NAMES:
        spec.joint(name).damping = 5.0 + np.zeros_like(spec.joint(name).damping)
        spec.joint(name).actfrcrange = [-1.0, 1.0]
    for model in (path, spec, spot_urdf()):
        moved = run(MujocoRobotBackend(2, model=model), begin, commands)[-1]
        for name in ("base_position", "joint_positions", "joint_torques"):
            np.testing.assert_allclose(getattr(moved, name), getattr(expected, name), atol=1e-6, err_msg=name)


def test_a_urdf_gets_a_ground_to_stand_on() -> None:
    backend = MujocoRobotBackend(1, model=spot_urdf())
    backend.reset(start(1))
    for _ in range(10):
        backend.advance(POSE[None])
    assert touching(backend) == set(FOOT_NAMES)


def test_friction_acts_on_a_model_whose_ground_is_rough() -> None:
    backend = MujocoRobotBackend(2, model=spot_urdf())
    backend.set_parameters(RobotParameters(friction=np.array([0.05, 1.0])), np.array([0, 1]))
    backend.reset(start(2))
    for step in range(40):
        if step == 20:
            backend.push(np.tile([0.0, 0.6, 0.0], (2, 1)), np.array([0, 1]))
        backend.advance(np.tile(POSE, (2, 1)))
    drift = backend.state().base_position[:, 1]
    assert drift[0] > drift[1] + 0.05


def test_a_welded_urdf_keeps_its_base() -> None:
    backend = MujocoRobotBackend(1, model=spot_urdf(), fixed_base=True, link_names=["fl_foot"])
    backend.reset(start(1))
    assert backend._stepper._batch.model.nbody == 1 + len(LINK_NAMES), "no link was merged into another"
    np.testing.assert_array_equal(backend.state().base_quaternion, [LEVEL])
    np.testing.assert_allclose(backend.effective_inertia()[0], 0.09398, atol=1e-5)
    assert backend.render().std() > 1.0
    backend.close()


def test_the_engine_does_not_reset_robots_on_its_own() -> None:
    flags = MujocoRobotBackend(1, model=spot_urdf())._stepper._batch.model.opt.disableflags
    assert flags & mujoco.mjtDisableBit.mjDSBL_AUTORESET.value


def test_named_pairs_give_the_bits_of_the_engines_own_search(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(12)
    begin, commands = shaken(6, rng), targets(6, 15, rng)
    friction = RobotParameters(friction=np.linspace(0.1, 1.0, 5))
    paths = []
    for pairs in (17, 0):
        backend = MujocoRobotBackend(6)
        assert backend._stepper._batch.model.npair == pairs
        backend.set_parameters(friction, np.arange(5))
        paths.append(run(backend, begin, commands))
        monkeypatch.setattr(robot_model, "_pair_with_ground", lambda spec, layout: None)
    assert any((state.contact_forces > 1.0).any() for state in paths[0])
    for one, other in zip(*paths, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('type="plane" size="0 0 0.05"', 'type="box" size="9 9 1" pos="0 0 -1"'),
        ('type="plane"', 'type="plane" margin="0.01"'),
        ("<contact />", '<contact><exclude body1="body" body2="fl_uleg" /></contact>'),
        ("<contact />", '<contact><pair geom1="body" geom2="fl_foot" /></contact>'),
        ("</worldbody>", '<body><geom type="box" size="1 1 1" pos="5 0 0" /></body></worldbody>'),
    ],
)
def test_what_named_pairs_cannot_say_is_left_to_the_engines_search(old: str, new: str) -> None:
    xml = spot_mjcf(visuals=False)
    assert xml.count(old) == 1
    xml = xml.replace(old, new)
    model = MujocoRobotBackend(1, model=xml)._stepper._batch.model
    assert model.npair == xml.count("<pair")
    assert (model.geom_conaffinity != 0).sum() >= 17


def test_another_robot_needs_its_own_names_and_numbers() -> None:
    xml = """<mujoco><worldbody><body name="cart"><freejoint/><geom size="0.1"/>
      <body name="arm"><joint name="elbow" axis="0 1 0"/><geom type="box" size="0.15 0.02 0.02" pos="0.15 0 0"/></body>
    </body></worldbody></mujoco>"""
    with pytest.raises(BackendError, match=r"no joint named fl_hx.*it has.*elbow.*joint_names"):
        MujocoRobotBackend(1, model=xml)
    with pytest.raises(BackendError, match=r"elbow.*nominal_pose and torque_limits"):
        MujocoRobotBackend(1, model=xml, joint_names=["elbow"])
    named: dict[str, Any] = {"joint_names": ["elbow"], "nominal_pose": [0.2], "torque_limits": [np.inf]}
    with pytest.raises(BackendError, match=r"no body named .*link_names"):
        MujocoRobotBackend(1, model=xml, **named)
    backend = MujocoRobotBackend(2, model=xml, link_names=["arm"], **named)
    none, still = np.zeros((2, 1)), np.zeros((2, 3))
    backend.reset(RobotStart(np.full((2, 3), 2.0), np.tile(LEVEL, (2, 1)), still, still, none, none))
    backend.set_gains(np.full((2, 1), 5.0), np.full((2, 1), 0.1))
    backend.advance(np.array([[0.0], [0.5]]))
    assert backend.state().joint_torques.shape == (2, 1)
    assert backend.state().joint_positions[1, 0] > backend.state().joint_positions[0, 0] + 0.01


def test_joints_that_nobody_commands_are_refused() -> None:
    with pytest.raises(BackendError, match=r"13 joints, expected 12.*fr_kn.*joint_names"):
        MujocoRobotBackend(1, joint_names=[name for name in JOINT_NAMES if name != "fr_kn"])


def test_a_fixed_base_stays_where_it_is_and_touches_nothing() -> None:
    backend = MujocoRobotBackend(1, fixed_base=True)
    backend.reset(start(1, 9.0))
    before = copy(backend.state())
    for _ in range(10):
        backend.advance(POSE[None] + 0.3)
    state = backend.state()
    np.testing.assert_array_equal(state.base_position, before.base_position)
    assert state.base_position[0, 2] == pytest.approx(standing_height(NOMINAL_POSE))
    assert not state.contact_forces.any()
    assert not state.base_linear_velocity.any()
    with pytest.raises(BackendError, match="fixed_base=False"):
        backend.push(np.zeros((1, 3)), np.array([0]))


def test_links_collide_on_request() -> None:
    folded = np.tile(POSE, (1, 1))
    folded[0, [0, 3]] = -0.78, 0.78
    reach = []
    for allowed in (False, True):
        backend = MujocoRobotBackend(1, self_collision=allowed)
        backend.reset(start(1, 4.0))
        for _ in range(25):
            backend.advance(folded)
        reach.append(float(backend.state().joint_positions[0, 3] - backend.state().joint_positions[0, 0]))
    assert reach[0] > reach[1] + 0.05


# Pictures


def test_the_camera_follows_the_robot() -> None:
    backend = MujocoRobotBackend(2, picture_size=(320, 240))
    begin = start(2)
    begin.base_position[1, :2] = 40.0, -25.0
    backend.reset(begin)
    pictures = [backend.render(env) for env in (0, 1)]
    for picture in pictures:
        assert picture.shape == (240, 320, 3)
        assert picture.dtype == np.uint8
        red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
        yellow = (red > 120) & (green > 80) & (blue < 60)
        assert 300 < yellow.sum() < 20000
        rows, columns = np.nonzero(yellow)
        assert abs(rows.mean() - 120) < 50
        assert abs(columns.mean() - 160) < 60
    backend.close()
    backend.close()
    assert backend.render(0).shape == (240, 320, 3)
    backend.close()


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, "num_envs >= 1"),
        ({"physics_step": 0.0}, "physics_step > 0"),
        ({"nthread": 0}, "nthread >= 1"),
        ({"nominal_pose": [0.0]}, "nominal_pose: expected 12 numbers"),
        ({"torque_limits": [-1.0] * 12}, "torque_limits: expected positive"),
        ({"knee_joints": ["elbow"]}, "elbow not among the joints"),
        ({"model": 3}, "expected an MJCF or URDF text or path"),
        ({"model": "<mujoco><nonsense/></mujoco>"}, "cannot read the model"),
    ],
)
def test_bad_settings_raise(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BackendError, match=message):
        MujocoRobotBackend(**{"num_envs": 1, **options})


def test_bad_calls_raise_and_change_nothing() -> None:
    backend = MujocoRobotBackend(2)
    backend.reset(start(2))
    one = np.array([0])
    ok = np.full((2, 12), 40.0)
    bad_calls: list[tuple[Any, str]] = [
        (lambda: backend.advance(np.zeros(12)), r"targets: expected shape \(2, 12\), got \(12,\)"),
        (lambda: backend.set_gains(ok, ok, one), "stiffness: expected shape"),
        (lambda: backend.set_gains(ok * np.nan, ok), "stiffness: expected finite"),
        (lambda: backend.set_gains(ok, -ok), "damping: expected finite"),
        (lambda: backend.set_gains(ok * 1e5, ok * 0.0), "unstable at a physics step of 0.002"),
        (lambda: backend.set_gains(ok[:1], ok[:1], np.array([2])), "env_ids: expected indices from 0 to 1"),
        (lambda: backend.set_gains(ok[:1], ok[:1], np.array([0.5])), "env_ids"),
        (lambda: backend.reset(start(1)), "base_position: expected shape"),
        (lambda: backend.set_parameters(RobotParameters(friction=np.array([-0.1])), one), "friction"),
        (lambda: backend.set_parameters(RobotParameters(base_mass_offset=np.array([-20.0])), one), "-16.71 kg"),
        (
            lambda: backend.set_parameters(RobotParameters(command_delay=np.array([1.5])), one),
            "0 to 20 whole physics steps",
        ),
        (
            lambda: backend.set_parameters(RobotParameters(command_delay=np.array([21])), one),
            "0 to 20 whole physics steps",
        ),
    ]
    for call, message in bad_calls:
        with pytest.raises(BackendError, match=message):
            call()
    np.testing.assert_array_equal(backend.gains().stiffness, 60.0)


def test_without_mujoco_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['mujoco'] = None\n"
        "try:\n    import adc_wrappers.backends.mujoco\n"
        "except ImportError as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "MissingExtraError" in done.stdout
    assert install_command("mujoco") in done.stdout
